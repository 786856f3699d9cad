# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inject faults into every operation of some work, and print a table of what became of it.

Each operation that changes a file or starts a process is a point: the process ends before it (crash), or in the middle of a write (torn),
or the operation fails once or from then on (ENOSPC, EIO, EMFILE). Then the next step is taken: the one that the error names, or after a
crash `--resume`, or the same command again. The result must be equal to that of an undisturbed run.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.injection import CHANGING, FAILURES, KINDS, Fault, Operation
from tests.faults.scenario import DefectError, Scenario
from tests.faults.scenarios import SCENARIOS, missing_programs
from tests.preloaded import import_all


class Outcome(NamedTuple):
    """What became of a fault.

    Attributes:
        scenario: its name.
        fault: which.
        operation: where.
        step: how the work reached its end; empty if it did not.
        defect: what is wrong; empty if nothing is.
    """

    scenario: str
    fault: Fault
    operation: Operation
    step: str
    defect: str


def faults_of(scenario: Scenario) -> list[tuple[Fault, Operation]]:
    """Return every fault of a scenario, in the order of the operations."""
    found: list[tuple[Fault, Operation]] = []
    for number, operation in enumerate(scenario.whole.operations):
        if operation.kind in CHANGING:
            found.append((Fault("crash", number), operation))
        if operation.kind == "write":
            found.append((Fault("torn", number), operation))
        for name, kinds in FAILURES.items():
            if operation.kind in kinds:
                found += [(Fault(name, number, lasting), operation) for lasting in (False, True)]
    return found


def sampled(faults: Sequence[tuple[Fault, Operation]], most: int) -> list[tuple[Fault, Operation]]:
    """Return about so many faults, of crashes twice their share, spread evenly, with the first and the last of each kind."""
    if not most or len(faults) <= most:
        return list(faults)
    by_kind: dict[str, list[tuple[Fault, Operation]]] = {}
    for each in faults:
        by_kind.setdefault(each[0].kind, []).append(each)
    weights = {kind: len(group) * (2 if kind == "crash" else 1) for kind, group in by_kind.items()}
    chosen: list[tuple[Fault, Operation]] = []
    for kind, group in by_kind.items():
        count = min(len(group), max(2, round(most * weights[kind] / sum(weights.values()))))
        if count < 2:
            chosen += group
            continue
        numbers = {round(index * (len(group) - 1) / (count - 1)) for index in range(count)}
        chosen += [group[number] for number in sorted(numbers)]
    return chosen


def examined(
    name: str,
    most: int,
    keep: Path | None = None,
    kinds: Sequence[str] = ("crash", "torn", *FAILURES),
    part: tuple[int, int] = (1, 1),
) -> Iterator[Outcome]:
    """Yield the outcome of each fault of a scenario.

    Args:
        name: of the scenario.
        most: how many faults; 0 for all.
        kinds: of faults.
        keep: a folder that is not removed; None for a temporary one.
        part: (i, n) for every n-th fault, from the i-th one: n parts together are all faults.
    """
    with contextlib.ExitStack() as undo:
        folder = keep or Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="swapstone-faults-")))
        scenario = SCENARIOS[name](Path(os.path.realpath(folder)) / name)
        faults = [each for each in faults_of(scenario) if each[0].kind in kinds]
        for number, (fault, operation) in enumerate(sampled(faults[part[0] - 1 :: part[1]], most)):
            step, defect = "", ""
            try:
                step = scenario.check(f"point-{number}", fault)
            except (DefectError, OSError, ValueError, KeyError) as error:
                defect = f"{type(error).__name__}: {error}"
            if keep is None:
                shutil.rmtree(scenario.folder / f"point-{number}", ignore_errors=True)
            where = Path(operation.path)
            shown = Operation(
                operation.kind, str(where.relative_to(folder)) if where.is_relative_to(folder) else where.name
            )
            yield Outcome(name, fault, shown, step, defect)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a Markdown table: a row for each scenario and kind of fault."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for each in outcomes:
        rows.setdefault((each.scenario, each.fault.kind), []).append(each)
    lines = [
        f"| work | fault | points | {' | '.join(KINDS)} | outcome |",
        f"|---|---|---:|{'---:|' * len(KINDS)}---|",
    ]
    for (name, kind), found in rows.items():
        counts = collections.Counter(each.operation.kind for each in found)
        steps = collections.Counter(each.step or "DEFECT" for each in found)
        outcome = ", ".join(f"{count} {step}" for step, count in steps.most_common())
        cells = " | ".join(str(counts[each] or "") for each in KINDS)
        lines.append(f"| {name} | {kind} | {len(found)} | {cells} | {outcome} |")
    return "\n".join(lines) + "\n"


def _all_outcomes(name: str, options: argparse.Namespace) -> list[Outcome]:
    import_all()
    found = []
    for outcome in examined(name, options.most, options.keep, options.faults.split(","), options.part):
        found.append(outcome)
        if options.json:
            print(_encoded(outcome), flush=True)
    return found


def _encoded(outcome: Outcome) -> str:
    return json.dumps({**outcome._asdict(), "fault": vars(outcome.fault), "operation": vars(outcome.operation)})


def _decoded(line: str) -> Outcome:
    found = json.loads(line)
    return Outcome(**{**found, "fault": Fault(**found["fault"]), "operation": Operation(**found["operation"])})


def _row_order(outcome: Outcome) -> tuple[int, int]:
    return list(SCENARIOS).index(outcome.scenario), ("crash", "torn", *FAILURES).index(outcome.fault.kind)


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count):
        raise ValueError(text)
    return int(number), int(count)


def _side_by_side(names: Sequence[str], options: argparse.Namespace) -> Iterable[list[Outcome]]:
    if options.jobs == 1:
        return [_all_outcomes(name, options) for name in names]
    with concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(_all_outcomes, name, options) for name in names]
        return [job.result() for job in jobs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and every defect; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="tools/crash-points", description=__doc__.partition("\n\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="WORK", help=f"of: {', '.join(SCENARIOS)}  [all]")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="about so many points of each  [all]")
    known = ",".join(("crash", "torn", *FAILURES))
    parser.add_argument("--faults", default=known, metavar="KIND,...", help=f"of: {known}  [all]")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="kinds of work at once")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the folders of defects here")
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="I/N", help="every N-th point, from the I-th one")
    parser.add_argument("--json", action="store_true", help="print each point as a line of JSON instead of the table")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="FILE", help="print the table of files that --json wrote"
    )
    options = parser.parse_args(arguments)
    if wrong := next((name for name in options.scenarios if name not in SCENARIOS), None):
        parser.error(f"there is no {wrong}; known: {', '.join(SCENARIOS)}")
    if options.table:
        lines = [line for path in options.table for line in path.read_text().splitlines()]
        return _show(sorted(map(_decoded, lines), key=_row_order), printed=False)
    names = []
    for name in options.scenarios or SCENARIOS:
        if missing := missing_programs(name):
            print(f"{name} is left out: {missing}", file=sys.stderr)
        else:
            names.append(name)
    return _show([outcome for found in _side_by_side(names, options) for outcome in found], printed=options.json)


def _show(outcomes: Sequence[Outcome], *, printed: bool) -> int:
    """Print the table, unless each outcome was printed as JSON already, and every defect; return the exit status."""
    if not printed:
        print(table(outcomes), end="")
    defects = [each for each in outcomes if each.defect]
    for each in defects:
        print(
            f"\n{each.scenario}, {each.fault}: {each.operation.kind} {each.operation.path}\n{each.defect}",
            file=sys.stderr,
        )
    if not printed:
        print(f"\n{len(outcomes)} points, {len(defects)} defects.")
    return 1 if defects else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the interpreter's end would print warnings of DuckDB's bindings about frozen objects
