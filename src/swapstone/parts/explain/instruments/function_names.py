# SPDX-License-Identifier: MIT OR Apache-2.0
"""Name the functions of executed blocks, in the kernel and in the files of a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swapstone.parts.explain.instruments.code_files import CodeFile, CodeMap
from swapstone.parts.explain.instruments.kernel_symbols import KernelSymbols
from swapstone.parts.explain.instruments.plugin_file import Block
from swapstone.parts.explain.instruments.symbol_tables import Table
from swapstone.parts.explain.model.instruction_counts import AMBIGUOUS, KERNEL_CODE, UNKNOWN

FunctionKey = tuple[str, str, str]
"""Name of a function, its file, and the file's kind."""

TableOf = Callable[[CodeFile], Table | None]
"""Returns the functions of a file; None if it can't be read."""

NameAt = Callable[[int], tuple[FunctionKey, bool]]
"""Returns the function of an address, and whether the address is the function's first."""

NamesOf = Callable[[Block], NameAt]
"""Returns what names the functions of a block."""


def names_of(
    blocks: Iterable[Block], files: list[CodeFile], kernel: KernelSymbols, kernel_start: int, *, table: TableOf
) -> NamesOf:
    """Return what names the functions of blocks.

    Args:
        blocks: that were executed; those of user code show where its files are.
        files: of user code.
        kernel: functions of the kernel.
        kernel_start: the lowest address of the kernel.
        table: returns the functions of a file; called only for files of named blocks.
    """
    places = CodeMap(files, [block for block in blocks if block.address < kernel_start])

    def of_kernel(address: int) -> tuple[FunctionKey, bool]:
        name, module, start = kernel.name_at(address) or ("", "", -1)
        return (name, module, KERNEL_CODE), address == start

    return lambda block: of_kernel if block.address >= kernel_start else _user_names(places, block, table)


def _user_names(places: CodeMap, block: Block, table: TableOf) -> NameAt:
    owners = places.owners(block)
    if len(owners) != 1:
        return lambda _: (("", "", AMBIGUOUS if owners else UNKNOWN), False)
    file, base = owners[0]
    functions = table(file)

    def name_at(address: int) -> tuple[FunctionKey, bool]:
        if functions is None:
            return ("", file.name, file.kind), False
        name = functions.name_at(address - base).split("@@")[0]  # the default version of a versioned symbol
        return (name, file.name, file.kind), bool(name) and functions.begins_at(address - base)

    return name_at
