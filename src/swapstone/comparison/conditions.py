# SPDX-License-Identifier: MIT OR Apache-2.0
"""Did all runs have the same conditions, and did time pass in which nothing could run?

Three checks, each of which gives a caveat. Runs whose inherited conditions differ from the first run of their session are refused when
they are measured (docs/wire.md, "Changed conditions"), so the first check finds differences between sessions, and counts those runs.

1. What every trial inherits (`INHERITED`), compared with the first run of the record.
2. The nice value and the number of processors at the end of a program, compared between all runs of a workload.
3. Elapsed time that is neither processor time nor the main thread's delay on the run queue, compared with the median of the same variant;
   and timers of the agent that woke it too late. A program that sleeps, and one that is stopped, can't be distinguished in one run.

A virtual machine has conditions of its own in each trial, and on the virtual clock no time passes outside it.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterator, Mapping, Sequence

from swapstone.comparison.cells import Group
from swapstone.comparison.findings import Findings
from swapstone.model import Caveat, CaveatKind, Experiment, Run, Status, Variant, Workload
from swapstone.model.trial_conditions import INHERITED, describe_conditions, different_conditions

STILL_NS = 1_000_000_000
"""Time without any work above this is reported: no queue of a busy machine delays a runnable process so long."""

STILL_RATIO = 10.0
"""It must also be this multiple of the median, as programs may sleep."""

FEWEST_RUNS = 5
"""Fewer runs of a variant have no median to compare with."""

_LARGEST = 2**53
"""Larger numbers of a record are no measurements."""

_OF_PROGRAM = {"nice": "nice value", "cpus_allowed": "number of processors"}
_MOST_SHOWN = 3


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, Workload], runs: Sequence[Run]
) -> Findings:
    """Return the caveats; arguments as `swapstone.comparison.checks.check`."""
    del variants, workloads
    if experiment.virtual:
        return Findings()
    measured = [(run, facts) for run in runs if (facts := _facts(run))]
    return Findings(caveats=(*_inherited(measured), *_of_programs(measured), *_still(measured), *_late(measured)))


def _facts(run: Run) -> dict[str, int]:
    return {name: value for name, value in run.facts if -20 <= value < _LARGEST}


def _inherited(measured: Sequence[tuple[Run, Mapping[str, int]]]) -> Iterator[Caveat]:
    known = [(run, facts) for run, facts in measured if facts.keys() & INHERITED.keys()]
    if not known:
        return
    first = known[0][1]
    different = [(run, facts, names) for run, facts in known if (names := different_conditions(first, facts))]
    if different:
        run, facts, names = different[0]
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"What trials inherit was not the same in all runs: {len(different)} of {len(known)} differ from the first one. "
            f"In {_named(run)}: {describe_conditions(names, facts, first)}.",
            hint="A program that changes its parent did this, or another program, the system's settings, or a session that was resumed "
            "elsewhere. Repeat the experiment under constant conditions: swapstone rerun",
        )


def _of_programs(measured: Sequence[tuple[Run, Mapping[str, int]]]) -> Iterator[Caveat]:
    """Yield differences between the processes of one workload at their ends."""
    for fact, words in _OF_PROGRAM.items():
        found: dict[Group, dict[str, collections.Counter[int]]] = {}
        for run, facts in measured:
            if run.status is Status.OK and fact in facts:
                of_group = found.setdefault((run.trial.suite, run.trial.workload, run.trial.load), {})
                of_group.setdefault(run.trial.variant, collections.Counter())[facts[fact]] += 1
        unequal = [
            group for group, counts in found.items() if len({value for each in counts.values() for value in each}) > 1
        ]
        if unequal:
            values = ", ".join(
                f"{' or '.join(str(value) for value, _ in counts.most_common())} ({variant})"
                for variant, counts in list(found[unequal[0]].items())[:_MOST_SHOWN]
            )
            others = f", and {len(unequal) - 1} more workloads" if len(unequal) > 1 else ""
            yield Caveat(
                kind=CaveatKind.CHANGED_CONDITIONS,
                message=f"Runs of {unequal[0][1]}{others} ended with different values of the {words}: {values}.",
                hint="If a program or its command sets this, the comparison includes its effect.",
            )


def _still(measured: Sequence[tuple[Run, Mapping[str, int]]]) -> Iterator[Caveat]:
    """Yield runs in which much more time passed without work than in others of the same variant."""
    times: dict[tuple[Group, str], list[tuple[Run, int]]] = {}
    for run, facts in measured:
        if run.status is Status.OK and (time_ns := _idle_ns(facts)) is not None:
            group = run.trial.suite, run.trial.workload, run.trial.load
            times.setdefault((group, run.trial.variant), []).append((run, time_ns))
    found = []
    for mine in times.values():
        median = statistics.median(time_ns for _, time_ns in mine)
        if len(mine) >= FEWEST_RUNS:
            found += [
                (time_ns, median, run)
                for run, time_ns in mine
                if time_ns > max(median + STILL_NS, STILL_RATIO * median)
            ]
    if found:
        time_ns, median, run = max(found, key=lambda each: each[0])
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"In {_runs(len(found))} a program neither ran nor waited for a processor for much longer than usual: in {_named(run)} "
            f"for {time_ns / 1e9:.3g} s, at the median for {median / 1e9:.3g} s.",
            hint="It may have been stopped or frozen from outside, or have waited for storage or for the network. Such runs change the "
            "mean and the tail.",
        )


def _late(measured: Sequence[tuple[Run, Mapping[str, int]]]) -> Iterator[Caveat]:
    found = [(late_ns, run) for run, facts in measured if (late_ns := facts.get("late_ns", 0)) >= STILL_NS]
    if found:
        late_ns, run = max(found, key=lambda each: each[0])
        yield Caveat(
            kind=CaveatKind.CHANGED_CONDITIONS,
            message=f"In {_runs(len(found))} a timer woke the agent more than a second too late: in {_named(run)} {late_ns / 1e9:.3g} s.",
            hint="All processes or the machine stood still, or memory was short. Repeat the experiment on a machine that is not paused.",
        )


def _idle_ns(facts: Mapping[str, int]) -> int | None:
    """Return the elapsed time that is neither processor time nor the main thread's run-queue delay; None if unknown."""
    if not {"wall_ns", "user_us", "system_us", "run_delay_ns"} <= facts.keys():
        return None
    used_ns = 1000 * (facts["user_us"] + facts["system_us"]) + facts["run_delay_ns"]
    return max(0, facts["wall_ns"] - used_ns)


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"


def _named(run: Run) -> str:
    return f"block {run.trial.block} of {run.trial.workload} with {run.trial.variant}"
