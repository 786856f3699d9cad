# SPDX-License-Identifier: MIT OR Apache-2.0
"""Assemble the files of an image: programs with their shared objects from packages, kernel modules, and the caller's files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from swapstone.core.model import FrozenStruct, UserError, cpio
from swapstone.parts.build.artifacts.dynamic_entries import read_dependencies
from swapstone.parts.build.artifacts.packages import Contents, Package, package_file, plain_path
from swapstone.parts.vm.artifacts.image_catalog import ImagePart
from swapstone.parts.vm.artifacts.image_comparison import ImageFile
from swapstone.parts.vm.artifacts.kernel_modules import Module

KERNEL_PART = "kernel"
BASE_PART = "base"
KERNEL_PATH = "kernel"
MODULE_FOLDER = "lib/modules"
MODULE_ORDER = "modules"
"""File in the image with the paths of its modules, one per line, in the order of loading. The guest's init process reads it."""


class Overlay(FrozenStruct, frozen=True, kw_only=True):
    """Files that a caller adds to an image, such as the agent and the measured programs.

    Attributes:
        part: name of their origin in image comparisons.
        entries: by path.
    """

    part: str
    entries: dict[str, cpio.Entry]


class Tree:
    """The files of an image during assembly, each with the part it comes from."""

    def __init__(self) -> None:
        self.entries: dict[str, cpio.Entry] = {}
        self.parts: dict[str, str] = {}

    def add(self, path: str, entry: cpio.Entry, part: str) -> None:
        """Add a file.

        Raises:
            UserError: another part has a different file at that path.
        """
        before = self.entries.get(path)
        if before is not None and (before != entry or self.parts[path] != part):
            raise UserError(f"{self.parts[path]} and {part} have different files at {path}.")
        self.entries[path] = entry
        self.parts[path] = part

    def files(self) -> dict[str, ImageFile]:
        """Return the files for image comparisons."""
        return {
            path: ImageFile(sha256=_sha256(entry), mode=entry.mode, part=self.parts[path])
            for path, entry in sorted(self.entries.items())
        }


def _sha256(entry: cpio.Entry) -> str:
    content = entry.content if entry.device == (0, 0) else ":".join(map(str, entry.device)).encode()
    return hashlib.sha256(content).hexdigest()


def add_base(tree: Tree, *, shell: bool) -> None:
    """Add the base of every image: mount points, two devices, and the user database.

    ``/usr`` links to the root, so that the paths in packages are valid.
    """
    for name in ("dev", "mnt", "proc", "root", "run", "sys", "tmp", "var"):
        tree.add(name, cpio.folder(), BASE_PART)
    tree.add("dev/console", cpio.device(5, 1), BASE_PART)
    tree.add("dev/null", cpio.device(1, 3), BASE_PART)
    tree.add("usr", cpio.link("."), BASE_PART)
    tree.add("etc/passwd", cpio.file(b"root:x:0:0:root:/root:/bin/sh\n"), BASE_PART)
    tree.add("etc/group", cpio.file(b"root:x:0:\n"), BASE_PART)
    tree.add("etc/hosts", cpio.file(b"127.0.0.1 localhost\n"), BASE_PART)
    if shell:
        tree.add("bin/sh", cpio.link("busybox"), BASE_PART)


def add_modules(tree: Tree, modules: Sequence[Module]) -> tuple[str, ...]:
    """Add modules and the file with their order.

    Args:
        tree: the image.
        modules: loaded at boot.

    Returns:
        Their absolute paths, in the order of loading.
    """
    paths = []
    for module in modules:
        path = f"{MODULE_FOLDER}/{module.name}.ko"
        tree.add(path, cpio.file(module.content), KERNEL_PART)
        paths.append(f"/{path}")
    tree.add(MODULE_ORDER, cpio.file("".join(f"{path}\n" for path in paths).encode()), KERNEL_PART)
    return tuple(paths)


def needed_packages(parts: Sequence[ImagePart], packages: Sequence[Package]) -> tuple[Package, ...]:
    """Return the packages of a lock that parts need, by the dependencies in the lock.

    Raises:
        UserError: the lock lacks some of them.
    """
    by_name = {package.name: package for package in packages}
    holder = {soname: package.name for package in packages for soname in package.objects}
    found: dict[str, Package] = {}
    wanted = [part.package for part in parts]
    wanted += [_holder(soname, part.name, holder) for part in parts for soname in part.objects]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        if name not in by_name:
            raise UserError(f"The lock has no package {name}.", "Update it: swapstone image lock")
        found[name] = by_name[name]
        wanted += [_holder(soname, name, holder) for soname in by_name[name].needs]
    return tuple(found[name] for name in sorted(found))


def _holder(soname: str, asker: str, holder: Mapping[str, str]) -> str:
    if soname not in holder:
        raise UserError(
            f"{asker} needs {soname}, which no package of the lock contains.", "Update the lock: swapstone image lock"
        )
    return holder[soname]


def add_parts(tree: Tree, parts: Sequence[ImagePart], packages: Sequence[Package], work: Path) -> None:
    """Add the parts' files and the shared objects they need, from packages in the cache.

    Args:
        tree: the image.
        parts: to add.
        packages: the result of `needed_packages`.
        work: a folder for temporary files.

    Raises:
        UserError: a package is damaged, or differs from the lock.
    """
    by_name = {package.name: package for package in packages}
    holder = {soname: package.name for package in packages for soname in package.objects}
    with contextlib.ExitStack() as stack:
        opened: dict[str, Contents] = {}

        def contents_of(name: str) -> Contents:
            if name not in opened:
                opened[name] = stack.enter_context(Contents(package_file(by_name[name].sha256), work))
            return opened[name]

        wanted: list[tuple[str, str]] = []  # (package, path)
        for part in parts:
            contents = contents_of(part.package)
            wanted += [(part.package, contents.find(pattern)) for pattern in part.files]
            for soname in part.objects:
                owner = _holder(soname, part.name, holder)
                wanted.append((owner, by_name[owner].objects[soname]))
        while wanted:
            name, path = wanted.pop()
            if path in tree.entries and tree.parts[path] == name:
                continue
            content, executable = contents_of(name).read(path)
            tree.add(path, cpio.file(content, executable=executable), name)
            needs = read_dependencies(path, content)
            for soname in needs.names():
                owner = _holder(soname, path, holder)
                wanted.append((owner, by_name[owner].objects[soname]))
                if needs.loader.endswith(f"/{soname}") and plain_path(needs.loader) != by_name[owner].objects[soname]:
                    wanted.append((owner, plain_path(needs.loader)))
