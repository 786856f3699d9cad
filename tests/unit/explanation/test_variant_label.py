# SPDX-License-Identifier: MIT OR Apache-2.0
"""Labels of variants as files hold them."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.explanation.by_function import short_label
from swapstone.parts.explain.model.explanation import RowKey


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


@pytest.mark.parametrize(
    ("baseline", "candidate", "shown"),
    [
        ("libc=glibc", "libc=musl", ("libc=glibc", "libc=musl")),
        ("rootfs=/x/a", "rootfs=/x/b", ("rootfs=a", "rootfs=b")),
        ("rootfs=/x/root", "rootfs=/y/root", ("rootfs=x/root", "rootfs=y/root")),
        ("rootfs=/x/a,allocator=default", "rootfs=/x/a,allocator=mimalloc", None),
        ("env:A=p=1,q=2", "env:A=p=1", ("env:A=p=1,q=2", "env:A=p=1")),
        ("first", "second", ("first", "second")),
    ],
)
def test_paths_are_shortened_as_far_as_they_differ(
    baseline: str, candidate: str, shown: tuple[str, str] | None
) -> None:
    place = RowKey(suite="s", workload="w", load="idle", metric="wall", baseline=baseline, candidate=candidate)
    assert place.shown == (shown or ("rootfs=a,allocator=default", "rootfs=a,allocator=mimalloc"))
