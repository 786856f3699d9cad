# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions by function, from what the emulator's plugin writes."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest
from tools.plugin_output import paths_file, traced_block
from tools.small_elf import small_elf

from swapstone.core.model import UserError
from swapstone.core.model.cpio import file as file_entry
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.counted_runs import (
    CountedRun,
    code_files,
    events_of,
    kernel_entries,
    repeated_instructions,
)
from swapstone.parts.explain.instruments.plugin_file import (
    Block,
    CodeFile,
    CodeMap,
    DebugFiles,
    KernelSymbols,
    TableOf,
    call_profile,
    decode_kallsyms,
    decode_paths,
    names_of,
    read_code,
)
from swapstone.parts.explain.model.explanation import (
    AMBIGUOUS,
    OTHER_PROGRAM,
    PASSES,
    PROGRAM,
    UNKNOWN,
    CountedSide,
)
from swapstone.parts.vm.artifacts.debug_package import read_debug_file

KERNEL = 1 << 63
ADD, LONG, BACK = b"\x48\x83\xc0\x01", bytes(range(100, 115)), b"\xeb\xfa"
FILE = paths_file(
    [
        traced_block(0x401000, [ADD, LONG]),
        traced_block(0x402000, [ADD, BACK, BACK]),
        traced_block(KERNEL + 0x10, [BACK]),
    ],
    [],
    [(0, 1, 2, 2), (0, 2, 2, 5), (0, 3, 1, 7)],
    begins=8,
    windows=2,
    accesses=4,
    lost=1,
)


def test_an_instruction_counts_when_the_next_one_begins() -> None:
    found = decode_paths(FILE)
    assert (found.begins, found.windows, found.open, found.left, found.accesses, found.lost) == (8, 2, False, 5, 4, 1)
    assert found.blocks[0] == Block(0x401000, ADD + LONG, bytes([4, 15]), (2, 2))
    assert found.blocks[1].counts == (5, 0, 0)
    assert found.instructions == 2 + 2 + 5 + 7 + 1


@pytest.mark.parametrize("block", [traced_block(1, []), traced_block(1, [b""]), traced_block((1 << 64) - 1, [ADD])])
def test_a_damaged_block_is_named(block: bytes) -> None:
    with pytest.raises(UserError, match="block 0 of 1"):
        decode_paths(paths_file([block]))


def _file(name: str, code: bytes, *, fixed: bool = False, start: int = 0x1000) -> CodeFile:
    return CodeFile(name, name, fixed, ((start, code),), Path("/nonexistent"))


def test_code_belongs_to_the_file_with_the_same_bytes_at_its_address() -> None:
    code = bytes((at * 7 + at // 256) % 251 for at in range(8192))
    other = bytes((at * 11 + at // 256) % 241 for at in range(8192))
    base = 0x7F0000000000

    def at(offset: int, data: bytes, size: int = 16) -> Block:
        return Block(base + 0x1000 + offset, data[offset : offset + size], bytes([size]), (1,))

    blocks = [at(0, code), at(5000, code), at(300, code, 2), at(64, other), Block(0x401000, ADD, b"\x04", (1,))]
    fixed = [_file("one", ADD, fixed=True, start=0x401000), _file("two", ADD, fixed=True, start=0x401000)]
    found = CodeMap([_file("library", code), _file("elsewhere", other), *fixed], blocks)
    assert [[(file.name, at) for file, at in found.owners(each)] for each in blocks] == [
        [("library", base)],
        [("library", base)],
        [("library", base)],
        [],  # one block alone does not show where a file is
        [("one", 0), ("two", 0)],
    ]


def _summed(*files: CodeFile, table: TableOf = lambda _: None) -> dict[tuple[str, str], float]:
    """Return the instructions of `FILE` by function (name, object)."""
    kernel = KernelSymbols([(KERNEL, "first", ""), (KERNEL + 0x10, "second", "zram"), (KERNEL + 0x10, "_marker", "")])
    found = decode_paths(FILE)
    profile = call_profile(found, names_of(found.blocks, list(files), kernel, KERNEL, table=table), 1.0)
    return {(frames[-1].symbol, frames[-1].object): weight for frames, weight in profile.weighted()}


def test_sums_by_function_are_the_whole() -> None:
    table = DebugFiles(functools.partial(read_debug_file, "x86_64"), Path(), print).table
    found = _summed(_file("prog", ADD + LONG, fixed=True, start=0x401000), table=table)
    assert found == {("[unknown]", "prog"): 4, ("[unknown]", "unknown"): 5, ("second", "[kernel]"): 7}
    assert _summed() == {("[unknown]", "unknown"): 9, ("second", "[kernel]"): 7}


def test_the_program_of_the_trial_comes_before_that_of_another_variant() -> None:
    """A user's two programs may be in one folder of the machine, with equal bytes at equal addresses."""
    files = [_file("program", ADD + LONG, fixed=True, start=0x401000) for _ in range(3)]
    own, other, library = (
        dataclasses.replace(file, name=name, kind=kind)
        for file, name, kind in zip(files, "abc", (PROGRAM, OTHER_PROGRAM, "libz.so"), strict=True)
    )

    def owner(*candidates: CodeFile) -> set[str]:
        return {where for _, where in _summed(*candidates)} - {UNKNOWN, "[kernel]"}

    assert (owner(own, other), owner(other)) == ({"[program]"}, {"b"})
    assert owner(own, other, library) == owner(other, library) == {AMBIGUOUS}


def test_what_faulted_inside_a_block_is_not_counted_twice() -> None:
    assert repeated_instructions(decode_paths(FILE), {"asm_exc_page_fault": 4}, "x86_64") == 4 - (5 - 4)
    assert repeated_instructions(decode_paths(FILE), {}, "x86_64") == 0


def test_functions_of_the_kernel_are_entered_at_their_first_instruction() -> None:
    kernel = KernelSymbols([(KERNEL, "first", ""), (KERNEL + 0x10, "second", "")])
    inside = dataclasses.replace(decode_paths(FILE).blocks[2], address=KERNEL + 4)
    blocks = [*decode_paths(FILE).blocks[2:], inside]
    assert kernel_entries([*decode_paths(FILE).blocks[:2], *blocks], kernel) == {"second": 7}


@pytest.mark.parametrize("entry", ["__x64_sys_brk", "__arm64_sys_brk", "__riscv_sys_brk", "sys_brk"])
def test_system_calls_of_each_architecture_are_events(entry: str) -> None:
    def run(name: str, operations: float, **entries: int) -> CountedRun:
        side = CountedSide(
            variant=name,
            trial="t",
            run="r",
            output="o",
            program_sha256="",
            operations=operations,
            instructions=10,
            clock_ns=0,
            repeated=0,
        )
        return CountedRun(side, entries, PASSES)

    found = events_of(run("a", 1, **{entry: 3, "other": 9}), run("b", 2, handle_mm_fault=5))
    assert [(one.group, one.name, one.baseline, one.candidate) for one in found] == [
        ("faults", "page faults", 0, 2.5),
        ("system calls", "brk", 3, 0),
    ]


def test_two_programs_are_one_file(tmp_path: Path) -> None:
    """A user's programs have other names and may be in one folder; their functions are compared by name."""
    entries = {path: file_entry(small_elf(), executable=True) for path in ("d/old", "d/new", "lib/libz.so")}
    names = []
    for own in ("old", "new"):
        request = TrialRequest(id="t", arguments=(f"/d/{own}",), cwd="/", timeout_ms=1, output_bytes=1)
        (folder := tmp_path / own).mkdir()
        files = code_files(entries, request, folder, lambda copy: copy.with_name("symbols"), {"d/old", "d/new"})
        names.append({(each.name, each.kind, each.symbols.name) for each in files})
    library = ("libz.so", "libz.so", "libz.so")
    assert names == [
        {(PROGRAM, PROGRAM, "symbols"), ("new", OTHER_PROGRAM, "new"), library},
        {(PROGRAM, PROGRAM, "symbols"), ("old", OTHER_PROGRAM, "old"), library},
    ]


def test_kallsyms_is_decoded() -> None:
    found = decode_kallsyms(
        b"ffffffff81000000 T _stext\nffffffff81000000 T startup_64\nffffffffc0000010 t zram_make\t[zram]\n"
    )
    assert found.name_at(0xFFFFFFFF81000020) == ("startup_64", "", 0xFFFFFFFF81000000)
    assert found.name_at(0xFFFFFFFFC0000010) == ("zram_make", "zram", 0xFFFFFFFFC0000010)
    assert found.name_at(0x1000) is None and found.name_at(0xFFFFFFFF91000000) is None
    call = b"".join(
        b"ffffffff81000100 t %s\n" % name for name in (b"__do_sys_brk", b"__x64_sys_brk", b"__ia32_sys_brk")
    )
    assert decode_kallsyms(call).name_at(0xFFFFFFFF81000100) == ("__x64_sys_brk", "", 0xFFFFFFFF81000100)
    veneer = decode_kallsyms(b"ffff8000081169e0 t e843419@00e2_000015a0_6b4\n")  # of the linker, on arm64
    assert veneer.address("e843419@00e2_000015a0_6b4") == 0xFFFF8000081169E0
    assert found.address("startup_64") == 0xFFFFFFFF81000000 and found.address("none") is None


@pytest.mark.parametrize("data", [b"", b"0000000000000000 T _text\n", b"no symbol\n", b"ffffffff81000000 T \x1b[31m\n"])
def test_damaged_kallsyms_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="The kernel"):
        decode_kallsyms(data)


def test_code_of_what_is_no_program_is_none() -> None:
    assert read_code(b"#!/bin/sh\n") is None
    assert read_code(b"\x7fELF" + bytes(60)) is None
