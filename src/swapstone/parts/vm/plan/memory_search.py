# SPDX-License-Identifier: MIT OR Apache-2.0
"""The search for the smallest memory in which a program survives: which size is tried next, and what the tried sizes show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

MIB = 1 << 20

CHECKED_STEPS = (1, 3)
"""After the bisection, sizes this many steps above the smallest survivor are tried too: a failure there shows that memory alone does not
decide."""

MOST_SIZES = 60
"""Limit of the sizes that are tried for one variant. A bisection of 64 GiB to 1 MiB needs 16 and the checks 2."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resolution:
    """How near the smallest size that survived and the largest that failed are at the end.

    Attributes:
        least_bytes: near enough for any size.
        share: of the smallest size that survived, which is near enough too; 0 for none.
        grid_bytes: every tried size is a multiple of this.
    """

    least_bytes: int = MIB
    share: float = 0.02
    grid_bytes: int = MIB

    def step(self, size_bytes: int) -> int:
        """Return the resolution at a size, a multiple of the grid and at least one."""
        return max(self.grid_bytes, self.down(max(self.least_bytes, round(size_bytes * self.share))))

    def down(self, size_bytes: int) -> int:
        """Return the largest multiple of the grid that is not above a size."""
        return size_bytes // self.grid_bytes * self.grid_bytes

    def up(self, size_bytes: int) -> int:
        """Return the smallest multiple of the grid, above 0, that is not below a size."""
        return max(1, -(-size_bytes // self.grid_bytes)) * self.grid_bytes


@dataclasses.dataclass(frozen=True)
class Threshold:
    """What the tried sizes show.

    Attributes:
        smallest_bytes: the smallest size that survived and above which none failed; 0 if there is none.
        failed_bytes: the largest size that failed; 0 if none did.
        survived_below: sizes below `failed_bytes` that survived, in order: the result is not monotonic.
    """

    smallest_bytes: int
    failed_bytes: int
    survived_below: tuple[int, ...] = ()


def threshold(tried: Mapping[int, bool]) -> Threshold:
    """Return what sizes show.

    Args:
        tried: whether each size survived.
    """
    failed = max((size for size, survived in tried.items() if not survived), default=0)
    survivors = sorted(size for size, survived in tried.items() if survived)
    above = [size for size in survivors if size > failed]
    return Threshold(above[0] if above else 0, failed, tuple(size for size in survivors if size < failed))


def next_size(tried: Mapping[int, bool], *, first_bytes: int, most_bytes: int, resolution: Resolution) -> int | None:
    """Return the size to try next; None if the search is complete, or no size up to the largest survives.

    From the first size it doubles until one survives, bisects between the largest that failed and the smallest above it that survived,
    and then tries `CHECKED_STEPS`. A failure there continues the bisection above it.

    Args:
        tried: whether each size survived.
        first_bytes: where the search begins.
        most_bytes: the largest size.
        resolution: when it ends.
    """
    if len(tried) >= MOST_SIZES:
        return None
    most = resolution.up(most_bytes)
    if not tried:
        return min(resolution.up(first_bytes), most)
    now = threshold(tried)
    if not now.smallest_bytes:
        return None if now.failed_bytes >= most else min(2 * now.failed_bytes, most)
    if now.smallest_bytes - now.failed_bytes > resolution.step(now.smallest_bytes):
        return resolution.up((now.failed_bytes + now.smallest_bytes) // 2)
    highest = max(tried)
    checks = (now.smallest_bytes + steps * resolution.step(now.smallest_bytes) for steps in CHECKED_STEPS)
    return next((size for size in checks if size < highest and size not in tried), None)


def sizes_left(tried: Mapping[int, bool], *, first_bytes: int, most_bytes: int, resolution: Resolution) -> int:
    """Estimate how many sizes the search still tries, if memory alone decides; for displays. The arguments are those of `next_size`."""
    now = threshold(tried)
    low, high = now.failed_bytes, now.smallest_bytes or min(resolution.up(first_bytes), most_bytes)
    step, left = resolution.step(high), len(CHECKED_STEPS)
    while high - low > step:
        high -= (high - low) // 2
        left += 1
    return left if next_size(tried, first_bytes=first_bytes, most_bytes=most_bytes, resolution=resolution) else 0
