# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of what the instruments cost."""

from __future__ import annotations

import msgspec

from swapstone.parts.explain.model.explanation import (
    InstrumentCost,
    InstrumentResult,
    Reference,
    RowKey,
    RowMeasurements,
)
from swapstone.parts.explain.report.instrument_costs import instrument_cost_rows


def _side(variant: str) -> Reference:
    return Reference(variant=variant, program_sha256="", recorded=1.0, metrics=(("wall", 1.0),), runs=8)


def _run(variant: str, overhead: float | None) -> InstrumentResult:
    return InstrumentResult(
        instrument="on-cpu", tool="", variant=variant, command="", operations=1.0, overhead=overhead
    )


SEEN = RowMeasurements(
    place=RowKey(suite="own", workload="w", load="", metric="cpu", baseline="a", candidate="b"),
    unit="ns",
    ledger_metric="cpu",
    references=(_side("a"), _side("b")),
    runs=(_run("a", 1.25), _run("b", None)),
    missing=(),
    costs=(
        InstrumentCost(instrument="reference", seconds=16.0, trial_s=2.0),
        InstrumentCost(instrument="on-cpu", seconds=20.0, trial_s=2.0),
        InstrumentCost(instrument="waits", seconds=0.5, trial_s=2.0),
    ),
)


def test_each_instrument_has_its_time_its_trials_and_its_overheads() -> None:
    assert instrument_cost_rows(SEEN) == [
        ("none", "16.0 s", "8", "", ""),
        ("on-cpu", "20.0 s", "10", "1.25", ""),
        ("waits (unavailable)", "0.5 s", "0", "", ""),
        ("all", "36.5 s", "18", "", ""),
    ]


def test_evidence_from_before_costs_were_kept_has_no_table() -> None:
    assert instrument_cost_rows(msgspec.structs.replace(SEEN, costs=())) == []
