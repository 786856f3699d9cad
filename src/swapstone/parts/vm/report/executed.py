# SPDX-License-Identifier: MIT OR Apache-2.0
"""What own programs executed, counted by the emulator's plugin (native/plugin/tasks.c): a table, and a sentence of the answer."""

from __future__ import annotations

import collections
import operator
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from swapstone.core.comparison.exact_floors import FLOORS, STATED
from swapstone.core.comparison.pairs import EXACT_PAIRS
from swapstone.core.model import OWN_SUITE, Analysis, Quantity, Status
from swapstone.core.model.executed_counts import COUNT_METRICS, counts_of
from swapstone.core.model.number_text import digits
from swapstone.core.record import Description, RecordView
from swapstone.core.report import formatting
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.means import prose_name
from swapstone.core.report.context import ABSENT, PartContext, ReportContext
from swapstone.core.report.document import Section
from swapstone.core.report.tables import Field, section_of
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.variant_values import without_copies

NAME = "executed"
_CALLS, _KERNEL = "calls.", "kernel."
OWN_CODE, _IN_KERNEL = ("instructions", "rep_turns"), ("kernel_instructions",)
_WHY_NOT = {
    "uncounted.foreign": "a program of 32 bits ran",
    "uncounted.full": "there were too many tasks",
    "uncounted.roots": "the start of the program was not found, or not only once",
    "uncounted.copied": "a task was not followed from its beginning",
}
_TOOL, _UNAVAILABLE = "counts", "unavailable: "
_MOST_NAMES = 3

_Counts = Mapping[str, int]
_Runs = dict[tuple[str, str, str], dict[int, _Counts]]
"""By (workload, load, variant) and block: the counts of a run by name."""


class _Pairs(NamedTuple):
    """Two variants of a workload: their names, and the counts of both in each block."""

    workload: str
    load: str
    baseline: str
    candidate: str
    label: str
    counts: list[tuple[_Counts, _Counts]]

    def sides(self, *names: str) -> tuple[list[int], list[int]]:
        """Return the sum of counts in each block: the baseline's, and the candidate's."""
        before, after = (
            [sum(each.get(name, 0) for name in names) for each in side] for side in zip(*self.counts, strict=True)
        )
        return before, after

    def differences(self, *names: str) -> list[int]:
        """Return by how much more the candidate has, in each block."""
        before, after = self.sides(*names)
        return list(map(operator.sub, after, before))


class _Row(NamedTuple):
    """A count of two variants: medians over the blocks, and that of the differences within them."""

    workload: str
    variant: str
    what: str
    before: float
    after: float
    difference: float


def counts_context(view: RecordView, _description: Description) -> PartContext:
    """Return the counts of each run of an own program on the virtual clock, and why there are none."""
    if not (view.experiment.virtual and view.experiment.own):
        return PartContext()
    found: _Runs = {}
    reasons = collections.Counter[str]()
    for run in view.runs:
        facts, trial = dict(run.facts), run.trial
        if run.status is not Status.OK or not trial.block or trial.prime:
            continue
        if counts := counts_of(facts):
            named = {name: number for name, number in facts.items() if name.startswith((_CALLS, _KERNEL))}
            found.setdefault((trial.workload, trial.load, trial.variant), {})[trial.block] = {**counts, **named}
        reasons.update(why for fact, why in _WHY_NOT.items() if fact in facts)
    tools = {
        formatting.safe(name.removeprefix(_TOOL)): formatting.safe(text.removeprefix(_UNAVAILABLE))
        for name, text in (view.manifest.tools if view.manifest else ())
        if name.startswith(_TOOL) and text.startswith(_UNAVAILABLE)
    }
    notes = [f"Instructions and system calls are not counted{level}: {why}." for level, why in tools.items()]
    notes += [f"{formatting.count(number, 'run')} without counts: {why}." for why, number in reasons.items()]
    absent = {} if found else {name: why for name in _METRICS for why in tools.values()}
    return PartContext(notes=tuple(notes), pieces={NAME: found, ABSENT: absent})


def _pairs(context: ReportContext, analysis: Analysis) -> Iterator[_Pairs]:
    found: _Runs = context.piece(NAME, dict) or {}
    rows = (row for row in without_copies(analysis) if row.suite == OWN_SUITE and found)
    for workload, load, old, new in dict.fromkeys(
        (row.workload, row.load, row.baseline, row.candidate) for row in rows
    ):
        before, after = (found.get((workload, load, each.label), {}) for each in (old, new))
        if pairs := [(before[block], after[block]) for block in before if block in after]:
            yield _Pairs(workload, load, prose_name(old), prose_name(new), new.label, pairs)


def answer(context: ReportContext, analysis: Analysis) -> Answer | None:
    """Return for each candidate how many instructions more it executes, and which system calls.

    None where that does not differ, and of several workloads or many candidates, for which a sentence has no room.
    """
    pairs = tuple(_pairs(context, analysis))
    claims = tuple(
        Claim(suite=OWN_SUITE, load=each.load, text=text, quantity=Quantity.EVENTS, floor=context.experiment.margin)
        for each in pairs
        if (text := _sentence(each))
    )
    few = len({each.workload for each in pairs}) == 1 and len({each.label for each in pairs}) <= _MOST_NAMES
    return Answer(claims=claims) if claims and few else None


def _sentence(of: _Pairs) -> str:
    """Return a sentence on what differs in all blocks alike; empty of one block, and where nothing does."""
    if len(of.counts) < EXACT_PAIRS:
        return ""
    clauses = list(_calls(of))
    shares = _shares(of, *OWN_CODE, *_IN_KERNEL)
    parts = f"own code {_between(_shares(of, *OWN_CODE), '+')}, kernel {_between(_shares(of, *_IN_KERNEL), '+')}"
    text = f"{of.candidate} against {of.baseline}"
    if not (_is_beyond(of, *OWN_CODE) or _is_beyond(of, *_IN_KERNEL)):
        return f"{text}: {', '.join(clauses)}" if clauses else ""
    if min(shares) * max(shares) > 0:
        more = f"{_between([*map(abs, shares)])} {_more(shares[0])} instructions"
        text = f"{of.candidate} executes {more} than {of.baseline} ({parts})"
    else:
        clauses.insert(0, parts)
    return f"{text}: {', '.join(clauses)}" if clauses else text


def _is_beyond(of: _Pairs, *names: str) -> bool:
    """Return whether the difference has one sign in all blocks, and is larger than three floors of the first count."""
    (before, _), differences, floor = of.sides(*names), of.differences(*names), FLOORS[names[0]]
    least = (STATED * max(floor.share * base, floor.least) for base in before)
    one_sign = min(differences) * max(differences) > 0
    return one_sign and all(abs(each) > bound for each, bound in zip(differences, least, strict=True))


def _shares(of: _Pairs, *names: str) -> list[float]:
    before, _ = of.sides(*names)
    return [number / base if base else 0.0 for number, base in zip(of.differences(*names), before, strict=True)]


def _between(shares: Sequence[float], sign: str = "") -> str:
    """Return the range of shares in per cent; one number where both bounds look alike."""
    texts = [("" if share <= 0 else sign) + digits(share * 100, 2) for share in (min(shares), max(shares))]
    return f"{' to '.join(dict.fromkeys(texts))} %"


def _calls(of: _Pairs) -> Iterator[str]:
    """Yield which system calls, page faults and tasks are more or fewer by the same number in each block."""
    names = {name for pair in of.counts for side in pair for name in side if name.startswith(_CALLS)}
    same = {name: found[0] for name in sorted(names) if len(set(found := of.differences(name))) == 1 and found[0]}
    for name in sorted(same, key=lambda name: -abs(same[name]))[:_MOST_NAMES]:
        yield f"{abs(same[name])} {_more(same[name])} {formatting.safe(name.removeprefix(_CALLS))}"
    if len(same) > _MOST_NAMES:
        yield formatting.count(len(same) - _MOST_NAMES, "other system call differs", "other system calls differ")
    for name, noun in (("page_faults", "page fault"), ("tasks", "task")):
        number, *others = set(of.differences(name))
        if number and not others:
            yield formatting.count(abs(number), f"{_more(number)} {noun}")


def _more(number: float) -> str:
    return "more" if number > 0 else "fewer"


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a table of what each variant executed: of system calls those that were not executed equally often."""
    rows = tuple(row for each in _pairs(context, analysis) for row in _rows(each))
    if not rows:
        return ()
    return (
        section_of(
            NAME,
            "What was executed",
            (
                Field("workload", "workload", lambda row: formatting.safe(row.workload), right=False),
                Field("variant", "variant", lambda row: formatting.safe(row.variant), right=False),
                Field("count", "what", lambda row: formatting.safe(row.what), right=False),
                Field("before", "before", lambda row: row.before, _shown),
                Field("after", "after", lambda row: row.after, _shown),
                Field("difference", "difference", lambda row: row.difference, lambda value: _shown(value, "+")),
            ),
            filter(_is_shown, rows),
            keys=3,
            data=rows,
            notes=(
                "Of the program with all that descends from it: medians over the replicates. System calls that were executed equally often "
                "are left out.",
            ),
        ),
    )


_METRICS = tuple(metric.name for metric in COUNT_METRICS)


def _rows(of: _Pairs) -> Iterator[_Row]:
    calls = sorted({name for pair in of.counts for side in pair for name in side if name not in _METRICS})
    for name in (*_METRICS, *calls):
        before, after = of.sides(name)
        middle = [statistics.median(each) for each in (before, after, of.differences(name))]
        yield _Row(of.workload, of.label, name.removeprefix(_CALLS), *middle)


def _is_shown(row: _Row) -> bool:
    if row.what in _METRICS:
        return bool(row.before or row.after)
    return row.difference != 0 and not row.what.startswith(_KERNEL)


def _shown(value: float, sign: str = "") -> str:
    return f"{value:{sign},.12g}"


EXECUTED = Topic(NAME, 125, sections, answer=answer)
