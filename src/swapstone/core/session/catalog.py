# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can be chosen: factors, workloads, suites, loads, targets, architectures, instruments, studies, records."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from swapstone.core.factors import all_factors
from swapstone.core.model import RecordError, UserError
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.model.parts import provided
from swapstone.core.record import default_root, list_records, load, record_name
from swapstone.core.session.command_text import command_line
from swapstone.core.session.option_values import format_duration
from swapstone.core.session.study_file import list_studies
from swapstone.core.targets import target_kinds
from swapstone.core.workloads import LOADS, all_suites

__all__ = [
    "ARCHITECTURES",
    "Listing",
    "Rows",
    "all_factors",
    "all_lists",
    "all_suites",
    "default_root",
    "list_records",
    "record_name",
    "target_kinds",
]

Rows = tuple[list[str], list[list[object]]]
"""The heads of a table's columns, and its rows."""


def _factors() -> Rows:
    head = ["factor", "stage", "levels", "what it is"]
    return head, [
        [f.name, f.stage.value, ",".join(level.name for level in f.levels), f.description] for f in all_factors()
    ]


def _levels() -> Rows:
    head = ["factor", "level", "needs", "package", "what it is"]
    return head, [
        [factor.name, level.name, " ".join(level.needs), level.package, level.description]
        for factor in all_factors()
        for level in (*factor.levels, *getattr(factor, "forms", ()))
    ]


def _workloads() -> Rows:
    head = ["suite", "workload", "processors", "what one pass does"]
    return head, [
        [suite.name, workload.name, workload.cpus.value, workload.description]
        for suite in all_suites()
        for workload in suite.workloads
    ]


def _loads() -> Rows:
    return ["load", "what it is", "what runs meanwhile"], [
        [load.name, load.description, "; ".join(load.beside)] for load in LOADS
    ]


def _targets() -> Rows:
    head = ["target", "usage", "clocks", "what it is"]
    return head, [[kind.name, kind.usage, ",".join(kind.clocks), kind.description] for kind in target_kinds()]


def _suites() -> Rows:
    return ["suite", "workloads", "what it is"], [
        [suite.name, len(suite.workloads), suite.description] for suite in all_suites()
    ]


def _studies() -> Rows:
    rows: list[list[object]] = []
    for name, study in list_studies():
        if isinstance(study, UserError):
            rows.append([name, "", "", f"unreadable: {study.message}"])
        else:
            budget = format_duration(study.total_budget_ns)
            rows.append([name, len(study.part) or 1, budget, study.question])
    return ["study", "parts", "budget", "question"], rows


def _records() -> Rows:
    rows: list[list[object]] = []
    for path in list_records():
        try:
            view = load(path)
        except RecordError as error:
            rows.append([record_name(path), "", "unreadable", "", error.message])
            continue
        factors = " ".join(f"{choice.factor}={','.join(choice.levels)}" for choice in view.experiment.factors)
        title = " ".join(filter(None, (factors, command_line(view.experiment))))
        state = view.seal.state if view.seal else "unsealed"
        rows.append([record_name(path), view.meta.created, state, len(view.runs), title])
    return ["record", "created", "state", "runs", "experiment"], rows


class Listing(NamedTuple):
    """A list of `swapstone list`: parts provide some, of the kind ``list``.

    Attributes:
        name: on the command line.
        rows: returns its table.
        order: lists are named in it.
    """

    name: str
    rows: Callable[[], Rows]
    order: int


_LISTS = (
    Listing("factors", _factors, 10),
    Listing("levels", _levels, 20),
    Listing("workloads", _workloads, 30),
    Listing("suites", _suites, 40),
    Listing("loads", _loads, 50),
    Listing("targets", _targets, 60),
    Listing("studies", _studies, 80),
    Listing("records", _records, 90),
)


@functools.cache
def all_lists() -> dict[str, Callable[[], Rows]]:
    """Return the lists of `swapstone list`, by name."""
    lists = sorted((*_LISTS, *provided("list", Listing)), key=lambda each: each.order)
    return {each.name: each.rows for each in lists}
