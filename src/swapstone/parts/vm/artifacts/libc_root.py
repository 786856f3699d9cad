# SPDX-License-Identifier: MIT OR Apache-2.0
"""The root of an image of one C library: the library's files from the lock's package, programs from source, and the first process."""

from __future__ import annotations

import io
import posixpath
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swapstone.core.model import UserError, cpio
from swapstone.core.model.directories import share_dir
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.artifacts.cross_compilers import MUSL
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.artifacts.packages import Package, plain_path, read_lock
from swapstone.parts.vm.artifacts.image_assembly import Overlay, Tree, add_base, add_parts
from swapstone.parts.vm.artifacts.image_catalog import find_part

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
