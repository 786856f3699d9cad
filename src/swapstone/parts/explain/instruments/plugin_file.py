# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the emulator's plugin writes, and the names of the functions of executed blocks.

A file has a header, lines of numbers, tables and blocks of code. In the mode `paths` (native/plugin/paths.c) these are executions of
instructions by call path.

The plugin reports virtual addresses and instructions, but not the process. Programs share virtual addresses, because they are not
randomised. So a block of instructions belongs to the file that has the same bytes at that address. A file that the loader places has one
or more bases: addresses at which several of its blocks were found. Functions of the kernel are named by its list.

The image's glibc is stripped, and its symbols are in another package of the same version. The package is fetched only if code of a
stripped glibc was executed that no debug file of this machine names.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import functools
import itertools
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from elftools.elf.elffile import ELFFile

from swapstone.core.model import UserError
from swapstone.core.model.profile import Profile
from swapstone.core.record import FileProblemError, read_regular
from swapstone.parts.explain.instruments.symbol_tables import (
    Table,
    companion_of,
    debug_name,
    missing_symbols,
    occurrences,
    of_elf,
    table_of,
)
from swapstone.parts.explain.model.explanation import (
    AMBIGUOUS,
    C_LIBRARY,
    KERNEL_CODE,
    MOST_CALLS,
    OTHER_PROGRAM,
    PROGRAM,
    UNKNOWN,
    frame_of,
)

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


def check(fits: bool, problem: str) -> None:
    """Check a file of the plugin.

    Raises:
        UserError: it is damaged; the text is the problem.
    """
    if not fits:
        raise UserError(f"The output of the emulator's plugin is damaged: {problem}.")


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
    check(len(data) <= most_bytes, f"it has more than {most_bytes >> 20} MiB")
    check(data.startswith(header + b"\n"), f"it starts with {data[:24]!r} and not with {header.decode()}")
    at, values = len(header) + 1, dict[str, int]()
    for name in names:
        line = _LINE.match(data, at)
        values[name] = int(line[2]) if line is not None and line[1] == name.encode() else 1 << bits
        check(values[name] < 1 << bits, f"at byte {at} it has {data[at : at + 24]!r} and not the number of {name}")
        at = line.end() if line is not None else at
    check(not more or data[at : at + 1] == b"\n", f"at byte {at} it has no empty line")
    check(values.get("open", 0) <= 1, f"open is {values.get('open')}, not 0 or 1")
    return values, at + more


def decode_table(data: bytes, at: int, count: int, row: struct.Struct) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Decode rows of numbers; return them and the position after them.

    Raises:
        UserError: the file ends before.
    """
    end = at + count * row.size
    check(end <= len(data), f"it ends before {count} entries of {row.size} bytes at byte {at}")
    return tuple(row.iter_unpack(data[at:end])), end


def decode_blocks(data: bytes, at: int, count: int) -> tuple[tuple[Block, ...], int]:
    """Decode blocks of code; return them and the position after them.

    Raises:
        UserError: the file ends before, or the sizes are not those of the code; the text has the number of the block, from 0.
    """
    blocks = []
    for number in range(count):
        which = f"block {number} of {count}"
        check(at + _BLOCK.size <= len(data), f"it ends before {which}")
        address, instructions, code_size = _BLOCK.unpack_from(data, at)
        code_at = at + _BLOCK.size + instructions
        end = code_at + code_size
        check(end <= len(data), f"it ends inside {which}")
        sizes = data[at + _BLOCK.size : code_at]
        fits = instructions and sum(sizes) == code_size and 0 not in sizes and address + code_size <= 1 << 64
        check(bool(fits), f"{which} at byte {at} has {code_size} bytes of code for {instructions} instructions")
        blocks.append(Block(address, data[code_at:end], sizes))
        at = end
    return tuple(blocks), at


def require_end(data: bytes, at: int, after: str) -> None:
    """Require that nothing but the end follows.

    Raises:
        UserError: the text names the position, and `after` what is before it.
    """
    check(data[at:] == _END, f"at byte {at} it does not end after {after}")


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
        known = path < len(paths) and 0 <= number < len(blocks) and times < 1 << 63
        check(known, f"a leaf is of path {path + 1} of {len(paths)} and of block {number + 1} of {len(blocks)}")
        check(0 < began <= len(blocks[number].sizes), f"a leaf has {began} instructions of block {number + 1}")
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
        fits = above < number and block <= blocks
        check(fits, f"path {number} is below path {above}, and calls from block {block} of {blocks}")
        depths.append(depths[above] + 1)
        found.append((above - 1, block - 1))
    check(max(depths) <= _MOST_DEPTH, f"a path has {max(depths)} calls")
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


_PAGE = 4096
_EXECUTABLE = 1  # PF_X of elf(5)
_FEWEST_BYTES = 12
_OF_PAGE = 4
_MOST_SEARCHED = 1000
_MOST_PLACES = 64
_FEWEST_BLOCKS = 2
_MOST_BASES = 8


@dataclasses.dataclass(frozen=True)
class CodeFile:
    """The code of an ELF file.

    Attributes:
        name: how it is printed, for example ``libc.so.6``.
        kind: what it is, for example ``C library``.
        fixed: whether it runs at the addresses in the file (ET_EXEC).
        pieces: pairs (address in the file, bytes) of its executable segments.
        symbols: a file that names its functions: itself, or a copy with symbols.
    """

    name: str
    kind: str
    fixed: bool
    pieces: tuple[tuple[int, bytes], ...]
    symbols: Path

    def has(self, address: int, code: bytes) -> bool:
        """Return whether it has these bytes at an address of the file."""
        return any(
            start <= address and data[address - start : address - start + len(code)] == code
            for start, data in self.pieces
        )


def read_code(content: Path | bytes) -> tuple[bool, tuple[tuple[int, bytes], ...]] | None:
    """Return whether an ELF file has fixed addresses, and its executable segments; None if it is no program or library."""

    def read(elf: ELFFile) -> tuple[bool, tuple[tuple[int, bytes], ...]] | None:
        pieces = tuple(
            (int(each["p_vaddr"]), each.data())
            for each in elf.iter_segments()
            if each["p_type"] == "PT_LOAD" and each["p_flags"] & _EXECUTABLE
        )
        return (elf["e_type"] == "ET_EXEC", pieces) if elf["e_type"] in {"ET_EXEC", "ET_DYN"} else None

    return of_elf(content, read, None)


class CodeMap:
    """Where the files of a machine are in its processes' address spaces.

    Args:
        files: that may have been executed.
        blocks: of user code; the bases are found from them.
    """

    def __init__(self, files: Sequence[CodeFile], blocks: Sequence[Block]) -> None:
        wanted = _long_blocks(blocks)
        self._files = [(file, (0,) if file.fixed else _bases_of(file, wanted)) for file in files]

    def owners(self, block: Block) -> list[tuple[CodeFile, int]]:
        """Return pairs (file, base) of the files that have a block's bytes at its address.

        Returns:
            Nothing for an unknown block, several for an ambiguous one.
        """
        found = (
            (file, [base for base in bases if file.has(block.address - base, block.code)])
            for file, bases in self._files
        )
        return [(file, bases[-1]) for file, bases in found if bases]


def _long_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks to search for: of each page the longest, because each search reads whole files."""
    of_page: collections.defaultdict[int, dict[int, Block]] = collections.defaultdict(dict)
    for block in blocks:
        if len(block.code) >= _FEWEST_BYTES:
            of_page[block.address // _PAGE][block.address] = block
    longest = (sorted(page.values(), key=_by_length)[:_OF_PAGE] for page in of_page.values())
    return sorted((block for page in longest for block in page), key=_by_length)[:_MOST_SEARCHED]


def _by_length(block: Block) -> tuple[int, int]:
    return -len(block.code), block.address


def _bases_of(file: CodeFile, blocks: Sequence[Block]) -> tuple[int, ...]:
    """Return the bases of a file: with each, it has at least two of the blocks. A base is a multiple of a page."""
    votes: collections.Counter[int] = collections.Counter()
    for block in blocks:
        found = set[int]()
        for start, data in file.pieces:
            bases = (block.address - start - at for at in occurrences(block.code, data))
            pages = (base for base in bases if base >= 0 and base % _PAGE == 0 and base not in found)
            found.update(itertools.islice(pages, _MOST_PLACES - len(found)))
        votes.update(found)
    return tuple(base for base, count in votes.most_common(_MOST_BASES) if count >= _FEWEST_BLOCKS)


COMMAND = ("/bin/sh", "-c", "grep -i ' [tw] ' /proc/kallsyms")
"""Prints the functions in a machine; of about 9 MB, 2 MB remain."""

MOST_SYMBOL_BYTES = 16 << 20
_SYMBOL = re.compile(r"([0-9a-f]{8,16}) ([tTwW]) ([A-Za-z0-9_.$@-]{1,512})(?:\t\[([A-Za-z0-9_-]{1,64})\])?")
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
    if len(output) > MOST_SYMBOL_BYTES:
        raise UserError(f"The kernel's list of functions has more than {MOST_SYMBOL_BYTES >> 20} MiB.")
    functions = []
    for line in output.decode("ascii", "replace").splitlines():
        found = _SYMBOL.fullmatch(line)
        if found is None:
            raise UserError(f"The kernel's list of functions is damaged: {line[:60]!r}.")
        functions.append((int(found[1], 16), found[3], found[4] or ""))
    if not any(address for address, _, _ in functions):
        raise UserError(
            "The kernel lists its functions without addresses.",
            "It needs CONFIG_KALLSYMS, and kernel.kptr_restrict=0 or 1.",
        )
    return KernelSymbols(functions)


TableOf = Callable[[CodeFile], Table | None]
"""Returns the functions of a file; None if it can't be read."""


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


_GLIBC = ("ld-linux", "libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")
"""How names of glibc's files in an image begin (parts/vm/artifacts/image_catalog.py)."""

FindDebugFile = Callable[[str, Path, Callable[[str], None]], tuple[str, bytes | None]]


class DebugFiles:
    """The functions of files, with the debug files of glibc's package.

    Args:
        find: returns a debug file: `swapstone.core.targets.observed_target.ObservedTarget.debug_file`.
        folder: for temporary files.
        notify: called before a download.
    """

    def __init__(self, find: FindDebugFile, folder: Path, notify: Callable[[str], None]) -> None:
        self._find = functools.cache(lambda name: find(name, folder, notify))
        self._table = functools.cache(self._read)
        self._notes: dict[str, None] = {}
        self._failure = ""

    def table(self, file: CodeFile) -> Table | None:
        """Return the functions of a file; None if it can't be read."""
        return self._table(file.symbols, file.name)

    def notes(self) -> tuple[str, ...]:
        """Return where the names of glibc's functions come from, and why functions have none, as sentences."""
        return tuple(self._notes)

    def _read(self, path: Path, name: str) -> Table | None:
        if name.startswith(_GLIBC) and (build := missing_symbols(path)):
            self._fetch(path, name, build)
        return table_of(path)

    def _fetch(self, path: Path, name: str, build: str) -> None:
        """Write the debug file of a build ID beside a file, if the package has it and can be fetched."""
        content, source, why = None, "", self._failure
        if not why:  # a download that failed is not repeated for each file
            try:
                source, content = self._find(debug_name(build))
            except UserError as error:
                why = self._failure = error.message.removesuffix(".")
        if content is not None:
            companion_of(path).write_bytes(content)
        why = why or f"{source} has no symbols of build ID {build}"
        named, unnamed = (
            f"Names of glibc's internal functions are from {source}.",
            f"Internal functions of {name} have no names: {why}.",
        )
        self._notes[unnamed if content is None else named] = None
