# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads: the programs that are measured, their suites, and the samples in their output."""

from __future__ import annotations

from swapstone.core.model import OWN_SUITE, REFERENCE_SUITE, Experiment, Suite, Workload, find_named
from swapstone.core.workloads.loads import LOADS, find_load
from swapstone.core.workloads.own_workload import (
    REFERENCE,
    own_names,
    own_samples,
    own_workload,
    reference_program,
    reference_workload,
)
from swapstone.core.workloads.printed_numbers import METRIC_EXAMPLE, parse_metric, undirected
from swapstone.core.workloads.server_metrics import server_samples
from swapstone.core.workloads.shared_machine_loads import filled_load, programs_of, shared_machine_load
from swapstone.core.workloads.suites import all_suites

__all__ = [
    "LOADS",
    "METRIC_EXAMPLE",
    "REFERENCE",
    "all_suites",
    "filled_load",
    "find_load",
    "find_suite",
    "find_workload",
    "own_names",
    "own_samples",
    "own_workload",
    "parse_metric",
    "programs_of",
    "reference_program",
    "server_samples",
    "shared_machine_load",
    "undirected",
    "with_wakeups",
    "workloads_by_name",
    "workloads_of",
]


def find_suite(name: str) -> Suite:
    """Return the suite of a name.

    Raises:
        UserError: there is none; the hint gives near names.
    """
    return find_named("suite", name, {suite.name: suite for suite in all_suites()})


def find_workload(suite: str, name: str) -> Workload:
    """Return the workload of a suite by its exact name.

    Raises:
        UserError: there is no such suite, or it has no such workload; the hint gives near names.
    """
    workloads = find_suite(suite).workloads
    return find_named("workload", name, {workload.name: workload for workload in workloads})


def workloads_of(experiment: Experiment, *, installed: bool = False) -> dict[tuple[str, str], Workload]:
    """Return every workload of an experiment by (suite, name), in its order, own programs included.

    Args:
        experiment: names them.
        installed: whether to leave out those of suites that this program does not have.

    Raises:
        UserError: this version of Swapstone has no such workload.
    """
    made = {OWN_SUITE: own_workload, REFERENCE_SUITE: lambda experiment, _name: reference_workload(experiment)}
    found = {
        (suite, name): made[suite](experiment, name) if suite in made else find_workload(suite, name)
        for suite, name in experiment.workloads
        if not installed or suite in made or any(each.name == suite for each in all_suites())
    }
    count = experiment.wakeups
    return {place: with_wakeups(each, count) for place, each in found.items()} if count else found


def with_wakeups(workload: Workload, count: int) -> Workload:
    """Return a workload with another number of wake-ups in a trial; one that measures none unchanged."""
    for suite in all_suites():
        if suite.with_wakeups is not None:
            workload = suite.with_wakeups(workload, count)
    return workload


def workloads_by_name(experiment: Experiment) -> dict[str, Workload]:
    """Return every workload of an experiment by name, as `workloads_of`."""
    return {name: workload for (_, name), workload in workloads_of(experiment).items()}
