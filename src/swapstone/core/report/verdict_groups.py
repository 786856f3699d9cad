# SPDX-License-Identifier: MIT OR Apache-2.0
"""The marks of verdicts, and the groups of verdicts that only reports have."""

from __future__ import annotations

from swapstone.core.model import MEDIAN_DIFFERS, NO_NUMBERS, TAIL_DIFFERS, Presence, Verdict
from swapstone.core.report.document import Mark, Tone

DIFFERS = MEDIAN_DIFFERS | {Verdict.BELOW_MARGIN}
"""The median differs, or exact values differ inside the margin."""

MEDIAN_ONLY = frozenset({Verdict.SAME_MEDIAN, Verdict.MIXED}) | TAIL_DIFFERS
"""What an interval of the median shows does not hold for the mean."""

COUNTED = (
    ("worse", (Verdict.WORSE,)),
    ("better", (Verdict.BETTER,)),
    ("changed", (Verdict.CHANGED,)),
    ("worse tail", (Verdict.WORSE_TAIL,)),
    ("better tail", (Verdict.BETTER_TAIL,)),
    ("below margin", (Verdict.BELOW_MARGIN,)),
    ("same", (Verdict.EQUIVALENT,)),
    ("same median", (Verdict.SAME_MEDIAN,)),
    ("measured", (Verdict.MEASURED,)),
    ("open", (Verdict.MIXED, Verdict.INCONCLUSIVE, *NO_NUMBERS)),
)
"""Columns that count rows: pairs (heading, verdicts). Each verdict is in one of them."""


VERDICT_MARKS = {
    Verdict.BETTER: Mark("better", "b", Tone.GOOD),
    Verdict.WORSE: Mark("worse", "w", Tone.BAD),
    Verdict.CHANGED: Mark("changed", "c", Tone.NEUTRAL),
    Verdict.EQUIVALENT: Mark("equivalent", "="),
    Verdict.BELOW_MARGIN: Mark("below margin", "~"),
    Verdict.SAME_MEDIAN: Mark("same median", "m"),
    Verdict.WORSE_TAIL: Mark("worse tail", "W", Tone.BAD),
    Verdict.BETTER_TAIL: Mark("better tail", "B", Tone.GOOD),
    Verdict.MIXED: Mark("mixed", "x", Tone.NEUTRAL),
    Verdict.INCONCLUSIVE: Mark("inconclusive", "?", Tone.NOTE),
    Verdict.MEASURED: Mark("measured", "v"),
    Verdict.DISTURBED: Mark("disturbed", "d", Tone.WARNING),
    Verdict.INVALID: Mark("invalid", "!", Tone.WARNING),
    Verdict.UNAVAILABLE: Mark("unavailable", "-", Tone.NOTE),
}
PRESENCE_MARKS = {
    Presence.PRESENT: Mark("present", "present", Tone.NEUTRAL),
    Presence.ABSENT: Mark("absent", "absent"),
    Presence.UNDECIDED: Mark("undecided", "undecided", Tone.NOTE),
    Presence.UNAVAILABLE: Mark("unavailable", "unavailable", Tone.NOTE),
}
LEGEND = ", ".join(f"{mark.letter} {mark.name}" for mark in VERDICT_MARKS.values())
