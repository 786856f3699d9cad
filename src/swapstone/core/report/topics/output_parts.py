# SPDX-License-Identifier: MIT OR Apache-2.0
"""What varies where in the outputs of own programs: in how many runs of each side a number of a line is which."""

from __future__ import annotations

import operator

import msgspec

from swapstone.core.model import Analysis, FrozenStruct
from swapstone.core.report import formatting
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Field, section_of
from swapstone.core.report.topics.topic import Topic

NAME = "output-parts"

MOST_PAIRS, MOST_PARTS = 8, 60
"""How many pairs of workload and variant, and how many parts of an output, are read: of up to 4 runs for each part."""

NO_VALUE = "none"
"""In the place of a value that an output does not have."""


class PartOfSide(FrozenStruct, frozen=True, kw_only=True):
    """A part of an output in the runs of one variant.

    Attributes:
        runs: how many.
        values: how many different ones.
        common: how many runs have the most frequent value.
        shown: that value, as a literal; empty if it is not kept.
        other: a value of other runs; empty without any, and if none is kept.
    """

    runs: int
    values: int
    common: int
    shown: str
    other: str

    @property
    def text(self) -> str:
        """Return the values in words."""
        if self.common < 2 < self.values:
            return f"{self.values} values in {self.runs}{f', as {self.shown}' if self.shown else ''}"
        most = f"{self.shown or 'the same'} in {self.common} of {self.runs}"
        return most if self.values < 2 else f"{most}; {self.values} values{', as ' if self.other else ''}{self.other}"


class OutputPart(FrozenStruct, frozen=True, kw_only=True):
    """A part of an output that varies, or that differs between two variants.

    Attributes:
        workload, variant: where; the variant is not the baseline.
        output: ``stdout``, ``stderr`` or the name of a file.
        line: the line in which it stands, with ``#`` for its numbers, as a literal; empty if it is not kept.
        place: of the number in the line, from 1; 0 for the line itself, or the order of lines.
        baseline, candidate: its values.
        other_runs: how many runs of one side differ from what all runs of the other have in common; 0 if it varies on both sides.
    """

    workload: str
    variant: str
    output: str
    line: str
    place: int
    baseline: PartOfSide
    candidate: PartOfSide
    other_runs: int

    @property
    def is_distinct(self) -> bool:
        """Return whether one side has one value, and the other is known to have another one."""
        shown = (self.baseline.shown, self.baseline.other, self.candidate.shown, self.candidate.other)
        return min(self.baseline.values, self.candidate.values) == 1 and NO_VALUE not in shown

    @property
    def where(self) -> str:
        """Return which part it is, in words."""
        number = f"number {self.place}" if self.place else "lines"
        return f"{number} of {self.line}" if self.line else number


OutputParts = tuple[OutputPart, ...]


def note(parts: OutputParts) -> str:
    """Return what varies, in one sentence; empty if nothing varies."""
    if not parts:
        return ""
    other = sum(each.other_runs > 0 for each in parts)
    number, vary = formatting.count(len(parts), "part"), "varies" if len(parts) == 1 else "vary"
    how = f"{other} as other work" if other else "from run to run on both sides"
    return f"Of the outputs, {number} {vary}, {how}: --all prints where."


def sections(context: ReportContext, _analysis: Analysis) -> tuple[Section, ...]:
    """Return a section with a row for each part; none where no output varies. A brief report leaves it out."""
    found = context.piece(NAME, tuple)
    if not found:
        return ()
    several = len({(each.workload, each.variant) for each in found}) > 1
    fields: tuple[Field[OutputPart], ...] = (
        *(
            Field(name if several else "", name, operator.attrgetter(name), right=False)
            for name in ("workload", "variant")
        ),
        Field("output", "output", lambda each: each.output, right=False),
        Field("part", "part", lambda each: each.where, right=False),
        Field("baseline", "baseline", lambda each: each.baseline.text, right=False),
        Field("candidate", "candidate", lambda each: each.candidate.text, right=False),
        Field("other work", "other_runs", lambda each: each.other_runs, lambda runs: f"in {runs}" if runs else ""),
    )
    notes = (
        "A part that is the same in all runs of one side, and not of the other, is other work. What varies on both sides is none. "
        f"{MOST_PAIRS} pairs of workload and variant, and {MOST_PARTS} parts of each output, are read at most.",
    )
    return (
        msgspec.structs.replace(
            section_of(NAME, "What varies in the outputs", fields, found, keys=4 if several else 2, notes=notes),
            brief=False,
        ),
    )


OUTPUT_PARTS = Topic(NAME, 195, sections)
