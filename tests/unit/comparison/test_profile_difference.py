# SPDX-License-Identifier: MIT OR Apache-2.0
"""The difference of two profiles by function."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.comparison.profile_difference import (
    NO_STACK,
    FrameDifference,
    ProfileDifference,
    Weights,
    difference,
    stacks_of_both,
)
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile, ProfileRun

Stacks = dict[tuple[Frame, ...], float]
LIBZ = "libz.so.1"


def frames(text: str) -> tuple[Frame, ...]:
    """Make a stack of names that are joined by semicolons: ``name@object``, the program's without an object, a nameless one as ``?``."""
    parts = (name.partition("@") for name in text.split(";") if name)
    return tuple(Frame(symbol=name.replace("?", NAMELESS), object=of or OWN_OBJECT) for name, _, of in parts)


def frame(text: str) -> Frame:
    (only,) = frames(text)
    return only


def profile(weights: dict[str, float] | Stacks, operations: float = 1.0) -> Profile:
    stacks = {frames(stack) if isinstance(stack, str) else stack: weight for stack, weight in weights.items()}
    return Profile.of(stacks, kind="instructions", unit="1", operations=operations)


def compared(before: dict[str, float], after: dict[str, float]) -> ProfileDifference:
    return difference(profile(before), profile(after))


def of(found: ProfileDifference, name: str) -> FrameDifference:
    return next(one for one in found.frames if one.frame == frame(name))


FRAMES = [*frames(f"main;work;?;f@{LIBZ};?@{LIBZ};g@{LIBZ};brk@{KERNEL};?@{KERNEL}")]
STACKS = st.dictionaries(
    st.lists(st.sampled_from(FRAMES), max_size=6).map(tuple), st.integers(0, 1 << 40).map(float), max_size=12
)


@given(STACKS, STACKS)
def test_own_differences_sum_to_that_of_the_totals(before: Stacks, after: Stacks) -> None:
    found = difference(profile(before), profile(after))
    assert found.total == Weights(sum(before.values()), sum(after.values()))
    sums = Weights()
    for one in found.frames:
        sums.add(one.own)
    assert sums == found.total


@given(STACKS, STACKS)
def test_a_common_root_has_the_total_and_callers_have_what_they_call(before: Stacks, after: Stacks) -> None:
    root = Frame(symbol="root", object=OWN_OBJECT)
    found = difference(
        *(profile({(root, *stack): weight for stack, weight in side.items()}) for side in (before, after))
    )
    for one in found.frames:
        if one.frame == root:
            assert one.inclusive == found.total and not one.callers
            continue
        sums = Weights()
        for each in one.callers.values():
            sums.add(each)
        assert sums == one.inclusive


@given(STACKS, STACKS)
def test_exchanged_arguments_negate_all_differences(before: Stacks, after: Stacks) -> None:
    there, back = difference(profile(before), profile(after)), difference(profile(after), profile(before))
    assert back.total.difference == -there.total.difference
    assert [one.frame for one in there.frames] == [one.frame for one in back.frames]
    for one, other in zip(there.frames, back.frames, strict=True):
        assert one.own.difference == -other.own.difference
        assert one.inclusive.difference == -other.inclusive.difference
        assert [*one.callers] == [*other.callers]
    assert [one.frame for one in there.leading()] == [one.frame for one in back.leading()]


@given(STACKS, STACKS, st.randoms())
def test_the_order_of_stacks_changes_nothing(before: Stacks, after: Stacks, random: object) -> None:
    def turned(stacks: Stacks) -> Profile:
        items = [*stacks.items()]
        random.shuffle(items)  # type: ignore[attr-defined]
        return profile(dict(items))

    found = difference(turned(before), turned(after))
    expected = difference(profile(before), profile(after))
    assert found == expected and [[*one.callers] for one in found.frames] == [[*one.callers] for one in expected.frames]


def test_a_known_profile() -> None:
    found = compared(
        {"main": 10, "main;a;work": 100, "main;b;work": 50, "main;b": 5, "": 3},
        {"main": 10, "main;a;work": 130, "main;b;work": 45, "main;b": 5, "": 4},
    )
    assert found.total == Weights(168, 194)
    assert [(one.frame.symbol, one.own.difference, one.inclusive.difference) for one in found.frames] == [
        ("work", 25, 25),
        (NO_STACK.symbol, 1, 1),
        ("a", 0, 30),
        ("main", 0, 25),
        ("b", 0, -5),
    ]
    assert of(found, "work").callers == {frame("a"): Weights(100, 130), frame("b"): Weights(50, 45)}
    assert [*of(found, "work").callers] == [frame("a"), frame("b")]
    assert of(found, "main").callers == {}
    assert of(found, "b").own == Weights(5, 5)


def test_weights_are_those_of_an_operation() -> None:
    found = difference(profile({"main": 10.0}, operations=2.0), profile({"main": 40.0}, operations=4.0))
    assert of(found, "main").own == found.total == Weights(5, 10)
    known, stacks = stacks_of_both(profile({"main": 3.0}), profile({"f": 4.0}, 2.0))
    assert {tuple(known[number] for number in stack): weights for stack, weights in stacks.items()} == {
        frames("main"): Weights(3, 0),
        frames("f"): Weights(0, 2),
    }


def test_nameless_functions_count_for_the_nearest_caller_with_a_name() -> None:
    deep = compared({}, {f"main;?;compress2@{LIBZ};?@{LIBZ};?@{LIBZ};crc32@{LIBZ};?@{KERNEL}": 1})
    assert sorted((one.frame.symbol, one.frame.object) for one in deep.frames) == [
        ("below compress2", LIBZ),
        ("below crc32", KERNEL),
        ("below main", OWN_OBJECT),
        ("compress2", LIBZ),
        ("crc32", LIBZ),
        ("main", OWN_OBJECT),
    ]
    alone = compared({}, {f"?@{LIBZ};?;main": 1})
    assert {one.frame for one in alone.frames} == {*frames(f"?@{LIBZ};?;main")}
    found = compared({f"main;compress2@{LIBZ};?@{LIBZ};?@{LIBZ}": 7}, {f"main;compress2@{LIBZ};?@{LIBZ}": 20})
    one = of(found, f"below compress2@{LIBZ}")
    assert one.own == one.inclusive == Weights(7, 20) and [*one.callers] == [frame(f"compress2@{LIBZ}")]
    assert of(found, f"compress2@{LIBZ}").inclusive.difference == 13


def test_a_recursive_function_counts_once_in_a_stack() -> None:
    found = compared({"main;f;g;f;f": 10}, {"main;f;g;f;f": 14, "main;f": 1})
    one = of(found, "f")
    assert one.own == one.inclusive == Weights(10, 15)
    assert one.callers == {frame("main"): Weights(10, 15)}
    assert of(found, "g").inclusive == Weights(10, 14) and of(found, "g").callers == {frame("f"): Weights(10, 14)}


@pytest.mark.parametrize(
    ("after", "leading"),
    [
        ({"main;a;work": 30}, "work"),  # of those with the whole difference, the one that is below the others
        ({"main;a;work": 30, f"main;brk@{KERNEL}": -2}, "work"),  # `main` has less of the difference
        ({"main;a;work": 10, "main;a;fill": 12, "main;a": 3, "main": 4}, "a"),
        ({"main;a;work": 15, "main;b;fill": 15}, "work b"),  # `main` is on nearly every stack
        ({"main;a;work": -30}, "work"),
        ({"main;b;fill": 30}, "fill"),  # `b` has less weight, for `a` calls `fill` too
        ({"main": 30, "main;a;work": 2}, "main"),
        ({"main;a;work": 16, "f": 4}, "work"),  # 80 %
        ({"main;a;work": 15.9, "f": 4.1}, "work f"),
        ({"main;a;work": 24, "main;brk@[kernel]": -4}, "work"),  # 120 %
        ({"main;a;work": 50, "main;a;fill": -30}, "a"),  # one function in another one's place
        ({"main;a": 3, "f": 3}, "a f"),
        ({"main;a;work": 9, "main;b;fill": 9, f"main;brk@{KERNEL}": 9}, "brk work b"),
        ({"main;a;work": 9, "main;b;fill": 9, f"main;brk@{KERNEL}": 9, "f": 9}, ""),  # 75 %
        ({f"main;brk@{KERNEL}": 40, "f": -4, "main;b": -5}, "brk f"),  # 129 %, and -16 %
        ({"main;a": 3, "main;b": -3}, ""),
        ({}, ""),
    ],
)
def test_the_fewest_innermost_functions_with_most_of_the_difference_lead(after: dict[str, float], leading: str) -> None:
    before = {"main;a;work": 100.0, "main;b;fill": 50.0, "main;a;fill": 50.0, f"main;brk@{KERNEL}": 50.0, "f": 5.0}
    found = compared(before, {key: before.get(key, 0.0) + after.get(key, 0.0) for key in {**before, **after}})
    assert " ".join(one.frame.symbol for one in found.leading()) == leading


def test_a_function_without_a_name_gives_way_to_its_caller_unless_the_difference_is_its_own() -> None:
    call = f"main;work;call@{LIBZ}"
    passed = compared({"main;rest": 90}, {"main;rest": 90, f"{call};?@{LIBZ};a@x": 80, f"{call};?@{LIBZ};b@x": 70})
    assert [one.frame for one in passed.leading()] == [frame(f"call@{LIBZ}")]
    own = compared({"main;rest": 90}, {"main;rest": 90, f"{call};?@{LIBZ}": 140, f"{call};b@x": 10})
    assert [one.frame.symbol for one in own.leading()] == ["below call"]


def test_a_difference_in_more_than_three_functions_below_the_outermost_is_spread() -> None:
    names = "abcde"
    found = compared({f"main;{name}": 50.0 for name in names}, {f"main;{name}": 60.0 for name in names})
    assert (found.leading(), found.spread()) == ((), 5)
    below = compared({f"main;run;{name}": 50.0 for name in names}, {f"main;run;{name}": 60.0 for name in names})
    assert [one.frame.symbol for one in below.leading()] == ["run"]  # a function that is called is an answer
    assert compared({"main": 5}, {"main": 5}).spread() == 0


def test_of_several_functions_those_with_most_of_the_difference_lead() -> None:
    before = {"main;free": 50.0, "main;malloc;fault;clear": 50.0, "main;malloc;fault": 50.0, "main;malloc": 50.0}
    more = {"main;free": 60.0, "main;malloc;fault;clear": 22.0, "main;malloc;fault": 15.0, "main;malloc": 1.0}
    found = compared(before, {stack: weight + more[stack] for stack, weight in before.items()})
    assert [one.frame.symbol for one in found.leading()] == ["free", "fault"]


def test_of_several_functions_none_calls_another_one() -> None:
    before = {"main;a;work": 100.0, "main;b": 100.0}
    found = compared(before, {"main;a;work": 104.0, "main;a": 3.0, "main;b": 103.0})
    assert [one.frame.symbol for one in found.leading()] == ["a", "b"]  # and not `a` with `work`, which it calls


def test_a_function_whose_interval_contains_0_does_not_lead() -> None:
    found = compared({"main;work": 10, "f": 90}, {"main;work": 30, "f": 90})
    intervals = {frame("work"): (-1.0, 41.0), frame("main"): (2.0, 38.0)}
    assert [one.frame.symbol for one in found.with_intervals(intervals).leading()] == ["main"]
    assert found.with_intervals({**intervals, frame("main"): (-1.0, 2.0)}).leading() == ()
    down = compared({"main;work": 30, "f": 90}, {"main;work": 10, "f": 90})
    assert [one.frame.symbol for one in down.with_intervals({frame("work"): (-30.0, -1.0)}).leading()] == ["work"]


def test_what_is_no_function_does_not_lead() -> None:
    assert compared({"main": 100}, {"main": 100, "": 9}).leading() == ()


def test_a_profile_with_other_stacks_keeps_its_runs() -> None:
    runs = (
        ProfileRun(samples=2, weights=((0, 1.0), (1, 2.0))),
        ProfileRun(samples=1, weights=((2, 4.0),)),
    )
    whole = Profile.of(
        {frames("a;b"): 1.0, frames("a;c"): 2.0, frames("d"): 4.0}, kind="k", unit="1", operations=2.0, runs=runs
    )
    found = whole.mapped(lambda stack: stack[:1])
    assert dict(found.weighted()) == {frames("a"): 3.0, frames("d"): 4.0}
    assert [(run.samples, run.weights) for run in found.runs] == [(2, ((0, 3.0),)), (1, ((1, 4.0),))]
    assert (found.kind, found.unit, found.operations, found.samples) == ("k", "1", 2.0, 3)
