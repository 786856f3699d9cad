# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a root of one C library: programs that are built from source with an SDK, the library, and what each binary shows."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, writable_folder
from swapstone.core.artifacts.distribution_packages import missing_programs
from swapstone.core.model import UnavailableError
from swapstone.core.model.architectures import ARCHITECTURES, find_architecture
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.packages import Package, fetch
from swapstone.parts.build.artifacts.sdk import SDK_COMPILERS, BuiltSdk, build_sdk, check_sdk
from swapstone.parts.vm.artifacts.image_assembly import Overlay
from swapstone.parts.vm.artifacts.image_programs import (
    PROGRAMS,
    BuiltProgram,
    build_program,
    fetch_sources,
)
from swapstone.parts.vm.artifacts.libc_check import ObservedFile, observe_files
from swapstone.parts.vm.artifacts.libc_root import (
    init_entries,
    libc_entries,
    libc_packages,
    program_entries,
    root_archive,
)

_ROOTS = "image-roots"


class LibcFiles(msgspec.Struct, frozen=True):
    """The files of a root, and where they come from.

    Attributes:
        overlays: the files of each part.
        observed: what each program and shared object shows, by path.
        programs: built from source.
        sdk: that built them.
        library: the package of the C library.
    """

    overlays: tuple[Overlay, ...]
    observed: dict[str, ObservedFile]
    programs: tuple[BuiltProgram, ...]
    sdk: BuiltSdk
    library: Package


def check_libc_files(architecture: str, libc: str, compiler: str, programs: tuple[str, ...] = tuple(PROGRAMS)) -> None:
    """Check that the files can be made here; nothing is fetched.

    Raises:
        UserError: a name is unknown.
        UnavailableError: a tool is missing; the hint names its package.
    """
    if missing := missing_programs(
        ("cc", "make", "patch", *(each for name in programs for each in PROGRAMS[name].build_tools))
    ):
        raise missing
    check_sdk(architecture, libc, compiler)


def make_libc_files(
    architecture: str, libc: str, compiler: str, names: tuple[str, ...], notify: Callable[[str], None]
) -> LibcFiles:
    """Build the programs, or take them from the cache, and collect the files of a root.

    Args:
        architecture: a name of the image catalog.
        libc: ``glibc`` or ``musl``.
        compiler: ``gcc`` or ``clang``.
        names: of `PROGRAMS`.
        notify: called with a line before each download and build.

    Raises:
        UserError: a name is unknown, a download or a build fails, or a binary is of another C library.
        UnavailableError: a tool is missing; the hint names its package.
    """
    check_libc_files(architecture, libc, compiler, names)
    packages = libc_packages(find_architecture(architecture).debian, libc)
    sdk = build_sdk(architecture, libc, notify)
    fetch_sources(names, notify)
    fetch(packages, notify)
    programs = tuple(build_program(name, sdk, compiler, notify) for name in names)
    parts = {program.name: program_entries(program.root) for program in programs} | {"init": init_entries()}
    own = libc_entries(packages, libc, parts.values())
    overlays = tuple(Overlay(part=name, entries=entries) for name, entries in (own | parts).items())
    of_package = frozenset(path for entries in own.values() for path in entries)
    every = {path: entry for overlay in overlays for path, entry in overlay.entries.items()}
    return LibcFiles(overlays, observe_files(every, of_package, libc, compiler), programs, sdk, packages[0])


class LibcRoot(msgspec.Struct, frozen=True):
    """The root of an image, for `swapstone.parts.vm.artifacts.root_file_systems`.

    Attributes:
        archive: a tar archive in the cache.
        sources: pairs (name and version, SHA-256) of what it was built from.
    """

    archive: Path
    sources: tuple[tuple[str, str], ...]


_roots: dict[tuple[str, str, Path], LibcRoot] = {}


def libc_root(libc: str, machine: str, notify: Callable[[str], None]) -> LibcRoot:
    """Return the root of an image of one C library, built by gcc.

    The programs and the archive are in the cache. In one process they are looked up there once.

    Args:
        libc: ``glibc`` or ``musl``.
        machine: the architecture, as ``uname -m`` prints it.
        notify: called with a line before each download and build.

    Raises:
        UserError: as `make_libc_files`.
        UnavailableError: as `make_libc_files`; or images have no such architecture.
    """
    home = cache_dir().resolve() / _ROOTS
    key = (libc, image_architecture(machine), home)
    if key not in _roots or not _roots[key].archive.is_file():
        files = make_libc_files(key[1], libc, SDK_COMPILERS[0], tuple(PROGRAMS), notify)
        content = root_archive(files.overlays)
        kept = home / f"{hashlib.sha256(content).hexdigest()}.tar"
        with writable_folder(home), locked(home / "lock"):
            if not kept.is_file():
                with tempfile.TemporaryDirectory(dir=home, prefix=".making-") as work:
                    (Path(work) / kept.name).write_bytes(content)
                    (Path(work) / kept.name).replace(kept)
        os.utime(kept)  # `swapstone image gc` uses the time of the last use
        sources = ((program.name, program.version, program.source_sha256) for program in files.programs)
        library = (files.library.name, files.library.version, files.library.sha256)
        _roots[key] = LibcRoot(
            kept, tuple((f"{name} {version}", sha256) for name, version, sha256 in (library, *sources))
        )
    return _roots[key]


def image_architecture(machine: str) -> str:
    """Return the name in the image catalog of an architecture, as ``uname -m`` prints it.

    Raises:
        UnavailableError: there are no images for it.
    """
    found = "arm" if machine.startswith("armv") else machine
    for architecture in ARCHITECTURES:
        if architecture.machine == found:
            return architecture.name
    raise UnavailableError(
        f"There are no images of one C library for {machine}.",
        f"Measure in a virtual machine: --target vm --arch {ARCHITECTURES[0].name}",
    )
