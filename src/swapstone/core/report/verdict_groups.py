# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts in groups: every place of a report that treats some verdicts alike takes the group from here."""

from __future__ import annotations

from swapstone.core.model import Presence, Verdict
from swapstone.core.report.document import Mark, Tone

NO_NUMBERS = (Verdict.DISTURBED, Verdict.INVALID, Verdict.UNAVAILABLE)
"""The runs can't be compared: no effect is printed, drawn or averaged."""

MEDIAN_DIFFERS = frozenset({Verdict.BETTER, Verdict.WORSE, Verdict.CHANGED})
"""The median differs, and its sign is that of the verdict."""

DIFFERS = MEDIAN_DIFFERS | {Verdict.BELOW_MARGIN}
"""The same, or exact values differ inside the margin."""

SAME_CENTRE = frozenset({Verdict.EQUIVALENT, Verdict.SAME_MEDIAN, Verdict.BELOW_MARGIN})
"""The median is the same within the margin, and no tail is shown to differ."""

TAIL_DIFFERS = frozenset({Verdict.WORSE_TAIL, Verdict.BETTER_TAIL})
"""The median is the same or undecided, and the mean differs."""

MEDIAN_ONLY = frozenset({Verdict.SAME_MEDIAN, Verdict.MIXED}) | TAIL_DIFFERS
"""What an interval of the median shows does not hold for the mean."""

DECIDED = MEDIAN_DIFFERS | TAIL_DIFFERS | {Verdict.MIXED}
"""A difference of the median or of the mean is shown."""

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
