# SPDX-License-Identifier: MIT OR Apache-2.0
"""List and remove cache entries of images and virtual machines."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, writable_folder
from swapstone.core.model.directories import cache_dir
from swapstone.parts.vm.artifacts.images import Image, images_dir, read_image

_MADE = {
    "apt": "package lists",
    "packages": "package",
    "snapshots": "saved machine",
    "runs": "run",
    "inputs": "input of a run",
    "agents": "agent",
    "modules": "module",
    "roots": "root file system",
    "root-archives": "root archive",
    "sdks": "SDK",
    "image-programs": "program of an image",
    "image-roots": "root of an image",
}
"""Cache folders of packages, and for virtual machines and root file systems, with the kind of their entries."""

_TEMPORARY = re.compile(r"\.(building|damaged|fetching|linking|making|reading|sources|unpacking)-.+")
"""The temporary folder of a build or a download, in any folder of the cache."""

_DIGEST = ".sha256"
LEFTOVER_S = 3600
"""A younger temporary folder may belong to a running download."""


@dataclasses.dataclass(frozen=True)
class CacheEntry:
    """A cache entry.

    Attributes:
        kind: ``image``, ``package``, ``package lists``, ``saved machine``, ``run``, ``input of a run``, ``agent``, ``module``,
            ``root file system``, ``root archive`` (the digest of what was unpacked from it), ``SDK``, ``program of an image``,
            ``root of an image``, or ``leftover`` of a killed process.
        path: of the file or folder.
        size_bytes: size on disk.
        used_unix_s: time of the last use.
        image: description of an image; None if it is damaged.
        beside: a second file of the entry, such as its digest.
    """

    kind: str
    path: Path
    size_bytes: int
    used_unix_s: float
    image: Image | None = None
    beside: Path | None = None


def cached_images() -> tuple[CacheEntry, ...]:
    """Return the images of the cache, the last used first."""
    homes = sorted(path for path in _inside(images_dir()) if path.is_dir() and not path.name.startswith("."))
    found = [CacheEntry("image", home, _size(home), _used(home), read_image(home)) for home in homes]
    return tuple(sorted(found, key=lambda kept: -kept.used_unix_s))


def other_entries() -> tuple[CacheEntry, ...]:
    """Return all other entries: packages and their lists, saved machines, runs, builds for machines, leftovers."""
    folders = (images_dir(), *(cache_dir() / name for name in _MADE))
    left = {path for folder in folders for path in folder.glob(".*-*")}
    below = (*cache_dir().glob("*/.*-*"), *cache_dir().glob("*/*/.*-*"))
    left |= {path for path in below if _TEMPORARY.fullmatch(path.name) and path.is_dir()}
    found = [_entry("leftover", path) for path in left]
    for name, kind in _MADE.items():
        found += [_entry(kind, path) for path in _inside(cache_dir() / name) if _is_made(path)]
    return tuple(sorted(found, key=lambda kept: (kept.kind, kept.path)))


def collect_garbage(older_than_s: float, *, dry_run: bool, now_unix_s: float | None = None) -> tuple[CacheEntry, ...]:
    """Remove entries that have not been used for some time.

    Holds the lock of image builds. A running machine keeps working, because its open files stay until it closes them.

    Args:
        older_than_s: minimum time since the last use.
        dry_run: return the entries without removing them.
        now_unix_s: reference time; the current time by default.

    Returns:
        The removed entries.

    Raises:
        UserError: the cache can't be written.
    """
    if not any(folder.is_dir() for folder in _inside(cache_dir())):
        return ()
    now = time.time() if now_unix_s is None else now_unix_s
    with writable_folder(images_dir()) as folder, locked(folder / "lock"):
        every = (*cached_images(), *other_entries())
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
    """Return whether a path is a complete entry, and not a temporary or companion file."""
    return not path.name.startswith(".") and path.suffix != _DIGEST and path.name != "lock"


def _entry(kind: str, path: Path) -> CacheEntry:
    beside = path.with_name(path.name + _DIGEST)
    found = beside if beside.is_file() else None
    return CacheEntry(kind, path, _size(path) + (_size(found) if found else 0), _used(path), beside=found)


def _inside(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_blocks * 512 for file in files)


def _used(path: Path) -> float:
    return next((mark for name in ("seal", "state") if (mark := path / name).exists()), path).stat().st_mtime
