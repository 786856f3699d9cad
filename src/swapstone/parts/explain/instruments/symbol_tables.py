# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of functions by address, also for stripped files."""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import itertools
import lzma
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection

from swapstone.core.factors.elf_file import MOST_UNPACKED_BYTES, DamagedElfError, content_of, open_elf, symbols_of
from swapstone.core.model import grouped
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.core.model.temporary_folder import TemporaryFolder

_METHOD = b"swapstone-archive 2"  # changes with what `matches` finds
_EXECUTABLE = 4  # SHF_EXECINSTR
_FILLED = 4  # bytes that a relocation of code changes; the maximum on the supported processors
_FUNCTION = 2  # STT_FUNC
_SHORTEST = 8  # consecutive unrelocated bytes that a match needs


def matches(library: Path, objects: Path) -> list[tuple[int, int, str]]:
    """Find the functions of a relocatable file in a library.

    Returns:
        Triples (address, size, name). A section that occurs more than once, or not at all, is left out.

    Raises:
        DamagedElfError: a file is damaged.
        OSError: a file can't be read.
    """
    with open_elf(library) as elf:
        text = elf.get_section_by_name(".text")
        if text is None:
            return []
        code, base = content_of(text), int(text["sh_addr"])
    with open_elf(objects) as elf:
        return sorted(set(_of_object(elf, code, base)))


def _of_object(elf: ELFFile, code: bytes, base: int) -> list[tuple[int, int, str]]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return []
    functions = grouped(symbols_of(elf, table, (_FUNCTION,)), lambda one: one.section)
    sections = list(elf.iter_sections())
    relocations = (section for section in sections if isinstance(section, RelocationSection))
    relocated = grouped(relocations, lambda section: int(section["sh_info"]))
    found: list[tuple[int, int, str]] = []
    for number, section in enumerate(sections):
        if section["sh_type"] != "SHT_PROGBITS" or not section["sh_flags"] & _EXECUTABLE:
            continue
        own = content_of(section)
        at = _only_place(own, _filled(relocated.get(number, ()), len(own)), code)
        if at is not None:
            found += [(base + at + one.address, one.size, one.name) for one in functions.get(number, ())]
    return found


def _filled(relocations: Iterable[RelocationSection], length: int) -> list[tuple[int, int]]:
    """Return the ranges of a section that the linker leaves unchanged, by its relocations."""
    holes = sorted(entry["r_offset"] for section in relocations for entry in section.iter_relocations())
    begins = [0, *(hole + _FILLED for hole in holes)]
    return [
        (begin, min(end, length))
        for begin, end in zip(begins, [*holes, length], strict=True)
        if begin < min(end, length)
    ]


def _only_place(own: bytes, kept: list[tuple[int, int]], code: bytes) -> int | None:
    """Return the offset of a section in the library; None unless it occurs exactly once."""
    begin, end = max(kept, key=lambda piece: piece[1] - piece[0], default=(0, 0))
    if end - begin < _SHORTEST:
        return None
    starts = (at - begin for at in occurrences(own[begin:end], code) if at >= begin)
    fitting = (
        start for start in starts if all(code[start + one : start + other] == own[one:other] for one, other in kept)
    )
    places = list(itertools.islice(fitting, 2))
    return places[0] if len(places) == 1 else None


def occurrences(part: bytes, whole: bytes) -> Iterator[int]:
    """Yield the offsets of a sequence of bytes in another one, ascending; they may overlap."""
    at = whole.find(part)
    while at >= 0:
        yield at
        at = whole.find(part, at + 1)


_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}")
DEBUG = Path("/usr/lib/debug")
_LONGEST_S = 120


Found = TypeVar("Found")


def of_elf(content: Path | bytes, read: Callable[[ELFFile], Found], default: Found) -> Found:
    """Return what is read of an ELF file; the default if it can't be read as one."""
    try:
        with open_elf(content) as elf:
            return read(elf)
    except (DamagedElfError, OSError):
        return default


class Symbol(NamedTuple):
    """A function: its address in the file, its size (0 if the file has none), and its name."""

    address: int
    size: int
    name: str


class Table:
    """The functions of one file, by address.

    Args:
        symbols: in any order.
        segments: triples (offset in the file, address, size) of the loadable segments.
        sections: addresses at which sections begin, ascending.
    """

    def __init__(
        self, symbols: Iterable[Symbol], segments: tuple[tuple[int, int, int], ...], sections: Sequence[int] = ()
    ) -> None:
        # by address, the larger first, then those that begin without an underscore, then by name
        self._symbols = sorted(symbols, key=lambda one: (one.address, -one.size, one.name.startswith("_"), one.name))
        self._addresses = [one.address for one in self._symbols]
        self._segments, self._sections = segments, sections

    def __len__(self) -> int:
        return len(self._symbols)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def address_of(self, offset: int) -> int:
        """Return the unrelocated address of an offset in the file."""
        return next(
            (at + offset - begin for begin, at, size in self._segments if begin <= offset < begin + size), offset
        )

    def name_at(self, address: int) -> str:
        """Return the function that contains an address; empty if there is none.

        A function without a size (as in assembler) extends to the next one or the end of its section, but at most 4096 bytes: what
        follows ``_init`` are the calls of other files' functions.
        """
        addresses = self._addresses
        at = bisect.bisect_right(addresses, address)
        for number in range(at - 1, max(0, at - 8) - 1, -1):
            if address < addresses[number] + self._symbols[number].size:
                return self._first_name(number)
        if not at or self._symbols[at - 1].size or address - addresses[at - 1] >= 4096:
            return ""
        first, this = (bisect.bisect_right(self._sections, each) for each in (addresses[at - 1], address))
        return self._first_name(at - 1) if first == this else ""

    def _first_name(self, number: int) -> str:
        """Return the preferred name of several symbols at one address."""
        return self._symbols[bisect.bisect_left(self._addresses, self._addresses[number])].name


def table_of(path: Path) -> Table | None:
    """Return a file's functions: from its symbols, its debug file or mini debug info, or for a stripped musl its static archive.

    Returns:
        None if it can't be read as an ELF file.
    """
    with contextlib.suppress(OSError):
        return _table(path, path.stat().st_mtime_ns)
    return None


@functools.cache
def _table(path: Path, _changed_ns: int) -> Table | None:
    try:
        with open_elf(path) as elf:
            segments = tuple(
                (each["p_offset"], each["p_vaddr"], each["p_filesz"])
                for each in elf.iter_segments()
                if each["p_type"] == "PT_LOAD"
            )
            sections = sorted(int(each["sh_addr"]) for each in elf.iter_sections())
            symbols = list(_symbols(elf))
            whole = elf.get_section_by_name(".symtab") is not None
            debug = b"" if whole else _debug_file(elf, path) or _mini_debug_info(elf)
    except (OSError, DamagedElfError):
        return None
    if debug:
        symbols += of_elf(debug, lambda elf: list(_symbols(elf)), [])
    elif (
        not whole
        and (companion := path.with_name("libc.a")).is_file()
        and path.name in {"libc.so", "ld-musl-x86_64.so.1"}
    ):
        symbols += (Symbol(*each) for each in _matched(path, companion))
    return Table(symbols, segments, sections)


def _symbols(elf: ELFFile) -> Iterator[Symbol]:
    # Bit 0 of a function's address marks Thumb code (ELF for the Arm Architecture, section "Symbol Values").
    mask = ~1 if elf["e_machine"] == "EM_ARM" else ~0
    for name in (".symtab", ".dynsym"):
        for one in symbols_of(elf, elf.get_section_by_name(name), _FUNCTIONS):
            if one.address and one.section:
                yield Symbol(one.address & mask, one.size, one.name)


def missing_symbols(path: Path) -> str:
    """Return the build ID of a file without a symbol table and without a debug file; empty for other files, and if it has none."""

    def read(elf: ELFFile) -> str:
        whole = elf.get_section_by_name(".symtab") is not None
        return "" if whole or _debug_file(elf, path) else build_id(elf)

    return of_elf(path, read, "")


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


def debug_file_of(path: Path) -> Path | None:
    """Return the debug file of a stripped file; None if it has none, or needs none."""
    return of_elf(path, lambda elf: None if elf.get_section_by_name(".debug_line") else _debug_file(elf, path), None)


def _debug_file(elf: ELFFile, path: Path) -> Path | None:
    """Return the debug file of a stripped file, with its build ID: beside it, the distribution's, or a server's."""
    build = build_id(elf)
    return (
        next((place for place in _places(path, build) if of_elf(place, build_id, "") == build), None) if build else None
    )


def _places(path: Path, build: str) -> Iterator[Path]:
    """Yield where the debug file of a build ID may be; debuginfod-find(1) fetches it if the user has set DEBUGINFOD_URLS."""
    yield from (companion_of(path), DEBUG / debug_name(build))
    if os.environ.get("DEBUGINFOD_URLS"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ("debuginfod-find", "debuginfo", build)
            fetched = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=True)
            yield Path(fetched.stdout.strip())


def _mini_debug_info(elf: ELFFile) -> bytes:
    """Return the ELF file with symbols that a stripped file contains (GDB's manual: "MiniDebugInfo"); empty if it has none."""
    packed = content_of(elf.get_section_by_name(".gnu_debugdata"))
    with contextlib.suppress(lzma.LZMAError):
        return lzma.LZMADecompressor().decompress(packed, MOST_UNPACKED_BYTES) if packed else b""
    return b""


def _matched(path: Path, companion: Path) -> list[tuple[int, int, str]]:
    """Return the functions of a stripped library that match its static archive; cached."""
    digests = b"".join(hashlib.sha256(each.read_bytes()).digest() for each in (path, companion))
    kept = cache_dir() / "symbols" / f"{hashlib.sha256(_METHOD + digests).hexdigest()[:32]}.json"
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(kept.read_bytes(), type=list[tuple[int, int, str]])
    try:
        with TemporaryFolder("symbols") as folder:
            objects = Path(folder, "objects.o")  # of the archive, with each of their sections
            command = ("ld", "-r", "--unique", "--whole-archive", "-o", str(objects), str(companion))
            subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=True)
            found = matches(path, objects)
    except (OSError, subprocess.SubprocessError, DamagedElfError):
        return []
    write_whole(kept, msgspec.json.encode(found))
    return found
