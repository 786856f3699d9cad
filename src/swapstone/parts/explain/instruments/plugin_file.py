# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode what the emulator's plugin writes: a header, lines of numbers, tables and blocks of code.

In the mode `paths` (native/plugin/paths.c) these are executions of instructions by call path.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from swapstone.core.model import UserError
from swapstone.core.model.profile import Profile
from swapstone.core.record import FileProblemError, read_regular
from swapstone.parts.explain.model.explanation import C_LIBRARY, MOST_CALLS, PROGRAM, UNKNOWN, frame_of

_LINE = re.compile(rb"([a-z0-9_]+) (0|[1-9][0-9]{0,19})\n")
_BLOCK = struct.Struct("<QHH")
_END = b"end\n"

Decoded = TypeVar("Decoded")


@dataclasses.dataclass(frozen=True)
class Block:
    """Instructions that the emulator translated together.

    Attributes:
        address: virtual address of the first.
        code: bytes of all.
        sizes: bytes of each.
        counts: how often each was completed; empty where that is not counted.
    """

    address: int
    code: bytes
    sizes: bytes
    counts: tuple[int, ...] = ()

    @property
    def addresses(self) -> list[int]:
        """Return the address of each instruction."""
        return list(itertools.accumulate(self.sizes, initial=self.address))[:-1]

    @property
    def instructions(self) -> int:
        """Return how many instructions were executed."""
        return sum(self.counts)


FunctionKey = tuple[str, str, str]
"""Name of a function, its file, and the file's kind."""

NameAt = Callable[[int], FunctionKey]
"""Returns the function of an address."""

NamesOf = Callable[[Block], NameAt]
"""Returns what names the functions of a block."""


def read_output(path: Path, most_bytes: int, decode: Callable[[bytes], Decoded]) -> Decoded:
    """Read and decode a file that the plugin wrote.

    Raises:
        UserError: there is none, or it is damaged.
    """
    try:
        data = read_regular(path, most_bytes)
    except (OSError, FileProblemError) as error:
        raise UserError(f"The emulator's plugin wrote no {path.name}: {error}.") from error
    return decode(data)


def damaged(what: str) -> UserError:
    """Return the error for a damaged file; the text names what is wrong in it."""
    return UserError(f"The output of the emulator's plugin is damaged: {what}.")


def decode_numbers(
    data: bytes, header: bytes, names: Sequence[str], *, most_bytes: int, bits: int, more: bool = True
) -> tuple[dict[str, int], int]:
    """Decode the header and the lines ``NAME NUMBER``.

    Args:
        data: the whole file.
        header: its first line, without the newline.
        names: of the numbers, in their order.
        most_bytes: the largest size of a file.
        bits: each number is below 2 to this power; that of ``open`` is 0 or 1.
        more: whether an empty line follows, and tables.

    Returns:
        The numbers by name, and the position after them and the empty line.

    Raises:
        UserError: the file is damaged; the text names where.
    """
    if len(data) > most_bytes:
        raise damaged(f"it has more than {most_bytes >> 20} MiB")
    if not data.startswith(header + b"\n"):
        raise damaged(f"it starts with {data[:24]!r} and not with {header.decode()}")
    at, values = len(header) + 1, dict[str, int]()
    for name in names:
        line = _LINE.match(data, at)
        if line is None or line[1] != name.encode() or int(line[2]) >= 1 << bits:
            raise damaged(f"at byte {at} it has {data[at : at + 24]!r} and not the number of {name}")
        values[name] = int(line[2])
        at = line.end()
    if more and data[at : at + 1] != b"\n":
        raise damaged(f"at byte {at} it has no empty line")
    if values.get("open", 0) > 1:
        raise damaged(f"open is {values['open']}, not 0 or 1")
    return values, at + more


def decode_table(data: bytes, at: int, count: int, row: struct.Struct) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Decode rows of numbers; return them and the position after them.

    Raises:
        UserError: the file ends before.
    """
    end = at + count * row.size
    if end > len(data):
        raise damaged(f"it ends before {count} entries of {row.size} bytes at byte {at}")
    return tuple(row.iter_unpack(data[at:end])), end


def decode_blocks(data: bytes, at: int, count: int) -> tuple[tuple[Block, ...], int]:
    """Decode blocks of code; return them and the position after them.

    Raises:
        UserError: the file ends before, or the sizes are not those of the code; the text has the number of the block, from 0.
    """
    blocks = []
    for number in range(count):
        which = f"block {number} of {count}"
        if at + _BLOCK.size > len(data):
            raise damaged(f"it ends before {which}")
        address, instructions, code_size = _BLOCK.unpack_from(data, at)
        code_at = at + _BLOCK.size + instructions
        end = code_at + code_size
        if end > len(data):
            raise damaged(f"it ends inside {which}")
        sizes = data[at + _BLOCK.size : code_at]
        if not instructions or sum(sizes) != code_size or 0 in sizes or address + code_size > 1 << 64:
            raise damaged(f"{which} at byte {at} has {code_size} bytes of code for {instructions} instructions")
        blocks.append(Block(address, data[code_at:end], sizes))
        at = end
    return tuple(blocks), at


def require_end(data: bytes, at: int, after: str) -> None:
    """Require that nothing but the end follows.

    Raises:
        UserError: the text names the position, and `after` what is before it.
    """
    if data[at:] != _END:
        raise damaged(f"at byte {at} it does not end after {after}")


HEADER = b"swapstone-paths 2"
MOST_BYTES = 256 << 20

_NAMES = ("begins", "windows", "open", "accesses", "lost", "full", "deep", "blocks", "paths", "leaves")
_PATH, _LEAF = struct.Struct("<2I"), struct.Struct("<4IQ")
_MOST_DEPTH = 256
"""The plugin follows fewer calls (native/plugin/paths.c, MOST_DEPTH)."""


@dataclasses.dataclass(frozen=True)
class CallPaths:
    """The instructions that a machine executed in the observed windows, by the calls that led to them.

    Attributes:
        begins: how often the instruction was executed that may begin a window.
        windows: complete windows.
        open: whether the machine ended inside a window.
        accesses: how often a block was left by an access to a device.
        lost: instructions that were counted without address and path, because there were too many.
        full: calls that found no room for their path.
        deep: calls that were not followed, because the path was too long.
        blocks: what was executed, with the executions of each instruction, and what called it. One address may occur in several blocks.
        paths: pairs (index of the path above, index of the block that calls). -1 is no path above, and no room for the path. A path is
            behind the one above it.
        leaves: (index of a path or -1, index of a block, how many of its instructions began, how often).
    """

    begins: int
    windows: int
    open: bool
    accesses: int
    lost: int
    full: int
    deep: int
    blocks: tuple[Block, ...]
    paths: tuple[tuple[int, int], ...]
    leaves: tuple[tuple[int, int, int, int], ...]

    @property
    def instructions(self) -> int:
        """Return how many instructions were executed, with the lost ones."""
        return self.lost + sum(block.instructions for block in self.blocks)

    @property
    def left(self) -> int:
        """Return how often a block was left before its last instruction began, by a fault or by an access to a device."""
        return sum(times for _, block, began, times in self.leaves if began < len(self.blocks[block].sizes))


def completed(began: int, block: Block) -> int:
    """Return how many instructions of a block were completed: the last that began was not, if the block was left there."""
    return began if began == len(block.sizes) else began - 1


def decode_paths(data: bytes) -> CallPaths:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    values, at = decode_numbers(data, HEADER, _NAMES, most_bytes=MOST_BYTES, bits=63)
    blocks, at = decode_blocks(data, at, values["blocks"])
    rows, at = decode_table(data, at, values["paths"], _PATH)
    paths = _paths(rows, len(blocks))
    rows, at = decode_table(data, at, values["leaves"], _LEAF)
    leaves = tuple((path - 1, block - 1, began, times) for path, block, began, _, times in rows)
    ended = [[0] * (len(block.sizes) + 1) for block in blocks]  # how often after so many instructions
    for path, number, began, times in leaves:
        if path >= len(paths) or not 0 <= number < len(blocks) or times >= 1 << 63:
            raise damaged(f"a leaf is of path {path + 1} of {len(paths)} and of block {number + 1} of {len(blocks)}")
        if not 0 < began <= len(blocks[number].sizes):
            raise damaged(f"a leaf has {began} instructions of block {number + 1}")
        ended[number][completed(began, blocks[number])] += times
    require_end(data, at, f"{len(leaves)} leaves")
    counts = (tuple(itertools.accumulate(each[:0:-1]))[::-1] for each in ended)
    executed = tuple(dataclasses.replace(block, counts=each) for block, each in zip(blocks, counts, strict=True))
    numbers = {name: values[name] for name in _NAMES[:7] if name != "open"}
    return CallPaths(**numbers, open=bool(values["open"]), blocks=executed, paths=paths, leaves=leaves)


def _paths(rows: Sequence[tuple[int, ...]], blocks: int) -> tuple[tuple[int, int], ...]:
    """Check the paths, and return them."""
    depths, found = [0], []
    for number, (above, block) in enumerate(rows, 1):
        if above >= number or block > blocks:
            raise damaged(f"path {number} is below path {above}, and calls from block {block} of {blocks}")
        depths.append(depths[above] + 1)
        found.append((above - 1, block - 1))
    if max(depths) > _MOST_DEPTH:
        raise damaged(f"a path has {max(depths)} calls")
    return tuple(found)


NOT_KEPT: FunctionKey = ("[callers not kept]", "", UNKNOWN)
"""Stands for the callers of code whose path found no room."""

_MAIN = "main"


def call_profile(paths: CallPaths, names_of: NamesOf, operations: float, most: int = MOST_CALLS) -> Profile:
    """Return the instructions of each function below its callers; none has any where calls were not followed.

    Args:
        paths: of a run.
        names_of: names functions.
        operations: that were observed.
        most: the most functions on all stacks together. If there are more, those with few instructions are added to their callers.
    """
    callers = {number: paths.blocks[number] for _, number in paths.paths if number >= 0}
    call_of = {
        number: names_of(block)(block.addresses[-1]) for number, block in callers.items()
    }  # its last instruction
    above: list[tuple[FunctionKey, ...]] = [()]
    for path, number in paths.paths:
        above.append(_called(above[path + 1], call_of[number] if number >= 0 else NOT_KEPT))
    functions: dict[tuple[int, int], list[tuple[FunctionKey, int]]] = {}
    found = collections.Counter[tuple[FunctionKey, ...]]()
    for path, number, began, times in paths.leaves:
        if (number, began) not in functions:
            block = paths.blocks[number]
            name_at = names_of(block)
            keys = (name_at(address) for address in block.addresses[: completed(began, block)])
            functions[number, began] = [(key, len([*group])) for key, group in itertools.groupby(keys)]
        for key, instructions in functions[number, began]:
            found[_called(above[path + 1], key)] += times * instructions
    least = 0
    while sum(map(len, found)) > most and max(map(len, found)) > 1:
        least = 2 * least + 1
        for depth in range(max(map(len, found)), 1, -1):
            for stack in [each for each, count in found.items() if len(each) == depth and count <= least]:
                found[stack[:-1]] += found.pop(stack)
    frames = {key: frame_of(*key) for stack in found for key in stack}
    weights = {tuple(frames[key] for key in stack): float(count) for stack, count in (+found).items()}
    notes = (
        (least, f"Functions with fewer than {least + 1} instructions on a path were added to their callers."),
        (
            paths.deep,
            f"Calls beyond the longest path that is followed: {paths.deep}. Their functions are below the last caller that had room.",
        ),
        (paths.full, f"Calls that found no room: {paths.full}. Their functions are below {NOT_KEPT[0]}."),
    )
    return Profile.of(
        weights,
        kind="instructions",
        unit="1",
        operations=operations,
        notes=tuple(text for number, text in notes if number),
    )


def _called(above: tuple[FunctionKey, ...], key: FunctionKey) -> tuple[FunctionKey, ...]:
    """Return the stack of a function below its callers.

    What the C library executes before it calls the program is left out, so the paths of two C libraries are comparable.
    """
    name, _, kind = key
    is_first = name == _MAIN and not any(each[0] == _MAIN and each[2] == PROGRAM for each in above)
    started = kind == PROGRAM and (is_first or all(each[2] == C_LIBRARY for each in above))
    return (key,) if started else (*above, key)
