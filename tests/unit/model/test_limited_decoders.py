# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decoders with limits: TOML files, and compressed data."""

from __future__ import annotations

import gzip
import lzma
import zlib

import pytest

from swapstone.core.model.compression import CompressionError, decompress, decompress_first
from swapstone.core.model.regular_file import MOST_BYTES, TomlError, decode_toml

DATA = bytes(range(256)) * 40


def test_a_toml_file_is_decoded() -> None:
    assert decode_toml("a = 'é'\n[b]\nc = [1, -9223372036854775808, 1.5, true]\n".encode()) == {
        "a": "é",
        "b": {"c": [1, -(2**63), 1.5, True]},
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = \n", "Invalid value"),
        (b"\xff", "decode byte"),
        (b"a = " + b"9" * 5000, "digits"),
        (b"a = [{ b = 0x" + b"f" * 17 + b" }]", "more than 64 bits"),
        (b"a = 9223372036854775808", "more than 64 bits"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"[a" + b".a" * 65 + b"]", "more than 64 dots"),
        (b"#" * (MOST_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_what_is_outside_the_limits_is_a_toml_error(content: bytes, reason: str) -> None:
    with pytest.raises(TomlError, match=reason):
        decode_toml(content)


PACKED = {
    "gzip": gzip.compress(DATA),
    "xz": lzma.compress(DATA),
    "lzma": lzma.compress(DATA, lzma.FORMAT_ALONE),
}


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_data_is_decompressed(kind: str) -> None:
    assert decompress(PACKED[kind], kind) == DATA
    assert decompress_first(PACKED[kind] + b"rest", kind) == (DATA, b"rest")


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_data_without_its_end_is_an_error(kind: str) -> None:
    with pytest.raises(CompressionError, match="its end is missing"):
        decompress(PACKED[kind][:-30], kind)
    assert DATA.startswith(decompress(PACKED[kind][:-30], kind, whole=False))


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_too_large_or_damaged_is_an_error(kind: str) -> None:
    with pytest.raises(CompressionError, match="more than 10 bytes"):
        decompress_first(PACKED[kind], kind, most=10)
    assert decompress_first(PACKED[kind], kind, most=len(DATA))[0] == DATA
    with pytest.raises(CompressionError):
        decompress(PACKED[kind][:20] + b"\xff" * 40 + PACKED[kind][60:], kind)


def test_members_of_gzip_are_joined() -> None:
    assert decompress(PACKED["gzip"] + b"\0\0" + gzip.compress(b"more") + b"\0", "gzip") == DATA + b"more"
    raw = zlib.compress(DATA)
    with pytest.raises(CompressionError):
        decompress(raw, "gzip")


def test_a_dictionary_that_needs_too_much_memory_is_an_error() -> None:
    header = b"\x5d" + (0xFFFFFFFF).to_bytes(4, "little") + (1 << 40).to_bytes(8, "little")
    with pytest.raises(CompressionError):
        decompress(header + bytes(100), "lzma", whole=False)
