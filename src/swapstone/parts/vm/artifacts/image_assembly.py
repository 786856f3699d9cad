# SPDX-License-Identifier: MIT OR Apache-2.0
"""Assemble the files of an image: programs with their shared objects from packages, kernel modules, and the caller's files."""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from swapstone.core.artifacts.cache_folder import locked, new_folder, writable_folder
from swapstone.core.model import FrozenStruct, ImageDifference, UnavailableError, UserError, cpio
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.model.directories import cache_dir
from swapstone.core.targets import Target
from swapstone.parts.build.artifacts.loader_files import read_dependencies
from swapstone.parts.build.artifacts.packages import (
    Contents,
    Package,
    Progress,
    fetch,
    package_file,
    plain_path,
    read_lock,
)
from swapstone.parts.vm.artifacts.image_catalog import ImagePart, find_part
from swapstone.parts.vm.artifacts.kernel_modules import Module

_SHOWN = 10


class ImageFile(FrozenStruct, frozen=True, kw_only=True):
    """A file of an image.

    Attributes:
        sha256: of its content, or of a link's target.
        mode: type and permissions.
        part: its origin: ``kernel``, a package's name, or the caller's name.
    """

    sha256: str
    mode: int
    part: str


Manifest = Mapping[str, ImageFile]
"""Files of an image by path. The kernel is listed as ``kernel``, though it is not in the archive."""


def compare_images(
    baseline: Manifest, candidate: Manifest, parts: Iterable[str], between: tuple[str, str] = ("", "")
) -> ImageDifference:
    """Compare two images file by file.

    Args:
        baseline: one image.
        candidate: the other.
        parts: the swapped parts; only their files may differ.
        between: names of the two images.

    Returns:
        The files that differ.

    Raises:
        UserError: a file of another part differs, so the images can't be compared.
    """
    swapped = tuple(sorted(set(parts)))
    differing, beyond = [], []
    for path in sorted(baseline.keys() | candidate.keys()):
        one, other = baseline.get(path), candidate.get(path)
        if one == other:
            continue
        origins = sorted({side.part for side in (one, other) if side is not None})
        differing.append((path, " and ".join(origins)))
        if not set(origins) <= set(swapped):
            beyond.append(f"{path} ({' and '.join(origins)}: {_difference(one, other)})")
    if beyond:
        more = f" and {len(beyond) - _SHOWN} more" if len(beyond) > _SHOWN else ""
        raise UserError(
            f"The two images differ in more than {', '.join(swapped) or 'nothing'}: {', '.join(beyond[:_SHOWN])}{more}.",
            "Build both from the same lock, with the same parts and modules.",
        )
    return ImageDifference(
        between=between,
        differing=tuple(differing),
        same=len(baseline.keys() | candidate.keys()) - len(differing),
        parts=swapped,
    )


def _difference(one: ImageFile | None, other: ImageFile | None) -> str:
    if one is None or other is None:
        return f"only in the {'candidate' if one is None else 'baseline'}"
    if one.sha256 != other.sha256:
        return "different content"
    return f"mode {one.mode:o} and {other.mode:o}" if one.mode != other.mode else "from different parts"


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

    def include(self, overlay: Overlay) -> None:
        """Add the files of a part.

        Raises:
            UserError: as `add`.
        """
        for path, entry in overlay.entries.items():
            self.add(path, entry, overlay.part)

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
    entries = {name: cpio.folder() for name in ("dev", "mnt", "proc", "root", "run", "sys", "tmp", "var")} | {
        "dev/console": cpio.device(5, 1),
        "dev/null": cpio.device(1, 3),
        "usr": cpio.link("."),
        "etc/passwd": cpio.file(b"root:x:0:0:root:/root:/bin/sh\n"),
        "etc/group": cpio.file(b"root:x:0:\n"),
        "etc/hosts": cpio.file(b"127.0.0.1 localhost\n"),
    }
    tree.include(Overlay(part=BASE_PART, entries=entries | ({"bin/sh": cpio.link("busybox")} if shell else {})))


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


_SEAL = ".seal"
_LAYOUT = "1"
"""Changes with what is made of the same packages."""

_BASE = ("glibc", "libgcc")
_KEY_DIGITS = 32


def carried_programs(
    parts: Sequence[str], target: Target, progress: Progress
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Carry the programs of parts of an image to a machine, with their loader and shared objects, unpacked in the cache.

    Args:
        parts: names of `swapstone.parts.vm.artifacts.image_catalog.PARTS` that are built for glibc, each with a program of that name.
        target: where they are put.
        progress: called with a line before downloads.

    Returns:
        For each part the words of a shell that start its program there, and pairs (package, version) of the programs, without those of
        their libraries.

    Raises:
        UnavailableError: there are no packages for the architecture.
        UserError: they can't be fetched or copied, or a package is damaged.
    """
    machine = target.architecture
    debian = next((each.debian for each in ARCHITECTURES if each.machine == machine), "")
    if not debian:
        raise UnavailableError(f"There are no packages of cyclictest and stress-ng for the architecture {machine}.")
    wanted = tuple(find_part(name) for name in dict.fromkeys((*_BASE, *parts)))
    packages = needed_packages(wanted, [each for each in read_lock().of(debian) if each.in_images])
    inputs = (_LAYOUT, *(part.digest() for part in wanted), *(each.sha256 for each in packages))
    home = cache_dir() / "carried" / hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:_KEY_DIGITS]
    with writable_folder(home.parent), locked(home.parent / ".lock"):
        if not (home / _SEAL).is_file():
            fetch(packages, progress)
            shutil.rmtree(home, ignore_errors=True)
            with new_folder(home, ".unpacking-") as done:
                tree = Tree()
                add_parts(tree, wanted, packages, done.parent)
                for (
                    path,
                    entry,
                ) in tree.entries.items():  # each is executable: boards try that before a program is there
                    place = done / PurePosixPath(path).name
                    if not place.exists():
                        place.write_bytes(entry.content)
                        place.chmod(0o755)
                (done / _SEAL).touch()
    files = {path.name: path for path in sorted(home.iterdir()) if path.name != _SEAL}
    loader = next((name for name in files if name.startswith("ld-linux")), "")
    if not loader:
        raise UnavailableError(f"The packages for {machine} have no loader of glibc.")
    folder = target.install(files, f"packaged {', '.join(sorted(name for name in files if '.so' not in name))}")
    start = f"{shlex.quote(f'{folder}/{loader}')} --library-path {shlex.quote(folder)}"
    names = {part.package for part in wanted}
    return (
        {program: f"{start} {shlex.quote(f'{folder}/{program}')}" for program in parts},
        tuple((each.name, each.version) for each in packages if each.name in names),
    )
