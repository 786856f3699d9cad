#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Feed mutated input to every decoder of external data, until one raises anything but its error.

    tools/fuzz [--seconds 60] [--seed N] [--only NAME]

For any bytes, a decoder must return a value or raise a `UserError`. Decoding the same bytes twice must give equal values.
A failure is printed with its input and the seed that reproduces it; the exit status is 1.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP / "src"), str(TOP)]

from swapstone.model import (  # noqa: E402
    Run,
    Sample,
    Status,
    Trial,
    UserError,
    cpio,
    environment_variable,
    system_file,
)
from swapstone.published.data import decode_figures  # noqa: E402
from swapstone.record.reader import read_runs  # noqa: E402
from swapstone.record.record_format import Line, chain_value  # noqa: E402
from swapstone.session.study_file import decode_study  # noqa: E402 # the path comes first
from swapstone.targets.vm.guest import decode_channel  # noqa: E402
from swapstone.wire import (  # noqa: E402
    AgentAnswer,
    Memory,
    Pass,
    ProcessOutcome,
    WorkloadReport,
    decode_answers,
    decode_workload_report,
    encode_answer,
    encode_answer_header,
    encode_workload_report,
)
from swapstone.workloads.named_figures import (  # noqa: E402
    NamedFigures,
    decode_named_figures,
    encode_named_figures,
)

_PASS = Pass(wall_ns=100, cpu_ns=99, run_delay_ns=None, minflt=3, majflt=0, nvcsw=1, nivcsw=0)
_REPORT = WorkloadReport(
    name="b_string_strstr(abcd)",
    ops=1,
    passes=(_PASS,) * 3,
    memory=Memory(virt_bytes=4096, res_bytes=4096, dirty_bytes=0),
    mapped=("/lib/libc.so", "/srv/a b"),
    check="9af0",
)
_ANSWER = AgentAnswer(
    id="3-12",
    facts=(("wall_ns", 12345), ("nice", -5), ("pid", 7)),
    interp="/lib/ld-musl-x86_64.so.1",
    objects=("/srv/prog", "/lib/libc é.so"),
    observed=((environment_variable("PATH"), "/bin:\n%"),),
    absent=(system_file("/no/such"),),
    stdout=encode_workload_report(_REPORT),
    stderr=bytes(range(256)),
    notes=("left 2 processes running",),
    outcome=ProcessOutcome.EXITED,
    code=0,
)
_NAMED = NamedFigures(
    name="fill", figures=(("a", 1.5), ("b", None)), series=(("so", (0.0, 1024.0)), ("si", (1.0, 2.0)))
)
_UNSTARTED = AgentAnswer(id="x", outcome=ProcessOutcome.UNSTARTED, code=2)

_GUEST = (
    b"swapstone-goes-on\nswapstone-guest 1\nsystem Linux\nrelease 6.1.0\nversion #1%20SMP\nmachine x86_64\n"
    b"clock 698765432\nfile /proc/meminfo MemTotal:%20%201024%20kB%0A\nfile /proc/cmdline %\n"
)
_AFTER = b"swapstone-after 1\nbeside 0 1\nwords /tmp/beside-0.log no%0A\nafter /proc/uptime 2.75\nswapstone-end\n"
_ARCHIVE = cpio.archive({"d/a": cpio.file(b"1"), "d/l": cpio.link("a"), "null": cpio.device(1, 3)})
_INITRDS = (_ARCHIVE + _ARCHIVE, gzip.compress(_ARCHIVE) + b"\0" * 4, lzma.compress(_ARCHIVE))

_FIGURES = b"".join((TOP / "src/swapstone/published/published.csv").read_bytes().splitlines(keepends=True)[:6])


def _runs() -> bytes:
    """Return a `runs.jsonl` of three lines, as the writer encodes it."""
    trial = Trial(suite="libc", workload="b_malloc_big1", load="idle", variant="libc=musl", block=1, position=0)
    lines, chain = b"", ""
    for number in (1, 2, 3):
        sample = Sample(metric="wall", values=(1.5, 2))
        run = Run(trial=msgspec.structs.replace(trial, block=number), status=Status.OK, samples=(sample,)).encoded()
        previous, chain = chain, chain_value(number, chain, run)
        line = Line(number=number, previous=previous, chain=chain, run=msgspec.Raw(run))
        lines += msgspec.json.encode(line) + b"\n"
    return lines


# Name, decoder, and valid examples.
DECODERS: tuple[tuple[str, Callable[[bytes], object], tuple[bytes, ...]], ...] = (
    (
        "answer",
        decode_answers,
        (
            encode_answer_header() + encode_answer(_ANSWER) + encode_answer(_UNSTARTED),
            b"error 3 the%20line%20begins%20with%20no%20known%20word\n",
        ),
    ),
    (
        "report",
        decode_workload_report,
        (encode_workload_report(_REPORT), encode_workload_report(WorkloadReport(name="a", error="no memory"))),
    ),
    ("named figures", decode_named_figures, (encode_named_figures(_NAMED),)),
    ("runs", read_runs, (_runs(),)),
    ("figures", lambda data: decode_figures(data.decode(errors="replace")), (_FIGURES,)),
    ("guest", decode_channel, (_GUEST + encode_answer_header() + encode_answer(_ANSWER) + _AFTER,)),
    ("initrd", cpio.unpack, _INITRDS),
    ("study", lambda data: decode_study(data, "a study"), ((TOP / "studies" / "musl-vs-glibc.toml").read_bytes(),)),
)

_PIECES = (
    *(b"\n", b" ", b"%", b"%00", b"%FF", b"\0", b"\xff", b"-1", b"0", b"00", b"nan", b"inf", b"1e9", b"0x1", b"9" * 19),
    *(b"9223372036854775808", b"9" * 400, b"end\n", b"begin 1\n", b"error %\n", b"\r\n", "é٣".encode(), b"a" * 70_000),
)


def mutate(source: random.Random, data: bytes) -> bytes:
    """Mutate an example in one to four places."""
    broken = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at, end = sorted((source.randint(0, len(broken)), source.randint(0, len(broken))))
        match source.randrange(7):
            case 0:
                del broken[at:]
            case 1:
                del broken[at : min(end, at + 40)]
            case 2:
                broken[at:at] = broken[at:end][:200]
            case 3:
                broken[at:at] = source.choice(_PIECES)
            case 4 if at < len(broken):
                broken[at] = source.randrange(256)
            case 5:
                lines = bytes(broken).splitlines(keepends=True)
                source.shuffle(lines)
                broken = bytearray(b"".join(lines))
            case _:
                fields = bytes(broken).split(b" ")
                fields[source.randrange(len(fields))] = source.choice(_PIECES)
                broken = bytearray(b" ".join(fields))
    return bytes(broken)


def attempt(decode: Callable[[bytes], object], data: bytes) -> tuple[str, str]:
    """Decode once; return ``read`` and the value, ``refused`` and the message, or ``broken`` and the traceback."""
    try:
        return "read", repr(decode(data))
    except UserError as error:
        return "refused", error.message
    except Exception:  # any exception is a finding
        return "broken", traceback.format_exc()


def fuzz(seconds: float, seed: int, only: str) -> int:
    """Run until the time is over or a decoder fails; print a summary."""
    chosen = [entry for entry in DECODERS if only in ("", entry[0])]
    if not chosen:
        print(
            f"There is no decoder named {only!r}. Known: {', '.join(entry[0] for entry in DECODERS)}.", file=sys.stderr
        )
        return 2
    for name, decode, examples in chosen:
        for example in examples:
            if attempt(decode, example)[0] == "broken":
                print(f"{name}: an example is invalid: {example!r}")
                return 1
        source = random.Random(f"{seed} {name}")  # noqa: S311 # reproducible breakage, not a secret
        counts = {"read": 0, "refused": 0}
        end = time.monotonic() + seconds / len(chosen)
        while time.monotonic() < end:
            data = mutate(source, source.choice(examples))
            outcome = attempt(decode, data)
            if outcome[0] == "broken" or attempt(decode, data) != outcome:
                print(f"{name}: found with --seed {seed}, after {sum(counts.values())} inputs:\n{data!r}\n{outcome[1]}")
                return 1
            counts[outcome[0]] += 1
        print(f"{name}: {counts['refused']} inputs refused, {counts['read']} read, no failure (seed {seed})")
    return 0


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all decoders together [60]")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations [from the clock]")
    parser.add_argument("--only", default="", metavar="NAME", help="one decoder: " + ", ".join(e[0] for e in DECODERS))
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    return fuzz(options.seconds, seed, options.only)


if __name__ == "__main__":
    sys.exit(main())
