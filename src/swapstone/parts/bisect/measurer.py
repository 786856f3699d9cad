# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures commits one at a time, so that any two can be compared, and keeps what is known of each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from swapstone.core.artifacts.cache_folder import locked
from swapstone.core.model import UserError
from swapstone.core.model.errors import MissingProgramsError
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.progress import NO_PROGRESS, Progress
from swapstone.core.session.run_options import RunOptions
from swapstone.parts.gate.builds import SIDES, build_side, compilers_of
from swapstone.parts.gate.gate_result import Row
from swapstone.parts.gate.points import Point, Points, rows_between
from swapstone.parts.gate.revisions import SHORT

if TYPE_CHECKING:
    from swapstone.parts.gate.measured_runs import Place


TREES = "trees"
"""The folder of the programs whose elapsed time is compared; it goes at the end."""


@contextmanager
def measuring(points: Points, options: RunOptions, progress: Progress) -> Iterator[Measurer]:
    """Return what measures points, while no other process builds their repository.

    Args:
        points: where they are stored.
        options: how runs are made.
        progress: receives events.

    Raises:
        UserError: the inputs can't be exported.
    """
    with locked(points.work / "lock"):
        try:
            yield (TimeMeasurer if points.timed else Measurer)(points, options, progress)
        finally:
            shutil.rmtree(points.work / TREES, ignore_errors=True)


class Measurer:
    """Measures points.

    Attributes:
        built: number of builds so far.
        unknown: why it is not known whether two points differ, by their names.
    """

    def __init__(self, points: Points, options: RunOptions, progress: Progress) -> None:
        self._points, self._options, self._progress = points, options, progress
        self._work, self.built = points.work, 0
        self.unknown: dict[tuple[str, str], str] = {}
        self._like: Point | None = None
        """The first measured point: stored ones count if the same compilers and machine made them."""
        self._known: dict[str, Point] = {}
        """By commit or tree, and by `Point.programs`."""
        self._data = self._work / "data"
        tree = self._work / "data-tree"
        for old in (self._data, tree):
            shutil.rmtree(old, ignore_errors=True)
        if points.file.data:
            points.repository.export(points.commit, tree)
            (tree / points.file.data).rename(self._data)
            shutil.rmtree(tree)

    def point(self, commit: str, note: str, flags: str = "") -> Point:
        """Return the point of a commit or tree, measured or stored.

        Args:
            commit: its hash.
            note: printed before it is built.
            flags: of the compiler; empty for those of the build.

        Raises:
            MissingProgramsError: this machine lacks programs that the exact clock needs.
            KeyboardInterrupt: a signal ended a run.
        """
        name = f"{commit}-{sha256(flags.encode()).hexdigest()[:16]}" if flags else commit
        found = self._known.get(name)
        if found is None and self._like is not None:
            found = self._points.stored(name)
            found = found if found and found.is_comparable(self._like) else None
        if found is None:
            self._progress.note(note)
            try:
                found = self._measured(commit, flags)
            except MissingProgramsError:
                raise
            except UserError as error:  # such as a submodule that is not here
                found = Point(error=error.message.rstrip("."))
            except Interrupted:  # its record is nothing to resume: the same command goes on
                raise KeyboardInterrupt from None
            self._points.store(name, found)
        self._known[name] = found
        if found.programs:
            self._known[found.programs] = found
        if not found.error:
            self._like = self._like or found
        return found

    def rows(self, before: str, after: str, least: float) -> tuple[Row, ...]:
        """Return what differs between the points of two commits or trees; see `rows_between`.

        Args:
            before: measured.
            after: measured.
            least: the smallest share of a row that counts, as a ratio.
        """
        return rows_between(self._known[before], self._known[after], least)

    def _measured(self, commit: str, flags: str) -> Point:
        self.built += 1
        file = self._points.file
        built = build_side(self._points.repository, commit, file, self._work, SIDES[0], flags=flags)
        if built.error:
            return Point(error=built.error)
        if built.programs and (known := self._known.get(built.programs)):
            return known
        point = Point(programs=built.programs, compilers=compilers_of(built), sizes=built.sizes)
        return self._with_runs(point, built.folder)

    def _with_runs(self, point: Point, tree: Path) -> Point:
        from swapstone.parts.gate.measured_runs import measure_alone  # noqa: PLC0415 - imports what runs trials

        runs, tools = {}, dict[str, str]()
        for name, run in self._points.file.run.items():
            found = measure_alone(name, run, self._place(tree), self._new_record())
            if found.error:
                return Point(error=f"{name}: {found.error}")
            runs[name], tools = found.counts, {**tools, **found.tools}
        return msgspec.structs.replace(point, runs=runs, machine=tools)

    def _new_record(self) -> Path:
        """Return the folder of a record, without the one before."""
        record = self._work / "record"
        shutil.rmtree(record, ignore_errors=True)
        return record

    def _place(self, *trees: Path) -> Place:
        from swapstone.parts.gate.measured_runs import Place  # noqa: PLC0415 - imports what runs trials

        folder = self._work / "cwd"
        folder.mkdir(exist_ok=True)
        machine = {name: value for name, value in self._points.file.machine().items() if name != "build_timeout"}
        return Place(trees, self._data, folder, machine, self._options, NO_PROGRESS)


class TimeMeasurer(Measurer):
    """Keeps the programs of each point, and compares the elapsed time of two of them in turns on this machine."""

    def _with_runs(self, point: Point, tree: Path) -> Point:
        kept = self._work / TREES / f"{self.built:06}"
        shutil.copytree(tree, kept, symlinks=True)
        return msgspec.structs.replace(point, tree=str(kept))

    def rows(self, before: str, after: str, least: float) -> tuple[Row, ...]:
        """Return the runs whose elapsed time is proven to differ, by the rules of a comparison; `unknown` has those that need more runs."""
        from swapstone.parts.gate.measured_runs import measure_once  # noqa: PLC0415 - imports what runs trials

        one, two = self._known[before], self._known[after]
        if one.programs == two.programs != "" or one.tree == two.tree:
            return ()
        place = self._place(Path(one.tree), Path(two.tree))
        rows, unknown = list[Row](), list[str]()
        for name, run in self._points.file.run.items():
            self._progress.note(f"comparing {name} of {before[:SHORT]} and {after[:SHORT]}")
            found = measure_once(name, run, {}, place, out=self._new_record())
            rows += [each for each in found.rows if each.state != "same" and abs(each.difference) > least * each.base]
            unknown += [f"{name}: {finding.text}" for finding in found.findings]
        if unknown and not rows:
            self.unknown[before, after] = unknown[0]
        return tuple(rows)
