# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of this machine that a target without shared files gets, at their own paths, for an own program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import PurePosixPath

from swapstone.model import UserError
from swapstone.model.cpio import Entry
from swapstone.model.safe_text import safe

_MOUNTED = frozenset({"proc", "sys", "dev", "scratch"})
_OF_THE_MACHINE = frozenset({"agent", "init", "modules", "plan", "programs", "swapstone"})


@dataclasses.dataclass(frozen=True)
class CarriedFiles:
    """Files with their absolute paths.

    Attributes:
        files: files and links by path; no folder of a path is a link on this machine.
        aliases: other paths under which the files are opened, each with the path in `files`.
        folders: paths of folders that must exist, even if they are empty.
        from_image: names of loaders and shared objects that are not among the files, and that the machine's image must contain.
    """

    files: Mapping[str, Entry]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    folders: tuple[str, ...] = ()
    from_image: tuple[str, ...] = ()

    def size_bytes(self) -> int:
        """Return the size of all contents."""
        return sum(len(entry.content) for entry in self.files.values())


def check_place(path: str) -> None:
    """Refuse a path that a machine has for itself.

    Args:
        path: absolute, without links.

    Raises:
        UserError: a file there would be hidden by a mount, or replace a part of the machine.
    """
    first = PurePosixPath(path).parts[1:2]
    if not set(first).isdisjoint(_MOUNTED):
        raise UserError(
            f"{safe(path)} can't be in a virtual machine: it mounts a file system of its own at /{first[0]}.",
            "Copy the file to another folder.",
        )
    if not set(first).isdisjoint(_OF_THE_MACHINE):
        raise UserError(
            f"{safe(path)} can't be in a virtual machine: /{first[0]} is a part of the machine.",
            "Copy the file to another folder.",
        )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"The path {safe(path)} is not UTF-8: an image can't contain it.", "Rename the file."
        ) from error
