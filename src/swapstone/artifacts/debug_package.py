# SPDX-License-Identifier: MIT OR Apache-2.0
"""The package with the symbols of the image's glibc. No image contains it; it is fetched when functions are named."""

from __future__ import annotations

from pathlib import Path

from swapstone.artifacts.packages import Contents, Package, Progress, fetch, package_file, read_lock
from swapstone.model import UnavailableError
from swapstone.model.architectures import ARCHITECTURES

_FOLDER = "lib/debug"
"""Where a package has its debug files, without ``usr/``."""


def debug_package(machine: str) -> Package:
    """Return the lock's package with glibc's symbols.

    Args:
        machine: the architecture, as printed by ``uname -m``.

    Raises:
        UnavailableError: the lock has none for it.
        UserError: the lock can't be read.
    """
    debian = next((one.debian for one in ARCHITECTURES if one.machine == machine), machine)
    for package in read_lock().of(debian):
        if package.debug:
            return package
    raise UnavailableError(
        f"The lock has no package with glibc's symbols for {debian}.",
        "Update the lock from the archive: swapstone image lock",
    )


def read_debug_file(package: Package, name: str, folder: Path, notify: Progress) -> bytes | None:
    """Return a debug file of a package, which is fetched and verified first.

    Args:
        package: of the lock.
        name: path below the folder of debug files.
        folder: for temporary files.
        notify: called before a download.

    Returns:
        None if the package does not have it.

    Raises:
        UserError: the package can't be fetched, differs from the lock, or can't be unpacked.
        UnavailableError: apt-get or dpkg-deb is not installed.
    """
    fetch([package], notify)
    with Contents(package_file(package.sha256), folder) as contents:
        path = f"{_FOLDER}/{name}"
        return contents.read(path)[0] if contents.resolve(path) else None
