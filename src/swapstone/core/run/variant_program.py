# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program that a variant of a workload is started as."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from swapstone.core.factors import ProgramFacts, Recipe
from swapstone.core.model import Experiment, Metric, OwnProgram, layout_of
from swapstone.core.record import Artifact
from swapstone.core.targets import Capabilities, Target

PADDING = "SWAPSTONE_PADDING"
"""The variable that makes every variant's environment equally large."""

LONGEST_PADDING = 120_000
"""Number of characters of the padding: the kernel accepts no variable of 128 KiB (MAX_ARG_STRLEN, execve(2))."""

POINTER_BYTES = 8

FileStamp = tuple[int, int, int, int]
"""Device, inode, size in bytes and time of change in ns of a file: equal stamps mean that the file was not changed in between."""


def environment_bytes(recipe: Recipe) -> int:
    """Count what the environment puts on the stack: each text with its zero byte, and a pointer to it (execve(2))."""
    return sum(len(os.fsencode(f"{name}={value}")) + 1 + POINTER_BYTES for name, value in recipe.environment)


def stamp_of(path: str) -> FileStamp | None:
    """Return a file's stamp, or None if there is no such file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - twice a trial, in a fifth of the time of pathlib
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class View(Protocol):
    """The files of an unpacked root file system."""

    def facts(self, path: str) -> ProgramFacts | None:
        """Return the facts of a program or shared object, by its path in the root; None if it is none."""
        ...

    def real(self, path: str) -> str:
        """Return the path in the root of a regular file without links; empty if there is none."""
        ...

    def place(self, path: str) -> Path | None:
        """Return the file of this machine that a path in the root leads to; None if there is none."""
        ...


class ProgramRoot(msgspec.Struct, frozen=True):
    """The root file system in which a program runs.

    Attributes:
        folder: on the target.
        layer: an empty folder on the target, over which the layer is mounted for what the program writes; empty where each trial has a
            machine of its own.
        files: folder on the target that the program finds as `swapstone.core.model.ROOT_FILES`.
        view: the files of the root on this machine.
    """

    folder: str
    layer: str
    files: str
    view: View


@dataclasses.dataclass(frozen=True)
class Program:
    """The program that a variant of a workload is started as.

    Attributes:
        path: on the target; in its root file system, if it has one.
        recipe: environment, priority and objects to preload, all resolved.
        artifact: its entry in the manifest, or None on a target that needs no build.
        facts: facts of its file before it was stripped, or None if unknown.
        folder: working directory; empty for the target's scratch folder.
        stamp: of the file when its digest was taken; None if the file can't change.
        added: pairs (name, value) added to the environment of the program alone, not of its helpers: preloaded objects and padding.
        load_generator: path on the target of the load generator; empty if the program is no server.
        launch_bytes: what its arguments and environment put on the stack; 0 if that is equal for all variants.
        file: its file on this machine; empty if that is `path`.
        original: path of the program of which its file is a copy; empty if it is none.
        root: its root file system; None for that of the target.
        carried: the words of a shell that start a packaged program which was carried to the target; empty for others.
        links: with layouts, one program for each link. They take turns; this program is then only measured for its size.
    """

    path: str
    recipe: Recipe
    artifact: Artifact | None
    facts: ProgramFacts | None = None
    folder: str = ""
    stamp: FileStamp | None = None
    added: tuple[tuple[str, str], ...] = ()
    load_generator: str = ""
    launch_bytes: int = 0
    file: str = ""
    original: str = ""
    root: ProgramRoot | None = None
    carried: str = ""
    links: tuple[Program, ...] = ()

    def in_block(self, block: int) -> Program:
        """Return the program that a block runs."""
        return self.links[layout_of(block, len(self.links))] if self.links else self


class ProgramRoots(NamedTuple):
    """How own programs run in root file systems of their own, which a part provides as the kind ``root``.

    Attributes:
        check: raises a `UserError` if a program, given with its placeholders and as each variant runs it, can't run in the roots of an
            experiment on a target. Returns whether the experiment has roots.
        program: returns a program in the root that a recipe names, which is put on the target, with its completed artifact.
        library: returns the C library of a program in a root, given as a recipe names it, for an architecture; None if it shows none.
        sizes: the metrics of roots among the sizes of an artifact.
    """

    check: Callable[[OwnProgram, Sequence[OwnProgram], Experiment, Capabilities], bool]
    program: Callable[[OwnProgram, Recipe, Artifact, Target], Program]
    library: Callable[[OwnProgram, str, str], str | None]
    sizes: tuple[Metric, ...] = ()
