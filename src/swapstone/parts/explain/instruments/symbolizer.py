# SPDX-License-Identifier: MIT OR Apache-2.0
"""Convert the addresses of a stack to frames."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.parts.explain.instruments.perf_script import Event
from swapstone.parts.explain.instruments.symbol_tables import Table, table_of
from swapstone.parts.explain.instruments.traced_run import Tracee

UNKNOWN = "[unknown]"
_SHARED = re.compile(r"\.so(?:$|[.\d])")


class Symbolizer:
    """Names the frames of one tracee's stacks.

    The program's own frames are those of its file. A script executes another file: then those of every mapped file are that is no shared
    object by its name.

    Args:
        tracee: what ran.
    """

    def __init__(self, tracee: Tracee) -> None:
        self._program = str(Path(tracee.program).resolve())
        self._twin = tracee.symbols
        self._script = _is_script(self._program)
        self.frame = functools.lru_cache(maxsize=1 << 16)(self._frame)

    def stack(self, event: Event) -> tuple[Frame, ...]:
        """Return an event's stack, the outermost frame first.

        Where the copied part of a stack ends inside a frame, perf prints addresses in no file above it: they are left out.
        """
        frames = list(event.stack)
        while len(frames) > 1 and frames[-1][2] == UNKNOWN:
            frames.pop()
        return tuple(self.frame(*each) for each in reversed(frames))

    def object_of(self, path: str) -> str:
        """Return the object name of frames in a file."""
        if path.startswith("[kernel") or path.endswith(".ko") or path == "[guest.kernel.kallsyms]":
            return KERNEL
        name = Path(path).name
        executed = self._script and path.startswith("/") and not _SHARED.search(name)
        return OWN_OBJECT if executed or path == self._program else name

    def table(self, path: str) -> Table | None:
        """Return the functions of a mapped file."""
        if path == self._program and self._twin is not None:
            return table_of(self._twin)
        return table_of(Path(path)) if path.startswith("/") else None

    def _frame(self, offset: int, symbol: str, path: str) -> Frame:
        where = self.object_of(path)
        if where == KERNEL:
            return Frame(symbol=symbol, object=KERNEL)
        table = self.table(path)
        own = table.name_at(table.address_of(offset)) if table else ""
        # In a stripped file perf reports the nearest preceding symbol, which may be another function.
        fallback = UNKNOWN if table else symbol
        return Frame(symbol=(own or fallback).split("@@")[0], object=where)


def _is_script(path: str) -> bool:
    """Return whether a file is executed by an interpreter that its first line names."""
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        return file.read(2) == b"#!"
    return False
