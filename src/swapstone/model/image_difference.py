"""What differs between two machines of one comparison."""

from __future__ import annotations

from swapstone.model.frozen_struct import FrozenStruct


class Certificate(FrozenStruct, frozen=True, kw_only=True):
    """What was found when two images were laid side by side.

    Attributes:
        between: what the two are called, the baseline first; empty texts where nobody said.
        differing: paths that are not the same in both, sorted, each with the parts that it came from.
        same: how many files are the same.
        parts: the parts that were swapped; nothing else differs.
    """

    between: tuple[str, str] = ("", "")
    differing: tuple[tuple[str, str], ...]
    same: int
    parts: tuple[str, ...]

    def in_words(self) -> str:
        """Say it in a few words: ``generic and rt: 12 files differ, all of the kernel; 345 are the same``."""
        count = len(self.differing)
        origins = " and ".join(self.parts)
        differ = f"{count} files differ, all" if count != 1 else "1 file differs, and is"
        what = f"{differ} of the {origins}" if count else "no file differs"
        return f"{' and '.join(self.between)}: {what}; {self.same} are the same"
