# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles of a row on the exact clock: what contradicts itself or the number of instructions is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

from swapstone.core.model.profile import Profile, ProfileRun, Stack
from swapstone.parts.explain.explanation.profile_formats import folded, folded_difference
from swapstone.parts.explain.model.explanation import (
    MOST_CALLS,
    MOST_DEPTH,
    MOST_FRAMES,
    MOST_RUNS,
    MOST_STACKS,
    CountedRow,
    profile_problem,
)

ROW = msgspec.json.decode(COUNTED_ROW, type=CountedRow)
WITH_PATHS = msgspec.json.decode(PATHS_OF_ROW, type=CountedRow)
PROFILE = WITH_PATHS.profiles[0]


def replaced(profile: Profile | None) -> CountedRow:
    first, second = WITH_PATHS.sides
    return msgspec.structs.replace(WITH_PATHS, sides=(msgspec.structs.replace(first, profile=profile), second))


def test_the_graph_has_the_instructions_of_the_table() -> None:
    assert WITH_PATHS.problem() == ""
    before, after = WITH_PATHS.profiles
    assert folded(before) == "main;__x64_sys_brk_[k] 29\n"
    assert folded_difference(before, after).splitlines() == [
        "main;[unknown]_[k] 0 20",
        "main;__x64_sys_brk_[k] 29 0",
        "main;strlen 0 40",
    ]
    for profile, side in zip((before, after), ROW.sides, strict=True):
        assert profile.total == side.instructions - side.lost and profile.operations == side.operations


def test_without_paths_the_functions_have_no_callers() -> None:
    before, after = ROW.profiles
    assert (folded(before), folded(after)) == ("__x64_sys_brk_[k] 29\n", "__x64_sys_brk_[k] 20\nstrlen 40\n")


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": (Stack(frames=(0, 2), weight=29.0),)},
        {"stacks": (Stack(frames=(-1,), weight=29.0),)},
        {"stacks": (Stack(frames=(0,), weight=-29.0), Stack(frames=(0,), weight=58.0))},
        {"stacks": (Stack(frames=(0,) * (MOST_DEPTH + 1), weight=29.0),)},
        {"stacks": (Stack(frames=(0,), weight=0.0),) * (MOST_STACKS + 1)},
        {"frames": PROFILE.frames * MOST_FRAMES},
        {"stacks": (Stack(frames=(0,) * 256, weight=0.0),) * (MOST_CALLS // 256 + 1)},
        {"operations": 0.0},
        {"runs": (ProfileRun(samples=1, weights=((1, 29.0),)),)},
        {"runs": (ProfileRun(samples=1, weights=((-1, 29.0),)),)},
        {"runs": (ProfileRun(samples=1, weights=((0, -29.0),)),)},
        {"runs": (ProfileRun(samples=1, weights=()),) * (MOST_RUNS + 1)},
    ],
)
def test_contradictions_and_too_much_are_refused(change: dict[str, Any]) -> None:
    made: Profile = msgspec.structs.replace(PROFILE, **change)
    assert profile_problem(made) == replaced(made).problem() == "a profile contradicts itself, or is too large"


def test_what_is_just_small_enough_is_accepted() -> None:
    stacks = (Stack(frames=(0,) * MOST_DEPTH, weight=29.0), *[Stack(frames=(), weight=0.0)] * (MOST_STACKS - 1))
    runs = (ProfileRun(samples=1, weights=((0, 29.0),)),) * MOST_RUNS
    frames = PROFILE.frames * (MOST_FRAMES // 2)
    assert profile_problem(msgspec.structs.replace(PROFILE, stacks=stacks, runs=runs, frames=frames)) == ""


def test_other_sums_and_no_profile_are_refused() -> None:
    other = msgspec.structs.replace(PROFILE, stacks=(Stack(frames=(0,), weight=30.0),))
    assert "libc=glibc don't sum" in replaced(other).problem()
    assert replaced(None).problem() == "libc=glibc has no profile"
