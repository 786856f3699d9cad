# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor `fs`: the file system of the root, and how the one in force is read from a machine's mounts and its superblock."""

from __future__ import annotations

import struct

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.factors.mounts import MOUNTS
from swapstone.core.model import FrozenStruct, UserError

MOUNTED_AT = "/mnt"
"""Where the program of the suite mounts the root (root.c)."""

STARTS = {"device_start": 0, "device_1024": 1024}
"""Names of the bytes of the device that the program reports, with their offsets: superblocks begin at one of them."""

COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
"""Compressions by their number in squashfs's superblock (fs/squashfs/squashfs_fs.h)."""

UUIDS = {
    "erofs": "5a4f0000-7377-4170-a573-746f6e650000",
    "erofs:lz4": "5a4f0000-7377-4170-a573-746f6e650001",
    "erofs:lz4hc": "5a4f0000-7377-4170-a573-746f6e650002",
}
"""The UUID that an image of erofs gets, by level: lz4 and lz4hc are one format, so only the image's maker knows which one wrote it."""

_SQUASHFS = struct.Struct("<4s16xH")
_EXT4 = struct.Struct("<56xH")
_EROFS = struct.Struct("<I44x16s16xIH")
_EROFS_MAGIC, _EXT4_MAGIC = 0xE0F5E1E2, 0xEF53
_LZ4_PADDED, _ALGORITHMS = 1, 2  # features of erofs (fs/erofs/erofs_fs.h)

IMAGE_TOOLS = {"squashfs": "mksquashfs", "erofs": "mkfs.erofs", "ext4": "mke2fs"}
"""Programs that make the images."""


class RootImage(FrozenStruct, frozen=True, kw_only=True):
    """What a recipe has of the root.

    Attributes:
        level: of the factor `fs`.
        content: arguments of the program that state what the root holds; empty until it is built.
    """

    level: str = "ext4"
    content: tuple[str, ...] = ()


def _level(name: str, description: str) -> Level:
    return Level(name=name, description=description, needs=(IMAGE_TOOLS[name.partition(":")[0]],))


class FileSystem:
    """The file system of the root of a virtual machine."""

    name = "fs"
    stage = Stage.BOOT
    description = "the file system of the root, an image that is mounted read-only"
    unseen = "The machine's mounts or the superblock of its root could not be read."
    elsewhere = "Measure in virtual machines: --target vm"
    levels: tuple[Level, ...] = (
        _level("squashfs:zstd", "squashfs compressed with zstd"),
        _level("squashfs:xz", "squashfs compressed with xz"),
        _level("erofs:lz4hc", "erofs compressed with lz4hc, which takes longer to make a smaller image than lz4"),
        _level("ext4", "ext4 without a journal, in as little room as it needs"),
    )
    forms: tuple[Level, ...] = (
        Level(
            name="squashfs:NAME", description=f"squashfs with another compression: {', '.join(COMPRESSIONS.values())}"
        ),
        Level(name="erofs", description="not compressed; erofs:lz4 with lz4"),
    )
    observes = (MOUNTS,)

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a file system with another compression; None for other texts.

        Raises:
            UserError: it has no such compression.
        """
        kind, _, name = text.partition(":")
        if text in UUIDS or (kind == "squashfs" and name in COMPRESSIONS.values()):
            return _level(text, f"{kind} compressed with {name}" if name else f"{kind}, not compressed")
        if kind in {"squashfs", "erofs"}:
            known = [f"squashfs:{each}" for each in COMPRESSIONS.values()] if kind == "squashfs" else UUIDS
            raise UserError(f"{text[:80]!a} is no compression of {kind}.", f"Name one of: {', '.join(known)}")
        return None

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return recipe.changed(RootImage, level=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the level by the type that /proc/PID/mountinfo has of the root, and by the compression in its superblock.

        Returns:
            A level; another text if the superblock does not fit the type, or nothing is mounted; None if one of them is unknown.
        """
        mounts, seen = evidence.value(MOUNTS), dict(evidence.seen)
        if mounts is None or not seen.keys() >= STARTS.keys():
            return None
        kind = _mounted(mounts)
        if not kind:
            return f"nothing at {MOUNTED_AT}"
        try:
            start, block = (bytes.fromhex(seen[name]) for name in STARTS)
            level = _LEVELS[kind](start, block) if kind in _LEVELS else kind
        except (ValueError, struct.error):
            return None
        return level or f"{kind} with another superblock"


def _mounted(mounts: str) -> str:
    """Return the type of the last file system that is mounted at `MOUNTED_AT`; empty for none (proc(5), /proc/PID/mountinfo)."""
    found = ""
    for line in mounts.splitlines():
        fields, separator, rest = line.partition(" - ")
        if separator and fields.split(" ")[4:5] == [MOUNTED_AT]:
            found = rest.split(" ")[0]
    return found


def _squashfs(start: bytes, block: bytes) -> str:
    del block
    magic, number = _SQUASHFS.unpack_from(start)
    return f"squashfs:{COMPRESSIONS.get(number, number)}" if magic == b"hsqs" else ""


def _ext4(start: bytes, block: bytes) -> str:
    del start
    return "ext4" if _EXT4.unpack_from(block) == (_EXT4_MAGIC,) else ""


def _erofs(start: bytes, block: bytes) -> str:
    """Return the level whose UUID the image has, if it has that level's format."""
    del start
    magic, uuid, features, algorithms = _EROFS.unpack_from(block)
    if magic != _EROFS_MAGIC:
        return ""
    # Without a list of algorithms it is lz4, and the field has lz4's distance.
    lz4 = bool(features & _LZ4_PADDED) and (algorithms == 1 or not features & _ALGORITHMS)
    found = next((level for level, known in UUIDS.items() if known.replace("-", "") == uuid.hex()), "")
    return found if found and lz4 == (found != "erofs") else f"erofs with the features {features:#x} and another UUID"


_LEVELS = {"squashfs": _squashfs, "erofs": _erofs, "ext4": _ext4}

FS = FileSystem()
