# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures a run of both sides on the exact clock, and judges each of its rows."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from swapstone.core.comparison.exact_floors import FLOORS, ExactEffects
from swapstone.core.model import (
    COMMAND,
    Comparison,
    NothingComparableError,
    Quantity,
    Status,
    UnavailableError,
)
from swapstone.core.model.errors import MissingProgramsError
from swapstone.core.model.run_sharing import NO_SHARING
from swapstone.core.model.safe_text import safe
from swapstone.core.report.answer.outcome import finding_of
from swapstone.core.report.verdict_groups import DIFFERS
from swapstone.core.session import experiment as experiments
from swapstone.core.session.options import settings_from
from swapstone.core.session.progress import Progress
from swapstone.core.session.recomputation import run_again
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request import ExperimentRequest, resolve, varied_program
from swapstone.core.session.run_options import RunOptions
from swapstone.core.stats import Floats
from swapstone.exit_status import ExitStatus, Finding
from swapstone.parts.gate.builds import SIDES
from swapstone.parts.gate.gate_file import UNITS, WALL, Limit, RunKeys, data_paths
from swapstone.parts.gate.gate_result import Row, RunFinding, State, finding_of_run
from swapstone.parts.vm.factors.kernel import PACKAGED
from swapstone.parts.vm.machine.vm_target import CARRIED
from swapstone.parts.vm.report.executed import NAME, OWN_CODE, counts_context

REPLICATES = 2
MOVED_REPLICATES = 3
"""At random addresses. Of three normally distributed effects of addresses alone 1 % exceed `ExactEffects.threshold` upwards."""
_MOVED = "+drop:norandmaps"
"""Added to the level of the kernel: programs, heap and stack are at random addresses, the same for both sides of a replicate."""
LEAST_INSTRUCTIONS = 100_000
"""Of the own code: a run with fewer is mostly the start of its process."""
LEAST_WORK = 0.5
"""Share of the base's instructions of the own code below which the head did not do the same work."""
_MORE = ("more", "worse")
_CALLS = "calls."
_PARTS: Mapping[str, tuple[str, ...]] = {"own_code": OWN_CODE, "kernel": ("kernel_instructions",)}
"""The counts of which each part of the instructions is the sum."""


class Place(NamedTuple):
    """Where a run is measured.

    Attributes:
        trees: the built trees of base and head, or of one of them.
        data: the folder that ``{data}`` stands for.
        folder: an empty working directory.
        machine: options of the virtual machine.
        options: how runs are made.
        progress: receives events.
    """

    trees: tuple[Path, ...]
    data: Path
    folder: Path
    machine: Mapping[str, object]
    options: RunOptions
    progress: Progress


class MeasuredRun(NamedTuple):
    """A run of both sides.

    Attributes:
        rows: judged; none where nothing was compared.
        findings: what is wrong with the run itself.
        record: None if none was made.
        note: which rows are not worse, because they depend on addresses; else empty.
        counts: what each side executed in each replicate, for `rows_of`; none where nothing was counted.
        tools: versions and digests of what made the run, by name.
    """

    rows: tuple[Row, ...]
    findings: tuple[RunFinding, ...]
    record: Record | None = None
    note: str = ""
    counts: tuple[tuple[dict[str, int], ...], ...] = ()
    tools: Mapping[str, str] = MappingProxyType({})

    @property
    def by_own_code(self) -> list[Row]:
        """Return the rows that are worse by instructions of the own code alone."""
        states = {row.metric: row.state for row in self.rows}
        metrics = {"own_code", *(() if states.get("kernel") in _MORE else ("instructions",))}
        return [row for row in self.rows if row.state == "worse" and row.metric in metrics]

    def confirmed_by(self, moved: MeasuredRun) -> MeasuredRun:
        """Return it without the rows `by_own_code` if the own code does not execute more at other addresses.

        Args:
            moved: the same at other addresses; if nothing was compared there, all stays worse.
        """
        gone = self.by_own_code
        if next((row.state for row in moved.rows if row.metric == "own_code"), "more") in _MORE:
            return self
        rows = tuple(msgspec.structs.replace(row, state="more") if row in gone else row for row in self.rows)
        names = " and ".join(row.metric for row in gone)
        note = (
            f"{gone[0].run}: {names} are not counted: the own code executes no more with its memory at other addresses."
        )
        return self._replace(rows=rows, note=note)


def measure(name: str, run: RunKeys, limits: Mapping[str, Limit], place: Place) -> MeasuredRun:
    """Measure a run of both sides with `measure_once`; if it is worse by its own code alone, again at other addresses.

    Raises:
        UserError: as `measure_once`.
    """
    found = measure_once(name, run, limits, place)
    if not found.by_own_code:
        return found
    place.progress.note(f"measuring {name} again, at other addresses")
    return found.confirmed_by(measure_once(name, run, limits, place, moved=True))


def measure_once(
    name: str,
    run: RunKeys,
    limits: Mapping[str, Limit],
    place: Place,
    *,
    moved: bool = False,
    out: Path | None = None,
) -> MeasuredRun:
    """Measure a run of both sides, and judge it.

    Args:
        name: of the run.
        run: its definition.
        limits: by metric.
        place: where and how it runs.
        moved: whether in `MOVED_REPLICATES` at random addresses, and without the store, which may be forged.
        out: folder of the record; None for one in ``records``.

    Raises:
        UserError: this machine lacks something that the exact clock needs, or an option is wrong.
    """
    options = dataclasses.replace(place.options, sharing=NO_SHARING) if moved else place.options
    request = _request(name, run, limits, place, moved=moved)
    found = _record_of(name, request, options, place.progress, out)
    return _judged(name, limits, found) if isinstance(found, Record) else MeasuredRun((), (found,))


class Counted(NamedTuple):
    """What the programs of one tree executed in a run.

    Attributes:
        counts: of each replicate, for `rows_of`.
        tools: versions and digests of what made the run, by name.
        error: why nothing is known, as a clause; empty if it is.
    """

    counts: tuple[dict[str, int], ...] = ()
    tools: Mapping[str, str] = MappingProxyType({})
    error: str = ""


def measure_alone(name: str, run: RunKeys, place: Place, folder: Path) -> Counted:
    """Measure a run of one tree on the exact clock.

    Args:
        name: of the run.
        run: its definition.
        place: where and how it runs, with one tree.
        folder: of its record.

    Raises:
        UserError: as `measure_once`.
    """
    found = _record_of(name, _request(name, run, {}, place, moved=False), place.options, place.progress, folder)
    if not isinstance(found, Record):
        return Counted(error=found.text)
    (by_block, *_), notes = _counts(found)
    failed = next((each for each in found.view.runs if each.status is not Status.OK), None)
    if failed is not None or len(by_block) < REPLICATES:
        return Counted(error=safe(failed.reason) if failed else f"nothing was counted. {notes}")
    return Counted(tuple(dict(by_block[block]) for block in sorted(by_block)), tools_of(found))


def tools_of(record: Record) -> dict[str, str]:
    """Return versions and digests of what makes runs, by name; not those of the programs."""
    manifest = record.view.manifest
    return {name: text for name, text in (manifest.tools if manifest else ()) if name != CARRIED}


def _record_of(
    name: str, request: ExperimentRequest, options: RunOptions, progress: Progress, out: Path | None = None
) -> Record | RunFinding:
    try:
        return Record(experiments.start(resolve(request), out, options=options, progress=progress))
    except MissingProgramsError:
        raise
    except NothingComparableError as error:
        return finding_of_run(name, error.finding, error.message)
    except UnavailableError as error:
        return finding_of_run(name, Finding.NOT_COMPARED, error.message)


def _counts(record: Record) -> tuple[Sequence[Mapping[int, Mapping[str, int]]], str]:
    """Return the counts of each side by replicate, and why there are none."""
    context = counts_context(record.view, record.view.meta.description)  # type: ignore[arg-type] # not read
    found: Mapping[tuple[str, str, str], dict[int, Mapping[str, int]]] = context.pieces.get(NAME) or {}  # type: ignore[assignment] # its own piece
    by_variant = {variant: each for (_, _, variant), each in found.items()}
    names = by_variant if record.experiment.alone else [f"{COMMAND}={side}" for side in SIDES]
    nothing: dict[int, Mapping[str, int]] = {}
    return [by_variant.get(name, nothing) for name in names] or [nothing], " ".join(context.notes)


def _request(name: str, run: RunKeys, limits: Mapping[str, Limit], place: Place, *, moved: bool) -> ExperimentRequest:
    """Return the comparison of both sides' programs as files of one virtual machine; on the wall clock on this one."""
    keys: dict[str, Any] = {
        key: value
        for key in run.__struct_fields__
        if key not in RunKeys.__struct_fields__ and (value := getattr(run, key)) is not msgspec.UNSET
    }
    if "input" in keys:
        keys["input"] = keys["input"].replace("{data}", str(place.data))
    if moved:
        held = keys.get("hold", {})
        keys["hold"] = {**held, "kernel": held.get("kernel", PACKAGED[0]) + _MOVED}
    words = shlex.split(run.command.replace("{data}", shlex.quote(str(place.data))))
    commands = [[str(tree / word[2:]) if word.startswith("./") else word for word in words] for tree in place.trees]
    ours = [
        word for side in commands for word in side[1:] if word.startswith(tuple(f"{tree}/" for tree in place.trees))
    ]
    files = [*ours, *(f"{place.data}{path}" for path in data_paths(run))]
    on_wall = place.machine.get("clock") == WALL
    machine = {
        "target": "vm",
        "blocks": MOVED_REPLICATES if moved else REPLICATES,
        "files": tuple(dict.fromkeys(files)),
    }
    host = {"target": "host", **({"margin": limits["time"].text} if "time" in limits else {})}
    settings = settings_from(
        {
            **place.machine,
            **keys,
            **(host if on_wall else machine),
            "commands": tuple(map(shlex.join, commands)),
            "names": SIDES[: len(place.trees)],
            "seed": 0,
        }
    )
    own, varied = varied_program(settings.program, (), settings.workloads.hold, str(place.folder))
    exact = not on_wall  # all replicates are made, whatever their budget is
    title = f"gate-{name}{'-moved' * moved}"
    return ExperimentRequest(name=title, factors=varied, settings=settings, own=own, budget_extends=exact)


def contradiction_of(name: str, record: Record, progress: Progress) -> MeasuredRun | None:
    """Make the runs of a record again on this machine, without store and cache; return what replaces its rows if one is another run.

    Args:
        name: of the run.
        record: of it.
        progress: receives events.

    Raises:
        UserError: they can't be made.
    """
    made = [run for run in record.view.runs if run.status is Status.OK and run.output and run.name]
    entries = {run.trial.key: run.name for run in made}
    again, _ = run_again(record.view, made, progress)
    wrong = next((each for each in again if not each.equal), None)
    if wrong is None:
        return None
    side = next((side for side in SIDES if f"{COMMAND}={side}" in wrong.key), "")
    entry = entries[wrong.key]
    text = (
        f"a stored run of the {side} is not the one that this machine makes: the entry runs/{entry[:2]}/{entry} of the store is forged, "
        "or a machine computes wrongly"
    )
    return MeasuredRun((), (RunFinding(run=name, status=ExitStatus.NO_RESULT, text=text, entry=entry),), record)


def _judged(name: str, limits: Mapping[str, Limit], record: Record) -> MeasuredRun:
    analysis = record.analysis()
    rates = {each.candidate: each for each in analysis.failure_rates}
    compared = [row for row in analysis.comparisons if row.metric.quantity is not Quantity.SIZE]
    timed = next((row for row in compared if row.preferred), None)
    limit = limits.get("time")
    most = limit.share if limit and limit.share is not None else float("inf")
    finding = finding_of(timed, most, rates.get(timed.candidate)) if timed else Finding.NOT_COMPARED
    if timed and not record.experiment.virtual and finding in {Finding.NONE, Finding.WORSE}:
        return MeasuredRun((_timed_row(name, timed, limit, worse=finding is Finding.WORSE),), (), record)
    if finding is not Finding.NONE:
        return MeasuredRun((), (finding_of_run(name, finding, timed.reason if timed else record.reason),), record)
    counted, notes = _counts(record)
    blocks = sorted(counted[0].keys() & counted[1].keys())
    if len(blocks) < REPLICATES:
        why = notes or f"{len(blocks)} of {REPLICATES} replicates have counts."
        return MeasuredRun((), (finding_of_run(name, Finding.NOT_COMPARED, f"nothing was counted. {why}"),), record)
    counts = [[dict(side[block]) for block in blocks] for side in counted]
    before, after = (min(_sum(each, OWN_CODE) for each in side) for side in counts)
    peak = next((row for row in compared if row.metric.name == "maxrss" and row.baseline_values), None)
    memory = (peak.baseline_values, peak.candidate_values) if peak else None
    rows = tuple(rows_of(name, limits, counts, memory))
    kept = tuple(map(tuple, counts))
    return MeasuredRun(rows, tuple(lost_work(name, before, after)), record, counts=kept, tools=tools_of(record))


def _timed_row(name: str, row: Comparison, limit: Limit | None, *, worse: bool) -> Row:
    """Return the row of elapsed time on the wall clock, whose difference is that of the medians."""
    base, head = statistics.median(row.baseline_values), statistics.median(row.candidate_values)
    state: State = "worse" if worse else "same" if row.verdict not in DIFFERS else "more" if head > base else "fewer"
    return Row(
        run=name,
        metric="time",
        unit=UNITS["time"],
        base=base,
        head=head,
        difference=head - base,
        floor=0.0,
        limit=limit.text if limit else "",
        state=state,
    )


def lost_work(name: str, before: float, after: float) -> Iterator[RunFinding]:
    """Yield why a run is no measure of the change: there is too little work in it."""
    least = min(before, after)
    if least < LEAST_INSTRUCTIONS:
        text = f"the own code of the {SIDES[after == least]} executes {least:,.0f} instructions; a run needs {LEAST_INSTRUCTIONS:,}"
        yield RunFinding(run=name, status=ExitStatus.NO_RESULT, text=text)
    elif after < LEAST_WORK * before:
        text = f"the own code of the head executes {after:,.0f} instructions instead of {before:,.0f}: did it do the same work?"
        yield RunFinding(
            run=name, status=ExitStatus.NO_RESULT, text=text, metric="instructions", share=1 - after / before
        )


def _sum(counts: Mapping[str, int], names: Sequence[str]) -> int:
    return sum(counts.get(name, 0) for name in names)


def rows_of(
    run: str,
    limits: Mapping[str, Limit],
    counts: Sequence[Sequence[Mapping[str, int]]],
    memory: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Iterator[Row]:
    """Yield the judged rows of a run: instructions with their two parts, faults, each system call of either side, memory.

    Args:
        run: its name.
        limits: by metric.
        counts: of base and head, in each replicate, with the names of `counts_context`.
        memory: peaks of both in bytes; None without that row.
    """
    parts = []
    for metric, names in _PARTS.items():
        floor = FLOORS[names[0]]
        largest = max(floor.least, floor.share * statistics.median(each[names[0]] for each in counts[0]))
        parts.append(judged_row(run, metric, _sides(counts, names), limits.get(metric), floor=largest))
    whole = _sides(counts, tuple(itertools.chain(*_PARTS.values())))
    stated = [_PARTS[row.metric] for row in parts if row.state != "same"]
    differences = differences_of(_sides(counts, tuple(itertools.chain(*stated))))
    floor_of_both = min(row.floor for row in parts)
    limit = limits.get("instructions")
    yield judged_row(run, "instructions", whole, limit, floor=floor_of_both, differences=differences)
    yield from parts
    yield judged_row(run, "faults", _sides(counts, ("page_faults",)), limits.get("faults"))
    calls = sorted({name for each in itertools.chain(*counts) for name in each if name.startswith(_CALLS)})
    every = statistics.median(_sum(each, calls) for each in counts[0])
    for call in calls:
        yield judged_row(
            run, "syscalls", _sides(counts, (call,)), limits.get("syscalls"), detail=call.removeprefix(_CALLS), of=every
        )
    if memory:
        yield judged_row(run, "memory", memory, limits.get("memory"))


def _sides(counts: Sequence[Sequence[Mapping[str, int]]], names: Sequence[str]) -> tuple[list[float], list[float]]:
    """Return the sum of counts of base and head by replicate."""
    before, after = ([float(_sum(each, names)) for each in side] for side in counts)
    return before, after


def differences_of(sides: tuple[Sequence[float], Sequence[float]]) -> Floats:
    """Return head minus base by replicate."""
    before, after = (np.asarray(side, dtype=np.float64) for side in sides)
    return after - before


def judged_row(
    run: str,
    metric: str,
    sides: tuple[Sequence[float], Sequence[float]],
    limit: Limit | None,
    *,
    detail: str = "",
    floor: float = 0.0,
    of: float | None = None,
    differences: Floats | None = None,
) -> Row:
    """Judge a row: it differs if the difference exceeds three floors with one sign in each replicate.

    Args:
        run: its name, or a program's path.
        metric: one of `UNITS`.
        sides: values of base and head by replicate.
        limit: None if the row can't fail.
        detail: which system call.
        floor: as in `ExactEffects`.
        of: what a share of the limit is of; None for the row's own value of the base.
        differences: those of a sum: of its parts that differ, so that the floor of one part does not hide another; None to subtract.
    """
    before, after = sides
    parted, differences = differences is not None, differences_of(sides) if differences is None else differences
    effects = ExactEffects(differences, 0.0 if parted else floor, 0.0, len(before) + 1, UNITS[metric])
    sign = effects.sign if len(before) > 1 else int(np.sign(differences[0]))
    base = statistics.median(before)
    allowed = limit.of(base if of is None else of) if limit else 0.0
    beyond = limit is not None and sign > 0 and float(differences.min()) > allowed
    state: State = "worse" if beyond else "more" if sign > 0 else "fewer" if sign else "same"
    return Row(
        run=run,
        metric=metric,
        detail=detail,
        unit=UNITS[metric],
        base=base,
        head=statistics.median(after),
        difference=statistics.median(differences.tolist()),
        floor=floor,
        limit=limit.text if limit else "",
        state=state,
    )
