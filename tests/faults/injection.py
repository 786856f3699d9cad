# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the operations that change files or start processes, and lets one of them end the process or fail.

`Injection.install` patches this process for good, so it runs in a child. Python's audit events show files that are opened, renamed and
removed, folders, and processes; writes and syncs have no event, so `open`, `os.write` and `os.fsync` are replaced.

Only operations below some folders count, and those on relative paths: the interpreter's own files do not.
"""

from __future__ import annotations

import builtins
import dataclasses
import errno
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol

CRASH = 137
"""The exit status of a process that SIGKILL ended, as a shell shows it."""

KINDS = ("create", "read", "write", "sync", "rename", "unlink", "truncate", "mkdir", "rmdir", "spawn")
"""The kinds of operations. ``create`` opens a file for writing, ``read`` opens one that exists."""

CHANGING = frozenset(KINDS) - {"read"}
"""Before a reading operation, a crash is the same as before the next operation that changes something."""

FAILURES: Mapping[str, frozenset[str]] = {
    "ENOSPC": frozenset({"create", "write", "sync", "rename", "mkdir"}),
    "EIO": frozenset(KINDS) - {"spawn"},
    "EMFILE": frozenset({"create", "read", "spawn"}),
}
"""The errors that are injected, and the kinds of operations that they can come from."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens, and where.

    Attributes:
        kind: ``crash``, ``torn`` (a crash after half of a write), or a name of `FAILURES`.
        point: number of the operation, from 0.
        lasting: whether all later operations of those kinds fail too, as on a disk that stays full.
    """

    kind: str
    point: int
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.kind}{' from' if self.lasting else ' at'} point {self.point}"


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation: a name of `KINDS`, and the path."""

    kind: str
    path: str


class _Writable(Protocol):
    def __call__(self, data: Any, /) -> int: ...


class Injection:
    """Counts operations of this process, and injects a fault.

    Args:
        folders: operations below them count.
        fault: None to count only.
    """

    def __init__(self, folders: tuple[Path, ...], fault: Fault | None) -> None:
        self._folders = tuple(f"{os.path.realpath(folder)}/" for folder in folders)
        self._fault = fault
        self._failing = False
        self._busy = False
        self.operations: list[Operation] = []

    def install(self) -> None:
        """Count from now on, until the end of this process."""
        real_open, real_os_open, real_fsync, real_write = io.open, os.open, os.fsync, os.write
        injection = self

        class Counted(io.FileIO):
            def write(self, data: Any, /) -> int:
                return injection.write(self.fileno(), data, super().write)

        def opened(  # noqa: PLR0917 - as io.open
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Callable[[str, int], int] | None = None,
        ) -> Any:
            if not set(mode) & set("wax+"):
                return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw = Counted(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            if buffering == 0:
                return raw
            buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return buffer
            text = io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering=buffering == 1)
            setattr(text, "mode", mode)  # noqa: B010 - read-only for the type checker
            return text

        def os_opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            injection.at("create" if changes else "read", path, -1 if dir_fd is None else dir_fd)
            injection._busy = True  # the event of the same operation follows
            try:
                return real_os_open(path, flags, mode, dir_fd=dir_fd)
            finally:
                injection._busy = False

        def fsynced(descriptor: Any) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
            injection.at("sync", _path_of(number))
            real_fsync(descriptor)

        def written(descriptor: int, data: Any) -> int:
            return injection.write(descriptor, data, lambda part: real_write(descriptor, part))

        for module, name, replacement in (
            (io, "open", opened),
            (builtins, "open", opened),
            (os, "open", os_opened),
            (os, "fsync", fsynced),
            (os, "write", written),
        ):
            setattr(module, name, replacement)
        sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._busy:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, (str, bytes, os.PathLike)):
                changes = bool(set(mode) & set("wax+")) if mode else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                self.at("create" if changes else "read", path)
        elif event == "os.rename":
            self.at("rename", arguments[1], arguments[3])
        elif event in {"os.remove", "os.rmdir"}:
            self.at({"os.remove": "unlink", "os.rmdir": "rmdir"}[event], arguments[0], arguments[1])
        elif event == "os.mkdir":
            self.at("mkdir", arguments[0], arguments[2])
        elif event == "os.truncate":
            self.at("truncate", arguments[0] if isinstance(arguments[0], str) else _path_of(arguments[0]))
        elif event in {"subprocess.Popen", "os.posix_spawn"}:
            self._point("spawn", str(arguments[0]))

    def write(self, descriptor: int, data: Any, really: _Writable) -> int:
        """Write, or inject a fault: a disk that is full takes a part of the data first."""
        view = memoryview(data).cast("B")
        path = _path_of(descriptor)
        if not self._counts(path):
            return really(view)
        here = self._next("write", path)
        if here == "torn":
            really(view[: len(view) // 2])
            _crash()
        if here == "ENOSPC" and not self._failing and len(view) > 1:
            self._failing = True
            return really(view[: len(view) // 2])
        self._act(here, path)
        return really(view)

    def at(self, kind: str, path: object, folder: int = -1) -> None:
        """An operation on a path begins; one that is relative starts at a folder's descriptor, or at the current folder."""
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if folder >= 0 and not text.startswith("/"):
            text = f"{_path_of(folder)}/{text}"
        if text and self._counts(text):
            self._point(kind, text)

    def _counts(self, path: str) -> bool:
        if not path.startswith("/"):
            return not path.startswith(("pipe:", "socket:", "anon_inode:"))
        return f"{path}/".startswith(self._folders)

    def _point(self, kind: str, path: str) -> None:
        self._act(self._next(kind, path), path)

    def _next(self, kind: str, path: str) -> str:
        """Count an operation, and return the kind of fault to inject into it; empty for none."""
        number = len(self.operations)
        self.operations.append(Operation(kind, path))
        fault = self._fault
        if fault is None:
            return ""
        if fault.kind in {"crash", "torn"}:
            return fault.kind if number == fault.point else ""
        if kind not in FAILURES[fault.kind]:
            return ""
        if self._failing and kind == "write" and not fault.lasting:
            self._fault = None
            return fault.kind
        return fault.kind if number == fault.point or (fault.lasting and number > fault.point) else ""

    def _act(self, here: str, path: str) -> None:
        if here in {"crash", "torn"}:
            _crash()
        if here:
            number = getattr(errno, here)
            raise OSError(number, os.strerror(number), path)


def _crash() -> NoReturn:
    os._exit(CRASH)


def _path_of(descriptor: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    except OSError:
        return ""
