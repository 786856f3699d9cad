# SPDX-License-Identifier: MIT OR Apache-2.0
"""What QEMU writes when it saves a machine (its source: migration/savevm.c and migration/ram.c), without pages that a new one has too."""

from collections.abc import Iterator

_ZERO, _PAGE, _LAST, _SAME_BLOCK = 0x02, 0x08, 0x10, 0x20
_BYTES = {_ZERO: 1, _PAGE: 4096, _LAST: 0}
_LISTED = bytes([0, 0, 0, 0, 0, 0, 0, _LAST, 0x7E])
"""The end of the section that lists the memory: the last record, and the footer, which a number of four bytes follows."""


def without_zeros(stream: bytes) -> Iterator[bytes]:
    """Yield the parts of a stream, without the pages of zeros of memory that is zero in a new machine: to restore them reads that memory.

    A page that names the block for those behind it stays.

    Raises:
        LookupError, ValueError: it has another format.
    """
    at, kept, block = stream.index(_LISTED) + len(_LISTED) + 4, 0, b""
    while stream[at] in (2, 3):  # further sections of the memory, and its last one; those of devices follow
        at, kind = at + 5, 0
        while kind != _LAST:
            start, at, word = at, at + 8, int.from_bytes(stream[at : at + 8])
            kind = word % _BYTES[_PAGE] & ~_SAME_BLOCK
            if kind != _LAST and not word & _SAME_BLOCK:
                block = stream[at + 1 : at + 1 + stream[at]]
                at += 1 + len(block)
            at += _BYTES[kind]
            # Other blocks, as the firmware's, have contents in a new machine.
            if word % _BYTES[_PAGE] == _ZERO | _SAME_BLOCK and block.endswith((b".ram", b"/channel")):
                yield stream[kept:start]
                kept = at
        at += {0x7E: 5}[stream[at]]
    yield stream[kept:]
