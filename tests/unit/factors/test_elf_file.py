# SPDX-License-Identifier: MIT OR Apache-2.0
"""Damaged ELF files: whatever a header states, reading ends with the named error, and takes no more than the file's size."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from tools.fuzz_binaries import elf

from swapstone.core.artifacts.program_size import sizes_of
from swapstone.core.factors.elf_file import DamagedElfError, content_of, open_elf, read_facts, symbols_of
from swapstone.core.factors.factor import ProgramFacts
from swapstone.core.model import UserError
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.explain.instruments.symbol_tables import table_of

WHOLE = elf()
TABLE = struct.unpack_from("<Q", WHOLE, 40)[0]
COUNT = struct.unpack_from("<H", WHOLE, 60)[0]


def header_of(name: str) -> int:
    """Return the offset of a section's header."""
    with open_elf(WHOLE) as whole:
        index = whole.get_section_index(name)
    assert index is not None
    return int(TABLE + 64 * index)


def changed(at: int, form: str, value: int) -> bytes:
    data = bytearray(WHOLE)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def facts_of(data: bytes, folder: Path) -> ProgramFacts | None:
    path = folder / f"file-{os.urandom(4).hex()}"
    path.write_bytes(data)
    return read_facts(path)


@pytest.mark.parametrize("data", [elf(), elf(wide=False, machine=40), elf(little=False, machine=21)])
def test_an_undamaged_file_has_all_facts(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    facts = read_facts(path)
    assert facts is not None
    built = facts.of(BuildFacts)
    assert (facts.needed, built.soname, built.versions) == (("libc.so.6",), "libx.so.1", ("GLIBC_2.34",))
    assert (built.symbols, built.exports, built.aliases) == (("malloc", "mi_malloc"), ("malloc",), ())
    assert built.entry.startswith("f30f1efa")
    assert built.comments[0].startswith("GCC: ")
    table = table_of(path)
    assert table is not None
    assert {one.address for one in table if one.name == "malloc"} == {0x110}
    assert dict(sizes_of(path))["bss"] == 64


DAMAGES = {
    "a table of sections whose entries have size 0": (58, "<H", 0),
    "2^60 sections": (60, "<H", 0),
    "a table of sections outside the file": (40, "<Q", 1 << 50),
    "names in no table": (62, "<H", 0xFFF0),
    "a comment of 2^60 bytes without content": (header_of(".comment") + 4, "<I", 8),
    "a comment outside the file": (header_of(".comment") + 32, "<Q", 1 << 60),
    "a compressed comment": (header_of(".comment") + 8, "<Q", 0x800),
    "symbols of size 0": (header_of(".symtab") + 56, "<Q", 0),
    "symbols of size 1": (header_of(".symtab") + 56, "<Q", 1),
    "a second table of dynamic symbols": (header_of(".symtab") + 4, "<I", 11),
    "names of symbols in the code": (header_of(".symtab") + 40, "<I", 7),
    "2^32 needed versions": (header_of(".gnu.version_r") + 44, "<I", 0xFFFFFFFF),
    "the name of a section outside its table": (header_of(".comment"), "<I", 1 << 30),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_has_no_facts(name: str, tmp_path: Path) -> None:
    data = changed(*DAMAGES[name])
    if name == "2^60 sections":  # the number is then in the first header
        data = data[:TABLE] + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 1 << 60, 0, 0, 0, 0) + data[TABLE + 64 :]
    if name == "a comment of 2^60 bytes without content":
        at = header_of(".comment") + 32
        data = data[:at] + struct.pack("<Q", 1 << 60) + data[at + 8 :]
        found = facts_of(data, tmp_path)
        assert found is not None
        assert found.of(BuildFacts).comments == ()
    else:
        assert facts_of(data, tmp_path) is None


@pytest.mark.parametrize("length", [0, 3, 4, 20, 64, 200, len(WHOLE) - 1])
def test_a_truncated_file_is_damaged(length: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(WHOLE[:length])
    assert read_facts(path) is None
    with pytest.raises(UserError, match="is not an ELF program"):
        sizes_of(path)
    with pytest.raises(DamagedElfError), open_elf(WHOLE[:length]) as file:
        list(file.iter_sections())


def test_what_is_no_regular_file_has_no_facts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_facts(tmp_path / "fifo") is None
    assert read_facts(tmp_path) is None
    assert read_facts(tmp_path / "absent") is None
    assert read_facts(Path("a\0b")) is None


def test_an_error_of_the_caller_is_not_changed() -> None:
    with pytest.raises(UserError), open_elf(WHOLE):
        raise UserError("mine")
    with pytest.raises(DamagedElfError, match="MemoryError"), open_elf(WHOLE):
        raise MemoryError


def _programs() -> Iterator[Path]:
    names = (sys.executable, shutil.which("sh"), shutil.which("python3"), "/lib/x86_64-linux-gnu/libc.so.6")
    paths = {Path(name).resolve() for name in names if name and Path(name).exists()}
    yield from (path for path in paths if path.read_bytes()[:4] == b"\x7fELF")


def test_symbols_are_those_of_pyelftools() -> None:
    programs = list(_programs())
    assert programs
    for program in programs:
        with program.open("rb") as handle, open_elf(program) as ours:
            theirs = ELFFile(handle)
            for name in (".symtab", ".dynsym"):
                table = theirs.get_section_by_name(name)
                if not isinstance(table, SymbolTableSection):
                    continue
                expected = [(one.name, one["st_value"], one["st_size"]) for one in table.iter_symbols()]
                found = list(symbols_of(ours, ours.get_section_by_name(name)))
                assert [(one.name, one.address, one.size) for one in found[:3000]] == expected[1:3001]
            assert content_of(ours.get_section_by_name(".no-such")) == b""
