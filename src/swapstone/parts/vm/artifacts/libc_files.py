# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a root of one C library: programs that are built from source with an SDK, the library, and what each binary shows.

The root has the library's files from the lock's package, programs from source, and the first process.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, writable_folder
from swapstone.core.model import UnavailableError, UserError, cpio
from swapstone.core.model.architectures import ARCHITECTURES, find_architecture
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.artifacts.cross_compilers import MUSL
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.artifacts.packages import Package, fetch, plain_path, read_lock
from swapstone.parts.build.artifacts.sdk import SDK_COMPILERS, BuiltSdk, build_sdk, check_sdk
from swapstone.parts.vm.artifacts.image_assembly import Overlay, Tree, add_base, add_parts
from swapstone.parts.vm.artifacts.image_catalog import find_part
from swapstone.parts.vm.artifacts.image_programs import (
    PROGRAMS,
    BuiltProgram,
    build_program,
    check_build_tools,
    fetch_sources,
)
from swapstone.parts.vm.artifacts.libc_check import ObservedFile, observe_files

_PACKAGES = {"glibc": ("libc6", "libgcc-s1"), MUSL: (MUSL,)}
_KEPT = ("bin/", "etc/", "lib/", "sbin/", "srv/", "var/")
_DEVELOPMENT = (".a", ".h", ".pc", ".la")
_INIT = "native/images/libc-init"
_PAGE = b"<!doctype html>\n<title>Swapstone</title>\n<p>This page is in the image.\n"

Entries = dict[str, cpio.Entry]


def libc_packages(debian: str, libc: str) -> tuple[Package, ...]:
    """Return the packages of the lock whose files an image of a C library can have, that of the C library first.

    Raises:
        UserError: the lock has none.
    """
    locked = read_lock().of(debian)
    found = tuple(package for name in _PACKAGES[libc] for package in locked if package.name == name)
    if not found:
        raise UserError(f"The lock has no package of {libc} for {debian}.", "Update it: swapstone image lock")
    return found


def libc_entries(packages: tuple[Package, ...], libc: str, programs: Iterable[Entries]) -> dict[str, Entries]:
    """Return the files of the C library that programs need: its loader, and the shared objects that they name.

    Args:
        packages: of `libc_packages`, in the cache.
        libc: ``glibc`` or ``musl``.
        programs: files of the programs.

    Returns:
        The files by path, for each package that has any.
    """
    named = {
        soname
        for entries in programs
        for path, entry in entries.items()
        if stat.S_ISREG(entry.mode)
        for soname in read_dependencies(path, entry.content).names()
    }
    objects = named & {soname for package in packages for soname in package.objects}
    part = msgspec.structs.replace(find_part(libc), objects=tuple(sorted(objects)))
    tree = Tree()
    with TemporaryFolder("root") as work:
        add_parts(tree, [part], packages, work)
    found: dict[str, Entries] = {}
    for path, entry in tree.entries.items():
        found.setdefault(tree.parts[path], {})[path] = entry
    return found


def program_entries(root: Path) -> Entries:
    """Return the files of an installed program that an image has: without headers, archives and manuals, and without ``usr/``."""
    found: Entries = {}
    for name, entry in cpio.tree(root).items():
        path = plain_path(name)
        if path.startswith(_KEPT) and not stat.S_ISDIR(entry.mode) and not path.endswith(_DEVELOPMENT):
            found[path] = _link(path, entry) if stat.S_ISLNK(entry.mode) else entry
    return found


def _link(path: str, entry: cpio.Entry) -> cpio.Entry:
    """Return a link for a root where ``usr`` is the root: relative, by the shortest way."""
    target = posixpath.normpath(posixpath.join("/usr", posixpath.dirname(path), entry.content.decode()))
    if "/" not in entry.content.decode():
        return entry
    return cpio.link(posixpath.relpath(f"/{plain_path(target)}", f"/{posixpath.dirname(path)}"))


def init_entries() -> Entries:
    """Return the first process and what it serves."""
    return {
        "init": cpio.file((share_dir() / _INIT).read_bytes(), executable=True),
        "srv/www/index.html": cpio.file(_PAGE),
    }


def root_archive(overlays: Iterable[Overlay]) -> bytes:
    """Return a tar archive of a root: a level of the factor ``rootfs``. It has no devices, and equal content gives equal bytes."""
    tree = Tree()
    add_base(tree, shell=False)
    for overlay in overlays:
        tree.include(overlay)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, entry in sorted(cpio.with_parents(tree.entries).items()):
            member = tarfile.TarInfo(path)
            member.mode = stat.S_IMODE(entry.mode)
            if stat.S_ISDIR(entry.mode):
                member.type = tarfile.DIRTYPE
            elif stat.S_ISLNK(entry.mode):
                member.type, member.linkname = tarfile.SYMTYPE, entry.content.decode()
            elif stat.S_ISREG(entry.mode):
                member.size = len(entry.content)
            else:
                continue
            archive.addfile(member, io.BytesIO(entry.content))
    return written.getvalue()


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
    check_sdk(architecture, libc, compiler)
    check_build_tools(programs)


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
