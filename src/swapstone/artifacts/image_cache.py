"""What the cache keeps for images and virtual machines, how much room it takes, and removing what has not been used for long."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from swapstone.artifacts.apt import locked, writing
from swapstone.artifacts.images import Image, images_dir, read_image
from swapstone.model.directories import cache_dir

_MADE = {"snapshots": "saved machine", "runs": "run", "agents": "agent", "modules": "module", "kernels": "kernel"}
"""Folders of what is made for virtual machines, with what is in each: an entry a thing."""

_DIGEST = ".sha256"
LEFTOVER_S = 3600
"""A temporary folder younger than this may belong to a program that is downloading."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """One thing in the cache.

    Attributes:
        kind: ``image``, ``package``, ``package lists``, ``saved machine``, ``run``, ``agent``, ``module``, ``kernel``, or ``leftover`` of
            a program that was killed.
        path: a file or a folder.
        size_bytes: of all that is in it, as the disk counts.
        used_unix_s: when it was used last.
        image: what it is made of, for an image; None for a damaged one.
        beside: a file that goes with it, such as its digest.
    """

    kind: str
    path: Path
    size_bytes: int
    used_unix_s: float
    image: Image | None = None
    beside: Path | None = None


def kept_images() -> tuple[Kept, ...]:
    """Return the images of the cache, the one used last first."""
    homes = sorted(path for path in _inside(images_dir()) if path.is_dir() and not path.name.startswith("."))
    found = [Kept("image", home, _size(home), _used(home), read_image(home)) for home in homes]
    return tuple(sorted(found, key=lambda kept: -kept.used_unix_s))


def kept_besides() -> tuple[Kept, ...]:
    """Return what else the cache keeps: packages and their lists, saved machines, runs, what was built for machines, leftovers."""
    found = []
    for folder in (images_dir(), *(cache_dir() / name for name in ("packages", *_MADE))):
        found += [Kept("leftover", path, _size(path), _used(path)) for path in folder.glob(".*-*")]
    for name, kind in _MADE.items():
        found += [_made(kind, path) for path in _inside(cache_dir() / name) if _is_made(path)]
    found += [Kept("package", path, _size(path), _used(path)) for path in (cache_dir() / "packages").glob("*.deb")]
    found += [Kept("package lists", path, _size(path), _used(path / "state")) for path in _inside(cache_dir() / "apt")]
    return tuple(sorted(found, key=lambda kept: (kept.kind, kept.path)))


def collect(older_than_s: float, *, dry_run: bool, now_unix_s: float | None = None) -> tuple[Kept, ...]:
    """Remove what has not been used for some time.

    No image is being built meanwhile, since that holds the same lock. A machine that runs from an image, or from a saved machine, may go
    on: its files stay until it closes them.

    Args:
        older_than_s: how long ago the last use must be.
        dry_run: only say what would go.
        now_unix_s: the time of comparison; now if left out.

    Returns:
        What was removed.

    Raises:
        UserError: the cache can't be written.
    """
    if not any(folder.is_dir() for folder in (images_dir(), *(cache_dir() / name for name in ("packages", *_MADE)))):
        return ()
    now = time.time() if now_unix_s is None else now_unix_s
    with writing(images_dir()) as folder, locked(folder / "lock"):
        every = (*kept_images(), *kept_besides())
        least = {"leftover": max(older_than_s, LEFTOVER_S)}
        gone = tuple(kept for kept in every if now - kept.used_unix_s >= least.get(kept.kind, older_than_s))
        for kept in () if dry_run else gone:
            if kept.path.is_dir():
                shutil.rmtree(kept.path)
            else:
                kept.path.unlink(missing_ok=True)
            if kept.beside is not None:
                kept.beside.unlink(missing_ok=True)
    return gone


def _is_made(path: Path) -> bool:
    """Say whether something in a folder is whole and not what belongs to another file there."""
    return not path.name.startswith(".") and path.suffix != _DIGEST and path.name != "lock"


def _made(kind: str, path: Path) -> Kept:
    beside = path.with_name(path.name + _DIGEST)
    found = beside if beside.is_file() else None
    return Kept(kind, path, _size(path) + (_size(found) if found else 0), _used(path), beside=found)


def _inside(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_blocks * 512 for file in files)


def _used(path: Path) -> float:
    seal = path / "seal"
    return (seal if seal.is_file() else path).stat().st_mtime
