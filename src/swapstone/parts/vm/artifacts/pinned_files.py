# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every file that a lock pins: fetching them, and copying them into the folder of a mirror."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import sha256_of
from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.record.replace_file import replace_file
from swapstone.parts.build.artifacts.apt import PackageGoneError
from swapstone.parts.build.artifacts.lwip_source import LWIP_LOCK
from swapstone.parts.build.artifacts.mirror import SUMS, chunks_of, copy_checked, read_sums, sums_text
from swapstone.parts.build.artifacts.packages import Lock, Package, Progress, fetch, package_file
from swapstone.parts.build.artifacts.upstream_sources import LOCK, Source, cache_path, read_lock
from swapstone.parts.build.artifacts.upstream_sources import fetch as fetch_source
from swapstone.parts.vm.artifacts.image_program_table import LOCK as IMAGE_PROGRAMS

SOURCE_LOCKS: tuple[tuple[str, str], ...] = (
    ("the allocator", LOCK),
    ("the C++ library for musl", "native/cxx.toml"),
    ("the library", "native/libraries.toml"),
    ("the server", "native/servers.toml"),
    ("the shell", "native/companions.toml"),
    ("the image program", IMAGE_PROGRAMS),
    ("the network stack", LWIP_LOCK),
)
"""What the sources of each lock are for, and the lock's path."""

_GONE = "no archive has this version any more"
_DIGITS = 16


@dataclasses.dataclass(frozen=True)
class PinnedSource:
    """A source of a lock: what is made from it, such as ``the allocator mimalloc``, the lock's path, and the entry."""

    product: str
    lock: str
    source: Source


@dataclasses.dataclass(frozen=True)
class Vendored:
    """The result of `vendor`.

    Attributes:
        files: how many files of the locks the folder has.
        size_bytes: of these files.
        lacking: why a file could not be fetched, by its name.
    """

    files: int
    size_bytes: int
    lacking: dict[str, str]


def locked_sources() -> tuple[PinnedSource, ...]:
    """Return the sources of all locks.

    Raises:
        UserError: a lock can't be read.
    """
    return tuple(
        PinnedSource(f"{what} {name}", path, source)
        for what, path in SOURCE_LOCKS
        for name, source in read_lock(share_dir() / path).items()
    )


def vendor(folder: Path, lock: Lock, sources: Sequence[PinnedSource], progress: Progress) -> Vendored:
    """Copy every file of the locks into a folder, with ``SHA256SUMS``; fetch those that the cache does not have.

    Files of other locks stay, so that one folder can serve several versions of Swapstone.

    Args:
        folder: created if it does not exist.
        lock: of images.
        sources: of all locks.
        progress: called before each download.

    Raises:
        UserError: the folder or the cache can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = read_sums(str(folder)) if (folder / SUMS).exists() else {}
        lacking = _fetch(lock, sources, progress)
        cached = [(package.file_name, package.sha256, package_file(package.sha256)) for package in lock.packages]
        cached += [(one.source.file, one.source.sha256, cache_path(one.source)) for one in sources]
        sizes: dict[str, int] = {}
        for name, sha256, path in cached:
            size = _copied(name, sha256, path, folder, names) if name not in lacking else None
            if size is None:
                lacking.setdefault(name, "it is damaged in the cache")
            else:
                sizes[sha256] = size
        replace_file(folder / SUMS, sums_text(names).encode())
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror or error}.", "Name another folder.") from error
    return Vendored(files=len(sizes), size_bytes=sum(sizes.values()), lacking=lacking)


def _fetch(lock: Lock, sources: Sequence[PinnedSource], progress: Progress) -> dict[str, str]:
    """Put all files into the cache; return why some could not be fetched, by name."""
    lacking: dict[str, str] = {}
    for architecture in sorted({package.architecture for package in lock.packages}):
        lacking |= _fetch_packages(lock.of(architecture), progress)
    for one in sources:
        try:
            fetch_source(one.source, one.lock, progress, one.product)
        except PackageGoneError:
            lacking[one.source.file] = _GONE
        except UserError as error:
            lacking[one.source.file] = error.message
    return lacking


def _fetch_packages(packages: Sequence[Package], progress: Progress) -> dict[str, str]:
    """Fetch the packages of one architecture together, and again without those that no archive has."""
    lacking: dict[str, str] = {}
    left = list(packages)
    while left:
        try:
            fetch(left, progress)
            break
        except PackageGoneError as error:
            gone = [package for package in left if package.name in error.names] or left
            lacking |= {package.file_name: _GONE for package in gone}
            left = [package for package in left if package not in gone]
        except UserError as error:
            missing = [package for package in left if not package_file(package.sha256).is_file()]
            lacking |= {package.file_name: error.message for package in missing}
            break
    return lacking


def _copied(name: str, sha256: str, path: Path, folder: Path, names: dict[str, str]) -> int | None:
    """Copy a file unless the folder has it, and add its name to `names`; return its size, or None if the cache's file is damaged."""
    kept = folder / names.get(sha256, name)
    if sha256 not in names or not kept.is_file() or sha256_of(kept) != sha256:
        if sha256 not in names and name in names.values():  # another file of an earlier lock
            kept = folder / f"{sha256[:_DIGITS]}-{name}"
        with path.open("rb") as source:
            if copy_checked(chunks_of(source), kept, sha256) != sha256:
                return None
        names[sha256] = kept.name
    return kept.stat().st_size
