# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which workload does the work of a published row of lmbench, UnixBench and CoreMark: measured_rows.csv."""

from __future__ import annotations

import msgspec

from swapstone.model import FrozenStruct
from swapstone.published.data import rows_of


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


MEASURED_ROWS: tuple[MeasuredRow, ...] = msgspec.convert(
    list(rows_of("measured_rows.csv")), tuple[MeasuredRow, ...], strict=False
)
"""Every row, in the order of the pages' tables. UnixBench's index is computed from its rows."""

LMBENCH, UNIXBENCH, COREMARK = (
    tuple(row for row in MEASURED_ROWS if row.suite == suite) for suite in ("lmbench", "unixbench", "coremark")
)
