# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds every commit of a range that changes the programs of a repository, each with its size, and reverts each to verify it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe
from swapstone.core.report.formatting import count
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.exit_status import ExitStatus
from swapstone.parts.bisect.commits import changing, ends_of, first_parents, merged_branch, subject_of, without
from swapstone.parts.bisect.measurer import Measurer, measuring
from swapstone.parts.bisect.search import Search
from swapstone.parts.gate.gate import row_text
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.points import Point, Points
from swapstone.parts.gate.revisions import SHORT, Repository
from swapstone.parts.gate.trusted import require_trust

LEAST = 0.001
"""Share of a row that counts as a change, by default."""
_MOST_NAMED = 3
"""Steps in the answer."""


@attrs.frozen(kw_only=True)
class BisectOptions:
    """How a range is searched.

    Attributes:
        every: whether each commit is measured.
        into_merge: whether the branch of a merge that changes something is searched, too.
        least: the smallest share that counts, as a ratio.
        trust: whether the user accepts that the repository's code is built and run.
        run: how runs are made.
    """

    every: bool = False
    into_merge: bool = False
    least: float = LEAST
    trust: bool = False
    run: RunOptions = DEFAULT_OPTIONS


class Step(FrozenStruct, frozen=True, kw_only=True):
    """A commit that changes something, or a range of which no commit is known to.

    Attributes:
        commit: the last one of the range.
        since: the last measured one before it.
        subject: of the commit.
        commits: number of commits in the range.
        why: of a range of several: why none of them is named; else empty.
        merge: the merge commit whose branch has it; empty for a first parent.
        rows: what differs, the most important one first.
        undone: the first of `rows` after a revert on the last commit of all, against that commit; None if nothing is known.
        verified: whether the revert changes that row in the other direction.
        check: what the revert shows, as a clause.
    """

    commit: str
    since: str
    subject: str
    commits: int
    rows: tuple[Row, ...]
    why: str = ""
    merge: str = ""
    undone: Row | None = None
    verified: bool = False
    check: str = ""


class BisectResult(FrozenStruct, frozen=True, kw_only=True):
    """The result of a bisection.

    Attributes:
        answer: one sentence.
        status: 0, or 4 if an end gave nothing.
        first, last: the ends.
        commits: number of commits after the first one.
        points: how many of them can build other programs than their parent.
        builds: number of builds that were made.
        steps: in the order of the commits.
        notes: limits of the result.
        repeat: the command.
    """

    answer: str
    status: ExitStatus
    first: str
    last: str
    commits: int
    points: int
    builds: int
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    repeat: str


class Range:
    """The commits between two ends, before anything is built.

    Args:
        folder: in the working tree.
        text: ``A..B``.

    Attributes:
        repository: of the commits.
        first, last: the ends.
        points: where they are stored, by the file of the last commit, or of HEAD if that has none.
        commits: along first parents, with both ends.
        chain: of these the first one and all that can build other programs than their first parent.

    Raises:
        UserError: the range or the file is wrong.
    """

    def __init__(self, folder: Path, text: str) -> None:
        self.repository = Repository(folder)
        self.first, self.last = ends_of(self.repository, text)
        self.commits = first_parents(self.repository, self.first, self.last)
        named = self.repository.object_of(self.last, "swapstone.toml")
        self.points = Points(self.repository, self.last if named else self.repository.commit("HEAD"))
        self.chain = self.chain_of(self.commits)

    def chain_of(self, commits: Sequence[str]) -> tuple[str, ...]:
        """Return the first of some commits, and of the others those whose `paths` differ from those of their first parent."""
        first, *others = commits
        changed = changing(self.repository, first, commits[-1], self.points.file.paths)
        return (first, *(each for each in others if each in changed))

    def plan(self) -> tuple[str, ...]:
        """Return a line for each thing that a bisection would do."""
        file = self.points.file
        where = "on this machine, in turns with another" if self.points.timed else "in a virtual machine"
        return (
            f"{len(self.commits) - 1} commits from {self.first[:SHORT]} to {self.last[:SHORT]}, along first parents",
            f"{len(self.chain) - 1} of them change a file that decides what is built",
            f"at most {len(self.chain)} builds, and one for each change that is found, by /bin/sh -c: {file.build}",
            *(f"run {name} of each build {where}: {run.command}" for name, run in file.run.items()),
        )


def run_bisect(span: Range, options: BisectOptions | None = None, progress: Progress = NO_PROGRESS) -> BisectResult:
    """Search a range.

    Args:
        span: of commits.
        options: how it is searched.
        progress: receives events.

    Raises:
        UntrustedRecordError: the repository's code may not be built and run.
        UserError: files can't be exported, or this machine lacks what the exact clock needs.
    """
    options = options or BisectOptions()
    require_trust(span.repository, "bisect the range", span.plan, trust=options.trust)
    with measuring(span.points, options.run, progress) as measurer:
        return _Bisection(span, options, measurer, progress).run()


class _Bisection:
    """A bisection that runs."""

    def __init__(self, span: Range, options: BisectOptions, measurer: Measurer, progress: Progress) -> None:
        self._span, self._options, self._measurer, self._progress = span, options, measurer, progress
        self._notes: list[str] = []

    def run(self) -> BisectResult:
        span = self._span
        for end, name in ((span.chain[-1], span.last), (span.chain[0], span.first)):
            left = len(span.chain) - 1 - self._measurer.built
            if error := self._point(end, left).error:
                return self._result(
                    (), f"Nothing is known: {name[:SHORT]} gives nothing: {error}.", ExitStatus.NO_RESULT
                )
        steps = tuple(self._verified(each) for each in self._steps(span.chain))
        unknown = self._measurer.unknown
        self._notes += [
            f"Whether {one[:SHORT]} and {two[:SHORT]} differ is unknown: {why}" for (one, two), why in unknown.items()
        ]
        answer = _answer(span, steps, every=self._options.every)
        if unknown and not steps:
            answer = f"Whether any of {count(len(span.commits) - 1, 'commit')} changes {safe(span.repository.top.name)} is unknown."
        return self._result(steps, answer, ExitStatus.SUCCESS)

    def _point(self, commit: str, left: int) -> Point:
        number = self._measurer.built + 1
        return self._measurer.point(commit, f"build {number} of at most {number + left}: {commit[:SHORT]}")

    def _steps(self, chain: Sequence[str], merge: str = "") -> Iterator[Step]:
        """Yield the steps among commits of which both ends are measured."""
        place = {commit: number for number, commit in enumerate(chain)}
        rows = functools.cache(lambda low, high: self._rows(chain[low], chain[high]))
        search = Search(
            lambda at: not self._point(chain[at], len(search.left)).error,
            lambda low, high: bool(rows(low, high)),
            every=self._options.every,
        )
        found = search.steps(0, len(chain) - 1)
        self._note_limits(chain, search)
        for low, high in found:
            failed = [self._point(chain[at], 0).error for at in sorted(search.without) if low < at < high]
            step = Step(
                commit=chain[high],
                since=chain[low],
                subject=subject_of(self._span.repository, chain[high]),
                commits=place[chain[high]] - place[chain[low]],
                rows=rows(low, high),
                why=_why(failed, high - low, decided=not self._measurer.unknown),
                merge=merge,
            )
            inner = [*self._into(step)] if self._options.into_merge and step.commits == 1 else []
            yield from inner or [step]

    def _rows(self, before: str, after: str) -> tuple[Row, ...]:
        self._point(before, 0), self._point(after, 0)
        return self._measurer.rows(before, after, self._options.least)

    def _into(self, step: Step) -> Iterator[Step]:
        """Yield the steps of the branch that a commit merges, if it merges one."""
        repository = self._span.repository
        if not (branch := merged_branch(repository, step.commit)):
            return
        try:
            chain = self._span.chain_of(first_parents(repository, *branch))
        except UserError as error:
            self._notes.append(f"The branch that {step.commit[:SHORT]} merges is not searched: {error.message}")
            return
        if wrong := next((each for each in (chain[0], chain[-1]) if self._point(each, len(chain) - 2).error), ""):
            self._notes.append(
                f"The branch that {step.commit[:SHORT]} merges is not searched: {wrong[:SHORT]} gives nothing."
            )
            return
        yield from self._steps(chain, step.commit)

    def _note_limits(self, chain: Sequence[str], search: Search) -> None:
        unknown = self._measurer.unknown
        skipped = sum(high - low - 1 for low, high in search.equal if (chain[low], chain[high]) not in unknown)
        if skipped:
            self._notes.append(
                f"Between equal commits, {count(skipped, 'commit')} were not measured: what one changes and a later one takes back is not "
                "found. --all measures each."
            )
        if search.without:
            error = self._point(chain[min(search.without)], 0).error
            self._notes.append(f"{count(len(search.without), 'commit')} gave nothing: {error}.")

    def _verified(self, step: Step) -> Step:
        """Revert a step on the last commit, and measure that."""
        if step.commits > 1:
            return msgspec.structs.replace(step, check="a range is not reverted")
        last, repository = self._span.chain[-1], self._span.repository
        if step.commit == last:
            return msgspec.structs.replace(step, verified=True, check="it is the last commit")
        tree = without(repository, step.commit, self._span.last, self._span.points.file.paths)
        if not tree:
            return msgspec.structs.replace(step, check="not verified: its revert on the last commit conflicts")
        point = self._measurer.point(tree, f"reverting {step.commit[:SHORT]} on {last[:SHORT]}")
        if point.error:
            return msgspec.structs.replace(step, check=f"not verified: its revert gives nothing: {point.error}")
        lead = step.rows[0]
        found = self._measurer.rows(last, tree, 0.0)
        undone = next((row for row in found if row.name == lead.name), None)
        if why := self._measurer.unknown.pop((last, tree), ""):
            return msgspec.structs.replace(
                step, check=f"not verified: whether its revert changes anything is unknown: {why}"
            )
        if undone is None:
            return msgspec.structs.replace(
                step, check="not verified: a revert on the last commit does not change that row measurably"
            )
        verified = (undone.difference > 0) != (lead.difference > 0)
        check = (
            "verified by reverting it"
            if verified
            else "not verified: a revert changes the same row in the same direction"
        )
        return msgspec.structs.replace(step, undone=undone, verified=verified, check=check)

    def _result(self, steps: tuple[Step, ...], answer: str, status: ExitStatus) -> BisectResult:
        span = self._span
        return BisectResult(
            answer=answer,
            status=status,
            first=span.first,
            last=span.last,
            commits=len(span.commits) - 1,
            points=len(span.chain) - 1,
            builds=self._measurer.built,
            steps=steps,
            notes=tuple(self._notes),
            repeat=f"swapstone bisect {span.first[:SHORT]}..{span.last[:SHORT]}",
        )


def _why(errors: Sequence[str], commits: int, *, decided: bool) -> str:
    """Return why a range is not divided; empty of one commit."""
    if commits == 1:
        return ""
    if errors:
        return f"{count(len(errors), 'commit')} in between gave nothing"
    return (
        "no part of the range alone differs enough to count"
        if decided
        else "which part of the range differs is unknown"
    )


def _answer(span: Range, steps: Sequence[Step], *, every: bool) -> str:
    commits, name = len(span.commits) - 1, safe(span.repository.top.name)
    if not steps:
        return (
            f"None of {commits} commits changes {name}."
            if every
            else f"Both ends of {count(commits, 'commit')} of {name} are equal."
        )
    largest = sorted(steps, key=lambda step: -step.rows[0].share)[:_MOST_NAMED]
    texts = [
        f"{'one of the commits up to ' if step.why else ''}{step.commit[:SHORT]} '{step.subject}' {row_text(step.rows[0])} ({step.check})"
        for step in largest
    ]
    more = f"; and {len(steps) - len(largest)} smaller" if len(steps) > len(largest) else ""
    verb = "changes" if len(steps) == 1 else "change"
    return f"{len(steps)} of {commits} commits {verb} {name}: {'; '.join(texts)}{more}."
