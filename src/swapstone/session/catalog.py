# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can be chosen: factors, workloads, suites, loads, targets, architectures, instruments, studies, records, published figures."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

import msgspec

from swapstone.artifacts import LIBRARIES, library_version
from swapstone.factors import all_factors
from swapstone.model import RecordError
from swapstone.model.architectures import ARCHITECTURES
from swapstone.record import default_root, list_records, load, record_name
from swapstone.report.document import Document
from swapstone.session.command_text import command_line
from swapstone.session.study_file import BadStudy, list_studies
from swapstone.session.values import format_duration
from swapstone.targets import target_kinds
from swapstone.workloads import LOADS, all_suites

__all__ = [
    "ARCHITECTURES",
    "LIBRARIES",
    "LISTS",
    "LOADS",
    "Rows",
    "all_factors",
    "all_suites",
    "check_published",
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
        if isinstance(study, BadStudy):
            rows.append([name, "", "", f"unreadable: {study.reason}"])
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


def _published() -> Rows:
    from swapstone.published import figures  # noqa: PLC0415 - reads a table that the other lists don't need

    head = ["study", "platform", "condition", "suite", "metric", "level", "value", "unit", "printed"]
    return head, [
        [f.study, f.platform, f.condition, f.suite, f.metric, f.level, f.value, f.unit, f.printed] for f in figures()
    ]


def _libraries() -> Rows:
    head = ["library", "version", "needs", "what it is"]
    return head, [
        [name, library_version(name), ",".join(library.needs), library.description]
        for name, library in LIBRARIES.items()
    ]


LISTS: dict[str, Callable[[], Rows]] = {
    "factors": _factors,
    "levels": _levels,
    "workloads": _workloads,
    "suites": _suites,
    "loads": _loads,
    "targets": _targets,
    "libraries": _libraries,
    "studies": _studies,
    "records": _records,
    "published": _published,
}
"""The lists of `swapstone list`, by name."""


def check_published() -> Document:
    """Return which of the numbers and statements of the published pages follow from their figures, as a report.

    tools/published-check has computed it.
    """
    return msgspec.json.decode(
        resources.files("swapstone.published").joinpath("check.json").read_bytes(), type=Document
    )
