# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads untrusted tar archives, entry by entry, with limits on all that an archive can claim.

Nothing is written: `swapstone.parts.vm.artifacts.root_tree` decides what becomes of an entry.
"""

from __future__ import annotations

import functools
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tarfile import HeaderError, TarInfo
from typing import NoReturn, Protocol, Self

from swapstone.core.artifacts.distribution_packages import require_command

_CHUNK = 1 << 18
_MOST_HEADER_BYTES = 1 << 17
"""The limit of an extended header. A path has at most 4096 bytes; the rest are attributes, which are ignored."""

_EXTENDED = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_KINDS = frozenset({*_EXTENDED, *tarfile.SUPPORTED_TYPES}) - {tarfile.GNUTYPE_SPARSE}
_MOST_SIZE_BYTES = 1 << 60
_DAMAGED, _SPARSE = "is no tar archive, or is damaged", "has a sparse file"
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


class Source(Protocol):
    """What an archive is read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        ...


class _Whole(io.RawIOBase):
    """A source whose end is an error: `tarfile` takes it as the end of the archive."""

    def __init__(self, source: Source) -> None:
        self._source, self._at_end = source, "is empty"

    def read(self, size: int = -1, /) -> bytes:
        if not (data := self._source.read(size)):
            raise TarError(self._at_end)
        self._at_end = "is truncated"
        return data


class _Member(tarfile.TarInfo):
    """A header. Damage is an error also where `tarfile` takes it as the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type not in _KINDS:
            sparse = found.type == tarfile.GNUTYPE_SPARSE
            raise TarError(_SPARSE if sparse else f"has an entry of the unknown type {found.type!a}")
        if not 0 <= found.size <= _MOST_SIZE_BYTES:
            raise TarError("is damaged: a number in a header is invalid")
        if found.type in _EXTENDED and found.size > _MOST_HEADER_BYTES:
            raise TarError(f"has a header of {found.size} bytes")
        return found

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if str(error) != "end of file header":
                raise TarError(_DAMAGED) from error
            raise

    def _proc_gnusparse_10(self, *_: object) -> NoReturn:
        """Refuse a sparse file before `tarfile` reads its map, whose length has no limit."""
        raise TarError(_SPARSE)


def read_tar(source: Source) -> Iterator[tuple[TarInfo, Iterator[bytes]]]:
    """Yield the entries of an archive in their order, each with the content of a file. A content is read before the next entry.

    Args:
        source: the archive, decompressed.

    Raises:
        TarError: the archive is damaged.
    """
    try:
        with tarfile.open(fileobj=_Whole(source), mode="r|", tarinfo=_Member, encoding="utf-8") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # typeshed lacks it; half a million entries take much memory
                if any(name.startswith("GNU.sparse.") for name in member.pax_headers):
                    raise TarError(_SPARSE)
                if not member.pax_headers.get("size", "0").isdecimal():
                    raise TarError("is damaged: a size in an extended header is invalid")
                content = archive.extractfile(member) if member.isreg() else None
                yield member, iter(functools.partial(content.read, _CHUNK), b"") if content else iter(())
    except TarError:
        raise
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise TarError(_DAMAGED) from error


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
