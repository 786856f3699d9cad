# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read and write initramfs archives: cpio's "newc" format. Equal content gives equal bytes.

The format is described in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from swapstone.core.model.compression import MOST_UNPACKED_BYTES, decompress_first
from swapstone.core.model.errors import UserError
from swapstone.core.model.frozen_struct import FrozenStruct

_MAGIC = b"070701"
_ALIGNMENT = 4
_MOST_BYTES = 0xFFFFFFFF
_END = "TRAILER!!!"
_HEADER_BYTES = 110
_MOST_ARCHIVES = 100
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_COMPRESSED = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\0", "xz"))
_UNKNOWN = (b"\x28\xb5\x2f\xfd", b"\x02\x21\x4c\x18", b"\x89LZO", b"BZh", b"\x5d\0\0")
"""First bytes of compressed archives that a kernel can unpack and this module can't: zstd, lz4, lzo, bzip2, lzma."""


class Entry(FrozenStruct, frozen=True, kw_only=True):
    """A file, folder, symbolic link or device. Owner, group and times are 0.

    Attributes:
        mode: type and permissions, as in ``st_mode``.
        content: of a file, or the target of a link.
        device: major and minor number of a device.
    """

    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def file(content: bytes, *, executable: bool = False) -> Entry:
    """Return the entry of a file."""
    return Entry(mode=stat.S_IFREG | (0o755 if executable else 0o644), content=content)


def folder() -> Entry:
    """Return the entry of a folder."""
    return Entry(mode=stat.S_IFDIR | 0o755)


def link(target: str) -> Entry:
    """Return the entry of a symbolic link."""
    return Entry(mode=stat.S_IFLNK | 0o777, content=target.encode())


def device(major: int, minor: int) -> Entry:
    """Return the entry of a character device."""
    return Entry(mode=stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Mapping[str, Entry]) -> bytes:
    """Return an archive of the entries and their parent folders, in the order of their paths.

    Args:
        entries: by path, relative to the root, without ``.`` or ``..``.

    Raises:
        UserError: a path is outside the root, or a file exceeds the format's limit of 4 GiB.
    """
    for name in entries:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or str(PurePosixPath(name)) != name:
            raise UserError(f"{name!r} is no valid path in an image: it must be relative, without '.' or '..'.")
    every = with_parents(entries)
    found = [_encoded(number, name, every[name]) for number, name in enumerate(sorted(every), start=1)]
    return b"".join((*found, _encoded(0, _END, Entry(mode=0))))


def with_parents(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return entries with the parent folders that they lack."""
    paths = (name.split("/") for name in entries)
    return {"/".join(path[:depth]): folder() for path in paths for depth in range(1, len(path))} | dict(entries)


def _encoded(number: int, name: str, entry: Entry) -> bytes:
    if len(entry.content) > _MOST_BYTES:
        raise UserError(f"{name} has {len(entry.content)} bytes, more than the archive format allows.")
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(encoded), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return _padded(header + encoded) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def unpack(data: bytes) -> dict[str, Entry] | None:
    """Read concatenated archives as a kernel does: each is plain or compressed, and the last entry of a path counts.

    Returns:
        The entries by path; None if an archive has a compression other than gzip and xz.

    Raises:
        UserError: the data is no archive, is truncated, or has more than `MOST_UNPACKED_BYTES` decompressed.
    """
    found: dict[str, Entry] = {}
    room, left = MOST_UNPACKED_BYTES, iter(range(_MOST_ARCHIVES))
    while rest := data.lstrip(b"\0"):
        try:
            if rest.startswith(_MAGIC):
                data = _unpack_one(rest, found, left)
            elif kind := next((kind for magic, kind in _COMPRESSED if rest.startswith(magic)), ""):
                plain, data = decompress_first(rest, kind, most=room)
                room -= len(plain)
                _unpack_all(plain, found, left)
            elif rest.startswith(_UNKNOWN):
                return None
            else:
                raise ValueError("it has data that is neither an archive nor a compressed archive")
        except ValueError as error:
            raise UserError(
                f"The initrd can't be read: {error}.", "It must be a cpio archive of the format newc."
            ) from error
    return found


def _unpack_all(data: bytes, found: dict[str, Entry], left: Iterator[int]) -> None:
    while data := data.lstrip(b"\0"):
        data = _unpack_one(data, found, left)


def _unpack_one(data: bytes, found: dict[str, Entry], left: Iterator[int]) -> bytes:
    """Add the entries of one archive; return the data after it. `left` counts the archives that may still come."""
    if next(left, None) is None:
        raise ValueError(f"it has more than {_MOST_ARCHIVES} archives")
    at = 0
    while data[at : at + len(_MAGIC)] == _MAGIC and at + _HEADER_BYTES <= len(data):
        header = data[at + len(_MAGIC) : at + _HEADER_BYTES]
        if not _HEXADECIMAL.issuperset(header):
            raise ValueError("a header in it has a field that is no hexadecimal number")
        fields = [int(header[8 * number : 8 * number + 8], 16) for number in range(13)]
        name_end = at + _HEADER_BYTES + fields[11]
        start = (name_end + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        end = start + fields[6]
        if end > len(data):
            break
        name = data[at + _HEADER_BYTES : name_end - 1].decode(errors="surrogateescape")
        at = (end + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        if name == _END:
            return data[at:]
        path = str(PurePosixPath(name.lstrip("/")))
        found[path] = Entry(mode=fields[1], content=data[start:end], device=(fields[9], fields[10]))
    raise ValueError("an archive in it is truncated")


def tree(top: Path, only: Iterable[str] = ("",)) -> dict[str, Entry]:
    """Read a folder as entries: files, folders and links; owners and times are ignored.

    Args:
        top: the folder that becomes the root.
        only: relative paths to read, each with all that is below it.

    Raises:
        UserError: a path does not exist, or is neither file, folder nor link.
    """
    found: dict[str, Entry] = {}
    for wanted in only:
        start = top / wanted
        if not start.is_symlink() and not start.exists():
            raise UserError(f"{wanted} is not in {top}.")
        below = sorted(start.rglob("*")) if start.is_dir() and not start.is_symlink() else []
        for path in (start, *below):
            if path != top:
                found[path.relative_to(top).as_posix()] = _entry(path)
    return found


def _entry(path: Path) -> Entry:
    status = path.lstat()
    if path.is_symlink():
        return link(str(path.readlink()))
    if path.is_dir():
        return folder()
    if path.is_file():
        return file(path.read_bytes(), executable=bool(status.st_mode & stat.S_IXUSR))
    raise UserError(f"{path} is neither a file nor a folder nor a link: an image can't contain it.")
