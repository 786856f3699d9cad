# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unwind tables for files that have none: a copy of the file with tables in place of its constants, and the same code.

Debian builds musl without unwind tables, and musl-gcc links programs without an index of theirs, so no unwinder finds the callers of
their functions. The tables are derived from the code (`stack_heights`); what a file has is kept. `perf script` takes the copies instead
of the files by its option ``--symfs``. It reads tables at addresses that the process had mapped, and nothing else of a copy's constants;
so the tables replace those. Programs run with the files themselves.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import os
import struct
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from swapstone.factors.elf_file import DamagedElfError, open_elf
from swapstone.instruments.stack_heights import (
    RSP,
    FrameState,
    Instruction,
    entries_in,
    instructions,
    states,
)
from swapstone.instruments.symbol_tables import table_of
from swapstone.model.directories import cache_dir

_VERSION = "2"
"""Changes with the tables that are derived from the same file."""

MOST_TABLES = 0.02
"""Size of ``.eh_frame`` relative to ``.text`` from which a file counts as one that has unwind tables: musl has 0.0003, glibc 0.07."""

_SMALLEST_LIBRARY, _LARGEST_TEXT = 1 << 16, 1 << 23
_MOST_ENTRIES = 4096  # entries of a directory on the way to a copy
_LONGEST_S = 120
_RETURN_ADDRESS = 16
_ALIGNMENT = -8
_ADVANCE, _ADVANCE_1, _ADVANCE_4, _OFFSET, _RESTORE, _DEF_CFA = 0x40, 0x02, 0x04, 0x80, 0xC0, 0x0C  # DWARF 5, 7.24
_PLAIN_4, _PC_RELATIVE_4, _DATA_RELATIVE_4 = 0x03, 0x1B, 0x3B  # DW_EH_PE_udata4; pcrel, datarel | sdata4
_HEADER_BYTES = 12
_SECTION_HEADER, _SHDR = 64, "<IIQQQQ"  # size of Elf64_Shdr, and its members sh_name to sh_size
_E_SHOFF, _E_SHENTSIZE, _SH_OFFSET = 0x28, 0x3A, 24
_INDEX = b".eh_frame_hdr\0"
_PAGE = 4096
_READABLE = 4  # PF_R alone
_RELATIVE = 8  # R_X86_64_RELATIVE


def root_with_tables(paths: Iterable[str], folder: Path) -> Path | None:
    """Return a root for ``perf script --symfs``: links to all files, but copies of those that have no unwind tables.

    Args:
        paths: of the files that a program has mapped.
        folder: in which the root is made.

    Returns:
        None if every file has tables, or none can be derived.
    """
    files = dict.fromkeys(Path(path).resolve() for path in paths)
    copies = {path: copy for path in files if (copy := copy_with_tables(path))}
    if not copies:
        return None
    root = folder / "root-with-tables"
    if not root.is_dir():
        _link(Path("/"), root, copies)
    return root


def _link(real: Path, linked: Path, copies: Mapping[Path, Path]) -> None:
    """Make a folder of links to the entries of another one; folders that contain a copied file are made in the same way."""
    linked.mkdir(parents=True)
    deeper = {path.relative_to(real).parts[0] for path in copies if path.is_relative_to(real)}
    for entry in itertools.islice(real.iterdir(), _MOST_ENTRIES):
        if entry.name not in deeper:
            (linked / entry.name).symlink_to(entry)
    for name in deeper:
        if real / name in copies:
            (linked / name).symlink_to(copies[real / name])
        else:
            _link(real / name, linked / name, copies)


def copy_with_tables(path: Path) -> Path | None:
    """Return the copy of a file, with tables, made now or before; None if it has tables, or none can be derived."""
    try:
        with open_elf(path) as elf:
            if not lacks_tables(elf):
                return None
        digest = hashlib.sha256(_VERSION.encode() + path.read_bytes()).hexdigest()
        copy = cache_dir() / "unwinding" / digest[:32]
        if not copy.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            _make(path, copy)
    except (OSError, DamagedElfError, subprocess.SubprocessError, struct.error):
        return None
    return copy


def lacks_tables(elf: ELFFile) -> bool:
    """Return whether a file of x86_64 code has no index of unwind tables, or next to no tables."""
    text, tables = elf.get_section_by_name(".text"), elf.get_section_by_name(".eh_frame")
    if elf["e_machine"] != "EM_X86_64" or text is None or text["sh_size"] > _LARGEST_TEXT:
        return False
    if elf.get_section_by_name(".eh_frame_hdr") is None:
        return True
    few = (0 if tables is None else tables["sh_size"]) < MOST_TABLES * text["sh_size"]
    return few and text["sh_size"] >= _SMALLEST_LIBRARY


def _make(path: Path, copy: Path) -> None:
    """Derive a file's tables, and write the copy.

    Raises:
        OSError, subprocess.SubprocessError: objdump fails, or the tables are too large; DamagedElfError: the file is damaged.
    """
    code = disassembled(path)
    layout = layout_of(path)
    entries, kept = set(layout.entries), layout.kept
    table = table_of(path)
    entries |= {one.address for one in table or () if ".cold" not in one.name} | entries_in(code)
    known = states(code, entries)
    starts = [one.start for one in kept]
    for one in code:
        number = bisect.bisect_right(starts, one.at)
        if number and one.at < kept[number - 1].end:
            known.pop(one.at, None)
    for room in layout.rooms:
        tables = unwind_tables(code, known, entries, room.address, kept)
        if len(tables) <= room.size:
            break
    else:
        raise OSError("there is no room for the tables")
    part = copy.with_name(f"{copy.name}.{os.getpid()}")
    part.write_bytes(with_tables(path.read_bytes(), room, tables))
    part.replace(copy)


@dataclasses.dataclass(frozen=True)
class Kept:
    """An entry of a file's own tables: the addresses of its function, from `start` to before `end`, and its own address."""

    start: int
    end: int
    at: int


@dataclasses.dataclass(frozen=True)
class Room:
    """Bytes of a file that are mapped, and that no unwinder reads: their address, offset in the file, and number."""

    address: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the tables of a file need of it.

    Attributes:
        entries: addresses of functions, by relocations.
        kept: the file's own entries, in order of functions.
        rooms: where tables may be, the smallest first.
    """

    entries: frozenset[int]
    kept: list[Kept]
    rooms: list[Room]


def layout_of(path: Path) -> Layout:
    """Read the layout of a file.

    Raises:
        OSError: it can't be read; DamagedElfError: it is damaged.
    """
    with open_elf(path) as elf:
        text = elf.get_section_by_name(".text")
        if text is None:
            raise DamagedElfError("it has no code")
        start, end = int(text["sh_addr"]), int(text["sh_addr"] + text["sh_size"])
        entries = frozenset(each for each in _pointers(elf) if start <= each < end)
        return Layout(entries, _kept(elf), _rooms(elf))


def _kept(elf: ELFFile) -> list[Kept]:
    """Return the entries that a file has, in order of functions."""
    section = elf.get_section_by_name(".eh_frame")
    if section is None or not section["sh_size"]:
        return []
    found = []
    for entry in elf.get_dwarf_info().EH_CFI_entries():
        if isinstance(entry, FDE) and entry["address_range"]:
            start = int(entry["initial_location"])
            found.append(Kept(start, start + int(entry["address_range"]), int(section["sh_addr"]) + int(entry.offset)))
    return sorted(found, key=lambda one: one.start)


def _rooms(elf: ELFFile) -> list[Room]:
    """Return where tables may be: the unused rest of the last page of constants, then the constants."""
    found = []
    loaded = [each for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
    for each in loaded:
        end = int(each["p_offset"] + each["p_filesz"])
        others = [int(one["p_offset"]) for one in loaded if one["p_offset"] >= end]
        until = min([-(-end // _PAGE) * _PAGE, *others])
        if each["p_flags"] == _READABLE:
            begin = -(-end // 8) * 8
            found.append(Room(int(each["p_vaddr"]) + begin - int(each["p_offset"]), begin, until - begin))
    constants = elf.get_section_by_name(".rodata")
    if constants is not None:
        found.append(Room(int(constants["sh_addr"]), int(constants["sh_offset"]), int(constants["sh_size"])))
    return sorted(found, key=lambda room: room.size)


def with_tables(content: bytes, room: Room, tables: bytes) -> bytes:
    """Return a file with tables in a place, and with a section header ``.eh_frame_hdr`` that leads to them.

    Args:
        content: of an ELF file, 64 bits, little endian.
        room: where the tables are to be; large enough.
        tables: as `unwind_tables` returns them.

    Raises:
        OSError: the file's section headers are damaged, or it ends before the place.
        struct.error: the file is too short.
    """
    headers_at, (size, number, names_index) = (
        _number(content, _E_SHOFF),
        struct.unpack_from("<HHH", content, _E_SHENTSIZE),
    )
    end = headers_at + number * _SECTION_HEADER
    if (
        size != _SECTION_HEADER
        or names_index >= number
        or end > len(content)
        or room.offset + len(tables) > len(content)
    ):
        raise OSError("the section headers are damaged, or there is no room for the tables")
    headers = [bytearray(content[at : at + size]) for at in range(headers_at, end, size)]
    names_at, names_size = struct.unpack_from("<QQ", headers[names_index], _SH_OFFSET)
    names = content[names_at : names_at + names_size]
    mine = next((each for each in headers if names[_number(each, 0, "<I") :].startswith(_INDEX)), None)
    if mine is None:
        mine = bytearray(_SECTION_HEADER)
        headers.append(mine)
    struct.pack_into(
        _SHDR, mine, 0, len(names), 1, 2, room.address, room.offset, len(tables)
    )  # SHT_PROGBITS, SHF_ALLOC
    found = bytearray(content)
    found[room.offset : room.offset + len(tables)] = tables
    struct.pack_into("<QQ", headers[names_index], _SH_OFFSET, len(found), len(names) + len(_INDEX))
    found += names + _INDEX
    struct.pack_into("<Q", found, _E_SHOFF, len(found))
    struct.pack_into("<H", found, _E_SHENTSIZE + 2, len(headers))
    return bytes(found) + b"".join(headers)


def _number(content: bytes | bytearray, at: int, form: str = "<Q") -> int:
    return int(struct.unpack_from(form, content, at)[0])


def disassembled(path: Path) -> list[Instruction]:
    """Return the instructions of a file's section ``.text``.

    Raises:
        OSError, subprocess.SubprocessError: objdump can't be run, or fails.
    """
    return instructions(_output(("objdump", "-d", "--no-show-raw-insn", "-j", ".text", str(path))).splitlines())


def _output(command: tuple[str, ...]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=_LONGEST_S
    ).stdout


def _pointers(elf: ELFFile) -> set[int]:
    """Return the addresses that relocations relative to the load address contain: functions in tables among them."""
    return {
        int(entry["r_addend"])
        for section in elf.iter_sections()
        if isinstance(section, RelocationSection) and section.is_RELA()
        for entry in section.iter_relocations()
        if entry["r_info_type"] == _RELATIVE
    }


def unwind_tables(
    code: Sequence[Instruction],
    known: Mapping[int, FrameState],
    entries: Collection[int],
    address: int,
    kept: Sequence[Kept] = (),
) -> bytes:
    """Return ``.eh_frame_hdr`` and ``.eh_frame`` behind it (Linux Standard Base 5.0, 10.6).

    Each run of consecutive instructions with states is an entry of its own; so is each function.

    Args:
        code: in order of addresses.
        known: states by address.
        entries: addresses at which functions begin.
        address: at which the tables are to be.
        kept: entries that the file has, for other functions.
    """
    pieces = list(_pieces(code, known, entries))
    frames_at = address + _HEADER_BYTES + 8 * (len(pieces) + len(kept))
    frames = bytearray(_common_entry())
    rows_of = [(one.start, one.at) for one in kept]
    for start, rows, end in pieces:
        here = frames_at + len(frames)
        rows_of.append((start, here))
        head = struct.pack("<IiI", len(frames) + 4, start - (here + 8), end - start) + _uleb(0)
        frames += _padded(head + _program(start, rows))
    frames += bytes(4)  # the end of .eh_frame
    header = struct.pack(
        "<BBBBiI", 1, _PC_RELATIVE_4, _PLAIN_4, _DATA_RELATIVE_4, frames_at - (address + 4), len(rows_of)
    )
    table = b"".join(struct.pack("<ii", start - address, at - address) for start, at in sorted(rows_of))
    return header + table + bytes(frames)


def _common_entry() -> bytes:
    """Return the common information entry: at a function's first instruction the CFA is 8 bytes above the stack pointer."""
    cie = bytes((0, 0, 0, 0, 1)) + b"zR\0" + _uleb(1) + _sleb(_ALIGNMENT) + _uleb(_RETURN_ADDRESS) + _uleb(1)
    cie += bytes((_PC_RELATIVE_4, _DEF_CFA)) + _uleb(RSP) + _uleb(8) + bytes((_OFFSET | _RETURN_ADDRESS,)) + _uleb(1)
    return _padded(cie)


def _pieces(
    code: Sequence[Instruction], known: Mapping[int, FrameState], entries: Collection[int]
) -> Iterable[tuple[int, list[tuple[int, FrameState]], int]]:
    """Yield start, rows and end of each run of consecutive instructions that have states."""
    rows: list[tuple[int, FrameState]] = []
    for one, after in itertools.zip_longest(code, code[1:]):
        state = known.get(one.at)
        if rows and (state is None or one.at in entries):
            yield rows[0][0], rows, one.at
            rows = []
        if state is not None:
            if not rows or rows[-1][1] != state:
                rows.append((one.at, state))
            if after is None:
                yield rows[0][0], rows, one.at + 1


def _program(start: int, rows: Sequence[tuple[int, FrameState]]) -> bytes:
    """Return the call frame instructions of a function."""
    found, at, before = b"", start, FrameState()
    for address, state in rows:
        if address > at:
            found += _advanced(address - at)
            at = address
        if (state.register, state.offset) != (before.register, before.offset):
            found += bytes((_DEF_CFA,)) + _uleb(state.register) + _uleb(state.offset)
        saved, other = dict(state.saved), dict(before.saved)
        for number in other.keys() - saved.keys():
            found += bytes((_RESTORE | number,))
        for number, place in saved.items():
            if other.get(number) != place and place % _ALIGNMENT == 0 and place < 0:
                found += bytes((_OFFSET | number,)) + _uleb(place // _ALIGNMENT)
        before = state
    return found


def _advanced(by: int) -> bytes:
    if by < 1 << 6:
        return bytes((_ADVANCE | by,))
    return struct.pack("<BB", _ADVANCE_1, by) if by < 1 << 8 else struct.pack("<BI", _ADVANCE_4, by)


def _padded(content: bytes) -> bytes:
    """Return an entry with its length, padded to a multiple of 4 bytes."""
    content += b"\0" * (-len(content) % 4)
    return struct.pack("<I", len(content)) + content


def _uleb(value: int) -> bytes:
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)


def _sleb(value: int) -> bytes:
    found = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        last = (value == 0 and not low & 0x40) or (value == -1 and bool(low & 0x40))
        found.append(low | (0 if last else 0x80))
        if last:
            return bytes(found)
