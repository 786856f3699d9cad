# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is known of the commits of a repository: every step between measured neighbours, what creeps, and what a toolchain changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.number_text import quantity
from swapstone.core.model.safe_text import safe
from swapstone.core.report.document import Block, Commands, Document, Item, Section
from swapstone.core.report.formatting import count
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.tables import text_table
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.parts.bisect.bisect import BisectOptions, Range, run_bisect
from swapstone.parts.bisect.bisect_report import row_cells, shown_rows
from swapstone.parts.bisect.commits import subject_of
from swapstone.parts.gate.gate import row_text
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.points import Point, Points, every_row, rows_between
from swapstone.parts.gate.revisions import SHORT, Repository

_DRAWN = ("instructions", "kernel", "faults", "size")
_HEAD = ("commit", "of", "run", "row", "before", "after", "difference")


class HistoryStep(FrozenStruct, frozen=True, kw_only=True):
    """Two measured neighbours that differ.

    Attributes:
        commit: the later one.
        since: the earlier one.
        subject: of the later one.
        commits: number of commits after the earlier one, up to the later one, that can build other programs.
        rows: what differs, the most important one first.
        tools: compilers and parts of the machine that are others, each as a text; the step is not the commits' alone then.
    """

    commit: str
    since: str
    subject: str
    commits: int
    rows: tuple[Row, ...]
    tools: tuple[str, ...] = ()


class HistoryResult(FrozenStruct, frozen=True, kw_only=True):
    """The history of a repository.

    Attributes:
        answer: one sentence.
        commits: number of commits since the first measured one.
        measured: how many of them are.
        steps: in order.
        creep: rows whose small changes add up, without the steps.
        repeat: the command.
    """

    answer: str
    commits: int
    measured: int
    steps: tuple[HistoryStep, ...]
    creep: tuple[Row, ...]
    repeat: str


class _Measured(NamedTuple):
    place: int
    point: Point


class History:
    """The stored points along the first parents of HEAD, for the file of HEAD.

    Args:
        folder: in the working tree.
        least: the smallest share of a row that counts, as a ratio.

    Attributes:
        known: by commit, the newest first.
        measured: in order, one for commits that can't differ.

    Raises:
        UserError: fewer than two are stored.
    """

    def __init__(self, folder: Path, least: float) -> None:
        self.folder, self._least = folder, least
        self.repository = Repository(folder)
        head = self.repository.commit("HEAD")
        self._points = Points(self.repository, head)
        self._points.require_exact()
        commits = self.repository.git("rev-list", "--first-parent", head).split()
        known = {commit: point for commit in commits if (point := self._points.stored(commit))}
        self.known = known
        if len(known) < 2:
            raise UserError(
                f"{len(known)} commits are measured by the swapstone.toml of HEAD; a history needs two.",
                "Measure some: swapstone bisect A..B, or swapstone gate",
            )
        self.span = Range(folder, f"{[*known][-1]}..{head}")
        changing = set(self.span.chain[1:])
        group = dict(
            zip(
                self.span.commits,
                itertools.accumulate(int(each in changing) for each in self.span.commits),
                strict=True,
            )
        )
        found = {group[commit]: _Measured(group[commit], point) for commit, point in known.items()}
        self.measured = [found[place] for place in sorted(found)]

    def steps(self) -> Iterator[HistoryStep]:
        """Yield the neighbours that differ."""
        for one, two in itertools.pairwise(self.measured):
            if rows := rows_between(one.point, two.point, self._least):
                commit = self.span.chain[two.place]
                yield HistoryStep(
                    commit=commit,
                    since=self.span.chain[one.place],
                    subject=subject_of(self.repository, commit),
                    commits=two.place - one.place,
                    rows=rows,
                    tools=tuple(_tools(one.point, two.point)),
                )

    def creep(self, steps: Sequence[HistoryStep]) -> Iterator[Row]:
        """Yield the rows of which the first and the last point differ by more than the steps between them."""
        for row in rows_between(self.measured[0].point, self.measured[-1].point, self._least):
            stated = sum(each.difference for step in steps for each in step.rows if each.name == row.name)
            if abs(rest := row.difference - stated) > max(3 * row.floor, self._least * row.base):
                yield msgspec.structs.replace(row, difference=rest)

    def fill(self, options: BisectOptions, progress: Progress = NO_PROGRESS) -> None:
        """Bisect the commits of each step that is of several, if the same compilers and machine measured both ends."""
        for step in [*self.steps()]:
            if step.commits > 1 and not step.tools:
                run_bisect(Range(self.folder, f"{step.since}..{step.commit}"), options, progress)

    def result(self) -> HistoryResult:
        """Return what is known."""
        steps = tuple(self.steps())
        commits, name = len(self.span.commits) - 1, safe(self.repository.top.name)
        largest = max(steps, key=lambda step: step.rows[0].share, default=None)
        most = (
            f"; the largest is {largest.commit[:SHORT]} '{largest.subject}' {row_text(largest.rows[0])}"
            if largest
            else ""
        )
        return HistoryResult(
            answer=f"{count(len(steps), 'step')} among {len(self.measured)} measured points of {commits} commits of {name}{most}.",
            commits=commits,
            measured=len(self.measured),
            steps=steps,
            creep=tuple(self.creep(steps)),
            repeat="swapstone history",
        )

    def drawings(self) -> tuple[Block, ...]:
        """Return a plot for each run and program: its rows over the commits."""
        from swapstone.core.report.plot import Panel, Scale, Series, plot  # noqa: PLC0415 - a terminal needs none
        from swapstone.core.report.plot import Point as Mark  # noqa: PLC0415 - as above

        rows = [(one.place, row) for one in self.measured for row in every_row(self.measured[0].point, one.point)]
        names = dict.fromkeys((row.run, row.metric, row.unit) for _, row in rows if row.metric in _DRAWN)
        across = Scale(
            "commit that can build other programs",
            show=lambda at: self.span.chain[int(at)][:7] if at == int(at) else "",
        )
        made = []
        for run, metric, unit in names:
            marks = tuple(Mark(place, row.head) for place, row in rows if (row.run, row.metric) == (run, metric))
            y = Scale(metric, show=partial(quantity, unit=unit, significant=4))
            panel = Panel(y, (Series(run, 0, marks),), height=150.0)
            texts = [f"{self.span.chain[int(mark.x)][:SHORT]}: {quantity(mark.y, unit)}" for mark in marks]
            made.append(plot(f"{run}: {metric}", across, [panel], texts, name="history"))
        return tuple(made)


def _tools(before: Point, after: Point) -> Iterator[str]:
    """Yield what else than the commits differs."""
    if before.compilers != after.compilers:
        yield f"{', '.join(before.compilers) or 'an unnamed compiler'} became {', '.join(after.compilers) or 'an unnamed one'}"
    changed = [
        name for name in {**before.machine, **after.machine} if before.machine.get(name) != after.machine.get(name)
    ]
    if changed:
        yield f"other {', '.join(changed)}"


def history_document(result: HistoryResult, drawings: tuple[Block, ...] = ()) -> Document:
    """Return the document: the sentence, the steps, what creeps, and for a page the drawings."""
    lines = [line for step in result.steps for line in _lines(step)]
    creep = [f"{row_text(row)} in sum, without the steps" for row in result.creep if row.metric in _DRAWN]
    tools = [f"{step.commit[:SHORT]}: another toolchain: {safe(text)}." for step in result.steps for text in step.tools]
    gaps = sum(1 for step in result.steps if step.commits > 1 and not step.tools)
    commands = (
        ("repeat", result.repeat),
        *([("name the commits of each step", f"{result.repeat} --fill")] if gaps else []),
    )
    return Document(
        title="History",
        answer=result.answer,
        notices=tuple(map(Item, (*tools, *creep))),
        sections=(
            *(
                [Section(title="Steps", blocks=(text_table("Steps", _HEAD, lines, keys=4, last=None),))]
                if lines
                else []
            ),
            *([Section(title="Each row", blocks=drawings)] if drawings else []),
        ),
        closing=(Section(title="What to do next", blocks=(Commands(commands=commands),)),),
    )


def _lines(step: HistoryStep) -> Iterator[tuple[str, ...]]:
    for number, row in enumerate(shown_rows(step.rows)):
        which = count(step.commits, "commit")
        start = (step.commit[:SHORT], "another toolchain" if step.tools else which) if not number else ("", "")
        yield *start, *row_cells(row)


def history_json(result: HistoryResult) -> str:
    """Return the result as JSON of the format ``swapstone-history-result``."""
    return printed_json("history-result", **{name: getattr(result, name) for name in result.__struct_fields__})
