# SPDX-License-Identifier: MIT OR Apache-2.0
"""Update the lock: find the current versions of the packages that images need."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from swapstone.core.artifacts.cache_folder import sha256_of, writable_folder
from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.core.record.replace_file import replace_file
from swapstone.parts.build.artifacts.apt import Apt, PackageGoneError, PackageVersion, oldest
from swapstone.parts.build.artifacts.cross_compilers import MUSL
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.artifacts.lwip_source import LWIP_LOCK
from swapstone.parts.build.artifacts.mirror import SUMS, chunks_of, copy_checked, read_sums, sums_text
from swapstone.parts.build.artifacts.packages import (
    LOCK_VERSION,
    Contents,
    Lock,
    Package,
    Progress,
    fetch,
    package_file,
)
from swapstone.parts.build.artifacts.upstream_sources import LOCK, Source, cache_path, read_lock
from swapstone.parts.build.artifacts.upstream_sources import fetch as fetch_source
from swapstone.parts.vm.artifacts.image_catalog import PARTS, MachineArchitecture
from swapstone.parts.vm.artifacts.image_programs import LOCK as IMAGE_PROGRAMS

_OBJECT_FOLDERS = ("lib/", "lib64/")
_WITH_HEADERS = ("linux-headers-", "linux-kbuild-")
_MUSL_HEADERS = "musl-dev"
_GLIBC, _GLIBC_SYMBOLS = "libc6", "libc6-dbg"
_HEADER_PACKAGES = 3
"""The kernel's own headers, the common headers of its version, and the build programs."""


def update_lock(architectures: Sequence[MachineArchitecture], old: Lock | None, progress: Progress) -> Lock:
    """Resolve and download the packages that images need, and describe them.

    Args:
        architectures: to update.
        old: lock whose other architectures are kept.
        progress: called before each step.

    Returns:
        The new lock. `unavailable` has the architectures that the archive lacks, with the reason.

    Raises:
        UserError: the archive can't be read, or lacks a required package.
    """
    renewed = {architecture.debian for architecture in architectures}
    packages = [package for package in (old.packages if old else ()) if package.architecture not in renewed]
    unavailable = {
        name: why for name, why in (old.unavailable if old else {}).items() if name.partition("/")[0] not in renewed
    }
    for architecture in architectures:
        found, absent = _LockUpdate(architecture, progress).run()
        packages += found
        unavailable |= absent
    packages.sort(key=lambda each: (each.architecture, each.name))
    return Lock(version=LOCK_VERSION, packages=tuple(packages), unavailable=unavailable)


class _LockUpdate:
    """The update of one architecture."""

    def __init__(self, architecture: MachineArchitecture, progress: Progress) -> None:
        self._architecture = architecture
        self._progress = progress
        self._apt = Apt(architecture.debian)
        self._offers: dict[str, PackageVersion] = {}

    def run(self) -> tuple[list[Package], dict[str, str]]:
        name = self._architecture.debian
        self._progress(f"fetching the lists of packages for {name}")
        with self._apt.alone():
            trouble = self._apt.update()
        if trouble:
            self._progress(f"some lists for {name} could not be fetched: {trouble}")
        if not self._apt.offers(PARTS[0].package):
            return [], {name: f"this machine's archive has no packages for {name}"}
        kernels, unavailable = self._kernels()
        headers = self._headers(kernels)
        with (
            writable_folder(package_file("").parent) as home,
            tempfile.TemporaryDirectory(dir=home, prefix=".reading-") as work,
        ):
            programs = self._programs(Path(work))
        fetch(kernels, self._progress)
        beside = self._beside(programs, MUSL, _MUSL_HEADERS, "builds")
        beside += self._beside(programs, _GLIBC, _GLIBC_SYMBOLS, "debug")
        return [*kernels, *headers, *programs, *beside], unavailable

    def _beside(self, programs: Sequence[Package], name: str, wanted: str, field: str) -> list[Package]:
        """Return the package `wanted` in the version of the package `name`, which `field` names; none if the archive lacks it."""
        found = [
            self._package(offer, **{field: name})
            for package in programs
            if package.name == name
            for offer in self._same_version(wanted, package.version)
        ]
        if not found:
            self._progress(f"the archive lacks {wanted} for {self._architecture.debian}")
        return found

    def _offer(self, name: str) -> PackageVersion | None:
        offers = self._apt.offers(name)
        return oldest(offers) if offers else None

    def _package(self, offer: PackageVersion, **fields: Any) -> Package:  # noqa: ANN401 - of a package
        return Package(
            architecture=self._architecture.debian,
            name=offer.name,
            version=offer.version,
            sha256=offer.sha256,
            size_bytes=offer.size_bytes,
            **fields,
        )

    def _kernels(self) -> tuple[list[Package], dict[str, str]]:
        found, unavailable = [], {}
        for kernel, meta in self._architecture.kernels.items():
            named = self._offer(meta)
            images = [name for name in (named.depends if named else ()) if name.startswith("linux-image-")]
            offer = self._offer(images[0]) if images else None
            if offer is None:
                unavailable[f"{self._architecture.debian}/{kernel}"] = f"this machine's archive has no {meta}"
            else:
                found.append(self._package(offer, kernel=kernel))
        return found, unavailable

    def _headers(self, kernels: Sequence[Package]) -> list[Package]:
        """Return the header packages of each kernel, in the kernel's version; none if the archive lacks one of them."""
        found: dict[str, PackageVersion] = {}
        used: dict[str, list[str]] = {}
        for kernel in kernels:
            offers = self._same_version(kernel.name.replace("linux-image-", "linux-headers-", 1), kernel.version)
            for name in offers[0].depends if offers else ():
                if name.startswith(_WITH_HEADERS):
                    offers += self._same_version(name, kernel.version)
            if len(offers) != _HEADER_PACKAGES:
                self._progress(f"the archive lacks some headers of {kernel.name} {kernel.version}")
                continue
            for offer in offers:
                found[offer.name] = offer
                used.setdefault(offer.name, []).append(kernel.kernel)
        return [self._package(offer, headers=tuple(used[name])) for name, offer in found.items()]

    def _same_version(self, name: str, version: str) -> list[PackageVersion]:
        return [offer for offer in self._apt.offers(name) if offer.version == version][:1]

    def _programs(self, work: Path) -> list[Package]:
        """Follow the programs' dependencies from package to package, by the sonames in their files."""
        used: dict[str, dict[str, str]] = {part.package: {} for part in PARTS}
        needs: dict[str, set[str]] = {part.package: set(part.objects) for part in PARTS}
        for part in PARTS:
            with self._open(part.package, work) as contents:
                for pattern in part.files:
                    content, _ = contents.read(contents.find(pattern))
                    needs[part.package].update(read_dependencies(pattern, content).names())
        wanted = [(package, soname) for package, sonames in needs.items() for soname in sorted(sonames)]
        seen: set[str] = set()
        while wanted:
            package, soname = wanted.pop(0)
            if soname in seen:
                continue
            seen.add(soname)
            holder, path, content = self._holder(package, soname, work)
            used.setdefault(holder, {})[soname] = path
            asked = read_dependencies(path, content).names()
            needs.setdefault(holder, set()).update(asked)
            wanted += [(holder, name) for name in asked]
        return [
            self._package(self._offers[name], needs=tuple(sorted(needs[name])), objects=used[name]) for name in used
        ]

    def _holder(self, package: str, soname: str, work: Path) -> tuple[str, str, bytes]:
        """Return the package that contains a shared object: the dependent package itself, or one of its direct dependencies."""
        self._progress(f"looking for {soname}, which {package} needs")
        for name in (package, *self._offers[package].depends):
            if self._offer(name) is None:
                continue  # a virtual package
            with self._open(name, work) as contents:
                path = _object_path(contents.names(), soname)
                resolved = contents.resolve(path) if path else None
                if path and resolved:
                    content, _ = contents.read(resolved)
                    if read_dependencies(path, content).soname in {soname, ""}:
                        return name, path, content
        raise UserError(f"No dependency of {package} contains {soname}, for {self._architecture.debian}.")

    def _open(self, name: str, work: Path) -> Contents:
        offer = self._offers.get(name) or self._offer(name)
        if offer is None:
            raise UserError(f"This machine's archive has no {name} for {self._architecture.debian}.")
        self._offers[name] = offer
        fetch([self._package(offer)], lambda _: None)
        return Contents(package_file(offer.sha256), work)


def _object_path(names: Iterable[str], soname: str) -> str | None:
    """Return the path of a shared object in a folder that the loader searches: lib or lib/<triplet>."""
    found = [
        name
        for name in names
        if name.startswith(_OBJECT_FOLDERS) and name.count("/") <= 2 and name.endswith(f"/{soname}")
    ]
    return min(found, key=len, default=None)


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
