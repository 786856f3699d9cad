# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors that a user can cause and correct."""

from __future__ import annotations

import contextlib
import errno
import re
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from swapstone.core.model.safe_text import safe
from swapstone.exit_status import ExitStatus, Finding

Found = TypeVar("Found")


class UserError(Exception):
    """A request of the user can't be carried out.

    Args:
        message: what failed, in one or two sentences.
        hint: what to do about it, printed on its own line. May be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UnavailableError(UserError):
    """This machine or target can't do what was requested, though another could."""


class MissingProgramsError(UnavailableError):
    """Programs of this machine are missing that packages bring; the hint installs all of them.

    Attributes:
        programs: by their names in the file `packages`.
    """

    programs: tuple[str, ...] = ()


class NothingComparableError(UserError):
    """What should be compared failed when it was built or first run, so that there is no result.

    Args:
        message, hint: as `UserError`.
        finding: what that shows about the candidate.

    Attributes:
        status: of the command; that of `finding` only with ``--fail-if``.
    """

    def __init__(self, message: str, hint: str = "", finding: Finding = Finding.NOT_COMPARED) -> None:
        super().__init__(message, hint)
        self.finding = finding
        self.status = ExitStatus.NO_RESULT


class RecordError(UserError):
    """A record is missing, damaged, locked, or of another schema version."""


class WireError(UserError):
    """The output of an agent or a workload violates its protocol."""


_LISTS = {
    "factor": "factors",
    "level": "levels",
    "workload": "workloads",
    "suite": "suites",
    "load": "loads",
    "target": "targets",
    "study": "studies",
    "record": "records",
    "published study": "published",
}
"""The argument of `swapstone list` that lists each kind."""


_MOST_NAMES = 12
"""A hint has this many names of a longer list."""


def check_distinct(values: Iterable[str], message: str, hint: str) -> None:
    """Check that no value occurs twice; ``{}`` in the message and the hint stands for the first one that does.

    Raises:
        UserError: with this message and hint.
    """
    given = list(values)
    if (twice := next((value for value in given if given.count(value) > 1), None)) is not None:
        raise UserError(message.format(twice), hint.format(twice))


def refuse(*reasons: tuple[object, str, str], kind: type[UserError] = UserError) -> None:
    """Raise an error for the first condition that holds.

    Args:
        *reasons: triples (condition, message, hint).
        kind: of the error.

    Raises:
        UserError: a condition is true.
    """
    for condition, message, hint in reasons:
        if condition:
            raise kind(message, hint)


@contextlib.contextmanager
def undone_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Undo what was begun if anything is raised in the context, an interruption too; what `undo` raises is less than that."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            undo()
        raise


def unknown(kind: str, name: str, known: Iterable[str], described: Mapping[str, str] | None = None) -> UserError:
    """Return the error for a name that is not in a registry, with similar names and those that exist.

    Args:
        kind: what the name should have been, e.g. ``"workload"``.
        name: the name given by the user.
        known: every valid name.
        described: what the user types and what it is for, one line each; None for a list of names alone.

    Returns:
        A `UserError` to raise. Its hint has up to three similar names, and the known names, shortened to `_MOST_NAMES` of them.
    """
    names = sorted(set(map(safe, known)))  # names of a record may come from elsewhere
    import difflib  # noqa: PLC0415 - only needed for a mistake

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    parts = ["Did you mean " + " or ".join(map(repr, near)) + "?"] if near else []
    if described:
        width = max(map(len, described))
        parts.append("\n".join(["Known:", *(f"  {usage:{width}}  {what}" for usage, what in described.items())]))
        return UserError(f"There is no {kind} named {name!r}.", " ".join(parts))
    left = len(names) - _MOST_NAMES
    shown = ", ".join(names if left <= 1 else names[:_MOST_NAMES]) or "none"
    parts.append(f"Known: {shown} and {left} more." if left > 1 else f"Known: {shown}.")
    parts += [f"`swapstone list {_LISTS[kind]}` lists all."] if kind in _LISTS else []
    return UserError(f"There is no {kind} named {name!r}.", " ".join(parts))


def find_named(kind: str, name: str, known: Mapping[str, Found]) -> Found:
    """Return what has a name.

    Args:
        kind: what it is, for the error.
        name: as the user typed it.
        known: all that exist, by name.

    Raises:
        UserError: nothing has this name.
    """
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "Your disk quota is used up: free some space",
    errno.EFBIG: "The file would exceed the limit of this shell or file system: raise it (`ulimit -f unlimited`)",
    errno.EIO: "The disk or its file system reports an error: find the cause (`dmesg`), or copy the folder to another disk",
    errno.EMFILE: "This process has too many open files: raise the limit (`ulimit -n 4096`)",
    errno.ENFILE: "This machine has too many open files: end other programs",
    errno.ENOMEM: "The machine is out of memory: end other programs",
    errno.EAGAIN: "The limit of processes is reached: end other programs, or raise it (`ulimit -u`)",
    errno.ENOLCK: "The file system has no locks left: use a folder on a local disk",
    errno.ESTALE: "The network file system lost a file: mount it again",
}


def remedy(error: OSError) -> str:
    """Return the cause and what removes it, as the beginning of a sentence; empty if no resource of the machine is the cause."""
    return _REMEDIES.get(error.errno or 0, "")


def hint_of(error: UserError, next_step: str = "give the same command again.") -> str:
    """Return an error's hint; if it has none and a resource of the machine is its cause, the remedy of that and the next step."""
    cause = "" if error.hint else _cause(error)
    return f"{cause}, then {next_step}" if cause else error.hint


def is_of_machine(error: UserError) -> bool:
    """Return whether a resource of the machine is the cause of an error: another time the same request may succeed."""
    return bool(_cause(error))


def _cause(error: BaseException | None) -> str:
    """Return the remedy of the first cause of an error that is a resource of the machine; empty if none is."""
    while error is not None:
        if isinstance(error, OSError) and remedy(error):
            return remedy(error)
        error = error.__cause__
    return ""


_NO_TEMPORARY_FOLDER = "No usable temporary directory found"
"""What `tempfile.gettempdir` raises FileNotFoundError with, if no file can be written in any folder for temporary files."""

_UNMAPPED = re.compile(r"failed to map segment|[Cc]annot allocate memory")
"""What dlopen(3) reports where a library does not fit into the address space."""


_PARTS = "swapstone.parts."


def as_user_error(error: OSError | MemoryError | ImportError, next_step: str) -> UserError | None:
    """Return the error for the user; None if no resource of the machine is the cause.

    Args:
        error: of the operating system, of Python's allocator, or of a library that was to be loaded.
        next_step: what to do after the cause is removed, as the end of a sentence.
    """
    if isinstance(error, ImportError):
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_PARTS):
            part = str(error.name).removeprefix(_PARTS).partition(".")[0]
            return UserError(
                f"This needs the part {part}, which is not installed.", "Install Swapstone with all parts."
            )
        if not _UNMAPPED.search(str(error)):
            return None
        hint = "Raise the limit of this shell (`ulimit -v unlimited`), or end other programs"
        return UserError("There is not enough memory to load a library.", f"{hint}, then {next_step}")
    if isinstance(error, FileNotFoundError) and str(error.strerror).startswith(_NO_TEMPORARY_FOLDER):
        hint = "Free some space, raise the limit of this shell (`ulimit -f unlimited`), or name a folder: TMPDIR=FOLDER"
        return UserError("No file can be written in a folder for temporary files.", f"{hint}; then {next_step}")
    if isinstance(error, MemoryError):
        error = OSError(errno.ENOMEM, "There is not enough memory")
    cause = remedy(error)
    if not cause:
        return None
    where = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return UserError(f"{error.strerror}{where}.", f"{cause}, then {next_step}")


_SMALLEST_ADDRESS_SPACE_BYTES = 384 << 20


def require_memory() -> None:
    """Check that libraries can be loaded: with a smaller limit of the address space, OpenBLAS ends the process, and DuckDB crashes.

    Raises:
        UserError: the limit (`ulimit -v`) is smaller.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= limit < _SMALLEST_ADDRESS_SPACE_BYTES:
        raise UserError(
            f"This process may use {limit >> 20} MiB of memory, and needs {_SMALLEST_ADDRESS_SPACE_BYTES >> 20} MiB.",
            "Raise the limit of this shell: ulimit -v unlimited",
        )
