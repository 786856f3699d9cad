# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads untrusted tar archives, entry by entry, with limits on all that an archive can claim.

The formats are those of POSIX.1-2008 (pax: ustar with extended headers) and of GNU tar (long names, numbers in base 256), as tar(5)
describes them. Nothing is written: `swapstone.parts.vm.artifacts.root_tree` decides what becomes of an entry.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import FrozenStruct

_BLOCK = 512
_CHUNK = 1 << 18
_MOST_HEADER_BYTES = 1 << 20
"""The limit of an extended header. A path has at most 4096 bytes; the rest are attributes, which are ignored."""

_MOST_SIZE_BYTES = 1 << 60
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"x", b"g"
_KINDS = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "hard link",
    b"2": "link",
    b"3": "device",
    b"4": "device",
    b"5": "folder",
    b"6": "FIFO",
}
_DECOMPRESSORS = (
    (b"\x1f\x8b", "gzip", ("--decompress", "--stdout")),
    (b"\xfd7zXZ\0", "xz-utils", ("--decompress", "--stdout", "--memlimit-decompress=256MiB")),
    (b"\x28\xb5\x2f\xfd", "zstd", ("--decompress", "--stdout", "--memory=256MB")),
    (b"BZh", "bzip2", ("--decompress", "--stdout")),
)
"""First bytes of a compressed file, the package that decompresses it, whose program has the same name but for a suffix, and the program's
arguments. A dictionary has at most 256 MiB."""


class TarError(ValueError):
    """An archive is damaged, truncated, or beyond a limit. The message is the end of a sentence whose subject is the archive."""


class TarEntry(FrozenStruct, frozen=True, kw_only=True):
    """An entry.

    Attributes:
        path: as in the archive.
        kind: ``file``, ``hard link``, ``link``, ``folder``, ``device`` or ``FIFO``.
        mode: permissions with the set-user-ID, set-group-ID and sticky bits.
        size_bytes: of a file's content; 0 for others.
        target: of a link or hard link.
    """

    path: str
    kind: str
    mode: int
    size_bytes: int = 0
    target: str = ""


class Source(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        ...


class TarReader:
    """Reads the entries of an archive in their order.

    Args:
        source: the archive, decompressed.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = 0  # of the content of the current entry, with its padding
        self._content = 0

    def __iter__(self) -> Iterator[TarEntry]:
        """Yield the entries. The content of one is read before the next.

        Raises:
            TarError: the archive is damaged.
        """
        texts: dict[str, str] = {}
        empty = True
        while (block := self._block(optional=empty)) is not None:
            empty = False
            if block == bytes(_BLOCK):
                return
            _check_sum(block)
            kind, size = block[156:157], _number(block[124:136])
            if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL):
                header = self._header(size)
                if kind in (_LONG_NAME, _LONG_LINK):
                    texts["path" if kind == _LONG_NAME else "linkpath"] = _text(header.rstrip(b"\0"))
                elif kind == _PAX:
                    texts |= _pax(header)
                continue
            if kind not in _KINDS:
                what = "a sparse file" if kind == b"S" else f"an entry of the unknown type {kind!a}"
                raise TarError(f"has {what}")
            if any(name.startswith("GNU.sparse.") for name in texts):
                raise TarError("has a sparse file")
            if "size" in texts:
                size = _decimal(texts["size"])
            entry = _entry(block, _KINDS[kind], size, texts)
            self._begin(entry.size_bytes)
            yield entry
            self._skip()
            texts = {}
        if empty:
            raise TarError("is empty")

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of the current file.

        Raises:
            TarError: the archive ends inside it.
        """
        while self._content:
            data = self._exactly(min(self._content, _CHUNK))
            self._content -= len(data)
            self._left -= len(data)
            yield data

    def _begin(self, size: int) -> None:
        self._content = size
        self._left = size + -size % _BLOCK

    def _skip(self) -> None:
        while self._left:
            self._left -= len(self._exactly(min(self._left, _CHUNK)))
        self._content = 0

    def _header(self, size: int) -> bytes:
        if size > _MOST_HEADER_BYTES:
            raise TarError(f"has a header of {size} bytes")
        self._begin(size)
        content = b"".join(self.chunks())
        self._skip()
        return content

    def _block(self, *, optional: bool) -> bytes | None:
        data = self._exactly(_BLOCK, optional=optional)
        return data or None

    def _exactly(self, size: int, *, optional: bool = False) -> bytes:
        parts: list[bytes] = []
        left = size
        while left:
            data = self._source.read(left)
            if not data:
                if optional and left == size:
                    return b""
                raise TarError("is truncated")
            parts.append(data)
            left -= len(data)
        return b"".join(parts)


def _entry(block: bytes, kind: str, size: int, texts: dict[str, str]) -> TarEntry:
    name = _text(block[:100].partition(b"\0")[0])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500].partition(b"\0")[0])):
        name = f"{prefix}/{name}"
    path = texts.get("path", name)
    if kind == "file" and path.endswith("/"):
        kind = "folder"  # archives of the format v7
    return TarEntry(
        path=path,
        kind=kind,
        mode=_number(block[100:108]) & 0o7777,
        size_bytes=size if kind == "file" else 0,
        target=texts.get("linkpath", _text(block[157:257].partition(b"\0")[0])) if "link" in kind else "",
    )


def _check_sum(block: bytes) -> None:
    """Compare the header's sum of its bytes, with its own field as spaces."""
    field = block[148:156]
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,8}", digits) or int(digits, 8) != sum(block) - sum(field) + 8 * ord(" "):
        raise TarError("is no tar archive, or is damaged")


def _number(field: bytes) -> int:
    """Decode an octal number, or one in base 256 if the first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(field[1:]) if field[0] == 0x80 else -1
    else:
        digits = field.strip(b" \0")
        value = int(digits, 8) if re.fullmatch(rb"[0-7]*", digits) and digits else 0 if not digits else -1
    if not 0 <= value <= _MOST_SIZE_BYTES:
        raise TarError("is damaged: a number in a header is invalid")
    return value


def _decimal(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text, re.ASCII):
        raise TarError("is damaged: a size in an extended header is invalid")
    return int(text)


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _pax(header: bytes) -> dict[str, str]:
    """Decode the records ``LENGTH KEY=VALUE`` of an extended header."""
    found: dict[str, str] = {}
    at = 0
    while at < len(header):
        match = re.compile(rb"([0-9]{1,7}) ").match(header, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(header) or header[end - 1 : end] != b"\n":
            raise TarError("is damaged: an extended header is invalid")
        key, equals, value = header[match.end() : end - 1].partition(b"=")
        if not equals:
            raise TarError("is damaged: an extended header is invalid")
        found[_text(key)] = _text(value)
        at = end
    return found


class _Piped:
    """Reads the output of a program that decompresses."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self._process, self._name = process, name

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end.

        Raises:
            TarError: the program failed.
        """
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        if not data and self._process.wait() != 0:
            raise TarError(
                f"can't be decompressed by {self._name}: it is damaged, truncated, or needs more than 256 MiB"
            )
        return data


@contextmanager
def decompressed(path: Path) -> Iterator[Source]:
    """Open a tar file that is plain or compressed with gzip, xz, zstd or bzip2, by its first bytes.

    Raises:
        OSError: it can't be read. `Source.read` raises `TarError` for damage.
        UnavailableError: the program that decompresses it is not installed.
    """
    with path.open("rb") as file:
        head = file.read(8)
        file.seek(0)
        package, arguments = next((each[1:] for each in _DECOMPRESSORS if head.startswith(each[0])), ("", ()))
        if not package:
            yield file
            return
        name = package.removesuffix("-utils")
        os.lseek(file.fileno(), 0, os.SEEK_SET)  # the seek above moves within the buffer alone
        command = [require_command(name, "Decompressing a root file system", package), *arguments]
        with subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                yield _Piped(process, name)
            finally:
                process.kill()
