# SPDX-License-Identifier: MIT OR Apache-2.0
"""Count the executed instructions of a 32-bit ARM machine by kind."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from swapstone.core.factors.arm_code import KINDS, VFP_LOAD, branch_target, is_wide, kind_of, words_of
from swapstone.core.factors.arm_facts import float_helper_addresses
from swapstone.parts.explain.instruments.code_files import CodeFile
from swapstone.parts.explain.instruments.plugin_file import Block
from swapstone.parts.explain.instruments.symbol_tables import of_elf
from swapstone.parts.explain.model.instruction_counts import PROGRAM, ArmCounts


def count_arm(blocks: Iterable[Block], files: Iterable[CodeFile], kernel_start: int) -> ArmCounts:
    """Count the instructions outside the kernel by kind.

    Args:
        blocks: with the executions of each instruction.
        files: of user code. Calls of libgcc's floating-point functions are counted if the program is linked at a fixed address.
        kernel_start: the lowest address of the kernel.
    """
    programs = [file for file in files if file.fixed and file.kind == PROGRAM]
    helpers = frozenset[int]().union(
        *(of_elf(file.symbols, float_helper_addresses, frozenset[int]()) for file in programs)
    )
    kinds = collections.Counter[str]()
    runs = calls = 0
    for block in blocks:
        if block.address >= kernel_start:
            continue
        thumb, before = is_thumb(block), ""
        words = words_of(block.code, thumb=thumb)
        for (offset, word), count in zip(words, block.counts, strict=False):
            kind = kind_of(word, thumb=thumb)
            kinds[kind] += count
            runs += count if kind == VFP_LOAD != before else 0
            calls += count if branch_target(word, block.address + offset, thumb=thumb) in helpers else 0
            before = kind
    return ArmCounts(
        kinds=tuple((kind, kinds[kind]) for kind in KINDS if kinds[kind]), load_runs=runs, helper_calls=calls
    )


def is_thumb(block: Block) -> bool:
    """Return whether a block has Thumb instructions.

    The emulator does not report the instruction set. Instructions of two bytes are Thumb's. A block of four-byte ones is Thumb if each
    begins as such an instruction does; few ARM instructions do.
    """
    starts = [int.from_bytes(block.code[at : at + 2], "little") for at in range(0, len(block.code), 4)]
    return any(size != 4 for size in block.sizes) or all(map(is_wide, starts))
