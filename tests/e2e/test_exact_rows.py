# SPDX-License-Identifier: MIT OR Apache-2.0
"""A comparison of exact values, from the options to the exports: the fake target without noise, as if it had the virtual clock."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import swapstone
from swapstone.core.model import FactorLevels, UserError
from swapstone.core.session.outcome import parse_fail_if
from swapstone.core.session.request import resolve
from swapstone.core.targets import registry
from swapstone.core.targets.fake import FAKE
from swapstone.exit_status import ExitStatus
from tests.small_records import compared, request_of

ONE, TWO = "b_malloc_tiny1", "b_malloc_tiny2"
SPEC = "[[behaviour]]\nwall_ns = 10_000_000\nwander = 0.02\nminflt = 100\n"


@pytest.fixture
def virtual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the fake target have the virtual clock. Its values depend on the block alone, where they have no noise."""
    monkeypatch.setattr(registry, "FAKE", msgspec.structs.replace(FAKE, clocks=("virtual", "wall")))
    registry.target_kinds.cache_clear()
    yield
    monkeypatch.undo()
    registry.target_kinds.cache_clear()


def record_of(folder: Path, *candidates: str, **options: Any) -> swapstone.Record:
    """Return a record of two replicates; each candidate is lines for the workload of its number."""
    lines = [
        f'[[behaviour]]\nvariant = "libc=musl*"\nworkload = "{work}"\n{text}\n'
        for work, text in zip((ONE, TWO), candidates, strict=False)
    ]
    (folder / "fake.toml").write_text(SPEC + "".join(lines))
    usual = {"libc": ["glibc", "musl"], "only": [ONE, TWO][: len(candidates)], "blocks": 2, "seed": 5}
    return compared(**{**usual, "target": f"fake:{folder}/fake.toml", "out": folder / "record", **options})


@pytest.mark.usefixtures("virtual")
def test_a_difference_below_the_margin(tmp_path: Path) -> None:
    record = record_of(tmp_path, "wall_ns = 10_009_000\nminflt = 101")
    assert (record.experiment.margin, record.experiment.clock) == (0.001, "virtual")
    shown = " ".join(record.report().split())
    assert shown.startswith(
        "musl is 0.09 % slower than glibc, below the margin of 0.1 % on b_malloc_tiny1 (virtual clock)."
    )
    assert "+0.09000 %" in shown and "too few" not in shown.lower() and "same median" not in shown
    rows = {row["metric"]: row for row in csv.DictReader(record.report("csv").splitlines())}
    wall, faults = rows["wall"], rows["minflt"]
    assert (wall["verdict"], wall["exact"], wall["p_value"]) == ("below margin", "true", "")
    assert float(wall["low"]) <= float(wall["effect"]) <= float(wall["high"])
    assert float(wall["difference_floor"]) == pytest.approx(0.00025)
    assert (faults["verdict"], faults["exact"], float(faults["effect"])) == ("worse", "true", 1.01)


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize(
    ("options", "margin"),
    [
        ({}, 0.001),
        ({"margin": "1%"}, 0.01),
        ({"published": "musl-malloc"}, 0.02),
        ({"layouts": 2}, 0.02),
        ({"clock": "wall"}, 0.02),
    ],
)
def test_the_margin_of_exact_values(options: dict[str, Any], margin: float) -> None:
    factors = [FactorLevels(factor="libc", levels=("glibc", "musl"))]
    usual = {"only": [ONE], "target": "fake:x.toml"}
    assert resolve(request_of(factors, **{**usual, **options})).margin == margin


@pytest.mark.usefixtures("virtual")
def test_fail_if_below_the_margin_of_the_experiment(tmp_path: Path) -> None:
    record = record_of(tmp_path, "wall_ns = 10_009_000")
    for condition, status in (("worse:0.05%", ExitStatus.WORSE), ("worse:0.1%", ExitStatus.SUCCESS)):
        assert record.outcome(parse_fail_if([condition])).status is status
    assert [row.metric.name for row in record.worse("0.05%")] == ["wall", "cpu"] and not record.worse()
    other = record_of(tmp_path, "wall_ns = 10_009_000", clock="wall", out=tmp_path / "other")
    with pytest.raises(UserError, match="is below the experiment's margin of 2 %"):
        other.worse("0.05%")


@pytest.mark.usefixtures("virtual")
def test_no_index_over_rows_of_opposite_signs(tmp_path: Path) -> None:
    record = record_of(tmp_path, "wall_ns = 10_200_000", "wall_ns = 9_700_000")
    assert not record.analysis().indices
    text = " ".join(record.report().split())
    assert "musl has no common ratio to glibc in elapsed time" in text and "time, index" not in text
    assert "1 of 2 is slower and 1 faster" in text
