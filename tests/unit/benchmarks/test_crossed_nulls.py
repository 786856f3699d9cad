# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of crossed nulls: its factors without effect, and its counts on synthetic records."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from benchmarks import crossed_nulls

from swapstone.factors import Evidence, ProgramFacts, Recipe
from swapstone.model import FactorLevels
from swapstone.record import RecordWriter
from tests.unit import builders

FACTORS = (FactorLevels(factor="left", levels=("a", "b")), FactorLevels(factor="right", levels=("a", "b")))


def record(path: Path, seed: int, *, interaction: float = 1.0, factors: tuple[FactorLevels, ...] = FACTORS) -> Path:
    """Write a record with 1 % noise. `interaction` multiplies the times of the variant with both second levels."""
    subject, random = builders.experiment(factors=factors), np.random.default_rng(seed)
    with RecordWriter.create(path, subject) as writer:
        for run in builders.runs(subject, 20):
            both = run.trial.variant == crossed_nulls.SLOWED
            value = float(1000 * np.exp(random.normal(0, 0.01)) * (interaction if both else 1.0))
            samples = tuple(msgspec.structs.replace(sample, values=(value,)) for sample in run.samples)
            writer.append(msgspec.structs.replace(run, samples=samples))
    return path


def counted(printed: str, section: str, line: str) -> tuple[int, int]:
    """Return the hits and the trials of one line of a section."""
    part = printed.split(f"\n{section}")[1]
    found = re.search(re.escape(line) + r"\s+(\d+) of (\d+)", part)
    assert found, printed
    return int(found[1]), int(found[2])


@pytest.mark.slow
def test_nulls_are_counted_by_row_and_by_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(record(tmp_path / f"r{seed}", seed)) for seed in range(5)]
    assert crossed_nulls.main(["--count", *paths]) == 0
    printed = capsys.readouterr().out
    assert "5 experiments with 2 x 2 levels without effect, 20 blocks each." in printed
    # Two workloads by two times by two factors, five times; one table of them all for each experiment.
    assert counted(printed, "main effects", "before correction")[1] == 40
    assert counted(printed, "interactions", "before correction")[1] == 20
    assert counted(printed, "interactions", "without 1")[1] == 5
    assert counted(printed, "interactions", "without 1")[0] <= 2
    # The index of each of the two times is a table of its own.
    assert counted(printed, "index: interactions", "without 1")[1] == 10


@pytest.mark.slow
def test_a_planted_effect_of_10_percent_is_always_detected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(record(tmp_path / f"r{seed}", seed)) for seed in range(5)]
    assert crossed_nulls.main(["--count", *paths]) == 0
    printed = capsys.readouterr().out
    small, large = (counted(printed, f"  {size:3} %", "workload without 1") for size in (2, 10))
    assert small[1] == large[1] == 10
    assert large[0] == 10 >= small[0]


def test_a_real_interaction_is_counted_as_an_alarm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert crossed_nulls.main(["--count", str(record(tmp_path / "r", 1, interaction=1.5))]) == 0
    printed = capsys.readouterr().out
    assert counted(printed, "interactions", "reported as present") == (4, 4)
    assert counted(printed, "interactions", "without 1") == (1, 1)


def test_levels_are_observed_from_the_recorded_switches() -> None:
    for factor in (crossed_nulls.LEFT, crossed_nulls.RIGHT):
        for level in ("a", "b"):
            noted = ("GNU C11 " + " ".join(factor.apply(level, Recipe()).cflags),)
            evidence = Evidence(interp=None, objects=(), program=ProgramFacts(path="/p", switches=noted))
            assert factor.observe(evidence) == level
        assert factor.observe(Evidence(interp=None, objects=(), program=ProgramFacts(path="/p"))) is None
        assert factor.observe(Evidence(interp=None, objects=())) is None


def test_other_records_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    libc = (FactorLevels(factor="libc", levels=("glibc", "musl")),)
    assert crossed_nulls.main(["--count", str(record(tmp_path / "r", 1, factors=libc))]) == 2
    assert "is no record of this benchmark" in capsys.readouterr().err
