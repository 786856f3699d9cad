# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kind of work that is crashed and made to fail: it prepares a folder, runs an action in it, and checks what a fault left behind."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any, ClassVar

from tests.e2e.cli import environment
from tests.faults.children import Action, Ended, Place, run_child
from tests.faults.injection import CRASH, Fault

RESUMED, AGAIN, SHOWN, COMPLETE, UNAFFECTED = "resumed", "repeated", "shown", "complete already", "unaffected"
"""How a scenario reached its end after a fault."""


class DefectError(Exception):
    """A fault left something behind that it must not."""


class Scenario:
    """One kind of work. Subclasses define what runs and what must hold.

    Attributes:
        name: for the table and the command line.
        title: what it is, for the table.
        programs: that it needs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    programs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        (self.base / "tmp").mkdir(parents=True)
        self.prepare()
        reference = self.copy("reference")
        self.whole = run_child(reference, self.action(), count=True)
        self.require(self.whole.status == 0, f"the undisturbed one ended with {self.whole.status}", self.whole)
        self.reference: Any = self.result(reference)

    def place(self, folder: Path) -> Place:
        """Return a folder as the place of children, with its own folders of records, cache and temporary files."""
        changes = {"TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": self.cache(folder), "OPENBLAS_NUM_THREADS": "1"}
        changes["XDG_STATE_HOME"] = str(self.folder / "state")
        return Place(folder, environment(folder / "records", **changes))

    def cache(self, folder: Path) -> str:
        """Return the cache folder; by default one for each copy."""
        return str(folder / "cache")

    def copy(self, name: str) -> Place:
        """Return a copy of the prepared folder."""
        folder = self.folder / name
        shutil.copytree(self.base, folder, symlinks=True)
        return self.place(folder)

    def prepare(self) -> None:
        """Put what the action needs into `base`."""
        raise NotImplementedError

    def action(self) -> Action:
        """Return what runs."""
        raise NotImplementedError

    def result(self, place: Place) -> object:
        """Return what must be equal to the undisturbed one."""
        raise NotImplementedError

    def survey(self, place: Place, fault: Fault) -> None:
        """Check what must hold before anything is repaired."""

    def recover(self, place: Place, ended: Ended) -> str:
        """Take the next step; return which one it was."""
        again = run_child(place, self.action())
        self.require(again.status == 0, "the same command fails when it is repeated", again)
        return AGAIN

    def check(self, name: str, fault: Fault) -> str:
        """Run the action with a fault, then the next step; return which one it was.

        Raises:
            DefectError: a promise is broken.
        """
        place = self.copy(name)
        ended = run_child(place, self.action(), fault)
        self.require_no_traceback(ended)
        crashed = fault.kind in {"crash", "torn"}
        self.require(ended.status in ({CRASH} if crashed else {0, 2}), f"it ended with {ended.status}", ended)
        if ended.status == 2:
            self.require(self.has_next_step(ended), "the error has no next step", ended)
        self.survey(place, fault)
        step = UNAFFECTED if ended.status == 0 else self.recover(place, ended)
        found = self.result(place)
        self.require(found == self.reference, f"the result differs: {_difference(found, self.reference)}", ended)
        shutil.rmtree(place.folder)
        return step

    def has_next_step(self, ended: Ended) -> bool:
        """Return whether an error has a second line, with what to do."""
        _, _, after = ended.err.partition("error: ")
        return len(after.strip().splitlines()) >= 2

    def require(self, condition: bool, problem: str, ended: Ended | None = None) -> None:
        """Raise a `DefectError` unless a condition holds."""
        if not condition:
            raise DefectError(f"{problem}\n{ended.out[-1500:]}{ended.err[-3000:]}" if ended else problem)

    def require_no_traceback(self, ended: Ended) -> None:
        """Require that a child printed no traceback and no report of a bug."""
        printed = ended.out + ended.err
        self.require("Traceback" not in printed and "a bug in" not in printed, "a traceback", ended)


def _difference(found: object, expected: object) -> str:
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in expected.keys() | found.keys() if found.get(key) != expected.get(key)]
        return "; ".join(f"{key}: {found.get(key)!r:.200}, expected {expected.get(key)!r:.200}" for key in keys[:3])
    return f"{found!r:.300}, expected {expected!r:.300}"


def commands_in(err: str) -> list[list[str]]:
    """Return the commands that an error names."""
    found = re.findall(r"swapstone ((?:(?:compare|study) --resume|show) [^\n`]*)", err)
    return [shlex.split(text) for text in found]
