# SPDX-License-Identifier: MIT OR Apache-2.0
"""Executed instructions of 32-bit ARM by kind."""

from __future__ import annotations

import struct
from pathlib import Path

from tools.small_elf import BX_LR, NOP, TEXT, VADD, call, float_elf

from swapstone.parts.explain.instruments.instruction_kinds import count_arm, is_thumb
from swapstone.parts.explain.instruments.plugin_file import Block, CodeFile

KERNEL = 0xBF000000
VLDR = 0xED1B7A02


def arm(address: int, words: list[int], counts: list[int]) -> Block:
    return Block(address, struct.pack(f"<{len(words)}I", *words), bytes([4] * len(words)), tuple(counts))


def test_instructions_loads_and_calls_are_counted(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(float_elf("soft", [call(0, 2), BX_LR, NOP], "__aeabi_fadd"))
    file = CodeFile("prog", "program", True, (), program)
    blocks = [
        arm(TEXT, [call(0, 2)], [7]),
        arm(TEXT + 4, [VLDR, VLDR, VADD, VLDR, BX_LR], [5, 5, 4, 4, 4]),
        arm(KERNEL, [NOP], [100]),
        Block(0x20000, bytes.fromhex("7047"), b"\2", (3,)),  # Thumb: bx lr
    ]
    found = count_arm(blocks, [file], KERNEL)
    assert dict(found.kinds) == {"vadd.f32": 4, "vload": 14, "branch": 7 + 4 + 3}
    assert (found.load_runs, found.helper_calls) == (5 + 4, 7)
    assert found.of("vadd") == found.of("vadd.f32") == 4
    assert count_arm(blocks, [], KERNEL).helper_calls == 0
    assert count_arm(blocks, [CodeFile("prog", "program", False, (), program)], KERNEL).helper_calls == 0


def test_a_program_that_can_t_be_read_has_no_helpers(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"no ELF file")
    assert (
        count_arm([arm(TEXT, [call(0, 2)], [7])], [CodeFile("p", "program", True, (), program)], KERNEL).helper_calls
        == 0
    )


def test_the_instruction_set_is_found_from_sizes_and_from_the_first_halfwords() -> None:
    assert not is_thumb(arm(0, [VADD, NOP], [1, 1]))
    assert is_thumb(Block(0, bytes.fromhex("7047"), b"\2", (1,)))
    assert is_thumb(Block(0, bytes.fromhex("77ee277a00f001f8"), b"\4\4", (1, 1)))  # vadd.f32 and bl, both of four bytes
