# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kernel for x86_64 of a few instructions: it prints lines on the serial port, then hangs or ends the emulator."""

from __future__ import annotations

import struct

HANG = b"\xfa\xf4\xeb\xfd"  # cli; L: hlt; jmp L
END = (
    b"\x66\xba\xf4\x00\xb0\x21\xee" + HANG
)  # mov dx, 0xf4; mov al, 0x21; out dx, al: isa-debug-exit ends QEMU with status 67
ENTRY = 0x100000
FILE_OFFSET = 0x1000
BANNER = b"Linux version 6.1.0-tiny (user@host) #1 SMP\n\0"


def tiny_kernel(lines: tuple[str, ...], then: bytes) -> bytes:
    """Return an ELF kernel with a PVH entry: 32-bit code, without paging (Xen's docs/misc/pvh.pandoc).

    Args:
        lines: what it prints.
        then: the code that runs after that, `HANG` or `END`.
    """
    text = "".join(f"{line}\n" for line in lines).encode() + b"\0"

    def code(address: int) -> bytes:
        load = b"\xbe" + struct.pack("<I", address) + b"\x66\xba\xf8\x03"  # mov esi, address; mov dx, 0x3f8 (COM1)
        return load + b"\xac\x84\xc0\x74\x03\xee\xeb\xf8" + then  # L: lodsb; test al, al; jz end; out dx, al; jmp L

    loaded = code(ENTRY + len(code(0))) + text
    note = struct.pack("<III", 4, 4, 18) + b"Xen\0" + struct.pack("<I", ENTRY)  # XEN_ELFNOTE_PHYS32_ENTRY
    header = (
        b"\x7fELF\2\1\1"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, ENTRY, 64, 0, 0, 64, 56, 2, 64, 0, 0)
        + struct.pack("<IIQQQQQQ", 1, 7, FILE_OFFSET, ENTRY, ENTRY, len(loaded), len(loaded), 4096)
        + struct.pack("<IIQQQQQQ", 4, 4, 64 + 2 * 56, 0, 0, len(note), len(note), 4)
        + note
        + BANNER
    )
    return header.ljust(FILE_OFFSET, b"\0") + loaded
