# SPDX-License-Identifier: MIT OR Apache-2.0
"""How verdicts are marked in tables: a word, a letter and a colour each."""

from __future__ import annotations

from swapstone.core.model import Presence, Verdict
from swapstone.core.report.document import Mark, Tone

VERDICT_MARKS = {
    Verdict.BETTER: Mark("better", "b", Tone.GOOD),
    Verdict.WORSE: Mark("worse", "w", Tone.BAD),
    Verdict.CHANGED: Mark("changed", "c", Tone.NEUTRAL),
    Verdict.EQUIVALENT: Mark("equivalent", "="),
    Verdict.SAME_MEDIAN: Mark("same median", "m"),
    Verdict.WORSE_TAIL: Mark("worse tail", "W", Tone.BAD),
    Verdict.BETTER_TAIL: Mark("better tail", "B", Tone.GOOD),
    Verdict.MIXED: Mark("mixed", "x", Tone.NEUTRAL),
    Verdict.INCONCLUSIVE: Mark("inconclusive", "?", Tone.NOTE),
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
