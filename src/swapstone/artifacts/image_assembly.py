"""Putting the files of an image together: programs of packages with the shared objects that they need, modules, the caller's files."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from swapstone.artifacts.elf_dependencies import needs_of
from swapstone.artifacts.image_catalog import Part
from swapstone.artifacts.image_comparison import ImageFile
from swapstone.artifacts.kernel_modules import Module
from swapstone.artifacts.packages import Contents, Package, package_file, plain_path
from swapstone.model import FrozenStruct, UserError, cpio

KERNEL_PART = "kernel"
BASE_PART = "base"
KERNEL_PATH = "kernel"
MODULE_FOLDER = "lib/modules"
MODULE_ORDER = "modules"
"""The image's list of its modules: a path a line, in the order in which they must be loaded. A guest's first process reads it there."""


class Overlay(FrozenStruct, frozen=True, kw_only=True):
    """Files that a caller puts into an image, such as the agent and the programs that are measured.

    Attributes:
        part: what the certificate calls them.
        entries: by path.
    """

    part: str
    entries: dict[str, cpio.Entry]


class Tree:
    """The files of an image while they are put together; each knows the part that it came from."""

    def __init__(self) -> None:
        self.entries: dict[str, cpio.Entry] = {}
        self.parts: dict[str, str] = {}

    def add(self, path: str, entry: cpio.Entry, part: str) -> None:
        """Add one file.

        Raises:
            UserError: another part has brought another file of that path.
        """
        before = self.entries.get(path)
        if before is not None and (before != entry or self.parts[path] != part):
            raise UserError(f"Both {self.parts[path]} and {part} bring {path} into the image.")
        self.entries[path] = entry
        self.parts[path] = part

    def files(self) -> dict[str, ImageFile]:
        """Return what the certificate compares."""
        return {
            path: ImageFile(sha256=_sha256(entry), mode=entry.mode, part=self.parts[path])
            for path, entry in sorted(self.entries.items())
        }


def _sha256(entry: cpio.Entry) -> str:
    content = entry.content if entry.device == (0, 0) else ":".join(map(str, entry.device)).encode()
    return hashlib.sha256(content).hexdigest()


def add_base(tree: Tree, *, shell: bool) -> None:
    """Add what every small system has: mount points, two devices, and names for the only user.

    ``/usr`` is the root once more, so that a package's files are found wherever they say they are.
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


def add_modules(tree: Tree, modules: Sequence[Module], besides: Sequence[Module] = ()) -> tuple[str, ...]:
    """Add modules and the list of their order.

    Args:
        tree: the image.
        modules: those that are loaded at the start.
        besides: others, which lie there and are not on the list.

    Returns:
        Their paths, absolute, in the order in which they must be loaded.
    """
    paths = []
    for module in modules:
        path = f"{MODULE_FOLDER}/{module.name}.ko"
        tree.add(path, cpio.file(module.content), KERNEL_PART)
        paths.append(f"/{path}")
    for module in besides:
        tree.add(f"{MODULE_FOLDER}/{module.name}.ko", cpio.file(module.content), KERNEL_PART)
    tree.add(MODULE_ORDER, cpio.file("".join(f"{path}\n" for path in paths).encode()), KERNEL_PART)
    return tuple(paths)


def needed_packages(parts: Sequence[Part], packages: Sequence[Package]) -> tuple[Package, ...]:
    """Return the packages of a lock that some parts need, by what the lock says of them.

    Raises:
        UserError: the lock has not all of them.
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
            raise UserError(f"The lock has no package {name}.", "`swapstone image lock` renews it.")
        found[name] = by_name[name]
        wanted += [_holder(soname, name, holder) for soname in by_name[name].needs]
    return tuple(found[name] for name in sorted(found))


def _holder(soname: str, asker: str, holder: Mapping[str, str]) -> str:
    if soname not in holder:
        raise UserError(
            f"{asker} needs {soname}, which no package of the lock brings.", "`swapstone image lock` renews the lock."
        )
    return holder[soname]


def add_parts(tree: Tree, parts: Sequence[Part], packages: Sequence[Package], work: Path) -> None:
    """Add the parts' files, and every shared object that they name, from packages in the cache.

    Args:
        tree: the image.
        parts: what is wanted.
        packages: `needed_packages` of them.
        work: a folder for temporary files.

    Raises:
        UserError: a package is damaged, or has not what the lock says.
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
            needs = needs_of(path, content)
            for soname in needs.names():
                owner = _holder(soname, path, holder)
                wanted.append((owner, by_name[owner].objects[soname]))
                if needs.loader.endswith(f"/{soname}") and plain_path(needs.loader) != by_name[owner].objects[soname]:
                    wanted.append((owner, plain_path(needs.loader)))
