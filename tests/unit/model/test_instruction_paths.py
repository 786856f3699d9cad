# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call paths of a row: what contradicts itself or the instructions by function is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tools.fuzz_seeds import COUNTED_ROW, PATHS_OF_ROW

from swapstone.parts.explain.explanation.profile_formats import folded, folded_difference
from swapstone.parts.explain.model.instruction_counts import (
    MOST_CALLS,
    MOST_DEPTH,
    MOST_NODES,
    CountedRow,
    PathTree,
    counted_profiles,
)

ROW = msgspec.json.decode(COUNTED_ROW, type=CountedRow)
WITH_PATHS = msgspec.json.decode(PATHS_OF_ROW, type=CountedRow)
assert WITH_PATHS.paths is not None
PATHS = WITH_PATHS.paths


def replaced(first: PathTree, second: PathTree = PATHS[1]) -> CountedRow:
    return msgspec.structs.replace(WITH_PATHS, paths=(first, second))


def test_the_graph_has_the_instructions_of_the_table() -> None:
    assert WITH_PATHS.problem() == ""
    before, after = counted_profiles(WITH_PATHS)
    assert folded(before) == "main;__x64_sys_brk_[k] 29\n"
    assert folded_difference(before, after).splitlines() == [
        "main;[unknown]_[k] 0 20",
        "main;__x64_sys_brk_[k] 29 0",
        "main;strlen 0 40",
    ]
    for profile, side in zip((before, after), ROW.sides, strict=True):
        assert sum(stack.weight for stack in profile.stacks) == side.instructions - side.lost
        assert profile.operations == side.operations


def test_without_paths_the_functions_have_no_callers() -> None:
    before, after = counted_profiles(ROW)
    assert (folded(before), folded(after)) == ("__x64_sys_brk_[k] 29\n", "__x64_sys_brk_[k] 20\nstrlen 40\n")
    assert before.operations == ROW.sides[0].operations


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"own": (0,)}, "different lengths"),
        ({"frame": (0, 2)}, "none of its own"),
        ({"frame": (0, -1)}, "none of its own"),
        ({"above": (-1, 1)}, "not before its callee"),
        ({"above": (-2, 0)}, "not before its callee"),
        (
            {"above": (-1,) * (MOST_NODES + 1), "frame": (0,) * (MOST_NODES + 1), "own": (0,) * (MOST_NODES + 1)},
            "too many",
        ),
    ],
)
def test_contradictions_are_named(change: dict[str, Any], words: str) -> None:
    side: PathTree = msgspec.structs.replace(PATHS[0], **change)
    assert words in replaced(side).problem()


@pytest.mark.parametrize("change", [{"own": (0, -29)}, {"least": -1}, {"full": 1 << 63}])
def test_numbers_beyond_the_limits_are_refused(change: dict[str, Any]) -> None:
    side: PathTree = msgspec.structs.replace(PATHS[0], **change)
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(side.encoded(), type=PathTree)


def test_long_paths_and_those_of_other_counts_are_refused() -> None:
    size = MOST_DEPTH + 1
    side = msgspec.structs.replace(PATHS[0], above=tuple(range(-1, size - 1)), frame=(0,) * size, own=(0,) * size)
    assert side.problem() == "its paths are too long"
    other = msgspec.structs.replace(PATHS[0], own=(0, 30))
    assert "call paths of libc=glibc don't sum" in replaced(other).problem()


def test_all_paths_together_have_a_limit() -> None:
    """A flame graph repeats the callers of each path, so a file of a megabyte could take all memory."""

    def problem(paths: int, calls: int) -> str:
        above = (*range(-1, calls - 2), *[calls - 2] * paths)
        size = len(above)
        tree = msgspec.structs.replace(PATHS[0], above=above, frame=(0,) * size, own=(0,) * size)
        return tree.problem()

    callers = sum(range(1, 128))
    fitting = (MOST_CALLS - callers) // 128
    assert problem(fitting, 128) == ""
    assert problem(fitting + 1, 128) == "its paths are too long"


def test_what_is_missing_is_noted() -> None:
    assert counted_profiles(WITH_PATHS)[1].notes == (
        "Functions with fewer than 3 instructions on a path were added to their callers.",
        "Calls beyond the longest path that is followed: 1. Their functions are below the last caller that had room.",
        "Calls that found no room: 2. Their functions are below [callers not kept].",
    )
    assert PATHS[0].notes() == ()
