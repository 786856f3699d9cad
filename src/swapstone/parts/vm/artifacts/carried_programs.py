# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of pinned packages, such as cyclictest and stress-ng, with their loader and shared objects in one folder.

They are the programs of the images of virtual machines, for machines that Swapstone does not boot. Their own loader starts them, with the
folder as its search path, so that nothing of the machine's C library is used.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from swapstone.core.artifacts.cache_folder import locked, new_folder, writable_folder
from swapstone.core.model import UnavailableError
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.packages import Progress, fetch, read_lock
from swapstone.parts.vm.artifacts.image_assembly import Tree, add_parts, needed_packages
from swapstone.parts.vm.artifacts.image_catalog import find_part

_SEAL = ".seal"
_LAYOUT = "1"
"""Changes with what is made of the same packages."""

_BASE = ("glibc", "libgcc")
_KEY_DIGITS = 32


@dataclasses.dataclass(frozen=True)
class CarriedPrograms:
    """Programs with their loader and shared objects.

    Attributes:
        loader: its name.
        files: of this machine by their names: the loader and shared objects.
        packages: pairs (package, version) of the programs, without those of their libraries.
    """

    loader: str
    files: Mapping[str, Path]
    packages: tuple[tuple[str, str], ...]

    @property
    def what(self) -> str:
        """What is carried, for `swapstone.core.targets.Target.install`: the names of the programs."""
        return f"packaged {', '.join(sorted(name for name in self.files if '.so' not in name))}"

    def command(self, program: str, folder: str) -> str:
        """Return the words of a shell that start a program.

        Args:
            program: its name.
            folder: of the files, on the machine where it runs.
        """
        return " ".join(map(shlex.quote, (f"{folder}/{self.loader}", "--library-path", folder, f"{folder}/{program}")))


def carried_programs(parts: Iterable[str], machine: str, progress: Progress) -> CarriedPrograms:
    """Return the programs of parts of an image, unpacked in the cache.

    Args:
        parts: names of `swapstone.parts.vm.artifacts.image_catalog.PARTS` that are built for glibc.
        machine: their architecture, as ``uname -m`` prints it; a 32-bit ARM is ``arm``.
        progress: called with a line before downloads.

    Raises:
        UnavailableError: there are no packages for the architecture.
        UserError: they can't be fetched, or a package is damaged.
    """
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
                    target = done / PurePosixPath(path).name
                    if not target.exists():
                        target.write_bytes(entry.content)
                        target.chmod(0o755)
                (done / _SEAL).touch()
    files = {path.name: path for path in sorted(home.iterdir()) if path.name != _SEAL}
    loader = next((name for name in files if name.startswith("ld-linux")), "")
    if not loader:
        raise UnavailableError(f"The packages for {machine} have no loader of glibc.")
    names = {part.package for part in wanted}
    return CarriedPrograms(loader, files, tuple((each.name, each.version) for each in packages if each.name in names))
