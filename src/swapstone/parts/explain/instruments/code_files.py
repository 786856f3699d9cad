# SPDX-License-Identifier: MIT OR Apache-2.0
"""Find the files that a machine's user code comes from, by the content of the executed instructions.

The emulator's plugin reports virtual addresses and instructions, but not the process. Programs share virtual addresses, because they are
not randomised. So a block of instructions belongs to the file that has the same bytes at that address. A file that the loader places
has one or more bases: addresses at which several of its blocks were found.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from swapstone.parts.explain.instruments.plugin_file import Block
from swapstone.parts.explain.instruments.symbol_tables import occurrences, of_elf

_PAGE = 4096
_EXECUTABLE = 1  # PF_X of elf(5)
_FEWEST_BYTES = 12
_OF_PAGE = 4
_MOST_SEARCHED = 1000
_MOST_PLACES = 64
_FEWEST_BLOCKS = 2
_MOST_BASES = 8


@dataclasses.dataclass(frozen=True)
class CodeFile:
    """The code of an ELF file.

    Attributes:
        name: how it is printed, for example ``libc.so.6``.
        kind: what it is, for example ``C library``.
        fixed: whether it runs at the addresses in the file (ET_EXEC).
        pieces: pairs (address in the file, bytes) of its executable segments.
        symbols: a file that names its functions: itself, or a copy with symbols.
    """

    name: str
    kind: str
    fixed: bool
    pieces: tuple[tuple[int, bytes], ...]
    symbols: Path

    def has(self, address: int, code: bytes) -> bool:
        """Return whether it has these bytes at an address of the file."""
        return any(
            start <= address and data[address - start : address - start + len(code)] == code
            for start, data in self.pieces
        )


def read_code(content: Path | bytes) -> tuple[bool, tuple[tuple[int, bytes], ...]] | None:
    """Return whether an ELF file has fixed addresses, and its executable segments; None if it is no program or library."""

    def read(elf: ELFFile) -> tuple[bool, tuple[tuple[int, bytes], ...]] | None:
        pieces = tuple(
            (int(each["p_vaddr"]), each.data())
            for each in elf.iter_segments()
            if each["p_type"] == "PT_LOAD" and each["p_flags"] & _EXECUTABLE
        )
        return (elf["e_type"] == "ET_EXEC", pieces) if elf["e_type"] in {"ET_EXEC", "ET_DYN"} else None

    return of_elf(content, read, None)


class CodeMap:
    """Where the files of a machine are in its processes' address spaces.

    Args:
        files: that may have been executed.
        blocks: of user code; the bases are found from them.
    """

    def __init__(self, files: Sequence[CodeFile], blocks: Sequence[Block]) -> None:
        wanted = _long_blocks(blocks)
        self._files = [(file, (0,) if file.fixed else _bases_of(file, wanted)) for file in files]

    def owners(self, block: Block) -> list[tuple[CodeFile, int]]:
        """Return pairs (file, base) of the files that have a block's bytes at its address.

        Returns:
            Nothing for an unknown block, several for an ambiguous one.
        """
        found = (
            (file, [base for base in bases if file.has(block.address - base, block.code)])
            for file, bases in self._files
        )
        return [(file, bases[-1]) for file, bases in found if bases]


def _long_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks to search for: of each page the longest, because each search reads whole files."""
    of_page: collections.defaultdict[int, dict[int, Block]] = collections.defaultdict(dict)
    for block in blocks:
        if len(block.code) >= _FEWEST_BYTES:
            of_page[block.address // _PAGE][block.address] = block
    longest = (sorted(page.values(), key=_by_length)[:_OF_PAGE] for page in of_page.values())
    return sorted((block for page in longest for block in page), key=_by_length)[:_MOST_SEARCHED]


def _by_length(block: Block) -> tuple[int, int]:
    return -len(block.code), block.address


def _bases_of(file: CodeFile, blocks: Sequence[Block]) -> tuple[int, ...]:
    """Return the bases of a file: with each, it has at least two of the blocks. A base is a multiple of a page."""
    votes: collections.Counter[int] = collections.Counter()
    for block in blocks:
        found = set[int]()
        for start, data in file.pieces:
            bases = (block.address - start - at for at in occurrences(block.code, data))
            pages = (base for base in bases if base >= 0 and base % _PAGE == 0 and base not in found)
            found.update(itertools.islice(pages, _MOST_PLACES - len(found)))
        votes.update(found)
    return tuple(base for base, count in votes.most_common(_MOST_BASES) if count >= _FEWEST_BLOCKS)
