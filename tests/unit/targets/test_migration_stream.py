# SPDX-License-Identifier: MIT OR Apache-2.0
"""A saved machine without pages of zeros that a new machine has too."""

from __future__ import annotations

import contextlib
import random

import pytest

from swapstone.parts.vm.machine.migration_stream import without_zeros

START = b"QEVM" + (3).to_bytes(4)
CONFIGURATION = b"\x07" + (6).to_bytes(4) + b"pc-7.2"
ID = (2).to_bytes(4)
FOOTER = b"\x7e" + ID
REST = b"\x04devices\x00"
MEMORY, CHANNEL, FIRMWARE = b"pc.ram", b"0000:00:02.0/channel", b"pc.bios"


def _word(flags: int, offset: int = 0) -> bytes:
    return (offset | flags).to_bytes(8)


def _page(number: int, content: bytes = b"", block: bytes = b"") -> bytes:
    """A page of a named block, or of the last one; of zeros if it has no content."""
    word = _word((8 if content else 2) | (0 if block else 0x20), number << 12)
    return word + (bytes([len(block)]) + block if block else b"") + (content.ljust(4096, b".") if content else b"\0")


def _section(kind: int, *records: bytes) -> bytes:
    name = b"\x03ram" + bytes(4) + (4).to_bytes(4) if kind == 1 else b""
    return bytes([kind]) + ID + name + b"".join(records) + _word(0x10) + FOOTER


def _blocks(*sizes: tuple[bytes, int]) -> bytes:
    listed = b"".join(bytes([len(name)]) + name + size.to_bytes(8) for name, size in sizes)
    return _word(4, sum(size for _, size in sizes)) + listed


def _without(stream: bytes) -> bytes:
    return b"".join(without_zeros(stream))


SETUP = _section(1, _blocks((MEMORY, 1 << 20), (CHANNEL, 1 << 16), (FIRMWARE, 1 << 16)))
KEPT = (
    (_page(0, b"first", MEMORY), _page(2, b"third"), _page(0, block=CHANNEL), _page(3, b"said")),
    (_page(4, block=MEMORY), _page(6, b"seventh"), _page(0, block=FIRMWARE), _page(1), _page(2, b"code")),
)
DROPPED = (_page(1), _page(2), _page(5))


@pytest.mark.parametrize("configuration", [b"", CONFIGURATION])
def test_pages_of_zeros_are_left_out_of_memory_and_channel(configuration: bytes) -> None:
    first, second = KEPT
    before = START + configuration + SETUP
    whole = _section(2, first[0], DROPPED[0], *first[1:3], DROPPED[1], first[3])
    whole += _section(3, second[0], DROPPED[2], *second[1:])
    assert _without(before + whole + REST) == before + _section(2, *first) + _section(3, *second) + REST


def test_a_stream_of_another_format_is_refused() -> None:
    page = _page(1, block=MEMORY)
    for other in (
        b"",
        START + SETUP + _section(3, page, _word(0x200), page) + REST,
        START + SETUP + _section(3, page).replace(FOOTER, b"\x7f" + ID) + REST,
    ):
        with pytest.raises((LookupError, ValueError)):
            _without(other)


def test_a_truncated_or_damaged_stream() -> None:
    whole = START + CONFIGURATION + SETUP + _section(3, *KEPT[0], *DROPPED, *KEPT[1]) + REST
    source = random.Random(5)
    for end in {*range(200), *(source.randrange(len(whole) - len(REST)) for _ in range(300))}:
        with pytest.raises((LookupError, ValueError)):
            _without(whole[:end])
    for _ in range(300):
        changed = bytearray(whole)
        changed[source.randrange(len(whole))] = source.randrange(256)
        with contextlib.suppress(LookupError, ValueError):
            assert len(_without(bytes(changed))) <= len(whole)
