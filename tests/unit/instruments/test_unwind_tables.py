# SPDX-License-Identifier: MIT OR Apache-2.0
"""Copies of files with unwind tables that are derived from their code."""

from __future__ import annotations

import io
import platform
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE, CallFrameInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from swapstone.parts.explain.instruments import perf
from swapstone.parts.explain.instruments.unwind_tables import copy_with_tables, root_with_tables
from tests.programs import require

SOURCE = """
int deeper(int *values);
const int constants[256] = {1, 2};
__attribute__((noinline)) int outer(int count) {
    int values[40] = {count};
    return deeper(values) + constants[values[3] & 255];
}
__attribute__((noinline)) int deeper(int *values) { return values[0] ? values[1] += outer(values[0] - 1) : 0; }
int main(void) { return outer(3); }
"""


def _section(elf: ELFFile, name: str) -> Section:
    """Return a section that a file must have."""
    found = elf.get_section_by_name(name)
    assert found is not None
    return found


def _built(folder: Path, *flags: str, source: str = SOURCE, compiler: str = "cc") -> Path:
    (folder / "p.c").write_text(source)
    program = folder / "p"
    subprocess.run([compiler, "-O2", *flags, "-o", program, folder / "p.c"], check=True)
    return program


def _rows(path: Path) -> dict[int, tuple[int, int]]:
    """Return register and offset of the CFA by address, of the entries that the index of a file lists. The frames are before the index."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        index = _section(elf, ".eh_frame_hdr")
        content, at = index.data(), index["sh_addr"]
        to_frames, number = struct.unpack_from("<iI", content, 4)
        table = [struct.unpack_from("<ii", content, 12 + 8 * each) for each in range(number)]
        assert [start for start, _ in table] == sorted(start for start, _ in table)
        address = at + 4 + to_frames
        *_, segment = (each for each in elf.iter_segments("PT_LOAD") if each["p_vaddr"] <= address)
        file.seek(address - segment["p_vaddr"] + segment["p_offset"])
        frames = file.read(at - address)
        section = CallFrameInfo(io.BytesIO(frames), len(frames), address, DWARFStructs(True, 64, 8), for_eh_frame=True)
        found = {}
        for entry in section.get_entries():
            if isinstance(entry, FDE):
                assert (entry["initial_location"] - at, address + entry.offset - at) in table
                for row in entry.get_decoded().table:
                    found[row["pc"]] = (row["cfa"].reg, row["cfa"].offset)
        return found


def _of_compiler(path: Path) -> dict[int, tuple[int, int]]:
    with path.open("rb") as file:
        entries = ELFFile(file).get_dwarf_info().EH_CFI_entries()
        return {
            row["pc"]: (row["cfa"].reg, row["cfa"].offset)
            for entry in entries
            if isinstance(entry, FDE) and entry["address_range"]
            for row in entry.get_decoded().table
            if row["cfa"].expr is None
        }


def _skip_elsewhere() -> None:
    require("objdump")
    if platform.machine() != "x86_64":
        pytest.skip("needs code of x86_64")


def test_derived_tables_are_those_of_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _skip_elsewhere()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built = _built(tmp_path, "-nostartfiles", "-static", "-Wl,-e,main,--eh-frame-hdr", "-fasynchronous-unwind-tables")
    truth = _of_compiler(built)
    assert len(truth) >= 7
    assert copy_with_tables(built) is None
    bare = tmp_path / "bare"
    sections = ("--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr")
    subprocess.run(["objcopy", *sections, built, bare], check=True)
    copy = copy_with_tables(bare)
    assert copy is not None
    assert _code(copy) == _code(bare)
    derived = _rows(copy)
    for at in {*derived, *truth}:
        assert derived[max(each for each in derived if each <= at)] == truth[max(each for each in truth if each <= at)]


def test_entries_that_a_file_has_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _skip_elsewhere()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flags = ("-nostartfiles", "-static", "-Wl,-e,main,--no-eh-frame-hdr", "-fasynchronous-unwind-tables")
    built = _built(tmp_path, *flags)
    copy = copy_with_tables(built)
    assert copy is not None
    with copy.open("rb") as file:
        elf = ELFFile(file)
        own, index = _section(elf, ".eh_frame"), _section(elf, ".eh_frame_hdr")
        number = struct.unpack_from("<I", index.data(), 8)[0]
        places = [
            struct.unpack_from("<ii", index.data(), 12 + 8 * each)[1] + index["sh_addr"] for each in range(number)
        ]
    assert number == 3
    assert all(own["sh_addr"] < place < own["sh_addr"] + own["sh_size"] for place in places)


def _code(path: Path) -> bytes:
    with path.open("rb") as file:
        return bytes(_section(ELFFile(file), ".text").data())


def test_a_root_has_links_to_all_files_and_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = tmp_path / "copy"
    copy.write_text("copy")
    (tmp_path / "d").mkdir()
    original, other = tmp_path / "d" / "p", tmp_path / "d" / "q"
    original.write_text("original")
    other.write_text("other")
    monkeypatch.setattr(
        "swapstone.parts.explain.instruments.unwind_tables.copy_with_tables",
        lambda path: copy if path == original else None,
    )
    root = root_with_tables([original, other], tmp_path / "scratch")
    assert root is not None
    assert (root / original.relative_to("/")).read_text() == "copy"
    assert (root / other.relative_to("/")).read_text() == "other"
    assert (root / "proc" / "self").exists()
    assert root_with_tables([other], tmp_path / "scratch") is None


def test_a_root_file_system_has_its_own_files_and_the_mounted_ones(tmp_path: Path) -> None:
    top, mounted = tmp_path / "top", tmp_path / "mounted"
    for folder in (top / "bin", top / "work", mounted):
        folder.mkdir(parents=True)
    (top / "bin/sh").write_text("shell")
    (mounted / "p").write_text("program")
    root = root_with_tables(
        [top / "bin/sh", mounted / "p"], tmp_path / "scratch", top, {"work": mounted, "new": mounted}
    )
    assert root is not None
    assert (root / "bin/sh").read_text() == "shell"
    assert (root / "work/p").read_text() == (root / "new/p").read_text() == "program"
    assert not (root / "proc").exists()


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(200), b"#!/bin/sh\n"])
def test_damaged_files_have_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "p"
    path.write_bytes(content)
    assert copy_with_tables(path) is None
    assert copy_with_tables(tmp_path / "absent") is None


LOOP = """
#include <stdlib.h>
__attribute__((noinline)) void inner(void) {
    for (int i = 0; i < 300000; i++) { void *volatile kept = malloc(100); free(kept); }
}
int main(void) { for (int i = 0; i < 10; i++) inner(); return 0; }
"""


@pytest.mark.slow
def test_callers_of_musl_are_found_by_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _skip_elsewhere()
    require("musl-gcc", "perf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = _built(tmp_path, source=LOOP, compiler="musl-gcc")
    data = tmp_path / "perf.data"
    event = "cpu-clock/freq=997,call-graph=dwarf,stack-size=2048,name=cpu-clock/u"
    if subprocess.run(
        ["perf", "record", "-q", "-N", "-o", data, "-e", event, program], capture_output=True, check=False
    ).returncode:
        pytest.skip("perf events are refused")
    with program.open("rb") as file:
        loader = str(_section(ELFFile(file), ".interp").data().rstrip(b"\0"), "ascii")
    shares = []
    for root in (None, root_with_tables([program, Path(loader)], tmp_path)):
        stacks = [
            event.stack for event in perf.read(data, root=root) if "libc" in "".join(one[2] for one in event.stack[:1])
        ]
        assert len(stacks) > 20
        shares.append(sum(any(symbol == "main" for _, symbol, _ in stack) for stack in stacks) / len(stacks))
    assert shares[0] < 0.1
    assert shares[1] > 0.9
