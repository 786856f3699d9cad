# SPDX-License-Identifier: MIT OR Apache-2.0
"""The group of a workload's name."""

from __future__ import annotations

import pytest

from swapstone.core.report.answer.means import group_name


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (("b_string_strstr(abcd)", "b_malloc_big1"), ["strings", "malloc"]),
        (("core_list (1 thread)", "core_crc (n threads)"), ["list", "crc"]),
        (("spawn (1 copy)", "execl (1 copy)"), ["spawn", "execl"]),
        (("a", "b c"), ["a", "b c"]),
    ],
)
def test_a_group_is_the_first_part_that_differs(names: tuple[str, ...], groups: list[str]) -> None:
    assert [group_name(name, names) for name in names] == groups
