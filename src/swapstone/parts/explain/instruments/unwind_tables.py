# SPDX-License-Identifier: MIT OR Apache-2.0
"""Unwind tables for files that have none: a copy of the file with tables in place of its constants, and the same code.

Debian builds musl without unwind tables, and musl-gcc links programs without an index of theirs, so no unwinder finds the callers of
their functions. The tables are derived from the code (`states`); what a file has is kept. `perf script` takes the copies instead
of the files by its option ``--symfs``. It reads tables at addresses that the process had mapped, and nothing else of a copy's constants;
so the tables replace those. Programs run with the files themselves.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import re
import struct
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from swapstone.core.factors.elf_file import DamagedElfError, open_elf
from swapstone.core.model.directories import cache_dir
from swapstone.parts.explain.instruments.symbol_tables import table_of

RSP, RBP = 7, 6
REGISTERS = {"rbx": 3, "rbp": RBP, "r12": 12, "r13": 13, "r14": 14, "r15": 15}
"""DWARF's numbers of the registers that a function preserves (System V ABI, AMD64 supplement, figure 3.36)."""

MOST_HEIGHT = 1 << 30
_ENTRY_HEIGHT = 8
_FRAME_POINTER = 16
"""Distance of the CFA from a frame pointer: the return address and the caller's frame pointer are between them."""

_AFTER_PUSH_RBP = ((RBP, -16),)
_LINE = re.compile(r"\s{0,16}([0-9a-f]{1,16}):\t(\S{1,40})(?:[ \t]{1,40}(.{0,200}))?$")
_TARGET = re.compile(r"(?:bnd )?([0-9a-f]{1,16})(?: |$)")
_NUMBER = re.compile(r"\$(-?0x[0-9a-f]{1,16}|-?(?:0|[1-9][0-9]{0,15})),%rsp$")
_FROM_RSP = re.compile(r"(-?0x[0-9a-f]{1,16})\(%rsp\),%rsp$")
_POINTER = re.compile(r"#\s{1,4}([0-9a-f]{1,16})(?: |$)")


@dataclasses.dataclass(frozen=True)
class FrameState:
    """How the caller's frame is found before an instruction.

    Attributes:
        register: DWARF's number of the register that the CFA is relative to.
        offset: of the CFA from that register, in bytes.
        saved: DWARF's numbers of preserved registers, with the offset of each from the CFA where it is stored.
    """

    register: int = RSP
    offset: int = _ENTRY_HEIGHT
    saved: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction as objdump prints it, in AT&T syntax."""

    at: int
    name: str
    operands: str


def instructions(lines: Iterable[str]) -> list[Instruction]:
    """Decode the output of ``objdump -d --no-show-raw-insn``; lines of any other form are skipped.

    Args:
        lines: as printed.
    """
    found: dict[int, Instruction] = {}
    for line in lines:
        if hit := _LINE.match(line.rstrip("\n")):
            name, operands = hit[2], (hit[3] or "").strip()
            if name in {"bnd", "notrack", "rep", "repz", "lock"}:
                name, _, operands = operands.partition(" ")
            at = int(hit[1], 16)
            found[at] = Instruction(at, name, operands.strip())
    return [found[at] for at in sorted(found)]


def entries_in(code: Iterable[Instruction]) -> set[int]:
    """Return the targets of direct calls, and the addresses that ``lea`` takes: where functions begin."""
    found: set[int] = set()
    for one in code:
        if (one.name.startswith("call") and (hit := _TARGET.match(one.operands))) or (
            one.name == "lea" and "(%rip)" in one.operands and (hit := _POINTER.search(one.operands))
        ):
            found.add(int(hit[1], 16))
    return found


def states(code: list[Instruction], entries: Collection[int]) -> dict[int, FrameState]:
    """Return the state before each instruction that has one, by address.

    An instruction that is reached with two different states has none, and neither has what follows only from it.

    Args:
        code: in order of addresses.
        entries: addresses at which functions begin.
    """
    places = {one.at: number for number, one in enumerate(code)}
    begins = sorted(entry for entry in entries if entry in places)
    fixed = set(begins)
    known: dict[int, FrameState] = {}
    contradicted: set[int] = set()
    jumps: dict[int, FrameState] = {}  # the only indirect jump of each function

    def run(work: list[tuple[int, FrameState]]) -> None:
        while work:
            at, state = work.pop()
            while at in places:
                if at in known:
                    if known[at] != state and at not in fixed:
                        contradicted.add(at)
                    break
                known[at] = state
                place = places[at]
                one, after = code[place], _after(code[place], state)
                if one.name.startswith("j") and (hit := _TARGET.match(one.operands)):
                    work.append((int(hit[1], 16), state))
                elif one.name == "jmp" and (number := bisect.bisect_right(begins, at)):
                    jumps.setdefault(begins[number - 1], state)
                if after is None or _ends(one) or place + 1 >= len(code) or code[place + 1].at in fixed:
                    break
                at, state = code[place + 1].at, after

    run([(entry, FrameState()) for entry in begins])
    tables = []  # code that only a table of jumps leads to: it has the state of the only indirect jump of its function
    for before, one in itertools.pairwise(code):
        if _ends(before) and one.at not in known and not one.name.startswith(("nop", "xchg", "data16", "cs")):
            entry = bisect.bisect_right(begins, one.at)
            if entry and begins[entry - 1] in jumps:
                tables.append((one.at, jumps[begins[entry - 1]]))
    run(tables)
    return {at: state for at, state in known.items() if at not in contradicted}


def _ends(one: Instruction) -> bool:
    return one.name in {"ret", "retq", "jmp", "jmpq", "hlt", "ud2", "iretq"}


def _after(one: Instruction, state: FrameState) -> FrameState | None:
    """Return the state after an instruction; None if it can't be derived."""
    name, operands = one.name, one.operands
    register = REGISTERS.get(operands.removeprefix("%"))
    if state.register == RBP:  # until the end of the function the CFA does not depend on the stack pointer
        return None if name == "leave" or (name.startswith("pop") and register == RBP) else state
    if name == "mov" and operands == "%rsp,%rbp" and state.saved == _AFTER_PUSH_RBP:
        return FrameState(RBP, state.offset, state.saved) if state.offset == _FRAME_POINTER else state
    by = _lowered(name, operands)
    if by is None or not 0 < (offset := state.offset + by) <= MOST_HEIGHT:
        return None
    saved = state.saved
    if name.startswith("push") and register is not None and register not in dict(saved):
        saved = (*saved, (register, -offset))
    if name.startswith("pop"):  # restored, if it is popped from where it was stored
        saved = tuple(each for each in saved if each != (register, -state.offset))
    return FrameState(RSP, offset, saved)


def _lowered(name: str, operands: str) -> int | None:
    """Return by how many bytes an instruction lowers the stack pointer; None if that can't be derived."""
    if name.startswith(("push", "pop")):
        return 8 if name.startswith("push") else -8
    if name == "leave":
        return None
    if not operands.endswith("%rsp") or name.startswith(("cmp", "test")):
        return 0
    if name in {"sub", "add", "subq", "addq"} and (hit := _NUMBER.fullmatch(operands)):
        return int(hit[1], 0) * (1 if name.startswith("sub") else -1)
    hit = _FROM_RSP.fullmatch(operands) if name == "lea" else None
    return -int(hit[1], 16) if hit else None


_VERSION = "4"
"""Changes with the tables that are derived from the same file."""

MOST_TABLES = 0.02
"""Size of ``.eh_frame`` relative to ``.text`` from which a file counts as one that has unwind tables: musl has 0.0003, glibc 0.07."""

_SMALLEST_LIBRARY, _LARGEST_TEXT = 1 << 16, 1 << 23
_MOST_ENTRIES = 4096  # entries of a directory on the way to a copy
_LONGEST_S = 120
_ALIGNMENT = -8
_HEADER, _ENCODINGS = "<BBBBiI", (0x1B, 0x03, 0x3B)  # DW_EH_PE_pcrel | sdata4; udata4; datarel | sdata4
_CODE, _INDEX = "swapstone_code", ".eh_frame_hdr"
_PAGE = 4096
_READABLE = 4  # PF_R alone


def root_with_tables(
    files: Iterable[Path], folder: Path, top: Path = Path("/"), added: Mapping[str, Path] = {}
) -> Path | None:
    """Return a root for ``perf script --symfs``: links to all files, but copies of those that have no unwind tables.

    Args:
        files: that a program has mapped.
        folder: in which the root is made.
        top: folder of the program's root file system.
        added: folders that are mounted at its top, by name.

    Returns:
        None if every file of this machine has tables, or none can be derived.
    """
    paths = dict.fromkeys(file.resolve() for file in files)
    copies = {path: copy for path in paths if (copy := copy_with_tables(path))}
    if not copies and top == Path("/"):
        return None
    root = folder / "root-with-tables"
    if not root.is_dir():
        _link(top.resolve(), root, copies)
        for name, place in added.items():
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(place)
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
    few = (0 if tables is None else tables["sh_size"]) < MOST_TABLES * text["sh_size"]
    return elf.get_section_by_name(_INDEX) is None or (few and text["sh_size"] >= _SMALLEST_LIBRARY)


def _make(path: Path, copy: Path) -> None:
    """Derive a file's tables, and write the copy.

    Raises:
        OSError, subprocess.SubprocessError: a program of binutils fails, or the tables are too large; DamagedElfError: the file is damaged.
    """
    code = disassembled(path)
    kept, rooms = layout_of(path)
    named = {one.address for one in table_of(path) or () if ".cold" not in one.name}
    entries = named | entries_in(code)
    known = states(code, entries)
    starts = [one.start for one in kept]
    for one in code:
        number = bisect.bisect_right(starts, one.at)
        if number and one.at < kept[number - 1].end:
            known.pop(one.at, None)
    with tempfile.TemporaryDirectory(dir=copy.parent) as folder:
        source, made = Path(folder, "tables.s"), Path(folder, "copy")
        source.write_text("".join(f"{line}\n" for line in directives(code, known, entries)))
        _output("as", "-o", source.with_suffix(".o"), source)
        for room in rooms:
            frames, index = _tables(source.with_suffix(".o"), code[0].at, room.address, kept)
            if len(frames) + len(index) <= room.size:
                break
        else:
            raise OSError("there is no room for the tables")
        source.write_bytes(index)
        _output(
            "objcopy",
            f"--remove-section={_INDEX}",
            f"--add-section={_INDEX}={source}",
            f"--set-section-flags={_INDEX}=alloc,readonly",
            f"--change-section-address={_INDEX}={room.address + len(frames):#x}",
            path,
            made,
        )
        with made.open("r+b") as file:
            file.seek(room.offset)
            file.write(frames + index)
        made.replace(copy)


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


def layout_of(path: Path) -> tuple[list[Kept], list[Room]]:
    """Return a file's own entries, in order of functions, and where tables may be, the smallest first.

    Raises:
        OSError: it can't be read; DamagedElfError: it is damaged.
    """
    with open_elf(path) as elf:
        return _kept(elf), _rooms(elf)


def _kept(elf: ELFFile) -> list[Kept]:
    """Return the entries that a file has, in order of functions."""
    section = elf.get_section_by_name(".eh_frame")
    if section is None or not section["sh_size"]:
        return []
    entries = [
        each for each in elf.get_dwarf_info().EH_CFI_entries() if isinstance(each, FDE) and each["address_range"]
    ]
    found = [
        Kept(
            int(each["initial_location"]),
            int(each["initial_location"] + each["address_range"]),
            int(section["sh_addr"] + each.offset),
        )
        for each in entries
    ]
    return sorted(found, key=lambda one: one.start)


def _rooms(elf: ELFFile) -> list[Room]:
    """Return where tables may be: the unused rest of the last page of constants, then the constants."""
    found = []
    loaded = [each for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
    for each in loaded:
        if each["p_flags"] == _READABLE:
            end = int(each["p_offset"] + each["p_filesz"])
            others = [int(one["p_offset"]) for one in loaded if one["p_offset"] >= end]
            until, begin = min([-(-end // _PAGE) * _PAGE, *others]), -(-end // 8) * 8
            found.append(Room(int(each["p_vaddr"]) + begin - int(each["p_offset"]), begin, until - begin))
    constants = elf.get_section_by_name(".rodata")
    if constants is not None:
        found.append(Room(int(constants["sh_addr"]), int(constants["sh_offset"]), int(constants["sh_size"])))
    return sorted(found, key=lambda room: room.size)


def disassembled(path: Path) -> list[Instruction]:
    """Return the instructions of a file's section ``.text``.

    Raises:
        OSError, subprocess.SubprocessError: objdump can't be run, or fails.
    """
    return instructions(_output("objdump", "-d", "--no-show-raw-insn", "-j", ".text", path).splitlines())


def _output(*command: str | Path) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, errors="replace", timeout=_LONGEST_S
    ).stdout


def directives(code: Sequence[Instruction], known: Mapping[int, FrameState], entries: Collection[int]) -> Iterator[str]:
    """Yield the states in the language of GNU as: call frame information of a section `_CODE` that begins with the first instruction.

    Each run of consecutive instructions with states is an entry of its own; so is each function.

    Args:
        code: in order of addresses.
        known: states by address.
        entries: addresses at which functions begin.
    """
    yield f'.section {_CODE},"ax",@nobits'
    before: FrameState | None = None
    for one in code:
        state = known.get(one.at)
        if before is not None and (state is None or one.at in entries):
            yield f".org {one.at - code[0].at}\n.cfi_endproc"
            before = None
        if state is None or state == before:
            continue
        yield f".org {one.at - code[0].at}"
        if before is None:
            before = FrameState()
            yield ".cfi_startproc"
        yield f".cfi_def_cfa {state.register}, {state.offset}"
        saved, other = dict(state.saved), dict(before.saved)
        yield from (f".cfi_restore {number}" for number in other.keys() - saved.keys())
        for number, place in saved.items():
            if other.get(number) != place and place % _ALIGNMENT == 0 and place < 0:
                yield f".cfi_offset {number}, {place}"
        before = state
    if before is not None:
        yield f".org {code[-1].at + 1 - code[0].at}\n.cfi_endproc"


def _tables(assembled: Path, start: int, address: int, kept: Sequence[Kept]) -> tuple[bytes, bytes]:
    """Return ``.eh_frame`` and ``.eh_frame_hdr``, which is to follow it (Linux Standard Base 5.0, 10.6).

    Args:
        assembled: what as made of `directives`.
        start: address of the first instruction.
        address: at which the tables are to be.
        kept: entries that the file has, for other functions; the index leads to them too.
    """
    linked = assembled.with_suffix(".linked")
    places = (f"--section-start={_CODE}={start:#x}", f"--section-start=.eh_frame={address:#x}")
    _output("ld", "--no-check-sections", "-e", "0", *places, "-o", linked, assembled)
    with open_elf(linked) as elf:
        section = elf.get_section_by_name(".eh_frame")  # none if no state is known
        begin = address if section is None else int(section["sh_addr"])
        frames = bytes(begin - address) + (b"" if section is None else section.data()) + bytes(4)  # 0: the end
        rows = sorted((one.start, one.at) for one in (*_kept(elf), *kept))
        index = address + len(frames)
        header = struct.pack(_HEADER, 1, *_ENCODINGS, begin - (index + 4), len(rows))
        return frames, header + b"".join(struct.pack("<ii", from_ - index, at - index) for from_, at in rows)
