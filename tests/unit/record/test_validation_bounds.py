# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every bound of a stored experiment, seal, manifest and run: the last value that is read, and the first that is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swapstone.core.model import (
    COMMAND,
    CURRENT_RULES,
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
from swapstone.core.model.frozen_struct import LARGEST_NUMBER, LONGEST_NAME, LONGEST_TEXT, MOST_BLOCKS, SMALLEST_NUMBER
from swapstone.core.record import Manifest, Seal, validation
from swapstone.core.record.validation import experiment_problem, run_check
from tests.unit import builders

LIBC = FactorLevels(factor="libc", levels=("glibc", "musl"))


def _factors(*counts: int, length: int = 0) -> tuple[FactorLevels, ...]:
    """Return factors with so many levels, whose names have at least this length."""
    return tuple(
        FactorLevels(factor=f"f{number}", levels=tuple(str(level).zfill(length) for level in range(count)))
        for number, count in enumerate(counts)
    )


def _own(**changes: Any) -> Experiment:
    factors = changes.pop("factors", (LIBC,))
    program = msgspec.structs.replace(OwnProgram(name="work", arguments=("true",)), **changes)
    return builders.experiment(own=program, workloads=(("own", "work"),), factors=factors)


def _number(name: str = "n", pattern: str = "(x)") -> PrintedNumber:
    metric = Metric(name=name, unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="m")
    return PrintedNumber(metric=metric, pattern=pattern)


def _lines(*names: str) -> tuple[CommandLine, ...]:
    return tuple(CommandLine(name=name, words=(name,)) for name in names)


WRK = LoadGenerator(command=("wrk",), reader="wrk")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rules": CURRENT_RULES + 1}, "and this version of Swapstone has rules up to"),
        ({"rules": CURRENT_RULES}, ""),
        ({"rules": 0}, "its rules is 0, not between 1 and"),
        ({"rules": 1}, ""),
        ({"clock": "sun"}, "its clock, 'sun', is none of wall, virtual"),
        ({"correction": "none"}, "its correction, 'none', is none of"),
        ({"order": "best"}, "its order, 'best', is none of random, balanced"),
        ({"confidence": 0.01}, ""),
        ({"confidence": 0.0099}, "its confidence is 0.0099, not between 0.01 and"),
        ({"confidence": 0.999999}, ""),
        ({"confidence": 0.9999991}, "its confidence is"),
        ({"margin": 1e-12}, ""),
        ({"margin": 9e-13}, "its margin is 9e-13"),
        ({"margin": 1.0}, ""),
        ({"margin": 1.001}, "its margin is 1.001"),
        ({"budget_ns": 0}, ""),
        ({"budget_ns": -1}, "its budget is -1"),
        ({"budget_ns": (1 << 63) - 1}, ""),
        ({"budget_ns": 1 << 63}, "its budget is"),
        ({"blocks": MOST_BLOCKS}, ""),
        ({"blocks": MOST_BLOCKS + 1}, "its blocks is"),
        ({"blocks": -1}, "its blocks is -1"),
        ({"layouts": 1000}, ""),
        ({"layouts": 1001}, "its layouts is 1001"),
        ({"layouts": -1}, "its layouts is -1"),
        ({"prime": 1000}, ""),
        ({"prime": 1001}, "its prime is 1001"),
        ({"prime": -1}, "its prime is -1"),
        ({"seed": (1 << 64) - 1}, ""),
        ({"seed": 1 << 64}, "an integer has more than 64 bits"),
        ({"seed": 1 - (1 << 64)}, ""),
        ({"seed": -(1 << 64)}, "an integer has more than 64 bits"),
        ({"name": "x" * LONGEST_TEXT}, ""),
        ({"name": "x" * (LONGEST_TEXT + 1)}, f"a text has more than {LONGEST_TEXT} characters"),
        ({"target": "host\0"}, "a text has a null character"),
        ({"modules": (("a", "b\0"),)}, "a text has a null character"),
        ({"margin": LARGEST_NUMBER}, "its margin is"),
        ({"margin": LARGEST_NUMBER * 2}, f"a number is larger than {LARGEST_NUMBER:g}"),
        ({"margin": -LARGEST_NUMBER * 2}, f"a number is larger than {LARGEST_NUMBER:g}"),
    ],
)
def test_fields_of_an_experiment(changes: dict[str, Any], problem: str) -> None:
    found = experiment_problem(builders.experiment(**changes))
    assert problem in found and bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"factors": ()}, "it has no factor, no workload or no load"),
        ({"workloads": ()}, "it has no factor, no workload or no load"),
        ({"loads": ()}, "it has no factor, no workload or no load"),
        ({"factors": (LIBC, LIBC)}, "the factor libc occurs twice"),
        ({"held": (("libc", "musl"),)}, "the factor libc occurs twice"),
        ({"workloads": (("libc", "a"), ("libc", "a"))}, "the workload libc/a occurs twice"),
        ({"workloads": (("libc", "a"), ("other", "a"))}, ""),
        ({"loads": ("idle", "cpu", "idle")}, "the load idle occurs twice"),
        ({"factors": (FactorLevels(factor="a", levels=()),)}, "the factor a has no level"),
        ({"factors": (LIBC, FactorLevels(factor="a", levels=()))}, "the factor a has no level"),
        ({"factors": (FactorLevels(factor="a", levels=("x", "y", "x")),)}, "the factor a has the level x twice"),
        ({"factors": _factors(2, 512)}, ""),
        ({"factors": _factors(5, 205)}, "it has 1025 variants, more than the 1024"),
        ({"factors": _factors(*[10] * 5000)}, "it has inf variants, more than the 1024"),  # 5001 digits
        ({"factors": _factors(1000), "workloads": tuple(("s", str(n)) for n in range(100))}, ""),
        (
            {"factors": _factors(1000), "workloads": tuple(("s", str(n)) for n in range(50)), "loads": ("a", "b", "c")},
            "a block of it has 150000 trials, more than the 100000",
        ),
        ({"loads": ("l" * LONGEST_NAME,)}, ""),
        ({"loads": ("l" * (LONGEST_NAME + 1),)}, f"a name has more than {LONGEST_NAME} characters"),
        ({"workloads": (("s" * (LONGEST_NAME + 1), "w"),)}, f"a name has more than {LONGEST_NAME} characters"),
        ({"factors": (FactorLevels(factor="f" * (LONGEST_NAME + 1), levels=("x",)),)}, "a name has more than"),
        ({"factors": _factors(2, length=LONGEST_NAME + 1)}, "a name has more than"),
        # A label is "FACTOR=LEVEL,...": 1024 labels of 1024 characters are as many as are read.
        ({"factors": _factors(1024, length=1021)}, ""),
        ({"factors": _factors(1024, length=1022)}, "the names of its variants are too long together"),
        ({"factors": _factors(1, length=LONGEST_NAME - 3)}, ""),
        ({"factors": _factors(1, length=LONGEST_NAME - 2)}, "the names of its variants are too long together"),
        # The longest label decides, not the first one.
        (
            {"factors": (FactorLevels(factor="a", levels=("s", "l" * (LONGEST_NAME - 1), "t")),)},
            "the names of its variants are too long together",
        ),
        (
            {"factors": (FactorLevels(factor="a", levels=("x", "x,b=y")), FactorLevels(factor="b", levels=("y", "y,b=y")))},
            "two of its variants have the same name",
        ),
        ({"factors": (FactorLevels(factor="a", levels=("x", "x,b=y")), FactorLevels(factor="b", levels=("y", "z")))}, ""),
    ],
)  # fmt: skip
def test_the_plan_of_an_experiment(changes: dict[str, Any], problem: str) -> None:
    found = experiment_problem(builders.experiment(**changes))
    assert problem in found and bool(problem) == bool(found), found[:200]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"parameters": (("N", ("1",) * 100), ("M", ("1",) * 100))}, ""),
        (
            {"parameters": (("N", ("1",) * 101), ("M", ("1",) * 100))},
            "its parameters have 10100 combinations of values",
        ),
        ({"parameters": (("N", ("1",) * 10_001),)}, "its parameters have 10001 combinations of values"),
        (
            {"parameters": tuple((f"N{each}", ("1",) * 10) for each in range(5000))},
            "its parameters have inf combinations of values, not between 1 and",
        ),
        ({"parameters": (("N", ("1",) * 5001),), "load_generators": (WRK, WRK)}, "have 10002 combinations of values"),
        ({"parameters": (("N", ()),)}, "its parameters have 0 combinations of values, not between 1 and"),
        ({"parameters": (("N", ("1",)), ("N", ("2",)))}, "the parameter N occurs twice"),
        ({"arguments": ()}, "its own program has no command"),
        ({"arguments": (), "commands": _lines("a")}, ""),
        ({"arguments": (), "programs": (("a", "/bin/a"),)}, ""),
        ({"commands": (CommandLine(name="a", words=()),)}, "a command line of its own program is empty"),
        (
            {"load_generators": (msgspec.structs.replace(WRK, command=()),)},
            "a command line of its own program is empty",
        ),
        ({"commands": _lines("a", "b")}, f"no command line for a level of the factor {COMMAND}"),
        ({"commands": _lines("a", "b"), "factors": (FactorLevels(factor=COMMAND, levels=("a", "b")),)}, ""),
        ({"commands": _lines("a", "b"), "factors": (FactorLevels(factor=COMMAND, levels=("a",)),)}, ""),
        (
            {"commands": _lines("a", "b"), "factors": (FactorLevels(factor=COMMAND, levels=("a", "c")),)},
            f"no command line for a level of the factor {COMMAND}",
        ),
        ({"commands": _lines("a"), "factors": (FactorLevels(factor=COMMAND, levels=("a", "c")),)}, ""),
        ({"timeout_ms": 1, "build_timeout_ms": 1}, ""),
        ({"timeout_ms": 0}, "a time limit of its own program is not above 0"),
        ({"build_timeout_ms": 0}, "a time limit of its own program is not above 0"),
        ({"numbers": (_number("a"), _number("b"))}, ""),
        ({"numbers": tuple(_number(f"n{each}") for each in range(1000))}, ""),
        ({"numbers": tuple(_number(f"n{each}") for each in range(1001))}, "has 1001 metrics, more than the 1000"),
        ({"numbers": (_number("a"), _number("a"))}, "the metric a of its own program occurs twice"),
        ({"numbers": (_number(pattern="x"),)}, "'x' has 0 groups, not 1"),
        ({"numbers": (_number(pattern="(x)(y)"),)}, "has 2 groups, not 1"),
        ({"numbers": (_number(pattern="(x"),)}, "'(x' is no regular expression: missing )"),
        ({"numbers": (_number(), _number("b", pattern="(x"))}, "is no regular expression"),
        ({"numbers": (_number(pattern="(" + "x" * 9998 + ")"),)}, ""),
        (
            {"numbers": (_number(pattern="(" + "x" * 9999 + ")"),)},
            "a regular expression has more than 10000 characters",
        ),
        ({"load_generators": (msgspec.structs.replace(WRK, reader="regex:(a)(b)"),)}, ""),
        ({"load_generators": (msgspec.structs.replace(WRK, reader="regex:("),)}, "is no regular expression"),
        ({"load_generators": (msgspec.structs.replace(WRK, reader="regex:*a"),)}, "'*a' is no regular expression"),
        ({"load_generators": (msgspec.structs.replace(WRK, reader="("),)}, ""),
        *(
            ({"load_generators": (msgspec.structs.replace(WRK, **{name: value}),)}, problem)
            for name in ("connections", "warm_ms", "ready_ms", "drain_ms", "stop_ms")
            for value, problem in ((0, ""), (-1, "a load generator has a negative number"))
        ),
    ],
)
def test_an_own_program(changes: dict[str, Any], problem: str) -> None:
    found = experiment_problem(_own(**changes))
    assert problem in found and bool(problem) == bool(found), found[:200]


@pytest.mark.parametrize(
    ("changes", "valid"),
    [
        ({"runs": 0}, True),
        ({"runs": -1}, False),
        ({"sessions": 1}, True),
        ({"sessions": 0}, False),
        ({"sealed_unix_ns": 0}, True),
        ({"sealed_unix_ns": -1}, False),
        ({"state": "interrupted"}, True),
        ({"state": ""}, False),
        ({"why": "\0"}, False),
    ],
)
def test_fields_of_a_seal(changes: dict[str, Any], valid: bool) -> None:
    seal = Seal(runs=1, chain="", state="complete", why="", verdicts="", manifest="", experiment="", sessions=1)
    assert (validation.seal_problem(msgspec.structs.replace(seal, **changes)) == "") == valid


@pytest.mark.parametrize(("passes", "valid"), [(0, False), (1, True), (10_000_000, True), (10_000_001, False)])
def test_passes_of_a_manifest(passes: int, valid: bool) -> None:
    manifest = Manifest(machine=(), tools=(), artifacts=(), passes=(("libc", "v", 1), ("libc", "w", passes)))
    assert (validation.manifest_problem(manifest) == "") == valid


def _run(**changes: Any) -> Run:
    return msgspec.structs.replace(next(builders.runs(builders.experiment(), 0)), **changes)


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (SMALLEST_NUMBER, True),
        (SMALLEST_NUMBER / 2, False),
        (-SMALLEST_NUMBER, True),
        (-SMALLEST_NUMBER / 2, False),
        (0.0, True),
        (-1.0, True),
    ],
)
def test_values_close_to_zero(value: float, valid: bool) -> None:
    found = run_check(builders.experiment())(_run(samples=(Sample(metric="cpu", values=(3.0, value)),)))
    assert found == ("" if valid else "a value of cpu is too close to 0")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"suite": "libd"}, "it is a run of the workload libd/b_malloc_tiny1, which the experiment does not have"),
        ({"workload": "x"}, "it is a run of the workload libc/x, which"),
        ({"load": "cpu"}, "it is a run of the load cpu, which"),
        ({"variant": "libc=none"}, "it is a run of the variant libc=none, which"),
    ],
)
def test_runs_of_something_else(change: dict[str, Any], problem: str) -> None:
    run = next(run for run in builders.runs(builders.experiment(), 0) if run.trial.workload == "b_malloc_tiny1")
    other = msgspec.structs.replace(run, trial=msgspec.structs.replace(run.trial, **change))
    assert run_check(builders.experiment())(run) == ""
    assert run_check(builders.experiment())(other).startswith(problem)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"series": (Sample(metric="a", values=(1.0, 2.0)), Sample(metric="b", values=(1.0, 2.0)))}, ""),
        ({"series": (Sample(metric="a", values=(1.0, 2.0)), Sample(metric="b", values=(1.0,)))}, "not equally long"),
        ({"histogram": ((1, 1), (2, 1), (3, 1))}, ""),
        ({"histogram": ((1, 1), (3, 1), (2, 1))}, "its histogram is not ascending"),
        ({"histogram": ((1, 1), (2, 1), (2, 1))}, "its histogram is not ascending"),
        ({"histogram": ((1, 3), (2, 1)), "by_processor": ((0, ((1, 2),)), (1, ((1, 1), (2, 1))))}, ""),
        ({"histogram": ((1, 1), (2, 2)), "by_processor": ((0, ((2, 2),)), (1, ((1, 1),)))}, ""),
        (
            {"histogram": ((1, 3), (2, 1)), "by_processor": ((0, ((1, 2),)), (1, ((1, 1),)))},
            "is not the sum of its processors'",
        ),
        ({"histogram": ((1, 2),), "by_processor": ((1, ((1, 1),)), (0, ((1, 1),)))}, "histograms are not ascending"),
        ({"histogram": ((1, 2),), "by_processor": ((0, ((1, 1),)), (0, ((1, 1),)))}, "histograms are not ascending"),
        ({"histogram": ((1, 1),), "by_processor": ((8, ((1, 1),)),)}, "histograms are not ascending"),
        ({"histogram": ((1, 2),), "by_processor": ((8, ((1, 1),)), (1, ((1, 1),)))}, "histograms are not ascending"),
        (
            {"histogram": ((1, 2),), "by_processor": ((0, ((1, 1), (1, 1))),)},
            "histogram of a processor is not ascending",
        ),
        ({"by_processor": ((0, ()),)}, ""),
    ],
)
def test_series_and_histograms(changes: dict[str, Any], problem: str) -> None:
    found = run_check(builders.experiment())(_run(**changes))
    assert problem in found and bool(problem) == bool(found)
