# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of functions by address, also for stripped files."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import re
from pathlib import Path

import msgspec
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from swapstone.factors.elf_file import DamagedElfError, open_elf, symbols_of
from swapstone.instruments import archive_matching
from swapstone.model import UserError
from swapstone.model.directories import cache_dir

_FUNCTION, _RESOLVER = 2, 10  # STT_FUNC, STT_GNU_IFUNC
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")
DEBUG = Path("/usr/lib/debug")


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A function: its address in the file, its size (0 if the file has none), its name."""

    address: int
    size: int
    name: str
    resolver: bool = False


class Table:
    """The functions of one file.

    Args:
        symbols: in any order.
        segments: triples (offset in the file, address, size) of the loadable segments.
    """

    def __init__(self, symbols: list[Symbol], segments: tuple[tuple[int, int, int], ...]) -> None:
        self.symbols = sorted(symbols, key=lambda one: (one.address, -one.size, one.name.startswith("_"), one.name))
        self._starts = [one.address for one in self.symbols]
        self._segments = segments

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
        at = bisect.bisect_right(self._starts, address)
        for one in reversed(self.symbols[max(0, at - 8) : at]):
            if one.address <= address < one.address + one.size:
                return self._first(one).name
        if at:
            last = self.symbols[at - 1]
            if last.size == 0 and address - last.address < 4096:
                return self._first(last).name
        return ""

    def _first(self, one: Symbol) -> Symbol:
        """Return the preferred name of several symbols at one address."""
        return self.symbols[bisect.bisect_left(self._starts, one.address)]

    def begins_at(self, address: int) -> bool:
        """Return whether a function begins at an address. The resolver of an indirect function is none."""
        at = bisect.bisect_left(self._starts, address)
        return at < len(self.symbols) and self.symbols[at].address == address and not self.symbols[at].resolver

    def address(self, name: str) -> int | None:
        """Return the address of a function."""
        return next((one.address for one in self.symbols if one.name == name and not one.resolver), None)


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
    try:
        with open_elf(path) as elf:
            segments = tuple(
                (each["p_offset"], each["p_vaddr"], each["p_filesz"])
                for each in elf.iter_segments()
                if each["p_type"] == "PT_LOAD"
            )
            symbols = _symbols(elf)
            whole = elf.get_section_by_name(".symtab") is not None
            debug = None if whole else _debug_file(elf, path)
    except (OSError, DamagedElfError):
        return None
    if debug is not None:
        symbols += _symbols_of_debug_file(debug)
    elif (
        not whole
        and (companion := path.with_name("libc.a")).is_file()
        and path.name in {"libc.so", "ld-musl-x86_64.so.1"}
    ):
        symbols += [Symbol(*each) for each in _matched(path, companion)]
    return Table(symbols, segments)


def _symbols(elf: ELFFile) -> list[Symbol]:
    # Bit 0 of a function's address marks Thumb code (ELF for the Arm Architecture, section "Symbol Values").
    mask = ~1 if elf["e_machine"] == "EM_ARM" else ~0
    return [
        Symbol(one.address & mask, one.size, one.name, one.kind == _RESOLVER)
        for name in (".symtab", ".dynsym")
        for one in symbols_of(elf, elf.get_section_by_name(name))
        if one.kind in {_FUNCTION, _RESOLVER} and one.address and one.section
    ]


def _symbols_of_debug_file(path: Path) -> list[Symbol]:
    try:
        with open_elf(path) as elf:
            return _symbols(elf)
    except (OSError, DamagedElfError):
        return []


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
