# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a fuzzer finds: the outcome of a decoder, the files of its defects, and the table of all."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from collections.abc import Sequence

from tools.fuzz_decoder import TOP, Decoder

FOLDER = TOP / "build" / "fuzz"
LIMIT_S = 10.0
"""Processor time of one execution. A pattern with quadratic time takes longer for 100,000 characters."""


@dataclasses.dataclass(frozen=True)
class Defect:
    """An input that a decoder neither accepted nor rejected: the last line of the traceback, and the command that repeats it."""

    decoder: str
    summary: str
    command: str


@dataclasses.dataclass
class Outcome:
    """What a decoder did: number of executions, and of inputs with a value that is not empty; seconds; defects."""

    name: str
    origin: str
    executions: int = 0
    accepted: int = 0
    seconds: float = 0.0
    defects: tuple[Defect, ...] = ()


def keep(decoder: Decoder, data: bytes, report: str) -> Defect:
    """Write an input to the folder of defects."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{decoder.name.replace(' ', '-')}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    path.with_name(f"{path.name}.txt").write_text(report)
    summary = (report.strip().splitlines() or ["?"])[-1][:200]
    shown = path.relative_to(TOP) if path.is_relative_to(TOP) else path
    return Defect(
        decoder.name, summary, f"tools/fuzz --only {shlex.quote(decoder.name)} --input {shlex.quote(str(shown))}"
    )


def show(outcomes: Sequence[Outcome], how: str) -> int:
    """Print the answer, the defects and the table; return the exit status."""
    executions, seconds = sum(one.executions for one in outcomes), sum(one.seconds for one in outcomes)
    defects = [defect for one in outcomes for defect in one.defects]
    answer = f"{len(defects)} defects" if len(defects) != 1 else "1 defect"
    print(f"{answer} in {len(outcomes)} decoders: {executions:,} executions in {seconds:.0f} s, {how}.")
    for defect in defects:
        print(f"\n{defect.decoder}: {defect.summary}\n    {defect.command}")
    width = max(len(one.name) for one in outcomes)
    origin = max(len(one.origin) for one in outcomes)
    print(
        f"\n{'decoder':{width}}  {'input of':{origin}} {'executions':>11} {'accepted':>9} {'per second':>11} {'defects':>8}"
    )
    for one in outcomes:
        percent = 100 * one.accepted / one.executions if one.executions else 0.0
        share = f"{percent:.0f} %" if percent >= 1 or not one.accepted else f"{percent:.2g} %"
        rate = f"{one.executions / one.seconds:,.0f}" if one.seconds else "-"
        print(
            f"{one.name:{width}}  {one.origin:{origin}} {one.executions:>11,} {share:>9} {rate:>11} {len(one.defects):>8}"
        )
    return 1 if defects else 0
