"""What a variant of a workload is started as."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from swapstone.factors import ProgramFacts, Recipe
from swapstone.model import layout_of
from swapstone.record import Artifact


@dataclasses.dataclass(frozen=True)
class Stamp:
    """What tells cheaply that a file is still the one that was looked at."""

    device: int
    inode: int
    size_bytes: int
    changed_ns: int


def stamp_of(path: str) -> Stamp | None:
    """Return a file's stamp, or None when it isn't there."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclasses.dataclass(frozen=True)
class Program:
    """What a variant of a workload is started as.

    Attributes:
        path: on the target.
        recipe: environment, priority and objects to preload, all provided.
        artifact: what the manifest says of it, or None on a target that needs no build.
        facts: what its file said before it was stripped, or None where that is not known.
        folder: in which it runs; empty for the target's scratch folder.
        stamp: of a program of the user's own, when its digest was taken.
        added: pairs (name, value) that only the program finds in its environment: what is preloaded, and padding.
        load_generator: path on the target of the load generator; empty if the program is no server.
        links: with layouts, one program for each; they take turns in place of this one, which is then only measured with a ruler.
    """

    path: str
    recipe: Recipe
    artifact: Artifact | None
    facts: ProgramFacts | None = None
    folder: str = ""
    stamp: Stamp | None = None
    added: tuple[tuple[str, str], ...] = ()
    load_generator: str = ""
    links: tuple[Program, ...] = ()

    def in_block(self, block: int) -> Program:
        """Return the program that a block runs."""
        return self.links[layout_of(block, len(self.links))] if self.links else self
