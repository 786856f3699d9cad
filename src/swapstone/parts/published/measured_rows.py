# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which workload does the work of a published row of lmbench, UnixBench and CoreMark: measured_rows.csv."""

from __future__ import annotations

import functools

import msgspec

from swapstone.core.model import FrozenStruct
from swapstone.parts.published.data import rows_of, shipped


class MeasuredRow(FrozenStruct, frozen=True, kw_only=True):
    """A published row and the workload with the same work.

    Attributes:
        suite, metric, unit, condition: of the published figures; they name one row of the page.
        own_suite, workload: measured here.
        less: the workload whose time is subtracted, as the published program subtracts it; empty for none.
        plus: the workload whose time was subtracted from that of `less` before, so that it is added here; empty for none.
        same_kind: whether the workload is other work of the same kind: then ratios can be compared and values can't.
    """

    suite: str
    metric: str
    unit: str
    condition: str
    own_suite: str
    workload: str
    less: str
    plus: str
    same_kind: bool


@functools.cache
def measured_rows(suite: str = "") -> tuple[MeasuredRow, ...]:
    """Return the rows of a suite of the pages, or all, in the order of the pages' tables.

    UnixBench's index is computed from its rows.
    """
    with shipped("measured_rows.csv") as text:
        found = msgspec.convert(list(rows_of(text)), tuple[MeasuredRow, ...], strict=False)
    return tuple(row for row in found if suite in {"", row.suite})
