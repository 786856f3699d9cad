# SPDX-License-Identifier: MIT OR Apache-2.0
"""Name the functions of executed blocks: the kernel's by its list, and those of a machine's files by the content of the instructions.

The emulator's plugin reports virtual addresses and instructions, but not the process. Programs share virtual addresses, because they are
not randomised. So a block of instructions belongs to the file that has the same bytes at that address. A file that the loader places
has one or more bases: addresses at which several of its blocks were found.

The image's glibc is stripped, and its symbols are in another package of the same version. The package is fetched only if code of a
stripped glibc was executed that no debug file of this machine names.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

from swapstone.core.model import UserError
from swapstone.parts.explain.instruments.plugin_file import Block, FunctionKey, NameAt, NamesOf
from swapstone.parts.explain.instruments.symbol_tables import (
    Table,
    companion_of,
    debug_name,
    missing_symbols,
    occurrences,
    of_elf,
    table_of,
)
from swapstone.parts.explain.model.explanation import AMBIGUOUS, KERNEL_CODE, OTHER_PROGRAM, PROGRAM, UNKNOWN

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


COMMAND = ("/bin/sh", "-c", "grep -i ' [tw] ' /proc/kallsyms")
"""Prints the functions in a machine; of about 9 MB, 2 MB remain."""

MOST_BYTES = 16 << 20
_LINE = re.compile(r"([0-9a-f]{8,16}) ([tTwW]) ([A-Za-z0-9_.$@-]{1,512})(?:\t\[([A-Za-z0-9_-]{1,64})\])?")
_MARKER = re.compile(r"_\w*text(_start|_begin|_end)?")
_ENTRIES = ("__x64_sys_", "__arm64_sys_", "__riscv_sys_")
_LONGEST = 1 << 20
"""An address farther behind the last function is in none."""


class KernelSymbols:
    """The functions of a running kernel.

    Args:
        functions: triples (address, name, module); the module is empty for the kernel itself.
    """

    def __init__(self, functions: Iterable[tuple[int, str, str]]) -> None:
        best_last = sorted(functions, key=lambda one: _rank(one[1]), reverse=True)
        self._best = {address: (name, module) for address, name, module in best_last}
        self._starts = sorted(self._best)
        self._addresses = {self._best[address][0]: address for address in reversed(self._starts)}

    def name_at(self, address: int) -> tuple[str, str, int] | None:
        """Return name, module and start of the function that contains an address; None if there is none."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address - self._starts[at] >= _LONGEST:
            return None
        return (*self._best[self._starts[at]], self._starts[at])

    def address(self, name: str) -> int | None:
        """Return the address of a function."""
        return self._addresses.get(name)

    def end(self, name: str) -> int | None:
        """Return the address of the function behind another one; None if that is not known or is the last one."""
        start = self.address(name)
        at = len(self._starts) if start is None else bisect.bisect_right(self._starts, start)
        return self._starts[at] if at < len(self._starts) else None


def _rank(name: str) -> tuple[bool, bool, int, str]:
    """Return how much worse a name is than others of the same address: an entry of a system call, no marker such as ``_stext``, short."""
    return (not name.startswith(_ENTRIES), _MARKER.fullmatch(name) is not None, len(name), name)


def decode_kallsyms(output: bytes) -> KernelSymbols:
    """Decode what `COMMAND` printed.

    Raises:
        UserError: it has a line that is none of kallsyms, or no function with an address.
    """
    if len(output) > MOST_BYTES:
        raise UserError(f"The kernel's list of functions has more than {MOST_BYTES >> 20} MiB.")
    functions = []
    for line in output.decode("ascii", "replace").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise UserError(f"The kernel's list of functions is damaged: {line[:60]!r}.")
        functions.append((int(found[1], 16), found[3], found[4] or ""))
    if not any(address for address, _, _ in functions):
        raise UserError(
            "The kernel lists its functions without addresses.",
            "It needs CONFIG_KALLSYMS, and kernel.kptr_restrict=0 or 1.",
        )
    return KernelSymbols(functions)


TableOf = Callable[[CodeFile], Table | None]
"""Returns the functions of a file; None if it can't be read."""


def names_of(
    blocks: Iterable[Block], files: list[CodeFile], kernel: KernelSymbols, kernel_start: int, *, table: TableOf
) -> NamesOf:
    """Return what names the functions of blocks.

    Args:
        blocks: that were executed; those of user code show where its files are.
        files: of user code.
        kernel: functions of the kernel.
        kernel_start: the lowest address of the kernel.
        table: returns the functions of a file; called only for files of named blocks.
    """
    places = CodeMap(files, [block for block in blocks if block.address < kernel_start])

    def of_kernel(address: int) -> FunctionKey:
        name, module, _ = kernel.name_at(address) or ("", "", -1)
        return name, module, KERNEL_CODE

    return lambda block: of_kernel if block.address >= kernel_start else _user_names(places, block, table)


def _user_names(places: CodeMap, block: Block, table: TableOf) -> NameAt:
    owners = places.owners(block)
    if any(file.kind == PROGRAM for file, _ in owners):
        owners = [each for each in owners if each[0].kind != OTHER_PROGRAM]
    if len(owners) != 1:
        return lambda _: ("", "", AMBIGUOUS if owners else UNKNOWN)
    file, base = owners[0]
    functions = table(file)
    if functions is None:
        return lambda _: ("", file.name, file.kind)
    # without the default version of a versioned symbol
    return lambda address: (functions.name_at(address - base).split("@@")[0], file.name, file.kind)


_GLIBC = ("ld-linux", "libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")
"""How names of glibc's files in an image begin (parts/vm/artifacts/image_catalog.py)."""

FindDebugFile = Callable[[str, Path, Callable[[str], None]], tuple[str, bytes | None]]


class DebugFiles:
    """The functions of files, with the debug files of glibc's package.

    Args:
        find: returns a debug file: `swapstone.core.targets.observed_target.ObservedTarget.debug_file`.
        folder: for temporary files.
        notify: called before a download.
    """

    def __init__(self, find: FindDebugFile, folder: Path, notify: Callable[[str], None]) -> None:
        self._find, self._folder, self._notify = find, folder, notify
        self._table = functools.cache(self._read)
        self._files: dict[str, bytes | None] = {}
        self._source = ""
        self._unnamed: dict[str, None] = {}
        self._failure = ""

    def table(self, file: CodeFile) -> Table | None:
        """Return the functions of a file; None if it can't be read."""
        return self._table(file.symbols, file.name)

    def _read(self, path: Path, name: str) -> Table | None:
        build = missing_symbols(path) if name.startswith(_GLIBC) else ""
        if build and (content := self._content(name, build)) is not None:
            companion_of(path).write_bytes(content)
        return table_of(path)

    def notes(self) -> tuple[str, ...]:
        """Return where the names of glibc's functions come from, and why functions have none, as sentences."""
        named = f"Names of glibc's internal functions are from {self._source}." if any(self._files.values()) else ""
        return tuple(filter(None, (named, *self._unnamed)))

    def _content(self, name: str, build: str) -> bytes | None:
        """Return the debug file of a build ID; None if the package does not have it, or if it can't be fetched."""
        if build not in self._files and not self._failure:  # a download that failed is not repeated for each file
            try:
                self._source, self._files[build] = self._find(debug_name(build), self._folder, self._notify)
            except UserError as error:
                self._failure = error.message.removesuffix(".")
        content = self._files.get(build)
        if content is None:
            why = self._failure or f"{self._source} has no symbols of build ID {build}"
            self._unnamed[f"Internal functions of {name} have no names: {why}."] = None
        return content
