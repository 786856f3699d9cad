# SPDX-License-Identifier: MIT OR Apache-2.0
"""The differences between two machine images of one comparison."""

from __future__ import annotations

from swapstone.core.model.bounds import NonNegative
from swapstone.core.model.frozen_struct import FrozenStruct


class ImageDifference(FrozenStruct, frozen=True, kw_only=True):
    """The result of comparing two images file by file.

    Attributes:
        between: names of the two images, the baseline first; empty strings if they have none.
        differing: paths of files that differ, sorted, each with the components it came from.
        same: number of equal files.
        parts: the components that were swapped; no file of another component differs.
    """

    between: tuple[str, str] = ("", "")
    differing: tuple[tuple[str, str], ...]
    same: NonNegative
    parts: tuple[str, ...]

    def summary(self) -> str:
        """Summarise it: ``generic and rt: 12 files differ, all of the kernel; 345 are the same``."""
        count = len(self.differing)
        origins = " and ".join(self.parts)
        differ = f"{count} files differ, all" if count != 1 else "1 file differs, and is"
        what = f"{differ} of the {origins}" if count else "no file differs"
        return f"{' and '.join(self.between)}: {what}; {self.same} are the same"
