# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a factor may need of the files of programs: the number of their segments."""

from __future__ import annotations

from collections.abc import Mapping

from elftools.elf.elffile import ELFFile

from swapstone.core.factors.factor import PartFacts


class Segments(PartFacts, frozen=True, kw_only=True):
    """How many segments a file has."""

    count: int = 0

    @classmethod
    def read(cls, elf: ELFFile) -> Segments:
        """Count the program headers."""
        return cls(count=elf.num_segments())

    @classmethod
    def pretended(cls, levels: Mapping[str, str], offered: tuple[str, ...]) -> Segments:
        """Return that it has none."""
        del levels, offered
        return cls()
