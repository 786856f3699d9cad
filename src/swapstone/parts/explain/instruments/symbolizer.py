# SPDX-License-Identifier: MIT OR Apache-2.0
"""Convert the addresses of a stack to frames."""

from __future__ import annotations

import collections
import contextlib
import functools
import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.parts.explain.instruments.perf import Event
from swapstone.parts.explain.instruments.symbol_tables import Table, debug_file_of, table_of
from swapstone.parts.explain.instruments.traced_run import Tracee

UNKNOWN = "[unknown]"
MOST_LINES = 200
"""Functions whose source lines are looked up."""
LONGEST_S = 20
_LINE = re.compile(r"(?:.*/)?([^/]{1,120}:[1-9][0-9]{0,8})(?: \(discriminator [0-9]+\))?$")
_ADDRESS = re.compile(r"^0x[0-9a-f]+\n", re.MULTILINE)
_SHARED = re.compile(r"\.so(?:$|[.\d])")
_GENERATED = re.compile(r"perf-\d+\.map")
"""Files in which processes list the code that they generate (tools/perf/Documentation/jit-interface.txt of Linux)."""


class Symbolizer:
    """Names the frames of one tracee's stacks.

    The program's own frames are those of its file, and those of the code that it generates. A script executes another file: then those of
    every mapped file are that is no shared object by its name.

    Args:
        tracee: what ran.
    """

    def __init__(self, tracee: Tracee) -> None:
        self._program = tracee.mapped_program
        self._twin = tracee.symbols
        self._file_of = tracee.file_of
        self._script = _is_script(tracee.file_of(self._program))
        self._places = collections.defaultdict[Frame, collections.Counter[tuple[str, int]]](collections.Counter)
        self.frame = functools.lru_cache(maxsize=1 << 16)(self._frame)

    def stack(self, event: Event) -> tuple[Frame, ...]:
        """Return an event's stack, the outermost frame first.

        Where the copied part of a stack ends inside a frame, perf prints addresses in no file above it: they are left out.
        """
        frames = list(event.stack)
        while len(frames) > 1 and frames[-1][2] == UNKNOWN:
            frames.pop()
        stack = tuple(self.frame(*each) for each in reversed(frames))
        for number, (frame, (offset, _, path)) in enumerate(zip(reversed(stack), frames, strict=True)):
            self._places[frame][path, offset - (number > 0)] += 1  # a caller's address is behind its call
        return stack

    def lines(self) -> dict[Frame, str]:
        """Return the source line with most samples of each function, of the `MOST_LINES` with the most, without those that have none."""
        most = sorted(self._places, key=lambda frame: -self._places[frame].total())[:MOST_LINES]
        found = {frame: self._places[frame].most_common(1)[0][0] for frame in most if frame.object != KERNEL}
        tables = {path: table for path, _ in found.values() if (table := self.table(path)) is not None}
        places = {frame: (path, tables[path].address_of(at)) for frame, (path, at) in found.items() if path in tables}
        known = {
            path: source_lines(self._file(path), [at for other, at in places.values() if other == path])
            for path in tables
        }
        return {frame: line for frame, (path, at) in places.items() if (line := known[path].get(at))}

    def _file(self, path: str) -> Path:
        """Return the file with the symbols of a mapped one."""
        return self._twin if path == self._program and self._twin is not None else self._file_of(path)

    def object_of(self, path: str) -> str:
        """Return the object name of frames in a file."""
        if path.startswith("[kernel") or path.endswith(".ko") or path == "[guest.kernel.kallsyms]":
            return KERNEL
        name = Path(path).name
        executed = self._script and path.startswith("/") and not _SHARED.search(name)
        return OWN_OBJECT if executed or path == self._program or _GENERATED.fullmatch(name) else name

    def table(self, path: str) -> Table | None:
        """Return the functions of a mapped file."""
        return table_of(self._file(path)) if path.startswith("/") else None

    def _frame(self, offset: int, symbol: str, path: str) -> Frame:
        where = self.object_of(path)
        if where == KERNEL:
            return Frame(symbol=symbol, object=KERNEL)
        table = self.table(path)
        own = table.name_at(table.address_of(offset)) if table else ""
        # In a stripped file perf reports the nearest preceding symbol, which may be another function.
        fallback = UNKNOWN if table else symbol
        return Frame(symbol=(own or fallback).split("@@")[0], object=where)


def source_lines(file: Path, addresses: Collection[int]) -> dict[int, str]:
    """Return the source lines of addresses as addr2line(1) prints them, without folders: ``scan.c:14``.

    Of a call that the compiler put in place of a function it is the line of the call: that is in the function that has a symbol.

    Args:
        file: with debug information, or with a debug file of its build ID.
        addresses: of the file. Those without a line are left out; all if the command fails, or takes longer than `LONGEST_S`.
    """
    command = ("addr2line", "-a", "-i", "-e", str(debug_file_of(file) or file), *map(hex, addresses))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LONGEST_S, check=True
        )
        outermost = (each.rstrip().rpartition("\n")[2] for each in _ADDRESS.split(printed.stdout)[1:])
        hits = zip(addresses, map(_LINE.match, outermost), strict=False)
        return {at: hit[1] for at, hit in hits if hit is not None}
    return {}


def _is_script(path: Path) -> bool:
    """Return whether a file is executed by an interpreter that its first line names."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(2) == b"#!"
    return False
