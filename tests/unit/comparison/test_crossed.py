# SPDX-License-Identifier: MIT OR Apache-2.0
"""Main effects, simple effects and interactions of crossed factors, on numbers that are known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.comparison.factorial_contrasts import Kind, contrasts
from swapstone.core.model import (
    Analysis,
    Direction,
    FactorLevels,
    Metric,
    Presence,
    Quantity,
    Scale,
    Status,
    Verdict,
)
from tests.unit.comparison import crossing
from tests.unit.comparison.crossing import TWO, Levels, analysed, interaction, main_effect, simple_effect, waves

SLOW_WITH_DEFAULT = {("glibc", "default"): 1.0, ("musl", "default"): 4.0, ("glibc", "fast"): 0.8, ("musl", "fast"): 1.6}


def _table(numbers: dict[Any, float], size: float = 0.001) -> Callable[[str, Levels, int], float]:
    """Return a value for each combination, times a disturbance, times a drift that a block shares."""

    def value(_: str, levels: Levels, block: int) -> float:
        return 1000 * numbers[tuple(levels.values())] * math.exp(waves(levels, block, size) + 0.3 * block)

    return value


def test_known_ratios_give_known_effects() -> None:
    """4 with the one allocator, 2 with the other: the mean is the root of 8, the interaction a half."""
    found = analysed(_table(SLOW_WITH_DEFAULT))
    assert main_effect(found, "libc=musl").effect == pytest.approx(math.sqrt(8), rel=1e-3)
    assert main_effect(found, "allocator=fast").effect == pytest.approx(math.sqrt(0.8 * 0.4), rel=1e-3)
    assert simple_effect(found, "libc=musl", "allocator=default").effect == pytest.approx(4, rel=1e-3)
    assert simple_effect(found, "libc=musl", "allocator=fast").effect == pytest.approx(2, rel=1e-3)
    assert simple_effect(found, "allocator=fast", "libc=musl").effect == pytest.approx(0.4, rel=1e-3)
    both = interaction(found, "libc=musl", "allocator=fast")
    assert both.effect == pytest.approx(0.5, rel=1e-3)
    assert (both.without, both.within) == (pytest.approx(4, rel=1e-3), pytest.approx(2, rel=1e-3))
    assert both.closed == pytest.approx(0.5, abs=1e-3)
    assert both.presence is Presence.PRESENT and both.low < 0.5 < both.high
    assert both.blocks == 12 and both.averaged == ("",)
    assert main_effect(found, "libc=musl").averaged == ("allocator=default", "allocator=fast")


def test_the_estimate_is_hodges_and_lehmanns_over_one_number_a_block() -> None:
    """Three blocks whose differences of differences are 1, 2 and 6: the Walsh averages are 1, 1.5, 2, 3.5, 4, 6."""
    extra = {0: 0.0, 1: 1.0, 2: 2.0, 3: 6.0}

    def value(_: str, levels: Levels, block: int) -> float:
        return math.exp(extra[block] if levels == {"libc": "musl", "allocator": "fast"} else 0.0)

    found = analysed(value, blocks=3)
    assert interaction(found, "libc=musl", "allocator=fast").effect == pytest.approx(math.exp((2 + 3.5) / 2))
    assert main_effect(found, "libc=musl").effect == pytest.approx(math.exp((1 + 1.75) / 2))


def test_a_present_interaction_marks_the_main_effects_of_its_levels() -> None:
    found = analysed(_table(SLOW_WITH_DEFAULT))
    assert main_effect(found, "libc=musl").depends_on == ("allocator",)
    assert main_effect(found, "allocator=fast").depends_on == ("libc",)
    assert simple_effect(found, "libc=musl", "allocator=default").depends_on == ()
    three = {"libc": ("glibc", "musl"), "allocator": ("default", "fast", "other")}
    numbers = {**SLOW_WITH_DEFAULT, ("glibc", "other"): 3.0, ("musl", "other"): 12.0}
    found = analysed(_table(numbers), three)
    assert interaction(found, "libc=musl", "allocator=other").presence is Presence.ABSENT
    assert main_effect(found, "allocator=other").depends_on == ()
    assert main_effect(found, "allocator=fast").depends_on == ("libc",)


@pytest.mark.parametrize(
    ("ratio", "size", "presence"),
    [
        (1.10, 0.001, Presence.PRESENT),
        (0.90, 0.001, Presence.PRESENT),
        (1.01, 0.001, Presence.ABSENT),  # real, and of no interest
        (1.00, 0.001, Presence.ABSENT),
        (1.00, 0.200, Presence.UNDECIDED),
    ],
)
def test_an_interaction_is_present_absent_or_undecided(ratio: float, size: float, presence: Presence) -> None:
    numbers = {
        ("glibc", "default"): 1.0,
        ("musl", "default"): 1.5,
        ("glibc", "fast"): 0.7,
        ("musl", "fast"): 1.05 * ratio,
    }
    both = interaction(analysed(_table(numbers, size), blocks=30), "libc=musl", "allocator=fast")
    assert both.presence is presence
    assert (both.smallest_visible is not None) == (presence is Presence.UNDECIDED)
    assert ("no interaction" in both.reason) == (presence is Presence.UNDECIDED)
    assert (both.closed is not None) == (presence is Presence.PRESENT)


def test_an_insignificant_gap_cannot_be_closed() -> None:
    numbers = {("glibc", "default"): 1.0, ("musl", "default"): 1.001, ("glibc", "fast"): 1.0, ("musl", "fast"): 2.0}
    both = interaction(analysed(_table(numbers)), "libc=musl", "allocator=fast")
    assert both.presence is Presence.PRESENT and both.closed is None


@pytest.mark.parametrize(("within", "closed"), [(1.0, 1.0), (2.0, 0.0), (4.0, -1.0), (0.5, 2.0)])
def test_the_closed_share_is_one_of_logarithms(within: float, closed: float) -> None:
    numbers = {("glibc", "default"): 1.0, ("musl", "default"): 2.0, ("glibc", "fast"): 1.0, ("musl", "fast"): within}
    both = interaction(analysed(_table(numbers)), "libc=musl", "allocator=fast")
    if closed:
        assert both.closed == pytest.approx(closed, abs=2e-3)
    else:
        assert both.presence is Presence.ABSENT and both.closed is None


def test_a_single_factor_has_no_effects_of_crossing() -> None:
    found = analysed(lambda *_: 5.0, {"libc": ("glibc", "musl", "other")})
    assert (found.effects, found.interactions) == ((), ())


def test_the_null_copies_play_no_part() -> None:
    with_copies = analysed(_table(SLOW_WITH_DEFAULT), null=True)
    without = analysed(_table(SLOW_WITH_DEFAULT))
    assert (with_copies.effects, with_copies.interactions) == (without.effects, without.interactions)


# Missing combinations


def _without(combination: tuple[str, ...], status: Status) -> crossing.Value:
    three = {**SLOW_WITH_DEFAULT, ("glibc", "tc"): 0.5, ("musl", "tc"): 0.5}
    whole = _table(three)

    def value(workload: str, levels: Levels, block: int) -> float | Status | None:
        if tuple(levels.values()) == combination:
            # What can't be built leaves one run, at block 1.
            return status if status is not Status.UNAVAILABLE or block == 1 else None
        return whole(workload, levels, block)

    return value


THREE = {"libc": ("glibc", "musl"), "allocator": ("default", "fast", "tc")}


@pytest.mark.parametrize("status", [Status.UNAVAILABLE, Status.REFUSED, Status.FAILED])
def test_a_combination_without_numbers_is_left_out_and_named(status: Status) -> None:
    found = analysed(_without(("musl", "tc"), status), THREE)
    effect = main_effect(found, "libc=musl")
    assert effect.averaged == ("allocator=default", "allocator=fast") and effect.missing == ("allocator=tc",)
    assert effect.effect == pytest.approx(math.sqrt(8), rel=1e-3)
    other = main_effect(found, "allocator=tc")
    assert (other.averaged, other.missing) == (("libc=glibc",), ("libc=musl",))
    assert other.effect == pytest.approx(0.5, rel=1e-3)
    gone = interaction(found, "libc=musl", "allocator=tc")
    assert gone.presence is Presence.UNAVAILABLE
    assert gone.reason.startswith("libc=musl,allocator=tc") and f"reason {status.value}" in gone.reason
    assert (gone.effect, gone.low, gone.p_value, gone.without, gone.closed) == (None, None, None, None, None)
    alone = simple_effect(found, "libc=musl", "allocator=tc")
    invalid = Verdict.UNAVAILABLE if status is Status.UNAVAILABLE else Verdict.INVALID
    assert (alone.verdict, alone.effect) == (invalid, None)
    assert interaction(found, "libc=musl", "allocator=fast").presence is Presence.PRESENT


def test_a_block_counts_when_it_has_every_combination() -> None:
    whole = _table(SLOW_WITH_DEFAULT)

    def value(workload: str, levels: Levels, block: int) -> float | Status:
        bad = block in (2, 5) and levels["libc"] == "musl" and levels["allocator"] == "fast"
        return Status.FAILED if bad else whole(workload, levels, block)

    found = analysed(value)
    assert interaction(found, "libc=musl", "allocator=fast").blocks == 10
    assert main_effect(found, "libc=musl").blocks == 10
    assert simple_effect(found, "libc=musl", "allocator=default").blocks == 12


def test_too_few_blocks_say_so_and_no_runs_are_no_exception() -> None:
    few = analysed(_table(SLOW_WITH_DEFAULT), blocks=3)
    both = interaction(few, "libc=musl", "allocator=fast")
    assert both.presence is Presence.UNDECIDED and both.reason.startswith("few blocks") and both.low is None
    assert main_effect(few, "libc=musl").verdict is Verdict.INCONCLUSIVE
    none = analysed(lambda *_: None)
    both = interaction(none, "libc=musl", "allocator=fast")
    assert (both.presence, both.reason, both.effect) == (
        Presence.UNDECIDED,
        "libc=musl,allocator=fast: no run yet",
        None,
    )


def test_blocks_that_never_hold_all_combinations_say_so() -> None:
    found = analysed(lambda w, levels, block: 5.0 if (block % 2 == 0) == (levels["libc"] == "musl") else None)
    assert (
        interaction(found, "libc=musl", "allocator=fast").reason
        == "no block has a run of every variant that this needs"
    )


# The suite's index


def _two_workloads(workload: str, levels: Levels, block: int) -> float | Status:
    musl, fast = levels["libc"] == "musl", levels["allocator"] == "fast"
    slow = {"a": 4.0, "b": 9.0}[workload]
    ratio = (slow if musl else 1.0) * (0.5 if fast and musl else 1.0)
    return 1000 * ratio * math.exp(waves(levels, block))


def test_the_index_is_the_geometric_mean_over_workloads() -> None:
    found = analysed(_two_workloads, workloads=("a", "b"))
    assert simple_effect(found, "libc=musl", "allocator=default", workload="").effect == pytest.approx(6, rel=1e-3)
    both = interaction(found, "libc=musl", "allocator=fast", workload="")
    assert both.effect == pytest.approx(0.5, rel=1e-3)
    assert (both.workloads, both.blocks, both.preferred) == (2, 12, True)
    assert main_effect(found, "libc=musl", workload="").effect == pytest.approx(6 * math.sqrt(0.5), rel=1e-3)


def test_a_workload_that_lacks_a_variant_is_not_in_the_index() -> None:
    def value(workload: str, levels: Levels, block: int) -> float | Status:
        if workload == "b" and levels == {"libc": "musl", "allocator": "fast"}:
            return Status.FAILED
        return _two_workloads(workload, levels, block)

    found = analysed(value, workloads=("a", "b"))
    both = interaction(found, "libc=musl", "allocator=fast", workload="")
    assert (both.workloads, both.without) == (1, pytest.approx(4, rel=1e-3))
    assert simple_effect(found, "libc=musl", "allocator=default", workload="").workloads == 2


def test_a_variant_that_most_workloads_lack_is_not_in_the_index() -> None:
    def value(workload: str, levels: Levels, block: int) -> float | Status:
        if workload != "a" and levels == {"libc": "musl", "allocator": "fast"}:
            return Status.FAILED
        return 1000 * math.exp(waves(levels, block))

    found = analysed(value, workloads=("a", "b", "c"))
    effect = main_effect(found, "libc=musl", workload="")
    assert (effect.workloads, effect.averaged, effect.missing) == (3, ("allocator=default",), ("allocator=fast",))
    assert [i for i in found.interactions if not i.workload] == []


# Scales and exact values


def test_zeros_are_compared_as_differences() -> None:
    def value(_: str, levels: Levels, block: int) -> float:
        musl, fast = levels["libc"] == "musl", levels["allocator"] == "fast"
        return (block % 2) + 100 * musl + 40 * fast - 90 * (musl and fast)

    found = analysed(value, metric="nivcsw")
    both = interaction(found, "libc=musl", "allocator=fast")
    assert (both.scale, both.effect, both.without, both.within) == (Scale.DIFFERENCE, -90.0, 100.0, 10.0)
    assert both.presence is Presence.PRESENT and both.closed == pytest.approx(0.9)
    effect = main_effect(found, "libc=musl")
    assert (effect.scale, effect.effect, effect.verdict) == (Scale.DIFFERENCE, 55.0, Verdict.CHANGED)


def test_constant_values_need_no_inference() -> None:
    memory: dict[Any, float] = {
        ("glibc", "default"): 4096.0,
        ("musl", "default"): 8192.0,
        ("glibc", "fast"): 16384.0,
        ("musl", "fast"): 32768.0,
    }
    found = analysed(lambda _, levels, block: memory[tuple(levels.values())], metric="res", blocks=8, margin=0.0)
    both, effect = interaction(found, "libc=musl", "allocator=fast"), main_effect(found, "libc=musl")
    assert (both.effect, both.low, both.high, both.exact, both.p_value) == (1.0, 1.0, 1.0, True, None)
    assert both.presence is Presence.ABSENT
    assert (effect.exact, effect.verdict, effect.effect) == (True, Verdict.WORSE, pytest.approx(2.0))
    few = analysed(lambda _, levels, block: memory[tuple(levels.values())], metric="res", blocks=5)
    assert not main_effect(few, "libc=musl").exact


def test_the_last_bit_of_a_logarithm_is_no_interaction() -> None:
    """log 21000 - log 9000 and log 7000 - log 3000 differ by 2e-15."""
    memory: dict[Any, float] = dict(zip(SLOW_WITH_DEFAULT, (3000.0, 7000.0, 9000.0, 21000.0), strict=True))
    found = analysed(lambda _, levels, block: memory[tuple(levels.values())], metric="res", blocks=8, margin=0.0)
    both = interaction(found, "libc=musl", "allocator=fast")
    assert (both.effect, both.exact, both.presence) == (1.0, True, Presence.ABSENT)


TEXT = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")


def test_sizes_are_exact() -> None:
    bytes_of = {"glibc,default": 1000, "musl,default": 500, "glibc,fast": 2000, "musl,fast": 1500}
    sizes = {
        ("s", "w", f"libc={name.split(',')[0]},allocator={name.split(',')[1]}"): ((TEXT, float(size)),)
        for name, size in bytes_of.items()
    }
    found = analysed(_table(SLOW_WITH_DEFAULT), sizes=sizes)
    both: Any
    (both,) = (i for i in found.interactions if i.metric.name == "text")
    assert (both.effect, both.exact, both.presence) == (pytest.approx(1.5), True, Presence.PRESENT)
    assert both.closed == pytest.approx(1 - math.log(0.75) / math.log(0.5))
    del sizes["s", "w", "libc=musl,allocator=fast"]
    (both,) = (i for i in analysed(_table(SLOW_WITH_DEFAULT), sizes=sizes).interactions if i.metric.name == "text")
    assert both.presence is Presence.UNAVAILABLE and "no such program" in both.reason


# Contrasts and their correction


def test_the_questions_of_three_factors() -> None:
    factors = {"a": ("0", "1"), "b": ("0", "1", "2"), "c": ("0", "1")}
    asked = crossing.experiment(factors)
    found = contrasts(asked)
    count = {kind: sum(c.kind is kind for c in found) for kind in Kind}
    # Interactions: 1 x 2 + 1 x 1 + 2 x 1. Simple: each change at each level of each other factor, and at each combination of both others.
    assert count == {Kind.MAIN: 4, Kind.INTERACTION: 5, Kind.SIMPLE: (5 + 6) + 2 * (4 + 4) + (5 + 6)}
    pair = next(c for c in found if c.kind is Kind.INTERACTION)
    assert [change.label for change in pair.changes] == ["a=1", "b=1"]
    assert [term.averaged for term in pair.terms] == ["c=0", "c=1"]
    assert pair.terms[0].plus == ("a=1,b=1,c=0", "a=0,b=0,c=0")
    assert pair.terms[0].minus == ("a=1,b=0,c=0", "a=0,b=1,c=0")
    assert pair.terms[0].reference == "a=0,b=0,c=0"
    assert contrasts(msgspec.structs.replace(asked, factors=(FactorLevels(factor="a", levels=("0", "1")),))) == ()


def test_with_three_factors_the_third_is_averaged_over() -> None:
    """The interaction of a and b is 4 with c=0 and 1 with c=1: 2 on average; that is a three-way interaction, which is not computed."""

    def value(_: str, levels: Levels, block: int) -> float:
        extra = 4.0 if levels == {"a": "1", "b": "1", "c": "0"} else 1.0
        return 1000 * extra * math.exp(waves(levels, block))

    found = analysed(value, {"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1")})
    both = interaction(found, "a=1", "b=1")
    assert both.effect == pytest.approx(2.0, rel=1e-3) and both.averaged == ("c=0", "c=1")
    assert simple_effect(found, "a=1", "b=1").effect == pytest.approx(2.0, rel=1e-3)
    assert simple_effect(found, "a=1", "b=1", "c=0").effect == pytest.approx(4.0, rel=1e-3)
    assert (both.without, both.within) == (pytest.approx(1, abs=2e-3), pytest.approx(2, rel=1e-3))


def test_each_kind_is_corrected_for_its_own_number() -> None:
    def value(_: str, levels: Levels, block: int) -> float:
        noise = np.random.default_rng([block, *map(ord, "".join(levels.values()))]).normal(0, 0.05)
        return float(1000 * np.exp(noise))

    found = analysed(value, {"a": ("0", "1"), "b": ("0", "1", "2")}, blocks=20)
    levels = {("main" if not e.held else "simple"): e.confidence for e in found.effects if e.workload}
    assert levels == {"main": pytest.approx(1 - 0.05 / 3), "simple": pytest.approx(1 - 0.05 / 7)}
    assert [i.confidence for i in found.interactions] == [pytest.approx(1 - 0.05 / 2)] * 4  # two, and two of the index


# Properties

logs = st.floats(-1.0, 1.0)


def _effects(a: float, b: float, both: float, base: float = 1000.0, seed: int = 1) -> crossing.Value:
    def value(_: str, levels: Levels, block: int) -> float:
        one, two = levels["libc"] == "musl", levels["allocator"] == "fast"
        return base * math.exp(a * one + b * two + both * (one and two) + waves(levels, block + seed))

    return value


@pytest.mark.slow
@given(logs, logs)
def test_effects_that_multiply_show_no_interaction(a: float, b: float) -> None:
    found = analysed(_effects(a, b, 0.0))
    both = interaction(found, "libc=musl", "allocator=fast")
    assert both.presence is Presence.ABSENT
    assert main_effect(found, "libc=musl").effect == pytest.approx(math.exp(a), rel=3e-3)
    assert main_effect(found, "libc=musl").depends_on == ()


@pytest.mark.slow
@given(logs, logs, logs, st.floats(1e-3, 1e6))
def test_a_faster_machine_changes_nothing(a: float, b: float, both: float, base: float) -> None:
    first: Any
    one, two = analysed(_effects(a, b, both)), analysed(_effects(a, b, both, base))
    for first, second in zip(one.interactions, two.interactions, strict=True):
        assert first.presence is second.presence
        assert second.effect == pytest.approx(first.effect, rel=1e-9)
        assert second.low == pytest.approx(first.low, rel=1e-9)
        assert second.high == pytest.approx(first.high, rel=1e-9)


@pytest.mark.slow
@given(logs, logs, logs)
def test_the_order_of_the_factors_changes_no_interaction(a: float, b: float, both: float) -> None:
    whole = _effects(a, b, both)

    def value(workload: str, levels: Levels, block: int) -> float | Status | None:
        return whole(workload, {name: levels[name] for name in TWO}, block)

    one = interaction(analysed(value), "libc=musl", "allocator=fast")
    two = interaction(analysed(value, dict(reversed(TWO.items()))), "allocator=fast", "libc=musl")
    assert (two.effect, two.low, two.high) == tuple(pytest.approx(x, rel=1e-9) for x in (one.effect, one.low, one.high))
    assert one.presence is two.presence


@pytest.mark.slow
@given(logs, logs, logs)
def test_another_baseline_turns_an_interaction_round(a: float, b: float, both: float) -> None:
    one = interaction(analysed(_effects(a, b, both)), "libc=musl", "allocator=fast")
    turned = {"libc": ("musl", "glibc"), "allocator": ("default", "fast")}
    two = interaction(analysed(_effects(a, b, both), turned), "libc=glibc", "allocator=fast")
    assert two.effect == pytest.approx(1 / one.effect, rel=1e-9)
    assert (two.low, two.high) == (pytest.approx(1 / one.high, rel=1e-9), pytest.approx(1 / one.low, rel=1e-9))


@pytest.mark.slow
@given(logs, logs, logs)
def test_within_over_without_is_the_interaction(a: float, b: float, both: float) -> None:
    found = interaction(analysed(_effects(a, b, both)), "libc=musl", "allocator=fast")
    assert found.within / found.without == pytest.approx(found.effect, rel=5e-3)


def test_every_number_survives_json() -> None:
    found = analysed(_without(("musl", "tc"), Status.UNAVAILABLE), THREE)
    assert msgspec.json.decode(found.encoded(), type=Analysis) == found
    every: list[Any] = [*found.effects, *found.interactions]
    numbers = [x for e in every for x in (e.effect, e.low, e.high, e.p_value, e.smallest_visible)]
    assert all(x is None or math.isfinite(x) for x in numbers)
