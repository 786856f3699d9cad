# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every suite: declarations of workloads, without code that measures."""

from __future__ import annotations

import functools

from swapstone.core.model import Suite
from swapstone.core.model.parts import provided


@functools.cache
def all_suites() -> tuple[Suite, ...]:
    """Return every suite, in the order of ``swapstone list workloads``.

    Raises:
        UserError: a part can't be loaded.
    """
    return provided("suite", Suite)
