# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decompression with a limit: a kilobyte of a compressed file can stand for gigabytes."""

from __future__ import annotations

import lzma
import zlib

MOST_UNPACKED_BYTES = 1 << 30
"""The limit of what is decompressed. Kernels, initrds and modules of distributions have up to 200 MB."""

_MOST_DICTIONARY_BYTES = 256 << 20
"""The limit of the decompressor's memory: ``xz -9`` needs 65 MiB."""


class CompressionError(ValueError):
    """Compressed data is damaged, truncated, or too large decompressed."""


def decompress(data: bytes, kind: str, *, whole: bool = True) -> bytes:
    """Decompress data. gzip may have several members, one after another; what follows is ignored.

    Args:
        data: begins with the compressed data.
        kind: ``gzip``, ``xz`` or ``lzma``.
        whole: whether data without its end is an error.

    Raises:
        CompressionError: it is damaged, incomplete, or larger than `MOST_UNPACKED_BYTES` decompressed.
    """
    content, rest = decompress_first(data, kind, whole=whole)
    parts = [content]
    room = MOST_UNPACKED_BYTES - len(content)
    while kind == "gzip" and whole and rest.lstrip(b"\0").startswith(b"\x1f\x8b"):
        content, rest = decompress_first(rest.lstrip(b"\0"), kind, most=room)
        parts.append(content)
        room -= len(content)
    return b"".join(parts)


def decompress_first(
    data: bytes, kind: str, *, most: int = MOST_UNPACKED_BYTES, whole: bool = True
) -> tuple[bytes, bytes]:
    """Decompress the first stream of some data.

    Args:
        data: begins with the stream.
        kind: ``gzip``, ``xz`` or ``lzma``.
        most: the limit of its size.
        whole: whether a stream without its end is an error.

    Returns:
        Its content, and the data after it.

    Raises:
        CompressionError: as `decompress`.
    """
    try:
        if kind == "gzip":
            unzip = zlib.decompressobj(wbits=31)
            content, ended, rest = unzip.decompress(data, most + 1), unzip.eof, unzip.unused_data
        else:
            form = lzma.FORMAT_XZ if kind == "xz" else lzma.FORMAT_ALONE
            unxz = lzma.LZMADecompressor(form, memlimit=_MOST_DICTIONARY_BYTES)
            content = unxz.decompress(data, most + 1)
            ended, rest = unxz.eof, unxz.unused_data if unxz.eof else b""
    except (zlib.error, lzma.LZMAError, EOFError, MemoryError) as error:
        raise CompressionError(str(error) or type(error).__name__) from error
    if len(content) > most:
        raise CompressionError(f"it has more than {most} bytes decompressed")
    if whole and not ended:
        raise CompressionError("its end is missing")
    return content, rest
