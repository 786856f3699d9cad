# SPDX-License-Identifier: MIT OR Apache-2.0
"""The package with the symbols of the image's glibc. No image contains it; it is fetched when functions are named."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model import UnavailableError
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.parts.build.artifacts.packages import Contents, Progress, fetch, package_file, read_lock

_FOLDER = "lib/debug"
"""Where a package has its debug files, without ``usr/``."""


def read_debug_file(machine: str, name: str, folder: Path, notify: Progress) -> tuple[str, bytes | None]:
    """Return a debug file of the lock's package with glibc's symbols, which is fetched and verified first.

    Args:
        machine: the architecture, as printed by ``uname -m``.
        name: path below the folder of debug files.
        folder: for temporary files.
        notify: called before a download.

    Returns:
        The name and version of the package, and the file's content; None if the package does not have it.

    Raises:
        UserError: the lock can't be read; the package can't be fetched, differs from the lock, or can't be unpacked.
        UnavailableError: the lock has no such package for the architecture; apt-get or dpkg-deb is not installed.
    """
    debian = next((one.debian for one in ARCHITECTURES if one.machine == machine), machine)
    package = next((each for each in read_lock().of(debian) if each.debug), None)
    if package is None:
        raise UnavailableError(
            f"The lock has no package with glibc's symbols for {debian}.",
            "Update the lock from the archive: swapstone image lock",
        )
    fetch([package], notify)
    with Contents(package_file(package.sha256), folder) as contents:
        path = f"{_FOLDER}/{name}"
        return f"{package.name} {package.version}", contents.read(path)[0] if contents.resolve(path) else None
