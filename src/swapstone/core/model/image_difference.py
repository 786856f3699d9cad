# SPDX-License-Identifier: MIT OR Apache-2.0
"""The differences between two machine images of one comparison."""

from __future__ import annotations

import re
import struct

from swapstone.core.model.compression import CompressionError, decompress
from swapstone.core.model.frozen_struct import FrozenStruct, NonNegative


class ImageDifference(FrozenStruct, frozen=True, kw_only=True):
    """The result of comparing two images file by file.

    Attributes:
        between: names of the two images, the baseline first; empty strings if they have none.
        differing: paths of files that differ, sorted, each with the components it came from.
        same: number of equal files.
        parts: the components that were swapped; no file of another component differs.
    """

    between: tuple[str, str] = ("", "")
    differing: tuple[tuple[str, str], ...]
    same: NonNegative
    parts: tuple[str, ...]

    def summary(self) -> str:
        """Summarise it: ``generic and rt: 12 files differ, all of the kernel; 345 are the same``."""
        count = len(self.differing)
        origins = " and ".join(self.parts)
        differ = f"{count} files differ, all" if count != 1 else "1 file differs, and is"
        what = f"{differ} of the {origins}" if count else "no file differs"
        return f"{' and '.join(self.between)}: {what}; {self.same} are the same"


_X86_SIGNATURE = (0x202, b"HdrS")  # Documentation/arch/x86/boot.rst
_BANNER = re.compile(rb"Linux version ([ -~]{1,500})")
_LONGEST_BANNER = 512
_BUILD_ID = struct.pack("<III", 4, 20, 3) + b"GNU\0"
"""The header of a note NT_GNU_BUILD_ID with a SHA-1 (elf(5); ld's --build-id), in a little-endian kernel."""

_ID_BYTES = 20
_PAYLOADS = ((b"\x1f\x8b\x08", "gzip"), (b"\xfd7zXZ\0", "xz"), (b"\x5d\0\0", "lzma"))
_MOST_PAYLOADS = 8


class KernelIdentity(FrozenStruct, frozen=True, kw_only=True):
    """What distinguishes a kernel.

    Attributes:
        versions: banners without ``Linux version``; of a running kernel one.
        build_ids: in hexadecimal. A file contains those of its vDSOs too; of a running kernel it is its own alone.
    """

    versions: tuple[str, ...] = ()
    build_ids: tuple[str, ...] = ()

    def runs(self, running: KernelIdentity) -> bool:
        """Return whether a running kernel is the one in this file.

        The build ID decides where the file and the running kernel have one: a compressed file may show none.
        """
        if self.build_ids and running.build_ids:
            return bool(set(self.build_ids) & set(running.build_ids))
        return any(one.strip() == other.strip() for one in self.versions for other in running.versions)


def identity_of_file(data: bytes) -> KernelIdentity:
    """Read a kernel's file: an Image, zImage, bzImage or vmlinux, or one of these compressed with gzip, xz or lzma.

    Args:
        data: its content.

    Returns:
        What was found; nothing for a file without a kernel, or with one that is compressed in another way.
    """
    found: list[bytes] = [data, *_payloads(data)]
    versions = [match[1].decode("ascii") for each in found for match in _BANNER.finditer(each)]
    at, signature = _X86_SIGNATURE
    if data[at : at + len(signature)] == signature and (pointer := int.from_bytes(data[0x20E:0x210], "little")):
        text = data[pointer + 0x200 : pointer + 0x200 + _LONGEST_BANNER].partition(b"\0")[0]
        versions.append(text.decode("ascii", "replace"))
    ids = [each[at : at + _ID_BYTES].hex() for each in found for at in _ids(each)]
    return KernelIdentity(versions=tuple(dict.fromkeys(versions)), build_ids=tuple(dict.fromkeys(ids)))


def identity_of_running(version: bytes, notes: bytes) -> KernelIdentity:
    """Read what a running kernel reports.

    Args:
        version: content of /proc/version.
        notes: content of /sys/kernel/notes; empty if it is missing.
    """
    text = version.decode("ascii", "replace").strip().removeprefix("Linux version ")
    return KernelIdentity(
        versions=(text,) if text else (), build_ids=tuple(notes[at : at + _ID_BYTES].hex() for at in _ids(notes))[:1]
    )


def _ids(data: bytes) -> list[int]:
    return [match.end() for match in re.finditer(re.escape(_BUILD_ID), data) if match.end() + _ID_BYTES <= len(data)]


def _payloads(data: bytes) -> list[bytes]:
    """Return what is compressed inside: at the start of a gzipped file, or behind the code that decompresses it."""
    if _BANNER.search(data):
        return []
    found = []
    for magic, kind in _PAYLOADS:
        for match in list(re.finditer(re.escape(magic), data))[:_MOST_PAYLOADS]:
            try:
                content = decompress(data[match.start() :], kind)
            except CompressionError:
                continue
            if _BANNER.search(content):
                found.append(content)
    return found
