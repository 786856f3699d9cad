# SPDX-License-Identifier: MIT OR Apache-2.0
"""Conditions of runs are compared on targets whose trials share a machine, and not where each boots one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import CURRENT_RULES, CaveatKind
from swapstone.core.record import RecordWriter, load
from swapstone.core.session.analysis import analyse_record
from tests.unit import builders


@pytest.mark.parametrize(("target", "expected"), [("host", 1), ("vm", 0), ("vm:rt", 0)])
def test_changed_conditions_are_a_caveat_where_trials_share_a_machine(
    tmp_path: Path, target: str, expected: int
) -> None:
    experiment = builders.experiment(target=target, rules=CURRENT_RULES)
    with RecordWriter.create(tmp_path / "r", experiment) as writer:
        for number, run in enumerate(builders.runs(experiment, 4)):
            writer.append(msgspec.structs.replace(run, facts=(("late_ns", 60 * 10**9 if number == 9 else 0),)))
        writer.seal("complete", "test", "")
    found = analyse_record(load(tmp_path / "r"))
    assert sum(each.kind is CaveatKind.CHANGED_CONDITIONS for each in found.caveats) == expected
