# SPDX-License-Identifier: MIT OR Apache-2.0
"""What decoded values mean is checked: what the program writes passes, and what no computation could use is named."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from swapstone.core.model import (
    CommandLine,
    Direction,
    Experiment,
    FactorLevels,
    LoadGenerator,
    Metric,
    OwnProgram,
    PrintedNumber,
    Quantity,
    Run,
    Sample,
)
from swapstone.core.model.frozen_struct import LONGEST_TEXT, amount_problem
from swapstone.core.plan import variants
from swapstone.core.record import Manifest, Meta, Seal, validation
from swapstone.core.record.validation import experiment_problem, run_check
from tests.unit import builders

METRIC = Metric(name="n", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="m")


def _own(**changes: Any) -> Experiment:
    program = msgspec.structs.replace(OwnProgram(name="work", arguments=("true",)), **changes)
    return builders.experiment(own=program, workloads=(("own", "work"),))


@pytest.mark.parametrize("null", [False, True])
def test_labels_are_those_of_the_plan(null: bool) -> None:
    factors = (FactorLevels(factor="libc", levels=("a", "b", "c")), FactorLevels(factor="x", levels=("d", "e")))
    experiment = builders.experiment(factors=factors, null=null)
    assert set(validation.labels_of(experiment)) >= {variant.label for variant in variants(experiment)}
    assert len(validation.labels_of(experiment)) == 6 + 2 * null


@pytest.mark.parametrize(
    "experiment",
    [
        builders.experiment(),
        builders.experiment(null=True, layouts=1000, blocks=10_000, seed=-(2**40), rules=2),
        builders.experiment(confidence=0.9999, margin=1e-4, held=(("optimization", "Os"),)),
        _own(parameters=(("N", tuple(map(str, range(1000)))),)),
        _own(numbers=(PrintedNumber(metric=METRIC, pattern="a=([0-9]+)"),)),
        _own(commands=(CommandLine(name="a", words=("x",)),), arguments=()),
        _own(load_generators=(LoadGenerator(command=("ab",), reader="regex:(?P<requests>x)"),)),
    ],
)
def test_what_the_program_writes_passes(experiment: Experiment) -> None:
    assert experiment_problem(experiment) == ""


@pytest.mark.parametrize("count", [2, 1024])
def test_the_number_of_variants_is_computed_before_they_are_built(count: int) -> None:
    levels = tuple(map(str, range(count)))
    factors = tuple(FactorLevels(factor=f"f{number}", levels=levels) for number in range(2 if count == 2 else 30))
    problem = experiment_problem(builders.experiment(factors=factors))
    assert problem == ("" if count == 2 else f"it has {1024**30} variants, more than the 1024 that are read")


def test_the_largest_experiment_that_is_read() -> None:
    levels = tuple(map(str, range(validation.MOST_VARIANTS)))
    factors = (FactorLevels(factor="f", levels=levels),)
    assert experiment_problem(builders.experiment(factors=factors)) == ""
    workloads = tuple(("libc", f"w{number}") for number in range(98))
    assert "trials" in experiment_problem(builders.experiment(factors=factors, workloads=workloads))


def test_labels_that_collide_are_named() -> None:
    factors = (FactorLevels(factor="a", levels=("x", "x (again)")),)
    assert "same name" in experiment_problem(builders.experiment(factors=factors, null=True))


@pytest.mark.parametrize("why", ["x" * (LONGEST_TEXT + 1), "a\0b"])
def test_a_text_of_a_seal_or_an_identity_that_no_command_line_can_hold_is_named(why: str) -> None:
    """Every text is checked, not only those with a form of their own."""
    seal = Seal(runs=1, chain="", state="complete", why=why, verdicts="", manifest="", experiment="", sessions=1)
    assert validation.seal_problem(seal).startswith("a text has ")
    assert "64 bits" in validation.seal_problem(msgspec.structs.replace(seal, why="", runs=2**64))
    meta = Meta(id="x", created="2026-01-31T10:20:30+00:00", swapstone=why)
    assert validation.meta_problem(meta).startswith("a text has ")


def test_numbers_of_seal_manifest_and_identity() -> None:
    seal = Seal(runs=1, chain="", state="complete", why="", verdicts="", manifest="", experiment="", sessions=1)
    assert validation.seal_problem(seal) == ""
    assert validation.seal_problem(msgspec.structs.replace(seal, runs=-1))
    assert validation.seal_problem(msgspec.structs.replace(seal, state="broken"))
    manifest = Manifest(machine=(), tools=(), artifacts=(), passes=(("libc", "w", 1),))
    assert validation.manifest_problem(manifest) == ""
    assert validation.manifest_problem(msgspec.structs.replace(manifest, passes=(("libc", "w", 0),)))
    meta = Meta(id="x", created="2026-01-31T10:20:30+00:00", swapstone="1")
    assert validation.meta_problem(meta) == ""
    for wrong in ("", "2026-01-31", "2026-02-31T10:20:30+00:00", "2026-01-31T10:20:30", "0001-01-01T00:00:00+00:00"):
        assert "no time in UTC" in validation.meta_problem(msgspec.structs.replace(meta, created=wrong))


def test_every_run_of_an_experiment_passes() -> None:
    experiment = builders.experiment(null=True)
    check = run_check(experiment)
    runs = list(builders.runs(experiment, 2))
    assert len(runs) == 3 * 2 * 4
    assert [check(run) for run in runs] == [""] * len(runs)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"samples": (Sample(metric="wall", values=(1e-300,)),)}, "wall is too close to 0"),
        ({"samples": (Sample(metric="wall", values=(5.0, -1e-300)),)}, "wall is too close to 0"),
        ({"samples": (Sample(metric="wall", values=(0.0, -5.0)),)}, ""),
        ({"samples": (Sample(metric="wall", values=()),)}, ""),
        ({"series": (Sample(metric="a", values=(1.0,)), Sample(metric="b", values=()))}, "not equally long"),
        ({"histogram": ((1, 5), (1, 6))}, "not ascending"),
        ({"histogram": ((1, 5), (2, 0))}, ""),
    ],
)
def test_values_of_a_run(changes: dict[str, Any], problem: str) -> None:
    experiment = builders.experiment()
    run = msgspec.structs.replace(next(builders.runs(experiment, 0)), **changes)
    found = run_check(experiment)(run)
    assert problem in found and bool(problem) == bool(found)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": (Sample(metric="wall", values=(1e61,)),)},
        {"samples": (Sample(metric="wall", values=(-1e61,)),)},
        {"facts": (("wall_ns", 2**64),)},
        {"elapsed_ns": -1},
        {"histogram": ((5, -1),)},
        {"reason": "x" * ((1 << 20) + 1)},
    ],
)
def test_the_decoder_rejects_values_out_of_bounds(changes: dict[str, Any]) -> None:
    run = next(builders.runs(builders.experiment(), 0))
    assert msgspec.json.decode(run.encoded(), type=Run) == run
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(run, **changes)), type=Run)


def test_infinite_values_are_rejected_though_json_has_none() -> None:
    assert "larger" in experiment_problem(builders.experiment(margin=math.inf))
    assert "larger" in experiment_problem(builders.experiment(confidence=math.nan))


def test_a_file_of_too_many_values_is_not_decoded() -> None:
    """Small values take many times their bytes in memory."""
    assert "values, more than the 5000000 that are read" in amount_problem(b"[1" + b",1" * 5_000_001 + b"]")
    assert not amount_problem(b"[1" + b",1" * 4_999_999 + b"]")
