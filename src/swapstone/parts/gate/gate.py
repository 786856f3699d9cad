# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gate: both sides of a change are built, their programs run on the exact clock, and each row is judged. It fails closed."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs
import msgspec

from swapstone.core.artifacts.cache_folder import locked
from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.number_text import exact_effect
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.record_handle import Record
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.exit_status import ExitStatus, Finding
from swapstone.parts.gate.builds import SIDES, BuiltSide, build_side, compilers_of
from swapstone.parts.gate.gate_file import (
    DEFINITION,
    FILE,
    Acceptance,
    GateFile,
    decode_gate,
    parse_limit,
)
from swapstone.parts.gate.gate_result import Cause, GateResult, Row, RunFinding, finding_of_run
from swapstone.parts.gate.points import Point, Points, definition_of
from swapstone.parts.gate.revisions import SHORT, Base, Repository
from swapstone.parts.gate.trusted import require_trust

if TYPE_CHECKING:
    from swapstone.parts.gate.measured_runs import MeasuredRun

_MOST_EXPLAINED = 3
_OF_BASE = " (as in the base)"
_EXECUTED = ("instructions", "own_code", "kernel")


@attrs.frozen(kw_only=True)
class GateOptions:
    """How a gate runs.

    Attributes:
        base: a revision; empty to find it.
        trust: whether the user accepts that the repository's code is built and run.
        budget_s: no run begins after this many seconds; 0 for no limit.
        run: how runs are made.
    """

    base: str = ""
    trust: bool = False
    budget_s: float = 0.0
    run: RunOptions = DEFAULT_OPTIONS


class Change:
    """A change of a repository, before anything is built.

    Args:
        folder: in the working tree.
        given: the base; empty to find it.

    Attributes:
        repository, base, head: what is compared; `uncommitted` files are in the head.
        file: of the head.
        old: the file of the base; None if it has none.

    Raises:
        UserError: there is no such repository, base or file, or the head's file is wrong.
    """

    def __init__(self, folder: Path, given: str = "") -> None:
        self.repository = Repository(folder)
        self.base: Base = self.repository.base(given, os.environ)
        self.head, self.uncommitted = self.repository.head()
        content = self.repository.content(self.head, FILE)
        old = self.repository.content(self.base.commit, FILE)
        if content is None:
            raise UserError(
                f"The head has no {FILE}{', and the base has one' if old else ''}: there is nothing to run.",
                "Write one: swapstone gate --init",
            )
        self.file: GateFile = decode_gate(content)
        self.old: GateFile | None = None if old is None else decode_gate(old, f"{FILE} of the base")

    @property
    def judge(self) -> GateFile:
        """Return the file whose limits hold: the base's, so that a change can't loosen its own gate."""
        return self.old or self.file

    def kinds(self) -> dict[str, str]:
        """Return by name of a run of either side whether it is ``same``, ``redefined``, ``new`` or ``gone``."""
        old = self.old.run if self.old else {}
        found = {}
        for name, run in self.file.run.items():
            before = (
                definition_of(self.repository, self.old, self.base.commit, old[name])
                if self.old and name in old
                else None
            )
            same = before == definition_of(self.repository, self.file, self.head, run)
            found[name] = "new" if before is None else "same" if same else "redefined"
        return {**found, **dict.fromkeys(old.keys() - found.keys(), "gone")}

    def acceptances(self) -> tuple[Acceptance, ...]:
        """Return those that this change adds: an earlier one accepted an earlier change."""
        return tuple(each for each in self.file.accept if not self.old or each not in self.old.accept)

    def is_same_source(self) -> bool:
        """Return whether both sides build the same: no file differs that matches the patterns of either side.

        Raises:
            UserError: the patterns of a side match nothing.
        """
        sides = ((self.file, self.head), *([(self.old, self.base.commit)] if self.old else []))
        for file, commit in sides:
            if not self.repository.matches(commit, file.paths):
                raise UserError(
                    f"The paths of {FILE} match no file of {commit[:SHORT]}.",
                    'For example: paths = ["*.c", "*.h", "Makefile"]',
                )
        if self.old is None or self.old.built_by != self.file.built_by:
            return False
        return not any(self.repository.changed(self.base.commit, self.head, file.paths) for file, _ in sides)

    def plan(self) -> tuple[str, ...]:
        """Return a line for each thing that a gate would do."""
        sides = ((self.old or self.file, self.base.commit), (self.file, self.head))
        kinds = self.kinds()
        runs = [(name, kinds[name], run.command) for name, run in self.file.run.items()]
        return (
            f"base {self.base.commit[:SHORT]}: {self.base.why}",
            f"head {self.head[:SHORT]}" + (f", with {self.uncommitted} uncommitted files" if self.uncommitted else ""),
            *(f"build {commit[:SHORT]}, by /bin/sh -c: {file.build}" for file, commit in sides),
            *(f"run {name} ({kind}) of both in a virtual machine: {command}" for name, kind, command in runs),
            *(f"run {name} is gone" for name, kind in kinds.items() if kind == "gone"),
        )


def run_gate(change: Change, options: GateOptions | None = None, progress: Progress = NO_PROGRESS) -> GateResult:
    """Gate a change.

    Args:
        change: of a repository.
        options: how it runs.
        progress: receives events.

    Raises:
        UntrustedRecordError: the repository's code may not be built and run.
        UserError: files can't be exported, or this machine lacks what the exact clock needs.
    """
    return _Gate(change, options or GateOptions(), progress).run()


class _Gate:
    """A gate that runs."""

    def __init__(self, change: Change, options: GateOptions, progress: Progress) -> None:
        self._change, self._options, self._progress = change, options, progress
        self._kinds = change.kinds()
        accepted = {each.run for each in change.acceptances() if each.metric == DEFINITION}
        self._begun = {
            name for name, kind in self._kinds.items() if kind == "new" or (kind == "redefined" and name in accepted)
        }
        """Runs whose definition the base does not have, or need not have."""
        self._uncounted: list[str] = []
        """Notes about those of them that the base can't run, and about rows that depend on addresses."""
        self._end_s = time.monotonic() + options.budget_s if options.budget_s else float("inf")

    def run(self) -> GateResult:
        change = self._change
        whole = {*self._kinds.values()} == {"same"}
        if whole and change.is_same_source():
            return self._result(unchanged="no file that decides what is built differs")
        require_trust(change.repository, "gate the change", change.plan, trust=self._options.trust)
        home = sha256(os.fsencode(change.repository.top)).hexdigest()[:16]
        work = cache_dir().resolve() / "gate" / home
        with locked(work / "lock"):
            before, after = (
                self._built(name, file, commit, work)
                for name, file, commit in zip(
                    SIDES, (change.judge, change.file), (change.base.commit, change.head), strict=True
                )
            )
            if before.error or after.error:
                finding = Finding.BASELINE if before.error else Finding.NOT_BUILT
                return self._result((), (finding_of_run("", finding, before.error or after.error),))
            if whole and before.is_equal_to(after):
                return self._result(unchanged="the programs are equal to the byte")
            measured = dict(self._measured(before, after, work / "cwd"))
            if self._options.run.sharing.store:
                measured |= self._contradicted(measured)
            if whole and not change.uncommitted and (change.old or change.file).built_by == change.file.built_by:
                self._store((before, after), measured)
            rows = (*(row for one in measured.values() for row in one.rows), *self._sizes(before, after))
            findings = (*(each for one in measured.values() for each in one.findings), *self._redefined(before, after))
            records = {name: one.record for name, one in measured.items() if one.record}
            return self._result(rows, findings, records, after)

    def _built(self, name: str, file: GateFile, commit: str, work: Path) -> BuiltSide:
        self._progress.note(f"building the {name} {commit[:SHORT]}")
        return build_side(self._change.repository, commit, file, work, name)

    def _measured(self, before: BuiltSide, after: BuiltSide, folder: Path) -> Iterator[tuple[str, MeasuredRun]]:
        """Yield each run with its name, both definitions of one that was redefined."""
        from swapstone.parts.gate.measured_runs import MeasuredRun, Place, measure  # noqa: PLC0415 - imports what runs trials, and most changes need none

        folder.mkdir(exist_ok=True)
        change = self._change
        jobs = [(name, change.file, run, after.data) for name, run in change.file.run.items()]
        if old := change.old:
            again = [name for name, kind in self._kinds.items() if kind == "redefined" and name not in self._begun]
            jobs += [(f"{name}{_OF_BASE}", old, old.run[name], before.data) for name in again]
        for label, file, run, data in jobs:
            if time.monotonic() > self._end_s:
                over = finding_of_run(label, Finding.NOT_COMPARED, "the time of the whole gate is over")
                yield label, MeasuredRun((), (over,))
                continue
            self._progress.note(f"measuring {label}")
            machine = {name: value for name, value in file.machine().items() if name != "build_timeout"}
            trees = (before.folder, after.folder)
            place = Place(trees, data, folder, machine, self._options.run, self._progress)
            name = label.removesuffix(_OF_BASE)
            found = measure(label, run, change.judge.limits(name), place)
            self._uncounted += [found.note] if found.note else []
            if name in self._begun and any(each.finding == Finding.BASELINE.name.lower() for each in found.findings):
                self._uncounted.append(f"{name} is new here, and not counted: the base can't run it.")
                found = found._replace(findings=())
            yield label, found

    def _store(self, sides: tuple[BuiltSide, BuiltSide], measured: Mapping[str, MeasuredRun]) -> None:
        """Store what is known of both commits, as a bisection does."""
        change, found = self._change, list(measured.items())
        if not all(one.counts for one in measured.values()):
            return
        points = Points(change.repository, change.head)
        for place, commit in enumerate((change.base.commit, change.head)):
            side = sides[place]
            point = Point(
                programs=side.programs,
                compilers=compilers_of(side),
                machine={name: text for _, one in found for name, text in one.tools.items()},
                sizes=side.sizes,
                runs={name: one.counts[place] for name, one in found},
            )
            points.store(commit, point)

    def _contradicted(self, measured: Mapping[str, MeasuredRun]) -> Iterator[tuple[str, MeasuredRun]]:
        """Make the runs again from which something follows, and another one by chance; yield those of which the store has other ones."""
        from swapstone.parts.gate.measured_runs import contradiction_of  # noqa: PLC0415 - as above

        known = {name: one.record for name, one in measured.items() if one.record}
        decides = [
            name
            for name in known
            if measured[name].findings or any(row.state == "worse" for row in measured[name].rows)
        ]
        others = [name for name in known if name not in decides]
        for name in (*decides, *([secrets.choice(others)] if others else [])):
            self._progress.note(f"measuring {name} again, without the store")
            if found := contradiction_of(name, known[name], self._progress):
                yield name, found

    def _redefined(self, before: BuiltSide, after: BuiltSide) -> Iterator[RunFinding]:
        """Yield the runs and programs that do not count as passed, because their definition is another one."""
        texts = {"redefined": "is redefined, and does not count as passed", "gone": "is gone from the head's file"}
        found = [(name, texts[kind]) for name, kind in self._kinds.items() if kind in texts]
        found += [(path, "is gone from the head's programs") for path in before.sizes if path not in after.sizes]
        for name, text in found:
            yield RunFinding(run=name, status=ExitStatus.NO_RESULT, text=text, metric=DEFINITION)

    def _sizes(self, before: BuiltSide, after: BuiltSide) -> Iterator[Row]:
        from swapstone.parts.gate.measured_runs import judged_row  # noqa: PLC0415 - as above

        for path in sorted(before.sizes.keys() & after.sizes.keys()):
            sides = ([float(before.sizes[path])], [float(after.sizes[path])])
            yield judged_row(path, "size", sides, self._change.judge.limits(path).get("size"))

    def _result(
        self,
        rows: Sequence[Row] = (),
        findings: Sequence[RunFinding] = (),
        records: Mapping[str, Record] = MappingProxyType({}),
        after: BuiltSide | None = None,
        *,
        unchanged: str = "",
    ) -> GateResult:
        """Apply the acceptances, decide, and look for the causes of what changed."""
        change, accepted = self._change, dict[str, Acceptance]()
        judged, left = [], []
        for row in rows:
            found = _acceptance(change, row.run, row.metric, row.difference, row.base) if row.state == "worse" else None
            judged.append(msgspec.structs.replace(row, state="accepted") if found else row)
            accepted |= {row_text(row): found} if found else {}
        for each in findings:
            found = _acceptance(change, each.run, each.metric, each.share, 1.0) if each.metric else None
            accepted |= {each.clause: found} if found else {}
            left += [] if found else [each]
        limited = [row for row in rows if row.limit]
        if not left and not unchanged and not (limited and any(row.metric != "size" for row in rows)):
            why = "no row of a run" if limited else "no row has a limit"
            left = [finding_of_run("", Finding.NOT_COMPARED, why)]
        worse = [row for row in judged if row.state == "worse"]
        statuses = [*(each.status for each in left), *([ExitStatus.WORSE] if worse else [])]
        status = min(statuses, default=ExitStatus.SUCCESS)
        reasons = [f"{text}: {each.reason}" for text, each in accepted.items()]
        causes, notes = self._causes(judged, records, after) if after else ((), ())
        lead = f"Nothing is measured, because nothing can differ: {unchanged}." if unchanged else ""
        return GateResult(
            answer=lead or _answer(status, worse, left, reasons, limited),
            status=status,
            base=change.base.commit,
            head=change.head,
            base_reason=change.base.why,
            measured=len(limited),
            rows=tuple(row for row in judged if row.state != "same" or row.limit),
            findings=tuple(left),
            accepted=tuple(reasons),
            causes=causes,
            notes=(
                *_notes(change, accepted.values()),
                *map(_remedy, filter(lambda each: each.entry, left)),
                *self._uncounted,
                *notes,
            ),
            records=tuple((name, str(record.path)) for name, record in records.items()),
            repeat=f"git checkout {change.head[:SHORT]} && swapstone gate --base {change.base.commit[:SHORT]}",
        )

    def _causes(
        self, rows: Sequence[Row], records: Mapping[str, Record], after: BuiltSide
    ) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
        """Return why runs executed more or less, at most `_MOST_EXPLAINED` of them, the worse ones first; and notes."""
        from swapstone.parts.gate.causes import causes_of  # noqa: PLC0415 - as above

        executed = [row for row in rows if row.metric in _EXECUTED and row.state != "same"]
        names = list(dict.fromkeys(row.run for row in sorted(executed, key=lambda row: row.state != "worse")))
        edited = self._change.repository.changed(self._change.base.commit, self._change.head)
        causes: list[Cause] = []
        notes = []
        for name in names[:_MOST_EXPLAINED]:
            try:
                causes += causes_of(name, records[name], after, edited, self._progress)
            except UserError as error:
                notes.append(f"Why {name} differs is not known: {error.message}")
        if left := len(names[_MOST_EXPLAINED:]):
            notes.append(f"{left} more runs changed; `swapstone explain RECORD` explains each.")
        return tuple(causes), tuple(notes)


def _acceptance(change: Change, run: str, metric: str, difference: float, base: float) -> Acceptance | None:
    """Return the acceptance that covers a difference."""
    for each in change.acceptances():
        is_its = (each.run, each.metric) == (run.removesuffix(_OF_BASE), metric)
        if is_its and (metric == DEFINITION or abs(difference) <= parse_limit(metric, each.size).of(base)):
            return each
    return None


def _notes(change: Change, used: Iterable[Acceptance]) -> tuple[str, ...]:
    old, file = change.old, change.file
    loosened = old and (old.fail, {name: run.fail for name, run in old.run.items()}) != (
        file.fail,
        {name: run.fail for name, run in file.run.items()},
    )
    unused = [each for each in change.acceptances() if each not in set(used)]
    return (
        *([f"The base has no {FILE}: the limits are those of the head."] if old is None else []),
        *(["The limits are those of the base: a changed fail holds from the next change on."] if loosened else []),
        *(
            [f"{change.uncommitted} uncommitted files are in the head; untracked ones are not."]
            if change.uncommitted
            else []
        ),
        *(f"The acceptance of {each.metric} of {each.run} was not used." for each in unused),
    )


def _remedy(finding: RunFinding) -> str:
    name = finding.entry
    here = shlex.quote(str(cache_dir() / "runs" / name))
    return (
        f"Remove runs/{name[:2]}/{name} from the store, and its copy here: rm -f {here}. Find out who can write to the store. Until then, "
        "swapstone gate --no-cache reads no stored run."
    )


def row_text(row: Row) -> str:
    """Return a row in words, e.g. ``deflate: instructions +1.023 % (+600000), limit 1%``."""
    name = f"{row.run}: {row.detail or row.metric}"
    amount = exact_effect(row.difference, row.unit)
    share = f"{exact_effect(row.ratio)} ({amount})" if row.ratio and row.difference else amount
    return f"{name} {share}" + (f", limit {row.limit}" if row.limit else "")


def _answer(
    status: ExitStatus,
    worse: Sequence[Row],
    findings: Sequence[RunFinding],
    accepted: Sequence[str],
    limited: Sequence[Row],
) -> str:
    reasons = [each.clause for each in findings if each.status == status]
    if status == ExitStatus.WORSE:
        order = {metric: place for place, metric in enumerate(("instructions", "own_code"))}
        reasons += [row_text(row) for row in sorted(worse, key=lambda row: order.get(row.metric, 2))]
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    also = f"; accepted: {'; '.join(accepted)}" if accepted else ""
    if status == ExitStatus.SUCCESS:
        runs = len({row.run for row in limited if row.metric != "size"})
        return f"The head passes: none of {len(limited)} rows of {runs} runs is worse than its limit{also}."
    lead = "The head is worse" if status == ExitStatus.WORSE else "Nothing is decided"
    return f"{lead}: {reasons[0].rstrip('.')}{more}{also}."
