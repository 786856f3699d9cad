# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which comparisons have worst wake-ups whose path can be derived."""

from __future__ import annotations

import pytest

from swapstone.core.session.request import parse_factors, resolve
from swapstone.parts.explain.session.wakeups import measures_wakeups
from tests.small_records import request_of


@pytest.mark.parametrize(
    ("suite", "target", "factor", "allowed"),
    [
        ("latency", "vm", "kernel=generic,rt", True),
        ("libc", "vm", "libc=glibc,musl", False),
        ("libc", "host", "libc=glibc,musl", False),
    ],
)
def test_only_wake_ups_on_the_exact_clock_have_a_path(suite: str, target: str, factor: str, *, allowed: bool) -> None:
    request = request_of(name="x", factors=parse_factors([factor]), suites=(suite,), target=target, blocks=2)
    assert measures_wakeups(resolve(request)) is allowed
