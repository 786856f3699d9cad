# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shares of flags: which elements of a set have an effect, and what is left to none."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.bisect import flags as flags_module
from swapstone.parts.bisect.flags import FlagsResult, flags_between, flags_document, flags_json, run_flags
from swapstone.parts.bisect.sets import Effect, elements_with_effect
from swapstone.parts.gate import measured_runs
from swapstone.parts.gate.gate_file import RunKeys
from swapstone.parts.gate.measured_runs import Counted, Place
from tests.programs import require
from tests.unit.bisect.numbers import FILE, SAME, numbers_repository
from tests.unit.gate.repositories import SmallRepository


def _search(count: int, effects: Mapping[str, float]) -> tuple[dict[str, Effect], int]:
    made: list[int] = []

    def measured(part: Sequence[str]) -> Effect:
        made.append(len(part))
        return (sum(effects.get(each, 0.0) for each in part),)

    found = elements_with_effect([str(number) for number in range(count)], measured, lambda effect: effect[0] != 0)
    return found, len(made)


@pytest.mark.parametrize(("count", "number", "most"), [(44, 2, 12), (44, 5, 21), (500, 8, 55), (2000, 3, 33)])
def test_elements_whose_effects_add_are_found_with_few_measurements(count: int, number: int, most: float) -> None:
    """The mean number of measurements, some of which check an element alone."""
    made = []
    for seed in range(40):
        chosen = random.Random(seed).sample(range(count), number)
        effects = {str(each): 2.0**-place for place, each in enumerate(chosen)}
        found, measurements = _search(count, effects)
        assert found == {each: (effect,) for each, effect in effects.items()}
        made.append(measurements)
    assert statistics.fmean(made) <= most


def test_nothing_is_divided_without_an_effect() -> None:
    assert _search(100, {}) == ({}, 1)


def test_an_interaction_is_no_element() -> None:
    """Two elements have an effect together alone: what is inferred of the second one is not seen alone."""
    found = elements_with_effect(
        ["a", "b", "c", "d"], lambda part: (float({"b", "c"} <= {*part}),), lambda effect: effect[0] != 0
    )
    assert found == {}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallRepository:
    """Return a repository whose program executes fewer instructions with some flags."""
    require("git")
    effects = {"-fone": 1_000_000, "-fthree": 500_000, "-fsmall": 5_000, "-O2": 1_800_000}

    def measure(name: str, _run: RunKeys, place: Place, _folder: Path) -> Counted:
        words = (place.trees[0] / "prog").read_text().split()
        gain = sum(effects.get(word, 0) for word in words) - 100_000 * ({"-fone", "-fthree"} <= {*words})
        return Counted(({"instructions": 10_000_000 - gain, **SAME},) * 2, {"qemu": "7"})

    made = numbers_repository(tmp_path, monkeypatch)
    monkeypatch.setattr(measured_runs, "measure_alone", measure)
    monkeypatch.setattr(flags_module, "flags_between", lambda *_: ("-fone", "-ftwo", "-fthree", "-fsmall"))
    made.commit("flags", **{"swapstone.toml": FILE.replace("$(cat a b c)", "{flags}")})
    return made


def _run(small: SmallRepository, text: str = "-O1..-O2") -> FlagsResult:
    return run_flags(small.folder, text, least=0.001, trust=True)


def test_each_flag_has_its_share_and_the_rest_is_stated(small: SmallRepository) -> None:
    found = _run(small)
    assert [(each.flag, each.differences) for each in found.effects] == [
        ("-fone", (-1e6, 0.0)),
        ("-fthree", (-5e5, 0.0)),
        ("(what they do together)", (95_000.0, 0.0)),
        ("(what no flag explains)", (-395_000.0, 0.0)),
    ]
    assert [(row.metric, row.difference) for row in found.rows] == [("instructions", -1.8e6), ("size", 0.0)]
    assert found.answer == (
        "2 of 4 flags change something alone, for -O2 against -O1 (one: instructions -16.36 %): -fone -9.091 %, -fthree -4.545 %; "
        "together they do +0.8636 % beyond their sum, and no flag explains -3.591 %."
    )
    printed = json.loads(flags_json(found))
    assert (printed["format"], printed["flags"], printed["builds"]) == ("swapstone-flags-result", 4, found.builds)
    assert "(what no flag explains)" in str(flags_document(found))
    assert _run(small).builds == 1, "the rest is stored"


def test_flags_that_do_not_reach_the_build_are_an_error(small: SmallRepository) -> None:
    small.commit("none", **{"swapstone.toml": FILE})
    with pytest.raises(UserError, match="do not reach the build") as error:
        _run(small)
    assert "{flags}" in error.value.hint


def test_flags_reach_the_environment_too(small: SmallRepository) -> None:
    small.commit("variable", **{"swapstone.toml": FILE.replace("$(cat a b c)", "$CFLAGS")})
    assert len(_run(small).effects) == 4


@pytest.mark.parametrize("text", ["-O1", "-O1..", "-O1..-O2 -fplugin=x", "..", "-O1..-march=native"])
def test_a_text_that_is_no_range_of_levels(text: str) -> None:
    first, _, last = text.partition("..")
    with pytest.raises(UserError, match="is no level such as -O2"):
        flags_between(first, last)


def test_the_flags_of_the_compiler_itself() -> None:
    require("gcc", "cc")
    found = flags_between("-O1", "-O2")
    assert {"-ftree-pre", "-fschedule-insns2"} <= {*found} and flags_between("-O2", "-O2") == ()
    assert "-falign-loops" in found and "-fallocation-dce" not in found, "a value may be empty"
    assert any(each.startswith("-fno-") for each in flags_between("-O2", "-O1"))
