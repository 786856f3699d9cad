# SPDX-License-Identifier: MIT OR Apache-2.0
"""The search for the smallest memory: it finds the threshold, and names what is not monotonic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.parts.vm.run.memory_fit import MIB, MOST_SIZES, Resolution, next_size, sizes_left, threshold

USUAL = Resolution()
FINE = Resolution(least_bytes=64 << 10, share=0.0, grid_bytes=64 << 10)


def search(survives: Callable[[int], bool], first: int, most: int, resolution: Resolution = USUAL) -> dict[int, bool]:
    """Return every size that is tried, in order."""
    tried: dict[int, bool] = {}
    while (size := next_size(tried, first_bytes=first, most_bytes=most, resolution=resolution)) is not None:
        assert size not in tried
        assert size > 0
        assert size % resolution.grid_bytes == 0
        tried[size] = survives(size)
    return tried


@given(
    need=st.integers(1, 4096 * MIB),
    first=st.integers(1, 4096 * MIB),
    resolution=st.sampled_from([Resolution(), FINE, Resolution(least_bytes=4 * MIB, share=0.1)]),
)
def test_the_threshold_lies_between_the_sizes_that_are_reported(need: int, first: int, resolution: Resolution) -> None:
    tried = search(lambda size: size >= need, first, 8192 * MIB, resolution)
    found = threshold(tried)
    assert found.failed_bytes < need <= found.smallest_bytes
    assert found.smallest_bytes - found.failed_bytes <= resolution.step(found.smallest_bytes)
    assert found.survived_below == ()
    assert len(tried) < MOST_SIZES


@given(sizes=st.sets(st.integers(1, 256)), first=st.integers(1, 256))
def test_no_size_that_failed_is_above_the_one_that_is_reported(sizes: set[int], first: int) -> None:
    tried = search(lambda size: size // MIB in sizes, first * MIB, 256 * MIB)
    found = threshold(tried)
    if found.smallest_bytes:
        assert all(survived for size, survived in tried.items() if size >= found.smallest_bytes)
    failed = [size for size, survived in tried.items() if not survived]
    assert found.failed_bytes == max(failed, default=0)
    below = tuple(sorted(size for size, survived in tried.items() if survived and size < found.failed_bytes))
    assert found.survived_below == below


def test_a_failure_above_a_survivor_is_found_and_the_search_continues_above_it() -> None:
    tried = search(lambda size: size >= 39 * MIB and size != 42 * MIB, 100 * MIB, 1024 * MIB)
    found = threshold(tried)
    assert (found.smallest_bytes, found.failed_bytes) == (43 * MIB, 42 * MIB)
    assert found.survived_below == (39 * MIB, 40 * MIB, 41 * MIB)


def test_a_program_that_never_survives_is_tried_up_to_the_largest_size() -> None:
    tried = search(lambda size: False, 10 * MIB, 100 * MIB)
    assert list(tried) == [10 * MIB, 20 * MIB, 40 * MIB, 80 * MIB, 100 * MIB]
    assert threshold(tried).smallest_bytes == 0
    assert threshold(tried).failed_bytes == 100 * MIB


def test_a_program_that_always_survives_is_tried_down_to_the_resolution() -> None:
    tried = search(lambda size: True, 10 * MIB, 100 * MIB)
    assert threshold(tried).smallest_bytes == MIB
    assert threshold(tried).failed_bytes == 0


def test_the_resolution_is_a_size_or_a_share_whichever_is_larger() -> None:
    assert Resolution().step(20 * MIB) == MIB
    assert Resolution().step(1000 * MIB) == 20 * MIB
    assert FINE.step(1000 * MIB) == 64 << 10


def test_the_estimate_of_what_is_left_falls_to_nothing() -> None:
    tried: dict[int, bool] = {}
    estimates = []
    while (size := next_size(tried, first_bytes=100 * MIB, most_bytes=900 * MIB, resolution=Resolution())) is not None:
        estimates.append(sizes_left(tried, first_bytes=100 * MIB, most_bytes=900 * MIB, resolution=Resolution()))
        tried[size] = size >= 37 * MIB
    assert estimates[0] in range(len(tried) - 2, len(tried) + 3)
    assert estimates == sorted(estimates, reverse=True)
    assert sizes_left(tried, first_bytes=100 * MIB, most_bytes=900 * MIB, resolution=Resolution()) == 0


def test_after_the_bisection_one_and_three_steps_more_are_tried() -> None:
    sizes = [size // MIB for size in search(lambda size: size >= 38 * MIB, 64 * MIB, 1024 * MIB)]
    assert sizes == [64, 32, 48, 40, 36, 38, 37, 39, 41]
    # A failure there continues the search above it; nothing is tried from the largest size on.
    sizes = [size // MIB for size in search(lambda size: size >= 38 * MIB and size != 39 * MIB, 64 * MIB, 1024 * MIB)]
    assert sizes == [64, 32, 48, 40, 36, 38, 37, 39, 41, 43]
    assert [size // MIB for size in search(lambda size: size >= 3 * MIB, 4 * MIB, 1024 * MIB)] == [4, 2, 3]


@pytest.mark.parametrize(
    ("tried", "left"),
    [
        ({}, 8),  # 64 is halved six times, and two more sizes are checked
        ({64: True}, 8),
        ({64: True, 32: False}, 7),
        ({64: True, 32: False, 48: True, 40: True, 36: False}, 4),
        ({64: True, 32: False, 48: True, 40: True, 36: False, 38: True, 37: False}, 2),
        ({64: True, 32: False, 48: True, 40: True, 36: False, 38: True, 37: False, 39: True, 41: True}, 0),
        ({64: False}, 7),
    ],
)
def test_the_sizes_that_are_left(tried: dict[int, bool], left: int) -> None:
    known = {size * MIB: survived for size, survived in tried.items()}
    first = 128 * MIB if tried == {64: False} else 64 * MIB
    assert sizes_left(known, first_bytes=first, most_bytes=1024 * MIB, resolution=USUAL) == left


def test_no_size_above_the_first_survivor_is_tried() -> None:
    assert max(search(lambda size: True, 2 * MIB, 100 * MIB)) == 2 * MIB
    assert max(search(lambda size: size >= 9 * MIB, 10 * MIB, 100 * MIB)) == 10 * MIB


def test_the_search_begins_at_the_largest_size_if_the_program_used_more() -> None:
    assert next(iter(search(lambda size: True, 500 * MIB, 100 * MIB))) == 100 * MIB


def test_the_search_ends_even_if_each_check_fails() -> None:
    assert MOST_SIZES == 60
    tried = {size * MIB: False for size in range(1, 61)}
    assert next_size(tried, first_bytes=MIB, most_bytes=1024 * MIB, resolution=USUAL) is None
    tried.popitem()
    assert next_size(tried, first_bytes=MIB, most_bytes=1024 * MIB, resolution=USUAL) is not None
