# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a commit's programs are and execute: measured alone, so that any two can be compared, and kept in a small file each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256

import msgspec

from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.directories import cache_dir, write_whole
from swapstone.parts.gate.gate_file import FILE, WALL, GateFile, RunKeys, data_paths, decode_gate
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.revisions import SHORT, Repository
from swapstone.version import __version__

_MOST_BYTES = 16 << 20
_ORDER = ("instructions", "own_code", "kernel", "syscalls", "faults", "size")
_COUNTED = ("syscalls", "faults")
"""Metrics of which any difference counts."""


class Point(FrozenStruct, frozen=True, kw_only=True):
    """A commit's programs, and what they execute.

    Attributes:
        error: why nothing is known, as a clause; empty if it is.
        programs: digest of all that a run may load; empty if a program is a script, which may import any file.
        compilers: that name themselves in the programs.
        machine: version of the emulator, digest of the kernel and the like, by name.
        sizes: bytes of code and data by program.
        runs: by name, the counts of each replicate.
        tree: the folder that keeps the programs, where elapsed time is compared; such a point is not stored.
    """

    error: str = ""
    programs: str = ""
    compilers: tuple[str, ...] = ()
    machine: dict[str, str] = msgspec.field(default_factory=dict)
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    runs: dict[str, tuple[dict[str, int], ...]] = msgspec.field(default_factory=dict)
    tree: str = ""

    def is_comparable(self, other: Point) -> bool:
        """Return whether the same compilers and the same machine made both."""
        return (self.compilers, self.machine) == (other.compilers, other.machine)


def decode_point(content: bytes) -> Point:
    """Decode the file of a point.

    Raises:
        UserError: it is none.
    """
    try:
        return msgspec.json.decode(content, type=Point)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"What is stored of a commit can't be read: {error}.", "It is measured again.") from error


def every_row(before: Point, after: Point) -> Iterator[Row]:
    """Yield all rows of two points: those of each run, and the size of each program."""
    from swapstone.parts.gate.measured_runs import judged_row, rows_of  # noqa: PLC0415 - imports what runs trials

    for name in before.runs.keys() & after.runs.keys():
        yield from rows_of(name, {}, (before.runs[name], after.runs[name]))
    for path in before.sizes.keys() & after.sizes.keys():
        yield judged_row(path, "size", ([before.sizes[path]], [after.sizes[path]]), None)


def rows_between(before: Point, after: Point, least: float) -> tuple[Row, ...]:
    """Return the rows that differ by more than their floors, and by more than a share; of `_COUNTED`, by anything.

    Args:
        before: of one commit.
        after: of a later one.
        least: the share, as a ratio.

    Returns:
        The rows, by metric and then by their share, the largest first.
    """
    rows = [
        row
        for row in every_row(before, after)
        if row.state != "same" and abs(row.difference) > (0.0 if row.metric in _COUNTED else least) * row.base
    ]
    return tuple(sorted(rows, key=lambda row: (_ORDER.index(row.metric), -row.share, row.run, row.detail)))


def definition_of(repository: Repository, file: GateFile, commit: str, run: RunKeys) -> tuple[bytes, ...]:
    """Return what determines a run beside the programs: its keys but for the limits, the machine, and the inputs that it names."""
    keys = msgspec.structs.replace(run, fail={}).encoded()
    inputs = (repository.object_of(commit, f"{file.data}{path}").encode() for path in data_paths(run))
    return (keys, msgspec.json.encode(file.machine(), order="sorted"), *inputs)


class Points:
    """The points of a repository, measured as its file defines and stored below the cache folder.

    Args:
        repository: of the commits.
        commit: whose ``swapstone.toml`` and inputs all commits get.

    Attributes:
        file: of that commit.
        folder: of the stored points, for this version, build, programs, runs, inputs and machine.

    Raises:
        UserError: the commit has no such file, or a wrong one.
    """

    def __init__(self, repository: Repository, commit: str) -> None:
        self.repository, self.commit = repository, commit
        content = repository.content(commit, FILE)
        if content is None:
            raise UserError(
                f"{commit[:SHORT]} has no {FILE}: there is nothing to run.", "Write one: swapstone gate --init"
            )
        self.file: GateFile = decode_gate(content)
        home = sha256(os.fsencode(repository.top)).hexdigest()[:16]
        self.work = cache_dir().resolve() / "gate" / home
        parts = [__version__.encode(), *self.file.built_by]
        for name, run in sorted(self.file.run.items()):
            parts += [name.encode(), *definition_of(repository, self.file, commit, run)]
        self.folder = self.work / "points" / sha256(msgspec.json.encode(parts)).hexdigest()[:16]

    @property
    def timed(self) -> bool:
        """Return whether elapsed time is compared, and no counts."""
        return self.file.machine().get("clock") == WALL

    def require_exact(self) -> None:
        """Check that the file has counts.

        Raises:
            UserError: it has elapsed time.
        """
        if self.timed:
            raise UserError("This needs exact counts, and the file has elapsed time.", 'Remove clock = "wall" from it.')

    def stored(self, commit: str) -> Point | None:
        """Return the stored point of a commit; None if there is none that can be read."""
        path = self.folder / commit
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        try:
            return decode_point(path.read_bytes())
        except UserError:
            return None

    def store(self, commit: str, point: Point) -> None:
        """Store the point of a commit, unless nothing is known: that may be due to this machine.

        Raises:
            UserError: it can't be written.
        """
        if not (point.error or point.tree):
            write_whole(self.folder / commit, point.encoded())
