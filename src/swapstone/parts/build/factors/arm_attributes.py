# SPDX-License-Identifier: MIT OR Apache-2.0
"""The build attributes of ARM objects: the section ``.ARM.attributes``.

Source: "ELF for the Arm Architecture" (IHI 0044), section on build attributes, and "Addenda to, and Errata in, the ABI for the Arm
Architecture" (IHI 0045), which names the tags.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

SECTION = ".ARM.attributes"
FP_ARCH, ABI_VFP_ARGS = 10, 28
"""Tag_FP_arch: the floating-point instructions that the code may contain, 0 for none. Tag_ABI_VFP_args: 1 if functions receive and return
floating-point numbers in the registers of the floating-point unit, 0 in core registers."""

MOST_BYTES = 1 << 16
"""Limit of the section; those of programs have about 60 bytes."""

_VERSION = b"A"
_VENDOR = b"aeabi"
_FILE = 1
_TEXTS = frozenset({4, 5, 67})  # CPU_raw_name, CPU_name, conformance
_COMPATIBILITY = 32
_MOST_ULEB_BYTES = 5


class DamagedAttributesError(ValueError):
    """The section contradicts its own lengths."""


def decode_arm_attributes(data: bytes, *, little: bool = True) -> dict[int, int]:
    """Decode the section.

    Args:
        data: its content.
        little: whether the file is little-endian.

    Returns:
        The numbers of the file's public attributes, by tag. Texts are skipped, and so are attributes of sections and symbols, and those
        of other vendors. A tag that is missing has the value 0.

    Raises:
        DamagedAttributesError: the section is damaged or has more than `MOST_BYTES`.
    """
    if not data:
        return {}
    if len(data) > MOST_BYTES or data[:1] != _VERSION:
        raise DamagedAttributesError("the build attributes are too long, or of an unknown version")
    length = struct.Struct("<I" if little else ">I")
    found: dict[int, int] = {}
    for _, part in _blocks(data, 1, length, tagged=False):
        vendor, zero, content = part.partition(b"\0")
        if not zero:
            raise DamagedAttributesError("a vendor's name has no end")
        if vendor == _VENDOR:
            for kind, attributes in _blocks(content, 0, length, tagged=True):
                found |= _attributes(attributes) if kind == _FILE else {}
    return found


def _blocks(data: bytes, at: int, length: struct.Struct, *, tagged: bool) -> Iterator[tuple[int, bytes]]:
    """Yield pairs (tag, content): of the vendors' parts, which have no tag, or of the attributes of a file, a section or a symbol.

    A length contains the tag and its own four bytes.
    """
    while at < len(data):
        tag, after = _uleb(data, at) if tagged else (0, at)
        size = length.unpack_from(data, after)[0] if after + length.size <= len(data) else 0
        if not after + length.size - at <= size <= len(data) - at:
            raise DamagedAttributesError(f"what begins at byte {at} is not inside its part")
        yield tag, data[after + length.size : at + size]
        at += size


def _attributes(data: bytes) -> dict[int, int]:
    found, at = {}, 0
    while at < len(data):
        tag, at = _uleb(data, at)
        is_text = tag in _TEXTS or (tag > _COMPATIBILITY and tag % 2 == 1)
        if not is_text:
            found[tag], at = _uleb(data, at)
        if is_text or tag == _COMPATIBILITY:
            end = data.find(b"\0", at)
            if end < 0:
                raise DamagedAttributesError(f"the text of attribute {tag} has no end")
            at = end + 1
    return found


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in the encoding ULEB128, of at most 32 bits, and the position after it."""
    value = 0
    for shift, byte in enumerate(data[at : at + _MOST_ULEB_BYTES]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            if value >= 1 << 32:
                break
            return value, at + shift + 1
    raise DamagedAttributesError(f"the number at byte {at} has no end, or more than 32 bits")
