# SPDX-License-Identifier: MIT OR Apache-2.0
"""The hint that continues a record until its undecided rows are decided."""

from __future__ import annotations

from tests.unit.builders import experiment
from tests.unit.report.test_throughput import comparison

from swapstone.core.report.answer.commands import longer_command
from swapstone.core.report.context import ReportContext


def _context(**changes: object) -> ReportContext:
    subject = experiment(budget_ns=60_000_000_000, margin=0.02, **changes)
    return ReportContext(
        experiment=subject, record_id="r", record_path="my record", started_unix_ns=1, finished_unix_ns=30_000_000_001
    )


def test_the_time_grows_with_the_square_of_the_width() -> None:
    """A half-width of 6 % needs 9 times as many pairs as the margin of 2 %."""
    row = comparison("w", (1.0,) * 20, (1.0,) * 20, low=1 / 1.06, high=1.06)
    assert longer_command(_context(), [row]) == "swapstone compare --resume 'my record' --budget 9m"
    assert (
        longer_command(_context(blocks=20), [row]) == "swapstone compare --resume 'my record' --budget 5m"
    )  # 9 x 30 s


def test_it_is_at_least_doubled_and_at_most_200_pairs() -> None:
    narrow = comparison("w", (1.0,) * 20, (1.0,) * 20, low=0.99, high=1.01)
    wide = comparison("w", (1.0,) * 20, (1.0,) * 20, low=0.5, high=2.0)
    none = comparison("w", (1.0,) * 3, (1.0,) * 3, low=None, high=None)
    assert longer_command(_context(), [narrow]).endswith(" --budget 2m")
    assert longer_command(_context(), [none]).endswith(" --budget 2m")
    assert longer_command(_context(), [narrow, wide]).endswith(" --budget 10m")
    whole = comparison("w", (1.0,) * 200, (1.0,) * 200, low=0.9, high=1.1)
    assert longer_command(_context(), [whole]) == ""
