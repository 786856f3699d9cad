# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images whose every program is of one C library, and the files of their root.

The root has programs that are built from source with an SDK, the library's files from the lock's package, and the first process.

The binaries show by their files which C library they are of; an image with one of another C library is refused. The image is one of
`swapstone.parts.vm.artifacts.images`, with its kernel and its place in the cache; this module makes its files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, writable_folder
from swapstone.core.artifacts.distribution_packages import missing_programs
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.factors import Evidence, facts_of, find_factor
from swapstone.core.model import FrozenStruct, UnavailableError, UserError, cpio
from swapstone.core.model.architectures import ARCHITECTURES, find_architecture
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.record.replace_file import replace_file
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
    fetch_sources,
)
from swapstone.parts.vm.artifacts.images import BuiltImage, ImageRequest, build_image, plan_image

_ELF = b"\x7fELF"


class ObservedFile(FrozenStruct, frozen=True, kw_only=True):
    """What the file of a program or shared object shows.

    Attributes:
        libc: the C library, by the factor ``libc``; of the C library's own files, that of their package.
        compiler: by the factor ``compiler``; empty if its file names none.
        loader: in PT_INTERP, or empty.
        needed: shared objects, in the order of the file.
        size_bytes: of the file.
    """

    libc: str
    compiler: str
    loader: str
    needed: tuple[str, ...]
    size_bytes: int


def observe_files(
    entries: Mapping[str, cpio.Entry], own: frozenset[str], libc: str, compiler: str
) -> dict[str, ObservedFile]:
    """Read each program and shared object of an image.

    Args:
        entries: by path.
        own: paths of the C library's own files, which come from its package.
        libc: the requested C library.
        compiler: the requested compiler.

    Returns:
        What was observed, by path.

    Raises:
        UserError: a file is of another C library or compiler, or shows none; or the image lacks a loader or shared object that one needs.
    """
    found = {
        path: _observed(path, entry.content, libc if path in own else "")
        for path, entry in sorted(entries.items())
        if stat.S_ISREG(entry.mode) and entry.content.startswith(_ELF)
    }
    for path, file in found.items():
        _require(path, "C library", file.libc, libc)
        if path not in own:
            _require(path, "compiler", file.compiler, compiler)
    _require_closure(entries, found)
    return found


def _observed(path: str, content: bytes, known: str) -> ObservedFile:
    facts = facts_of(content, path)
    if facts is None:
        raise UserError(f"{path} is a damaged ELF file.", "Build the image again: swapstone image gc --older-than 0d")
    evidence = Evidence(interp=facts.interp, objects=facts.needed, program=facts)
    return ObservedFile(
        libc=known or find_factor("libc").observe(evidence) or "",
        compiler=find_factor("compiler").observe(evidence) or "",
        loader=facts.interp or "",
        needed=facts.needed,
        size_bytes=len(content),
    )


def _require(path: str, what: str, seen: str, wanted: str) -> None:
    if seen != wanted:
        shown = f"is of the {what} {seen}" if seen else f"does not show its {what}"
        raise UserError(
            f"{path} {shown}; the image is for {wanted}, so it is refused.",
            "Each program of the image must be built with the SDK's compiler. Report a program of Swapstone's own.",
        )


def _require_closure(entries: Mapping[str, cpio.Entry], found: Mapping[str, ObservedFile]) -> None:
    """Check that loaders and needed objects are in the image. musl's loader is its C library, too, whatever name a program needs it by."""
    names = {posixpath.basename(path) for path in entries}
    for path, file in found.items():
        lacking = [
            name for name in file.needed if name not in names and not (file.libc == "musl" and name == "libc.so")
        ]
        if file.loader and file.loader.removeprefix("/usr").lstrip("/") not in entries:
            lacking.append(file.loader)
        if lacking:
            raise UserError(f"{path} needs {', '.join(lacking)}, which the image does not have.")


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


def check_libc_files(architecture: str, libc: str, compiler: str, programs: tuple[str, ...] = ()) -> None:
    """Check that the files can be made here, with these programs or by default all; nothing is fetched.

    Raises:
        UserError: a name is unknown.
        UnavailableError: a tool is missing; the hint names its package.
    """
    if missing := missing_programs(
        ("cc", "make", "patch", *(each for name in programs or PROGRAMS for each in PROGRAMS[name].build_tools))
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


KERNEL_FILE, INITRD_FILE, ROOT_FILE, IMAGE_FILE = "kernel", "initrd", "root.tar", "image.json"


class LibcImageRequest(ImageRequest, frozen=True, kw_only=True):
    """The requested image. Its parts are none, and its modules none by default.

    Attributes:
        libc: ``glibc`` or ``musl``.
        compiler: ``gcc`` or ``clang``.
        programs: names of `PROGRAMS`.
    """

    libc: str
    compiler: str = "gcc"
    programs: tuple[str, ...] = tuple(PROGRAMS)
    modules: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class LibcImage(FrozenStruct, frozen=True, kw_only=True):
    """The description of an image of one C library, as `IMAGE_FILE` beside it.

    Attributes:
        format: version of this description.
        image: digest of the image, as ``swapstone image list`` prints it.
        architecture: a name of the image catalog.
        libc: ``glibc`` or ``musl``.
        libc_version: of the package of the lock that the image contains.
        compiler: version line.
        kernel: ``generic``, ``rt``, or a file's name; `kernel_release` is the output of ``uname -r``.
        kernel_release: see `kernel`.
        sdk: digest of the content of the SDK that built it.
        sdk_packages: of the distribution and the lock, whose files the SDK has.
        programs: built from source.
        files: the programs and shared objects, as observed.
        links: number of links to them, such as busybox's.
        root_bytes: total size of the root's files, without kernel modules.
        initrd_bytes: size of the archive that the kernel unpacks.
        kernel_bytes: size of the kernel.
        sha256: of the files that are written, by name.
    """

    format: int
    image: str
    architecture: str
    libc: str
    libc_version: str
    compiler: str
    kernel: str
    kernel_release: str
    sdk: str
    sdk_packages: tuple[str, ...]
    programs: tuple[BuiltProgram, ...]
    files: dict[str, ObservedFile]
    links: int
    root_bytes: int
    initrd_bytes: int
    kernel_bytes: int
    sha256: dict[str, str]


@dataclasses.dataclass(frozen=True)
class BuiltLibcImage:
    """An image in the cache, its description, and the archive of its root for `swapstone.parts.vm.factors.rootfs`."""

    built: BuiltImage
    description: LibcImage
    root: bytes


def build_libc_image(request: LibcImageRequest, notify: Callable[[str], None]) -> BuiltLibcImage:
    """Build an image of one C library, or take it and its programs from the cache.

    Args:
        request: its contents.
        notify: called with a line before each download and build.

    Raises:
        UserError: a name is unknown, a download or a build fails, or a binary is of another C library.
        UnavailableError: a tool is missing; the hint names its package.
    """
    plan_image(request, None)  # checks the kernel and the packages before the other files are made; nothing is fetched
    files = make_libc_files(request.architecture, request.libc, request.compiler, request.programs, notify)
    sdk, every = files.sdk.sdk, [entry for overlay in files.overlays for entry in overlay.entries.values()]
    built = build_image(msgspec.structs.replace(request, overlays=files.overlays), progress=notify)
    root = root_archive(files.overlays)
    description = LibcImage(
        format=1,
        image=built.image.digest(),
        architecture=request.architecture,
        libc=request.libc,
        libc_version=files.library.version,
        compiler=sdk.compiler if request.compiler == "gcc" else compiler_version((request.compiler,)),
        kernel=built.image.kernel,
        kernel_release=built.image.release,
        sdk=sdk.content,
        sdk_packages=sdk.packages,
        programs=files.programs,
        files=files.observed,
        links=sum(stat.S_ISLNK(entry.mode) for entry in every),
        root_bytes=sum(len(entry.content) for entry in every if stat.S_ISREG(entry.mode)),
        initrd_bytes=built.initrd.stat().st_size,
        kernel_bytes=built.kernel.stat().st_size,
        sha256={
            KERNEL_FILE: built.image.kernel_sha256,
            INITRD_FILE: built.image.initrd_sha256,
            ROOT_FILE: hashlib.sha256(root).hexdigest(),
        },
    )
    return BuiltLibcImage(built, description, root)


def write_libc_image(image: BuiltLibcImage, folder: Path) -> None:
    """Write kernel, initrd, root and description into a folder. The description is written last, so a folder with it is complete.

    Raises:
        UserError: the folder can't be written.
    """
    contents = (
        (KERNEL_FILE, image.built.kernel.read_bytes()),
        (INITRD_FILE, image.built.initrd.read_bytes()),
        (ROOT_FILE, image.root),
        (IMAGE_FILE, msgspec.json.format(image.description.encoded(), indent=1) + b"\n"),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / IMAGE_FILE).unlink(missing_ok=True)
        for name, content in contents:
            replace_file(folder / name, content)
    except OSError as error:
        raise UserError(
            f"{folder} can't be written: {error.strerror or error}.", "Name another folder: --out DIR"
        ) from error
