# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of this machine that a target without shared files gets, at their own paths, for an own program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

import msgspec

from swapstone.core.model import UserError, refuse
from swapstone.core.model.cpio import Entry
from swapstone.core.model.safe_text import safe

SYSTEM_BYTES = 96 << 20
"""What a machine needs beside the files: its kernel, the image, and room for the program to run."""

MOST_RECEIVED_BYTES = 400 << 20
"""What a machine can receive after it was saved: the largest pool of its files."""

_MOUNTED = frozenset({"proc", "sys", "dev", "scratch"})
_OF_THE_MACHINE = frozenset({"agent", "init", "modules", "plan", "programs", "roots", "swapstone"})


class CarriedFiles(msgspec.Struct, frozen=True):
    """Files with their absolute paths.

    Attributes:
        files: files and links by path; no folder of a path is a link on this machine.
        aliases: other paths under which the files are opened, each with the path in `files`.
        folders: paths of folders that must exist, even if they are empty.
        memory_bytes: of the machine, as the user chose it; 0 for one that receives them beside its memory.
        from_image: names of loaders and shared objects that are not among the files, and that the machine's image must contain.
    """

    files: Mapping[str, Entry]
    aliases: Mapping[str, str] = msgspec.field(default_factory=dict)
    folders: tuple[str, ...] = ()
    from_image: tuple[str, ...] = ()
    memory_bytes: int = 0

    def size_bytes(self) -> int:
        """Return the size of all contents."""
        return sum(len(entry.content) for entry in self.files.values())

    def joined(self, other: CarriedFiles) -> CarriedFiles:
        """Return these files with those of another program."""
        return CarriedFiles(
            {**self.files, **other.files},
            {**self.aliases, **other.aliases},
            tuple(dict.fromkeys((*self.folders, *other.folders))),
            tuple(dict.fromkeys((*self.from_image, *other.from_image))),
            max(self.memory_bytes, other.memory_bytes),
        )


def room_bytes(memory_bytes: int) -> int:
    """Return how large the files of a machine may be.

    While it boots, it holds the archive, and the files unpacked from it may take half of the rest (Documentation/filesystems/tmpfs.rst).

    Args:
        memory_bytes: of a machine whose initrd has the files; 0 for one that receives them beside its memory.
    """
    return max(0, (memory_bytes - SYSTEM_BYTES) // 3) if memory_bytes else MOST_RECEIVED_BYTES


def memory_for(size_bytes: int) -> int:
    """Return a memory in MiB, a multiple of 128, that has room for files."""
    return -(-(3 * size_bytes + SYSTEM_BYTES) // (128 << 20)) * 128


def check_room(size_bytes: int, memory_bytes: int, path: str = "") -> None:
    """Refuse files that a machine can't hold.

    Args:
        size_bytes: of all files.
        memory_bytes: as of `room_bytes`.
        path: the file with which they are too large, for the message.

    Raises:
        UserError: there is no room for them; the hint names a memory that is sufficient.
    """
    if size_bytes > room_bytes(memory_bytes):
        raise UserError(
            f"The programs with their libraries and --files are larger than {room_bytes(memory_bytes) >> 20} MiB"
            f"{f' (with {safe(path)})' if path else ''}: more than fits into a machine"
            f"{f' with {memory_bytes >> 20} MiB of memory' if memory_bytes else ''}.",
            f"Give the machine more: --memory {memory_for(size_bytes)}M",
        )


def check_place(path: str) -> None:
    """Refuse a path that a machine has for itself.

    Args:
        path: absolute, without links.

    Raises:
        UserError: a file there would be hidden by a mount, or replace a part of the machine.
    """
    first, hint = "".join(PurePosixPath(path).parts[1:2]), "Copy the file to another folder."
    refuse(
        (
            first in _MOUNTED,
            f"{safe(path)} can't be in a virtual machine: it mounts a file system of its own at /{first}.",
            hint,
        ),
        (
            first in _OF_THE_MACHINE,
            f"{safe(path)} can't be in a virtual machine: /{first} is a part of the machine.",
            hint,
        ),
    )
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"The path {safe(path)} is not UTF-8: an image can't contain it.", "Rename the file."
        ) from error
