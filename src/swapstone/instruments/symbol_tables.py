# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of functions by address, also for stripped files."""

from __future__ import annotations

import bisect
import contextlib
import functools
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from swapstone.factors.elf_file import DamagedElfError, open_elf, symbols_of
from swapstone.instruments import archive_matching
from swapstone.model import UserError
from swapstone.model.directories import cache_dir

_RESOLVER = 10  # STT_GNU_IFUNC
_FUNCTIONS = (2, _RESOLVER)  # STT_FUNC
_ADDRESSES = (1 << 64) - 1
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")
DEBUG = Path("/usr/lib/debug")


class Symbol(NamedTuple):
    """A function: its address in the file, its size (0 if the file has none), its name, and whether it resolves an indirect function."""

    address: int
    size: int
    name: str
    resolver: bool = False


class Symbols:
    """Symbols in columns, because files have up to millions of them: 25 bytes each, and their names, each between two zero bytes."""

    def __init__(self) -> None:
        self.addresses, self.sizes, self.ends = array("Q"), array("Q"), array("Q")
        self.resolvers, self.names = bytearray(), bytearray(b"\0")

    def __len__(self) -> int:
        return len(self.addresses)

    def extend(self, symbols: Iterable[Symbol]) -> None:
        """Add symbols, all or none: if reading them raises, those that were read are removed."""
        count, end = len(self), len(self.names)
        try:
            for address, size, name, resolver in symbols:
                self.names += name.encode(errors="replace")
                self.ends.append(len(self.names))
                self.names.append(0)
                self.addresses.append(address & _ADDRESSES)
                self.sizes.append(size & _ADDRESSES)
                self.resolvers.append(resolver)
        except BaseException:
            del self.addresses[count:], self.sizes[count:], self.ends[count:], self.resolvers[count:], self.names[end:]
            raise

    def name(self, number: int) -> bytes:
        """Return the name of a symbol."""
        return bytes(self.names[self.ends[number - 1] + 1 if number else 1 : self.ends[number]])

    def in_order(self) -> Symbols:
        """Return them by address, the larger first, then those that begin without an underscore, then by name."""
        addresses, sizes = (np.array(each, dtype=np.uint64) for each in (self.addresses, self.sizes))
        order = np.lexsort((~sizes, addresses))
        equal = (np.diff(addresses[order]) == 0) & (np.diff(sizes[order]) == 0)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8))).tolist()
        for begin, last in zip(edges[::2], edges[1::2], strict=True):
            order[begin : last + 1] = sorted(order[begin : last + 1].tolist(), key=self._by_name)
        found = Symbols()
        found.addresses.frombytes(addresses[order].tobytes())
        found.sizes.frombytes(sizes[order].tobytes())
        for number in order.tolist():
            found.names += self.name(number)
            found.ends.append(len(found.names))
            found.names.append(0)
            found.resolvers.append(self.resolvers[number])
        return found

    def _by_name(self, number: int) -> tuple[bool, bytes]:
        name = self.name(number)
        return name.startswith(b"_"), name


class Table:
    """The functions of one file, by address.

    Args:
        symbols: in any order.
        segments: triples (offset in the file, address, size) of the loadable segments.
    """

    def __init__(self, symbols: Symbols, segments: tuple[tuple[int, int, int], ...]) -> None:
        self._symbols = symbols.in_order()
        self._segments = segments

    def __len__(self) -> int:
        return len(self._symbols)

    def __iter__(self) -> Iterator[Symbol]:
        return map(self._symbol, range(len(self)))

    def _symbol(self, number: int) -> Symbol:
        columns = self._symbols
        resolver = bool(columns.resolvers[number])
        return Symbol(columns.addresses[number], columns.sizes[number], self._name(number), resolver)

    def _name(self, number: int) -> str:
        return self._symbols.name(number).decode(errors="replace")

    def address_of(self, offset: int) -> int:
        """Return the unrelocated address of an offset in the file."""
        return next(
            (at + offset - begin for begin, at, size in self._segments if begin <= offset < begin + size), offset
        )

    def offset_of(self, address: int) -> int:
        """Return the offset in the file of an address."""
        return next((begin + address - at for begin, at, size in self._segments if at <= address < at + size), address)

    def name_at(self, address: int) -> str:
        """Return the function that contains an address; empty if there is none.

        A function without a size (as in assembler) extends to the next one, but at most 4096 bytes.
        """
        addresses, sizes = self._symbols.addresses, self._symbols.sizes
        at = bisect.bisect_right(addresses, address)
        for number in range(at - 1, max(0, at - 8) - 1, -1):
            if address < addresses[number] + sizes[number]:
                return self._first_name(number)
        if at and not sizes[at - 1] and address - addresses[at - 1] < 4096:
            return self._first_name(at - 1)
        return ""

    def _first_name(self, number: int) -> str:
        """Return the preferred name of several symbols at one address."""
        addresses = self._symbols.addresses
        return self._name(bisect.bisect_left(addresses, addresses[number]))

    def begins_at(self, address: int) -> bool:
        """Return whether a function begins at an address. The resolver of an indirect function is none."""
        addresses = self._symbols.addresses
        at = bisect.bisect_left(addresses, address)
        return at < len(addresses) and addresses[at] == address and not self._symbols.resolvers[at]

    def address(self, name: str) -> int | None:
        """Return the address of a function."""
        columns, wanted, at = self._symbols, b"\0" + name.encode(errors="replace") + b"\0", 0
        while (at := columns.names.find(wanted, at)) >= 0:
            number = bisect.bisect_right(columns.ends, at)
            if not columns.resolvers[number]:
                return columns.addresses[number]
            at += 1
        return None


def table_of(path: Path) -> Table | None:
    """Return a file's functions: from its symbols, its debug file, or for a stripped musl its static archive.

    Returns:
        None if it can't be read as an ELF file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return _table(path, status.st_mtime_ns)


@functools.cache
def _table(path: Path, _changed_ns: int) -> Table | None:
    symbols = Symbols()
    try:
        with open_elf(path) as elf:
            segments = tuple(
                (each["p_offset"], each["p_vaddr"], each["p_filesz"])
                for each in elf.iter_segments()
                if each["p_type"] == "PT_LOAD"
            )
            symbols.extend(_symbols(elf))
            whole = elf.get_section_by_name(".symtab") is not None
            debug = None if whole else _debug_file(elf, path)
    except (OSError, DamagedElfError):
        return None
    if debug is not None:
        _add_debug_file(symbols, debug)
    elif (
        not whole
        and (companion := path.with_name("libc.a")).is_file()
        and path.name in {"libc.so", "ld-musl-x86_64.so.1"}
    ):
        symbols.extend(Symbol(*each) for each in _matched(path, companion))
    return Table(symbols, segments)


def _symbols(elf: ELFFile) -> Iterator[Symbol]:
    # Bit 0 of a function's address marks Thumb code (ELF for the Arm Architecture, section "Symbol Values").
    mask = ~1 if elf["e_machine"] == "EM_ARM" else ~0
    for name in (".symtab", ".dynsym"):
        for one in symbols_of(elf, elf.get_section_by_name(name), _FUNCTIONS):
            if one.address and one.section:
                yield Symbol(one.address & mask, one.size, one.name, one.kind == _RESOLVER)


def _add_debug_file(symbols: Symbols, path: Path) -> None:
    """Add the symbols of a debug file; none if it is damaged."""
    with contextlib.suppress(OSError, DamagedElfError), open_elf(path) as elf:
        symbols.extend(_symbols(elf))


def missing_symbols(path: Path) -> str:
    """Return the build ID of a file without a symbol table and without a debug file; empty for other files, and if it has none."""
    try:
        with open_elf(path) as elf:
            whole = elf.get_section_by_name(".symtab") is not None
            return "" if whole or _debug_file(elf, path) else build_id(elf)
    except (OSError, DamagedElfError):
        return ""


def companion_of(path: Path) -> Path:
    """Return the path of a debug file beside a file."""
    return path.with_name(f"{path.name}.debug")


def debug_name(build: str) -> str:
    """Return the path of a debug file in a folder of them, by its build ID (GDB's manual: "Separate Debug Files")."""
    return f".build-id/{build[:2]}/{build[2:]}.debug"


def build_id(elf: ELFFile) -> str:
    """Return a file's build ID in hexadecimal digits; empty if it has none."""
    note = elf.get_section_by_name(".note.gnu.build-id")
    found = (str(each["n_desc"]) for each in (note.iter_notes() if isinstance(note, NoteSection) else ()))
    return next((build for build in found if _BUILD_ID.fullmatch(build)), "")


def _debug_file(elf: ELFFile, path: Path) -> Path | None:
    """Return the debug file of a stripped file, with its build ID: beside it, or the distribution's."""
    build = build_id(elf)
    places = (companion_of(path), DEBUG / debug_name(build)) if build else ()
    return next((place for place in places if _has_build_id(place, build)), None)


def _has_build_id(path: Path, build: str) -> bool:
    try:
        with open_elf(path) as elf:
            return build_id(elf) == build
    except (OSError, DamagedElfError):
        return False


def _matched(path: Path, companion: Path) -> list[tuple[int, int, str]]:
    """Return the functions of a stripped library that match its static archive; cached."""
    digest = archive_matching.digest_of(path, companion)
    kept = cache_dir() / "symbols" / f"{digest}.json"
    try:
        return msgspec.json.decode(kept.read_bytes(), type=list[tuple[int, int, str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        try:
            found = archive_matching.matches(path, companion)
        except (OSError, UserError, DamagedElfError):
            return []
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    part.write_bytes(msgspec.json.encode(found))
    part.replace(kept)
    return found
