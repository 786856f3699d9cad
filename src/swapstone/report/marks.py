"""One character and one style for each verdict: how the terminal shows it where a word is too long."""

from __future__ import annotations

from swapstone.model import Verdict

STYLES = {
    Verdict.BETTER: "good",
    Verdict.WORSE: "bad",
    Verdict.CHANGED: "odd",
    Verdict.EQUIVALENT: "",
    Verdict.INCONCLUSIVE: "dim",
    Verdict.INVALID: "warn",
    Verdict.UNAVAILABLE: "dim",
}
MARKS = {
    Verdict.BETTER: "b",
    Verdict.WORSE: "w",
    Verdict.CHANGED: "c",
    Verdict.EQUIVALENT: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.INVALID: "!",
    Verdict.UNAVAILABLE: "-",
}
LEGEND = "b better, w worse, c changed, = equivalent, ? inconclusive, ! invalid, - unavailable"
