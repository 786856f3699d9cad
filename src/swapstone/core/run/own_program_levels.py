# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which command line and which values of free factors a user's program had: read from its arguments and environment at its end."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import re
import shlex
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import COMMAND_LINE, NOT_OBSERVED, Evidence, read_facts
from swapstone.core.model import COMMAND, Observation, OwnProgram, Variant, environment_variable, placeholders_in
from swapstone.core.model.load import ADDRESS, PORT

_SHOWN = 200


class Expected(msgspec.Struct, frozen=True, dict=True):
    """How a trial was started.

    Attributes:
        own: with its placeholders; shows which of them a process receives.
        variant: the requested levels.
        arguments: with which the program was started, its path first. `PORT` stands for any port.
        environment: pairs (name, value) that must be in its environment.
        others: the arguments of the other command lines.
        script: whether the started file is a script.
        folder: working directory.
    """

    own: OwnProgram
    variant: Variant
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, ...], ...]
    script: bool
    folder: str

    @functools.cached_property
    def unobserved(self) -> dict[str, str]:
        """Return `NOT_OBSERVED` by the name of each factor that no process receives."""
        received = {f"{{{name}}}" for text in self.own.launch_texts for name in placeholders_in(text)}
        names = (name for name in own_factors(self.variant) if name != COMMAND and name not in received)
        return dict.fromkeys(names, NOT_OBSERVED)


def own_factors(variant: Variant) -> dict[str, str]:
    """Return the levels of the factors ``command`` and ``{NAME}``, by name."""
    return {name: level for name, level in variant.levels if name == COMMAND or name.startswith("{")}


def received_variables(own: OwnProgram, variant: Variant) -> frozenset[str]:
    """Return the names of environment variables that a command line sets, or whose value has the placeholder of a factor."""
    free = {name[1:-1] for name in own_factors(variant)}
    line = own.command_of(dict(variant.levels)).environment
    return frozenset(
        name for name, value in (*line, *own.environment) if (name, value) in line or placeholders_in(value) & free
    )


def own_observations(expected_environment: Sequence[tuple[str, str]]) -> tuple[Observation, ...]:
    """Return what the agent reads of the environment."""
    return tuple(environment_variable(name) for name, _ in expected_environment)


def levels_seen(expected: Expected, evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Return the levels of the factors ``command`` and ``{NAME}`` that the process had.

    Returns:
        Pairs (factor, level). Where arguments or variables differ, a text that names them stands for the level. A factor is missing if they
        could not be read. The level is `NOT_OBSERVED` for a factor that no process receives.
    """
    text = evidence.value(COMMAND_LINE)
    if text is None:
        return tuple(expected.unobserved.items())
    seen = tuple(text.removesuffix("\0").split("\0"))
    other = _other_variable(expected, evidence)
    if not _is_command(seen, expected, evidence):
        other = f"the command line {shlex.join(seen)[:_SHOWN]!r}"
    levels = {name: other or level for name, level in own_factors(expected.variant).items()}
    return tuple((levels | expected.unobserved).items())


def _other_variable(expected: Expected, evidence: Evidence) -> str:
    """Return a text on the first variable with another value than requested; empty if there is none."""
    for name, value in expected.environment:
        seen = evidence.value(environment_variable(name))
        if seen is None or not same_words((seen,), (value,)):
            return f"the variable {name}={(seen or '')[:_SHOWN]!r}"
    return ""


def _is_command(seen: tuple[str, ...], expected: Expected, evidence: Evidence) -> bool:
    """Return whether executable and arguments at the end are those of the command line.

    The kernel puts the interpreter before the arguments of a script (execve(2)), and a script may execute a program with its arguments,
    as those of pyenv do. A program such as env or nice executes the rest of its arguments: these identify the command line if no other
    one ends in them. A program may divide its arguments in place.
    """
    own = expected.arguments[1:]
    if expected.script and len(seen) > len(own) and same_words(seen[len(seen) - len(own) :], own):
        return True
    commands = {expected.arguments, *expected.others}
    if same_words(seen, expected.arguments) or [each for each in commands if _is_divided(seen, each)] == [
        expected.arguments
    ]:
        return evidence.program is not None and evidence.program.path in evidence.objects
    rests = (expected.arguments[at:] for at in range(1, len(expected.arguments)))
    ambiguous = any(same_words(seen, other[-len(seen) :]) for other in expected.others)
    return (
        any(same_words(seen, rest) for rest in rests) and not ambiguous and _is_executable(seen[0], expected, evidence)
    )


def _is_divided(seen: tuple[str, ...], arguments: tuple[str, ...]) -> bool:
    """Return whether words are the arguments with zero bytes in the place of separators, as strtok(3) and strsep(3) leave them.

    Letters and digits are none: a program that erases its arguments shows nothing.
    """
    found, whole = "\0".join(seen), "\0".join(arguments)
    return len(found) == len(whole) and all(
        each == other or (each == "\0" and not other.isalnum()) for each, other in zip(found, whole, strict=True)
    )


def _is_executable(program: str, expected: Expected, evidence: Evidence) -> bool:
    """Return whether a program that another one executed is mapped; a script is not."""
    path = os.path.realpath(Path(expected.folder) / program) if "/" in program else shutil.which(program)
    return path is not None and (os.path.realpath(path) in evidence.objects or read_facts(Path(path)) is None)


def same_words(seen: tuple[str, ...], expected: tuple[str, ...]) -> bool:
    """Return whether words are equal; `PORT` matches any number, `ADDRESS` any IPv4 address."""
    return len(seen) == len(expected) and all(map(_is_word, seen, expected))


def _is_word(seen: str, expected: str) -> bool:
    if PORT not in expected and ADDRESS not in expected:
        return seen == expected
    pattern = re.escape(expected).replace(re.escape(PORT), "[0-9]+").replace(re.escape(ADDRESS), "[0-9.]+")
    return re.fullmatch(pattern, seen, re.DOTALL) is not None


MOST_ENTRIES = 10_000
"""A folder with more entries is not examined."""

MOST_SECONDS = 2.0
"""Nor one that takes longer: it may be on a network."""

EXAMINED_RUNS = 9
"""How many runs of a folder are examined: what runs leave shows in the first ones."""

NAMED = 3
"""How many files are named."""

SHARED_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108 # they are listed
"""Where programs keep what outlives them, beside their working folder."""

OFTEN = 3
"""A file that is new, and then grew so often between two runs, may be what runs leave; once or twice, it may be another program's."""

_RECORD = frozenset({"record.json", "experiment.json", "runs.jsonl"})
"""A folder with one of these is a record, which the session itself writes."""

Listing = dict[str, int]
"""Size in bytes, by path inside the folder. A file that a run writes anew with the same size is no new state for the next run."""


class FileState(msgspec.Struct, frozen=True):
    """What changes when a file is written: a run that wrote it leaves another state."""

    inode: int
    size_bytes: int
    modified_ns: int
    changed_ns: int


def file_state(path: str) -> FileState | None:
    """Return the state of a file without following a link; None if there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 # a text from the user, which pathlib would normalise
    except (OSError, ValueError):
        return None
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def listing(folder: str, most_entries: int = MOST_ENTRIES, most_seconds: float = MOST_SECONDS) -> Listing | None:
    """List the regular files below a folder, without following links and without records.

    Returns:
        None if there are too many, or if it took too long; a part of the files could not be compared with another part.
    """
    found: Listing = {}
    entries, until_s = 0, time.monotonic() + most_seconds
    outside = len(os.path.join(folder, ""))  # noqa: PTH118
    for here, folders, names in os.walk(folder):  # what is not readable, or gone, is left out of every listing
        entries += len(folders) + len(names)
        if entries > most_entries or time.monotonic() > until_s:
            return None
        if here != folder and not _RECORD.isdisjoint((*folders, *names)):
            folders.clear()
            continue
        for path in (os.path.join(here, name) for name in names):  # noqa: PTH118
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode):
                    found[path[outside:]] = status.st_size
    return found


def _grown(before: Listing, folders: Sequence[str]) -> Listing:
    """Return this user's regular files directly in folders that programs share, if they are longer than ever before, or new."""
    found: Listing = {}
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as scanned:
            for entry in itertools.islice(scanned, MOST_ENTRIES):
                with contextlib.suppress(OSError):  # gone since
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                        found[entry.path] = status.st_size
    return {path: size for path, size in found.items() if size > before.get(path, -1)}


def _named(paths: Iterable[str]) -> tuple[str, ...]:
    names = [os.fsencode(path).decode(errors="backslashreplace") for path in sorted(paths)]
    return (*names[:NAMED], *(("...",) if len(names) > NAMED else ()))


class FolderWatch:
    """Finds the files that earlier runs left, by listing folders before each of the first runs. One for each session."""

    def __init__(self, shared: Sequence[str] = SHARED_FOLDERS) -> None:
        self._folders = shared
        self._first: dict[str, Listing | None] = {}
        self._runs: dict[str, int] = {}
        self._shared: Listing = {}
        self._grew: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def before_run(self, folder: str, declared: frozenset[str]) -> tuple[str, ...]:
        """List the folder, and compare it with its state before the first run.

        Args:
            folder: the working folder.
            declared: paths of files that the user named as outputs.

        Returns:
            Up to `NAMED` files that are new or have another size, and as many in `SHARED_FOLDERS` that grew `OFTEN` times between two
            runs, as text without bytes that are not UTF-8, and ``...`` for more; none after `EXAMINED_RUNS`. The former are relative
            to the folder, the latter whole paths.
        """
        with self._lock:
            number = self._runs[folder] = self._runs.get(folder, 0) + 1
            if number > EXAMINED_RUNS:
                return ()
            now = listing(folder) if number == 1 or self._first[folder] is not None else None
            first = self._first.setdefault(folder, now)
            grown = _grown(self._shared, self._folders)
            self._shared |= grown
            self._grew.update(grown.keys())
            often = [path for path, times in self._grew.items() if times > OFTEN and path not in declared]
        new = [
            path
            for path, size in (now or {}).items()
            if first is not None and first.get(path) != size and os.path.join(folder, path) not in declared  # noqa: PTH118
        ]
        inside = os.path.join(folder, "")  # noqa: PTH118
        return (*_named(new), *_named(path for path in often if not path.startswith(inside)))
