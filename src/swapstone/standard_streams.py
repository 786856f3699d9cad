# SPDX-License-Identifier: MIT OR Apache-2.0
"""Standard output and standard error that may be closed, full, or a pipe without a reader: no traceback, and an exit status that shows it.

A program that is started with a closed descriptor gets its number for the next file that it opens, and would write messages into that file.
So closed descriptors are opened on /dev/null first. An error of a write is kept until the end of the command: what is measured meanwhile
is not lost because a message could not be printed. Imports only what every start needs.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING

from swapstone.exit_status import ExitStatus

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MODES = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)
"""How /dev/null is opened in place of closed standard input, output and error.

Standard output only for reading, so that writing results fails, as it does where the descriptor is closed. Messages are dropped.
"""


class Output(io.FileIO):
    """A descriptor for writing. It keeps the first error, and drops what is written after it.

    Attributes:
        error: of the first write that failed; None if none did.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write; return the number of bytes, all of them after an error."""
        size = memoryview(data).nbytes
        if self.error is not None:
            return size
        try:
            while (count := super().write(data)) is None:  # the descriptor is non-blocking
                select.select((), (self,), ())
        except OSError as error:
            self.error = error
            return size
        return count


class Outputs:
    """Replaces `sys.stdout` and `sys.stderr`, and opens closed descriptors.

    `status` ends the command.
    """

    def __init__(self) -> None:
        for descriptor, mode in enumerate(_MODES):
            _open_if_closed(descriptor, mode)
        if sys.stdin is None:
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor; open until the end
        self._out, self._err = Output(1), Output(2)
        sys.stdout = _text(self._out, sys.stdout, "strict", by_line=self._out.isatty())
        sys.stderr = _text(self._err, sys.stderr, "backslashreplace", by_line=True)

    def status(self, status: int) -> int:
        """Write what is buffered; return the exit status of a command that ends with `status`.

        A pipe whose reader ended, as `head` does, is no error. For any other failure of standard output, print one line on standard error.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):  # it is closed
                stream.flush()
        if _failed(self._out):
            assert self._out.error is not None
            with contextlib.suppress(ValueError):
                sys.stderr.write(f"error: Standard output {_reason(self._out.error)}: not all results were printed.\n")
                sys.stderr.flush()
        unwritten = _failed(self._out) or _failed(self._err)
        return status or (ExitStatus.REFUSED if unwritten else ExitStatus.SUCCESS)


def _open_if_closed(descriptor: int, mode: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, mode)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)


def _text(output: Output, replaced: object, errors: str, *, by_line: bool) -> io.TextIOWrapper:
    """Return a text stream with the encoding of the one that it replaces, which is None if its descriptor was closed."""
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=getattr(replaced, "encoding", None) or "utf-8",
        errors=getattr(replaced, "errors", None) or errors,
        line_buffering=by_line,
        write_through=bool(getattr(replaced, "write_through", False)),
    )


def _failed(output: Output) -> bool:
    return output.error is not None and output.error.errno != errno.EPIPE


def _reason(error: OSError) -> str:
    return "is closed" if error.errno == errno.EBADF else f"can't be written ({error.strerror})"


def current_folder_exists() -> bool:
    """Return whether the current folder exists. Relative paths have no meaning after it was removed."""
    try:
        os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:
        return False
    return True
