# SPDX-License-Identifier: MIT OR Apache-2.0
"""Feed changed inputs to every decoder of outside input, and print what each did.

    tools/fuzz [--seconds 60] [--seed N] [--only NAME]
    tools/fuzz --only NAME --input FILE

For any bytes, a decoder returns a value or raises its documented error; equal bytes give equal values; and no input of a
megabyte takes more than 10 s of processor time. An input that breaks this is written to build/fuzz, with the command that
reproduces it, and the exit status is 1. The table counts the executions, and the share of inputs that were accepted: a
decoder that rejects everything would be tested for nothing but its first check.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import resource
import signal
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from tools.fuzz_decoder import LIMIT_S, Decoder, Outcome, keep, show
from tools.fuzz_images import IMAGE_DECODERS
from tools.fuzz_programs import PROGRAM_DECODERS
from tools.fuzz_records import RECORD_DECODERS

DECODERS = (*RECORD_DECODERS, *PROGRAM_DECODERS, *IMAGE_DECODERS)
"""Every decoder of outside input. tests/unit/wire/test_fuzz.py checks that it is whole."""

_ROOM_BYTES = 3 << 30
_AGAIN = 16  # one of so many inputs is decoded twice

ACCEPTED, EMPTY, REFUSED, DEFECT = "accepted", "empty", "refused", "defect"


class TooSlowError(BaseException):
    """An execution took more than `LIMIT_S` of processor time. It is no Exception, so that no decoder catches it."""


PIECES = (
    *(b"\n", b" ", b"%", b"%00", b"%FF", b"\0", b"\xff", b"-1", b"0", b"00", b"nan", b"inf", b"1e9", b"1e999", b"0x1"),
    *(
        b"9" * 19,
        b"9223372036854775808",
        b"9" * 400,
        b"9" * 5000,
        b"0x" + b"f" * 5000,
        b"end\n",
        b"begin 1\n",
        b"error %\n",
    ),
    *(b"\r\n", "é٣²".encode(), b"{", b"[" * 3000, b"\x1b[31m", b"..", b"=", b":"),
)
_NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
RUNS = (
    b" ",
    b"\t",
    b"1",
    b"a",
    b".",
    b"(",
    b"[",
    b"'",
    b'"',
    b"-",
    b"/",
    b"=",
    b"a.",
    b"1 ",
    b" (",
    b"[]",
    b"0,",
    b".part",
)
"""What is repeated to find patterns whose time grows faster than the input."""


def mutate(source: random.Random, data: bytes) -> bytes:
    """Change an input in one to four places."""
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 3, 4))):
        at, end = sorted((source.randint(0, len(changed)), source.randint(0, len(changed))))
        match source.randrange(10):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : min(end, at + 40)]
            case 2:
                changed[at:at] = changed[at:end][:200]
            case 3:
                changed[at:at] = source.choice(PIECES)
            case 4 | 5 if at < len(changed):
                changed[at] = source.randrange(256)
            case 6:
                lines = bytes(changed).splitlines(keepends=True)
                source.shuffle(lines)
                changed = bytearray(b"".join(lines))
            case 7:
                fields = bytes(changed).split(b" ")
                fields[source.randrange(len(fields))] = source.choice(PIECES)
                changed = bytearray(b" ".join(fields))
            case 8:
                number = source.choice(_NUMBERS)
                form = source.choice(("<I", ">I", "<Q", ">Q", "<H", "B"))
                size = struct.calcsize(form)
                packed = struct.pack(form, number & ((1 << 8 * size) - 1))
                changed[at : at + size] = packed
            case _ if source.randrange(20) == 0:
                changed[at:at] = source.choice(RUNS) * source.choice((300, 4000))
    return bytes(changed)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlowError(f"it took more than {LIMIT_S:g} s of processor time")


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Limit the time of each execution, which `attempt` starts, and the memory of this process."""
    warnings.simplefilter("ignore", FutureWarning)  # of regular expressions that users write
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + _ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def is_empty(value: object) -> bool:
    """Return whether a value holds nothing: an empty container, or a tuple or list of such."""
    if isinstance(value, tuple | list):
        return all(map(is_empty, itertools.islice(value, 1000)))
    return value is None or value in ("", b"") or (isinstance(value, dict | set | frozenset) and not value)


def attempt(decoder: Decoder, data: bytes) -> tuple[str, str]:
    """Decode once. Return what happened, and the value, the message or the traceback."""
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
    try:
        value = decoder.decode(data)
        return (EMPTY if is_empty(value) else ACCEPTED), repr(value)
    except decoder.errors as error:
        return REFUSED, str(error)
    except (Exception, TooSlowError):  # every exception is a defect
        return DEFECT, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def run(decoder: Decoder, seconds: float, seed: int) -> Outcome:
    """Decode changed inputs until the time is over or a defect is found."""
    outcome = Outcome(decoder.name, decoder.origin)
    source = random.Random(f"{seed} {decoder.name}")  # noqa: S311 # reproducible changes, not a secret
    seeds = (*decoder.seeds(), *decoder.refused)
    start = time.monotonic()
    while not outcome.defects and (now := time.monotonic()) - start < seconds:
        data = mutate(source, source.choice(seeds))
        if decoder.repair is not None and source.random() < 0.5:
            data = decoder.repair(data)
        count(outcome, decoder, data)
        outcome.seconds = now - start
    outcome.seconds = time.monotonic() - start
    return outcome


def count(outcome: Outcome, decoder: Decoder, data: bytes) -> None:
    """Decode an input once, or twice for one of `_AGAIN` inputs, and count what happened."""
    what, text = attempt(decoder, data)
    outcome.executions += 1
    outcome.accepted += what == ACCEPTED
    if what == DEFECT:
        outcome.defects += (keep(decoder, data, text),)
    elif outcome.executions % _AGAIN == 0 and (again := attempt(decoder, data)) != (what, text):
        outcome.defects += (keep(decoder, data, f"{text}\n{again[1]}\nThe second value differs from the first one."),)


def fuzz(chosen: Sequence[Decoder], seconds: float, seed: int) -> int:
    """Run each decoder for its part of the time; print the table; return the exit status."""
    with limits():
        outcomes = [run(decoder, seconds / len(chosen), seed) for decoder in chosen]
    return show(outcomes, f"seed {seed}")


def repeat(decoder: Decoder, data: bytes) -> int:
    """Decode one input and print what happened; return the exit status."""
    with limits():
        what, text = attempt(decoder, data)
    print(f"{decoder.name}: {what}\n{text[:10_000]}")
    return 1 if what == DEFECT else 0


def main(arguments: Sequence[str]) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="tools/fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for all decoders together [60]")
    parser.add_argument("--seed", type=int, default=None, help="of the changes [from the clock]")
    parser.add_argument("--only", default="", metavar="NAME", help="one decoder; an unknown name lists all")
    parser.add_argument("--input", type=Path, help="decode this file once, and print the value or the traceback")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else time.time_ns() % 1_000_000
    chosen = [decoder for decoder in DECODERS if options.only in {"", decoder.name}]
    if not chosen:
        print(
            f"There is no decoder {options.only!r}. Known: {', '.join(one.name for one in DECODERS)}.", file=sys.stderr
        )
        return 2
    if options.input is not None:
        if len(chosen) != 1:
            print("--input needs --only NAME.", file=sys.stderr)
            return 2
        return repeat(chosen[0], options.input.read_bytes())
    return fuzz(chosen, options.seconds, seed)
