# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often runs fail, in plain words: the sentence before an answer, and items of what is not known."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.core.model import OWN_SUITE, Analysis, FailureCounts, FailureRates
from swapstone.core.model.number_text import share_with_interval
from swapstone.core.report import formatting
from swapstone.core.report.answer.places import IDLE, prose_name
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.document import Item, Tone

_MOST_ITEMS = 3


def shown(analysis: Analysis) -> tuple[FailureRates, ...]:
    """Return the rates of comparisons in which a run failed or was refused, without copies of the baseline."""
    copies = {null.copy for null in analysis.nulls}
    return tuple(
        each
        for each in analysis.failure_rates
        if each.candidate not in copies and any(side.failed or side.refused for side in sides(each).values())
    )


def sides(each: FailureRates) -> dict[str, FailureCounts]:
    """Return the counts by side, ``baseline`` and ``candidate``."""
    return {"baseline": each.baseline_runs, "candidate": each.candidate_runs}


def sentence(analysis: Analysis) -> str:
    """Return how often the runs of rows fail that are invalid for that reason, with a blank at the end; empty without such rows.

    Comparisons with a side that never succeeds are left out: its reason is in the answer.
    """
    found = [
        each for each in shown(analysis) if each.unfit and all(side.failed < side.runs for side in sides(each).values())
    ]
    if not found:
        return ""
    first = max(found, key=lambda each: (bool(each.fails_more), sides(each)[each.unfit[0]].share))
    pairs = (first.baseline, first.baseline_runs), (first.candidate, first.candidate_runs)
    (who, own), (other, against) = pairs if (first.fails_more or first.unfit[0]) == "baseline" else pairs[::-1]
    text = f"{prose_name(who)} fails in {share(own)} of its runs{_of(first, analysis)}, {prose_name(other)} in {share(against)}"
    undecided = "" if first.fails_more else "; the rates don't differ significantly"
    more = f" Runs fail in {formatting.count(len(found) - 1, 'more comparison')} too." if len(found) > 1 else ""
    return f"{text}: {kinds(own)} of {own.runs}{undecided}.{more} "


def share(counts: FailureCounts) -> str:
    """Return the share of failed runs with its interval, e.g. ``12 % (6.2–21 %)``."""  # noqa: RUF002 - a dash between numbers
    return share_with_interval(counts.share, counts.low, counts.high)


def kinds(counts: FailureCounts) -> str:
    """Return how runs failed, e.g. ``12 timed out and 2 crashed``."""
    found = ((counts.timed_out, "timed out"), (counts.crashed, "crashed"), (counts.others, "failed otherwise"))
    return listed([f"{number} {what}" for number, what in found if number])


def items(analysis: Analysis) -> Iterator[Item]:
    """Yield the rates of comparisons that are judged although runs failed."""
    found = [each for each in shown(analysis) if not each.unfit and any(side.failed for side in sides(each).values())]
    for each in found[:_MOST_ITEMS]:
        before, after = each.baseline_runs, each.candidate_runs
        yield Item(
            f"{prose_name(each.candidate)} fails in {after.failed} of {after.runs} runs{_of(each, analysis)}, {share(after)}, "
            f"{prose_name(each.baseline)} in {before.failed} of {before.runs}, {share(before)}.",
            tone=Tone.WARNING,
        )
    if len(found) > _MOST_ITEMS:
        rest = formatting.count(len(found) - _MOST_ITEMS, "more comparison")
        yield Item(f"Runs fail in {rest} too.", tone=Tone.WARNING)


def _of(each: FailureRates, analysis: Analysis) -> str:
    """Return of which workload runs are, with a blank before it; empty for an own program, whose name is that of a variant."""
    load = "" if each.load == IDLE else f" under load {formatting.safe(each.load)}"
    alone = len({other.workload for other in analysis.failure_rates}) == 1
    return load if each.suite == OWN_SUITE and alone else f" of {formatting.safe(each.workload)}{load}"
