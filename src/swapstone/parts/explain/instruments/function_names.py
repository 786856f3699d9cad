# SPDX-License-Identifier: MIT OR Apache-2.0
"""Name the functions of executed blocks, in the kernel and in the files of a machine."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable

from swapstone.core.model import UserError
from swapstone.parts.explain.instruments.code_files import CodeFile, CodeMap
from swapstone.parts.explain.instruments.plugin_file import Block
from swapstone.parts.explain.instruments.symbol_tables import Table
from swapstone.parts.explain.model.instruction_counts import AMBIGUOUS, KERNEL_CODE, OTHER_PROGRAM, PROGRAM, UNKNOWN

COMMAND = ("/bin/sh", "-c", "grep -i ' [tw] ' /proc/kallsyms")
"""Prints the functions in a machine; of about 9 MB, 2 MB remain."""

MOST_BYTES = 16 << 20
_LINE = re.compile(r"([0-9a-f]{8,16}) ([tTwW]) ([A-Za-z0-9_.$@-]{1,512})(?:\t\[([A-Za-z0-9_-]{1,64})\])?")
_MARKER = re.compile(r"_\w*text(_start|_begin|_end)?")
_ENTRIES = ("__x64_sys_", "__arm64_sys_", "__riscv_sys_")
_LONGEST = 1 << 20
"""An address farther behind the last function is in none."""


class KernelSymbols:
    """The functions of a running kernel.

    Args:
        functions: triples (address, name, module); the module is empty for the kernel itself.
    """

    def __init__(self, functions: Iterable[tuple[int, str, str]]) -> None:
        best_last = sorted(functions, key=lambda one: _rank(one[1]), reverse=True)
        self._best = {address: (name, module) for address, name, module in best_last}
        self._starts = sorted(self._best)
        self._addresses = {self._best[address][0]: address for address in reversed(self._starts)}

    def name_at(self, address: int) -> tuple[str, str, int] | None:
        """Return name, module and start of the function that contains an address; None if there is none."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address - self._starts[at] >= _LONGEST:
            return None
        return (*self._best[self._starts[at]], self._starts[at])

    def address(self, name: str) -> int | None:
        """Return the address of a function."""
        return self._addresses.get(name)

    def end(self, name: str) -> int | None:
        """Return the address of the function behind another one; None if that is not known or is the last one."""
        start = self.address(name)
        at = len(self._starts) if start is None else bisect.bisect_right(self._starts, start)
        return self._starts[at] if at < len(self._starts) else None


def _rank(name: str) -> tuple[bool, bool, int, str]:
    """Return how much worse a name is than others of the same address: an entry of a system call, no marker such as ``_stext``, short."""
    return (not name.startswith(_ENTRIES), _MARKER.fullmatch(name) is not None, len(name), name)


def decode_kallsyms(output: bytes) -> KernelSymbols:
    """Decode what `COMMAND` printed.

    Raises:
        UserError: it has a line that is none of kallsyms, or no function with an address.
    """
    if len(output) > MOST_BYTES:
        raise UserError(f"The kernel's list of functions has more than {MOST_BYTES >> 20} MiB.")
    functions = []
    for line in output.decode("ascii", "replace").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise UserError(f"The kernel's list of functions is damaged: {line[:60]!r}.")
        functions.append((int(found[1], 16), found[3], found[4] or ""))
    if not any(address for address, _, _ in functions):
        raise UserError(
            "The kernel lists its functions without addresses.",
            "It needs CONFIG_KALLSYMS, and kernel.kptr_restrict=0 or 1.",
        )
    return KernelSymbols(functions)


FunctionKey = tuple[str, str, str]
"""Name of a function, its file, and the file's kind."""

TableOf = Callable[[CodeFile], Table | None]
"""Returns the functions of a file; None if it can't be read."""

NameAt = Callable[[int], FunctionKey]
"""Returns the function of an address."""

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

    def of_kernel(address: int) -> FunctionKey:
        name, module, _ = kernel.name_at(address) or ("", "", -1)
        return name, module, KERNEL_CODE

    return lambda block: of_kernel if block.address >= kernel_start else _user_names(places, block, table)


def _user_names(places: CodeMap, block: Block, table: TableOf) -> NameAt:
    owners = places.owners(block)
    if any(file.kind == PROGRAM for file, _ in owners):
        owners = [each for each in owners if each[0].kind != OTHER_PROGRAM]
    if len(owners) != 1:
        return lambda _: ("", "", AMBIGUOUS if owners else UNKNOWN)
    file, base = owners[0]
    functions = table(file)
    if functions is None:
        return lambda _: ("", file.name, file.kind)
    # without the default version of a versioned symbol
    return lambda address: (functions.name_at(address - base).split("@@")[0], file.name, file.kind)
