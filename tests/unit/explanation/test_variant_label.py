# SPDX-License-Identifier: MIT OR Apache-2.0
"""Labels of variants as files hold them."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.explanation.amounts import short_label


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("libc=musl", "musl"),
        ("libc=glibc (again)", "glibc (again)"),
        ("libc=musl,allocator=default", "libc=musl,allocator=default"),
        ("program=./a=b", "program=./a=b"),
    ],
)
def test_a_label_of_one_factor_is_shortened(label: str, short: str) -> None:
    assert short_label(label) == short
