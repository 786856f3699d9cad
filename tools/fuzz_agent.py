# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the C decoders of the agent, and of a guest's first process, under libFuzzer with sanitizers.

    tools/fuzz-agent [--seconds 60] [--seed N] [--only NAME]
    tools/fuzz-agent --only NAME --input FILE

It needs clang with its runtime libraries (Debian: clang, libclang-rt-dev). native/fuzz has the entry and an operating system
whose files hold the input. An input that makes a sanitizer report an error is written to build/fuzz, with the command that
reproduces it, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tools.fuzz_binaries import elf
from tools.fuzz_decoder import FOLDER, TOP, Defect, Outcome, show

from swapstone.core.model import Observation, ObservationKind, UnavailableError, UserError
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest, encode_plan_header, encode_request
from swapstone.core.wire.protocol_words import ORDER_WORDS, PLAN_WORDS
from swapstone.parts.vm.machine.guest import encode_order

NATIVE = TOP / "native"
_FLAGS = (
    *("-std=gnu11", "-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=fuzzer,address,undefined"),
    *("-fno-sanitize-recover=all", "-Wall", "-Wextra"),
)
_COUNTS = re.compile(r"^swapstone-fuzz: ([0-9]{1,18}) executions, ([0-9]{1,18}) accepted$", re.MULTILINE)
_MOST_BYTES = 1 << 14
_ORIGINS = {"plan": "Swapstone", "text": "Swapstone", "order": "Swapstone", "image": "ELF file, kernel"}
_SEPARATOR = b"\x1e"


def _plan() -> tuple[bytes, ...]:
    plain = TrialRequest(
        id="3-12",
        arguments=("/srv/prog", "a b", ""),
        environment=(("PATH", "/bin"), ("EMPTY", "")),
        cwd="/tmp",  # noqa: S108 # a text of a request; nothing runs
        cpus=(0, 3),
        nice=-5,
        timeout_ms=1000,
        stdin="/dev/null",
        observe=tuple(
            Observation(kind=kind, name="/proc/x" if kind is ObservationKind.FILE else "NAME")
            for kind in ObservationKind
        ),
    )
    server = TrialRequest(
        id="s",
        arguments=("/srv/prog",),
        cwd="/",
        timeout_ms=5,
        load_generator=LoadGeneratorRequest(port=8080, arguments=("/usr/bin/wrk", "-c", "2")),
    )
    rooted = TrialRequest(
        id="r", arguments=("/bin/sh",), cwd="/", root="/r", root_layer="/l", root_files="/f", timeout_ms=5
    )
    nonce = "0123456789abcdef" * 2
    return (
        encode_plan_header() + encode_request(plain, nonce) + b"quit\n",
        encode_plan_header() + encode_request(server),
        encode_plan_header() + encode_request(rooted),
    )


def _order() -> tuple[bytes, ...]:
    order = encode_order(
        b"swapstone-plan 5\nquit\n",
        replicate=1,
        limit_ms=5,
        prepare=("/swapstone/swap.sh zram lz4",),
        beside=("stress a b",),
        settle_ms=250,
    )
    return (order.rstrip(b"\n") + b"\n",)


_STAT = b"11 (a (b) c) S 10 11 11 0 -1 4194560 100 20 3 4 5 6 7 8 20 0 1 0 5 4096 1\n"
_STATUS = b"Name:\tserver\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n"
_PRESSURE = b"some avg10=6.50 avg60=0.10 avg300=0.00 total=12345\nfull avg10=0.00 total=5\n"
_MACHINE = (
    _PRESSURE,
    _PRESSURE,
    _PRESSURE,
    b"cpu  10 0 20 400 5 0 1 7 0 0\n",
    b"0.44 0.50 0.60 1/100 5\n",
    b"prog\n",
    b"5 600 7\n",
)
_MAPS = b"55b95feee000-55b95feef000 r-xp 00002000 fe:00 10018933   /a b/prog\n7ffe0000-7fff0000 rw-p 00000000 00:00 0   [stack]\n"
_VALUES = (
    b"A=1\0NAME=value\0",
    b"Max cpu time  unlimited\n",
    b"0::/user.slice/a\n",
    b"cpu memory\n",
    b"max\n",
    b"60\n",
)


def _even(data: bytes) -> bytes:
    """Return an input of even length, whose files native/fuzz/port.c gives in one piece."""
    return data if len(data) % 2 == 0 else data + b"\n"


SEEDS: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "plan": _plan,
    "text": lambda: (b"a%20b%C3%A9", b"%"),
    "machine": lambda: (_even(_SEPARATOR.join(_MACHINE)),),
    "image": lambda: tuple(
        _even(_SEPARATOR.join((b"prog\n", b"5 600 7\n", data, _MAPS))) for data in (elf(), elf(wide=False))
    ),
    "values": lambda: (_SEPARATOR.join(_VALUES),),
    "server": lambda: (_even(_SEPARATOR.join((b"", _STAT, _STAT, _STATUS, b"", _STATUS))),),
    "order": _order,
    "conditions": lambda: (
        _even(_SEPARATOR.join((b"0::/a/b\n", b"performance\n", b"powersave\n", b"150000 100000\n"))),
    ),
}
"""Valid inputs for each decoder of native/fuzz/agent.c. The files of an input are in the order in which they are opened first."""


def build(folder: Path) -> Path:
    """Compile the decoders.

    Raises:
        UnavailableError: there is no clang, or it lacks its runtime libraries.
    """
    if shutil.which("clang") is None:
        raise UnavailableError(
            "libFuzzer is unavailable: there is no clang.", "sudo apt-get install clang libclang-rt-dev"
        )
    sources = [path for path in sorted((NATIVE / "agent").glob("*.c")) if path.name != "main.c"]
    sources += [NATIVE / "guest" / "layout.c", NATIVE / "wire" / "words.c", *sorted((NATIVE / "fuzz").glob("*.c"))]
    folder.mkdir(parents=True, exist_ok=True)
    # No decoder reaches the calls of the port's functions that native/fuzz lacks: their addresses are 0.
    ignored = ("-no-pie", "-Wl,--unresolved-symbols=ignore-all")
    command = ["clang", *_FLAGS, *ignored, *map(str, sources), "-o", str(folder / "agent")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = (line for line in result.stderr.splitlines() if "error" in line or "cannot find" in line)
        raise UnavailableError(
            f"libFuzzer is unavailable: clang can't build the decoders: {next(lines, result.stderr[-200:])}",
            "sudo apt-get install clang libclang-rt-dev",
        )
    return folder / "agent"


def libfuzzer_folders(name: str, inputs: Iterable[bytes]) -> tuple[Path, Path, Path]:
    """Return libFuzzer's folders for a decoder: what it keeps, the seeds, and an empty one for what it finds."""
    corpus, seeds, found = (FOLDER / part / name for part in ("corpus", "seeds", "found"))
    for folder in (corpus, seeds, found):
        folder.mkdir(parents=True, exist_ok=True)
    for old in (*seeds.iterdir(), *found.iterdir()):
        old.unlink()
    for number, data in enumerate(inputs):
        (seeds / str(number)).write_bytes(data)
    return corpus, seeds, found


def run(program: Path, name: str, seconds: float, seed: int) -> Outcome:
    """Fuzz one decoder."""
    corpus, seeds, found = libfuzzer_folders(f"agent-{name}", SEEDS[name]())
    words = FOLDER / "agent-words"
    words.write_text("".join(f'"{word} "\n"\\x0a{word} "\n' for word in (*PLAN_WORDS, *ORDER_WORDS)))
    arguments = (
        f"-dict={words}",
        *(f"-max_total_time={max(1, round(seconds))}", f"-seed={seed % (1 << 31) or 1}", f"-max_len={_MOST_BYTES}"),
        *("-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={found}/", str(corpus), str(seeds)),
    )
    start = time.monotonic()
    result = execute(program, name, *arguments)
    counts = _COUNTS.search(result.stderr)
    executions, accepted = (int(counts[1]), int(counts[2])) if counts else (0, 0)
    kept = sorted(path for path in found.iterdir() if path.is_file())
    summary = next((line for line in result.stderr.splitlines() if "SUMMARY" in line or "runtime error" in line), "?")
    command = "tools/fuzz-agent --only {} --input {}"
    defects = tuple(Defect(f"agent {name}", summary[:200], command.format(name, path)) for path in kept)
    if result.returncode != 0 and not defects:
        raise UserError(f"The fuzzer of {name} ended with {result.returncode}: {result.stderr[-1000:]}")
    seconds = time.monotonic() - start
    return Outcome(f"agent {name}", _ORIGINS.get(name, "kernel"), executions, accepted, seconds, defects)


def execute(program: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the decoder of a name with arguments of libFuzzer."""
    environment = {**os.environ, "SWAPSTONE_FUZZ": name}
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, errors="replace", check=False
    )


def main(arguments: Sequence[str]) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="tools/fuzz-agent", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for all decoders together [60]")
    parser.add_argument("--seed", type=int, default=None, help="of the changes [from the clock]")
    parser.add_argument("--only", choices=SEEDS, metavar="NAME", help=f"one decoder: {', '.join(SEEDS)}")
    parser.add_argument("--input", type=Path, help="decode this file once")
    options = parser.parse_args(arguments)
    if options.input is not None and options.only is None:
        parser.error("--input needs --only NAME")
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    chosen = [options.only] if options.only else list(SEEDS)
    try:
        program = build(FOLDER / "native")
        if options.input is not None:
            result = execute(program, options.only, str(options.input))
            print(result.stderr)
            return 1 if result.returncode else 0
        return show(
            [run(program, name, options.seconds / len(chosen), seed) for name in chosen], f"libFuzzer, seed {seed}"
        )
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
