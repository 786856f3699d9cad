# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build attributes of ARM objects: decoded by their lengths, and refused where the lengths contradict each other."""

from __future__ import annotations

import struct

import pytest
from tools.small_elf import attributes

from swapstone.parts.build.factors.arm_attributes import (
    ABI_VFP_ARGS,
    FP_ARCH,
    MOST_BYTES,
    DamagedAttributesError,
    decode_arm_attributes,
)

WHOLE = attributes([(FP_ARCH, 4), (ABI_VFP_ARGS, 1)])


def scope(content: bytes, *, tag: int = 1, size: int | None = None) -> bytes:
    """Return a section with one part of the vendor aeabi; `size` replaces the length of its only scope."""
    inner = bytes([tag]) + struct.pack("<I", 5 + len(content) if size is None else size) + content
    return b"A" + struct.pack("<I", 10 + len(inner)) + b"aeabi\0" + inner


def test_numbers_are_decoded_and_texts_skipped() -> None:
    assert decode_arm_attributes(WHOLE) == {FP_ARCH: 4, ABI_VFP_ARGS: 1}
    assert decode_arm_attributes(scope(b"\x43\x32.09\0\x0a\x04")) == {FP_ARCH: 4}  # 67, conformance, is a text
    assert decode_arm_attributes(scope(b"\x20\x01gnu\0\x1c\x01")) == {32: 1, ABI_VFP_ARGS: 1}  # compatibility: both
    assert decode_arm_attributes(scope(b"\x81\x02x\0\x82\x02\x85\x01")) == {258: 133}  # above 32, odd tags are texts
    assert decode_arm_attributes(b"") == {}


def test_a_big_endian_file_has_big_endian_lengths() -> None:
    big = b"A" + struct.pack(">I", 17) + b"aeabi\0" + b"\x01" + struct.pack(">I", 7) + bytes([FP_ARCH, 3])
    assert decode_arm_attributes(big, little=False) == {FP_ARCH: 3}
    with pytest.raises(DamagedAttributesError):
        decode_arm_attributes(big)


def test_other_vendors_and_attributes_of_sections_do_not_count() -> None:
    assert decode_arm_attributes(attributes([(FP_ARCH, 4)], vendor=b"gnu")) == {}
    assert decode_arm_attributes(scope(b"\x0a\x04", tag=2)) == {}
    assert decode_arm_attributes(attributes([(FP_ARCH, 4)], vendor=b"gnu") + WHOLE[1:])[ABI_VFP_ARGS] == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"B" + WHOLE[1:], "unknown version"),
        (b"A" + bytes(MOST_BYTES), "too long"),
        (WHOLE[:-1], "not inside its part"),
        (b"A\x04\0\0\0", "vendor's name has no end"),
        (b"A\x03\0\0\0", "not inside its part"),
        (b"A\x03\0", "not inside its part"),
        (b"A" + struct.pack("<I", 9) + b"aeabi", "no end"),
        (scope(b"\x0a\x04", size=4), "not inside its part"),
        (scope(b"\x0a\x04", size=8), "not inside its part"),
        (scope(b"\x0a\x04", size=0xFFFFFFFF), "not inside its part"),
        (scope(b"\x05gcc"), "no end"),
        (scope(b"\x0a"), "has no end"),
        (scope(b"\x0a\x80\x80\x80\x80\x80\x01"), "more than 32 bits"),
        (scope(b"\x0a\xff\xff\xff\xff\x1f"), "more than 32 bits"),
    ],
)
def test_a_damaged_section_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DamagedAttributesError, match=words):
        decode_arm_attributes(data)
