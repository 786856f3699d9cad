# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can be chosen: factors, workloads, suites, loads, targets, architectures, instruments, studies, records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from swapstone.core.artifacts.distribution_packages import packages_of
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
    "all_factors",
    "all_lists",
    "all_suites",
    "default_root",
    "list_records",
    "record_name",
    "target_kinds",
]


class Listing(NamedTuple):
    """A list of `swapstone list`: parts provide some, of the kind ``list``.

    Attributes:
        name: on the command line.
        head: the heads of its columns.
        rows: returns its rows.
        order: lists are named in it.
    """

    name: str
    head: tuple[str, ...]
    rows: Callable[[], Iterable[Sequence[object]]]
    order: int


def _studies() -> Iterator[Sequence[object]]:
    for name, study in list_studies():
        if isinstance(study, UserError):
            yield name, "", "", f"unreadable: {study.message}"
        else:
            yield name, len(study.part) or 1, format_duration(study.total_budget_ns), study.question


def _records() -> Iterator[Sequence[object]]:
    for path in list_records():
        try:
            view = load(path)
        except RecordError as error:
            yield record_name(path), "", "unreadable", "", error.message
            continue
        factors = " ".join(choice.text for choice in view.experiment.factors)
        title = " ".join(filter(None, (factors, command_line(view.experiment))))
        state = view.seal.state if view.seal else "unsealed"
        yield record_name(path), view.meta.created, state, len(view.runs), title


_LISTS = (
    Listing(
        "factors",
        ("factor", "stage", "levels", "what it is"),
        lambda: (
            (each.name, each.stage.value, ",".join(level.name for level in each.levels), each.description)
            for each in all_factors()
        ),
        10,
    ),
    Listing(
        "levels",
        ("factor", "level", "needs", "package", "what it is"),
        lambda: (
            (factor.name, level.name, " ".join(level.needs), packages_of(level.needs), level.description)
            for factor in all_factors()
            for level in (*factor.levels, *getattr(factor, "forms", ()))
        ),
        20,
    ),
    Listing(
        "workloads",
        ("suite", "workload", "processors", "what one pass does"),
        lambda: (
            (suite.name, workload.name, workload.cpus.value, workload.description)
            for suite in all_suites()
            for workload in suite.workloads
        ),
        30,
    ),
    Listing(
        "suites",
        ("suite", "workloads", "what it is"),
        lambda: ((suite.name, len(suite.workloads), suite.description) for suite in all_suites()),
        40,
    ),
    Listing(
        "loads",
        ("load", "what it is", "what runs meanwhile"),
        lambda: ((load.name, load.description, "; ".join(load.beside)) for load in LOADS),
        50,
    ),
    Listing(
        "targets",
        ("target", "usage", "clocks", "what it is"),
        lambda: ((kind.name, kind.usage, ",".join(kind.clocks), kind.description) for kind in target_kinds()),
        60,
    ),
    Listing("studies", ("study", "parts", "budget", "question"), _studies, 80),
    Listing("records", ("record", "created", "state", "runs", "experiment"), _records, 90),
)


@functools.cache
def all_lists() -> dict[str, Listing]:
    """Return the lists of `swapstone list`, by name."""
    return {each.name: each for each in sorted((*_LISTS, *provided("list", Listing)), key=lambda each: each.order)}
