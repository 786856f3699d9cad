# SPDX-License-Identifier: MIT OR Apache-2.0
"""System calls of the same work under several names."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.explanation.count_costs import common_counts
from swapstone.parts.explain.explanation.profile_formats import common_call
from swapstone.parts.explain.model.explanation import Count


def count(name: str, baseline: float | None, candidate: float | None, group: str = "system calls") -> Count:
    return Count(group=group, name=name, baseline=baseline, candidate=candidate)


@pytest.mark.parametrize(
    ("name", "common"),
    [
        ("clone3", "clone"),
        ("clone", "clone"),
        ("newfstatat", "stat"),
        ("clock_nanosleep", "nanosleep"),
        ("read or readv", "read"),
        ("recv", "recvfrom"),  # the wrapper of the C library
        ("fsync", "fsync"),
    ],
)
def test_calls_of_the_same_work_have_one_name(name: str, common: str) -> None:
    assert common_call(name) == common
    assert common_call(common) == common  # no chains


def test_counts_of_the_same_work_are_added_and_have_all_names() -> None:
    counts = (
        count("openat", 500.0, 0.0),
        count("fsync", 0.0, 3.0),
        count("open", 0.0, 501.0),
        count("read", 2.0, None),
        count("readv", 1.0, 4.0),
        count("open", 7.0, 8.0, group="calls"),
    )
    assert common_counts(counts) == (
        count("open or openat", 500.0, 501.0),
        count("fsync", 0.0, 3.0),
        count("read or readv", 3.0, None),
        count("open", 7.0, 8.0, group="calls"),
    )
