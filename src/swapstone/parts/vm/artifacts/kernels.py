# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read kernel files, and extract the ELF kernel from a compressed one.

An uncompressed kernel boots by PVH without decompressing itself, which saves seconds in an emulated machine.
"""

from __future__ import annotations

import collections
import re
import struct
from pathlib import Path

from elftools.elf.notes import iter_notes

from swapstone.core.factors.elf_file import DamagedElfError, limited, open_elf
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.compression import CompressionError, decompress
from swapstone.core.model.regular_file import read_regular_file, readable

_SIGNATURES = (
    (0x202, b"HdrS", "x86_64"),  # Documentation/arch/x86/boot.rst
    (0x38, b"ARM\x64", "aarch64"),  # Documentation/arch/arm64/booting.rst
    (0x38, b"RSC\x05", "riscv64"),  # Documentation/arch/riscv/boot-image-header.rst
    (0x24, b"\x18\x28\x6f\x01", "arm"),  # the zImage magic, arch/arm/boot/compressed/head.S
)
"""Where a boot image of an architecture has which bytes."""

_X86_HEADER_BYTES = 0x250  # up to and with payload_length
_ARM_HEADER_BYTES = 0x30  # up to and with the end of the image
_TALKS = b"Kernel command line: "  # printed by init/main.c; missing without CONFIG_PRINTK
_UNPACKS = b"nitramfs unpacking failed"  # from init/initramfs.c, built with CONFIG_BLK_DEV_INITRD only
_VERSION = "Linux version "
_LONGEST_BANNER = 512
_XEN_PVH_NOTE = "Xen 18"  # name and type: XEN_ELFNOTE_PHYS32_ENTRY
_LARGEST_KERNEL = 1 << 30  # bytes; a vmlinux with debugging information is about half as large
_PE_SECTION_BYTES = 40  # of a section's header: Microsoft's PE format, "Section table"
_MOST_PE_SECTIONS = 96  # as the PE format permits


ELF_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_ARM": "arm", "EM_RISCV": "riscv64"}
"""Architectures as ``uname -m`` prints them, by their names in ELF."""


class Kernel(FrozenStruct, frozen=True, kw_only=True):
    """A bootable kernel.

    Attributes:
        architecture: as printed by ``uname -m``: ``x86_64``, ``aarch64``, ``arm``, ``riscv64``.
        image: the file for the emulator.
        banner: its version line, ``Linux version ...``; empty if not found.
    """

    architecture: str
    image: bytes
    banner: str


_PAYLOADS: tuple[tuple[bytes, str], ...] = (
    (b"\xfd7zXZ\0", "xz"),
    (b"\x1f\x8b", "gzip"),
    (b"\x5d\0\0", "lzma"),
)
"""Magic bytes of the compressed kernels that Python can decompress. Others (lz4, zstd, lzo, bzip2) stay compressed."""


def read_kernel(path: Path) -> Kernel:
    """Read a kernel file.

    Args:
        path: a bzImage (x86_64), an Image, possibly gzipped (arm64, riscv64), a zImage (arm) or a plain ELF kernel.

    Returns:
        The kernel, decompressed if it can be booted in that form.

    Raises:
        UserError: it can't be read, is not a kernel, is truncated, is for an unsupported machine, or can't unpack an initrd.
    """
    with readable(f"The kernel {path}"):
        data = read_regular_file(path, _LARGEST_KERNEL)
    if data[:2] == b"\x1f\x8b":
        try:
            data = decompress(data, "gzip")
        except CompressionError as error:
            raise UserError(f"The kernel {path} is a damaged gzip file: {error}.") from error
    boot_image = next((name for at, magic, name in _SIGNATURES if data[at : at + len(magic)] == magic), "")
    if len(data) < (needed := _needed_bytes(data, boot_image)):
        raise UserError(
            f"The kernel {path} is truncated: it has {len(data)} bytes, and its headers describe {needed}.",
            "Copy it again from the build's output.",
        )
    architecture = boot_image or _elf_architecture(path, data)
    plain, banner = (_plain_x86(data), _banner_of_x86(data)) if boot_image == "x86_64" else (data, _banner(data))
    _check_initrd(path, plain)
    return Kernel(architecture=architecture, image=plain, banner=banner)


def _needed_bytes(data: bytes, architecture: str) -> int:
    """Return how many bytes the headers of a boot image describe: its set-up code and payload (x86), its end (arm), its PE sections.

    An Image without the EFI stub (CONFIG_EFI) has no header that gives the length of its file.
    """
    needed = _pe_bytes(data) if data[:2] == b"MZ" else 0
    if architecture == "x86_64":
        needed = max(needed, _x86_payload(data).stop)
    elif architecture == "arm" and len(data) >= _ARM_HEADER_BYTES:
        start, end = struct.unpack_from("<II", data, 0x28)
        needed = max(needed, end - start)
    return needed


def _pe_bytes(data: bytes) -> int:
    """Return where the last section of a PE file ends; 0 for another file."""
    at = int.from_bytes(data[0x3C:0x40], "little")
    if data[at : at + 4] != b"PE\0\0":
        return 0
    sections, options = (int.from_bytes(data[at + place : at + place + 2], "little") for place in (6, 20))
    first, most = at + 24 + options, 0
    for number in range(min(sections, _MOST_PE_SECTIONS)):
        header = data[(start := first + number * _PE_SECTION_BYTES) : start + _PE_SECTION_BYTES]
        size, offset = (int.from_bytes(header[place : place + 4], "little") for place in (16, 20))
        most = max(most, offset + size)
    return most


def _check_initrd(path: Path, plain: bytes) -> None:
    """Reject a kernel without initrd support, by its messages; a kernel without any messages is accepted."""
    if _TALKS in plain and _UNPACKS not in plain:
        raise UserError(
            f"The kernel {path} was built without support for an initrd, from which virtual machines boot.",
            "Build it with CONFIG_BLK_DEV_INITRD=y.",
        )


def _x86_payload(data: bytes) -> slice:
    """Return where the compressed kernel of a bzImage is: after its set-up code. A header without that has none."""
    start = ((data[0x1F1] or 4) + 1) * 512
    if len(data) < _X86_HEADER_BYTES:
        return slice(start, start)
    offset, length = struct.unpack_from("<II", data, 0x248)
    return slice(start + offset, start + offset + length)


def _plain_x86(data: bytes) -> bytes:
    """Return the ELF kernel in a bzImage if it can be extracted and boots by PVH; else the bzImage."""
    payload = data[_x86_payload(data)]
    kind = next((kind for magic, kind in _PAYLOADS if payload.startswith(magic)), "")
    try:
        plain = decompress(payload, kind, whole=False) if kind else b""
    except CompressionError:
        return data
    return plain if _starts_by_pvh(plain) else data


def _starts_by_pvh(data: bytes) -> bool:
    """Return whether an ELF kernel has the PVH entry note (CONFIG_PVH)."""
    try:
        with open_elf(data) as elf:
            places = ((segment["p_offset"], segment["p_filesz"]) for segment in elf.iter_segments("PT_NOTE"))
            notes = limited(note for place in places for note in iter_notes(elf, *place))
            return any(f"{note['n_name']} {note['n_type']}" == _XEN_PVH_NOTE for note in notes)
    except DamagedElfError:
        return False


def _banner_of_x86(data: bytes) -> str:
    """Return the version in a bzImage's header, with the banner's first two words. Offset 0x20e has its address, relative to 0x200."""
    pointer = int.from_bytes(data[0x20E:0x210], "little")
    return _VERSION + _text(data[pointer + 0x200 : pointer + 0x200 + _LONGEST_BANNER]) if pointer else ""


def _banner(data: bytes) -> str:
    """Return the version in an uncompressed kernel. Since Linux 6.1 a file may also contain an earlier one without a build number."""
    starts = [found.start() for found in re.finditer(re.escape(_VERSION.encode()), data)]
    texts = [_text(data[at : at + _LONGEST_BANNER]) for at in starts]
    return next((text for text in texts if re.search(r" #\d", text)), texts[0] if texts else "")


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].partition(b"\n")[0].decode("ascii", "backslashreplace")


def _elf_architecture(path: Path, data: bytes) -> str:
    """Return the architecture of a kernel that is no boot image but an ELF file which the emulator boots."""
    if data[:4] != b"\x7fELF":
        raise UserError(
            f"{path} is not a supported kernel file.",
            "Supported are bzImage, Image, Image.gz, zImage and uncompressed vmlinux.",
        )
    try:
        with open_elf(data) as elf:
            machine = elf["e_machine"]
            collections.deque(elf.iter_segments(), maxlen=0)  # raises if one is not inside the file
    except DamagedElfError as error:
        raise UserError(f"{path} is a damaged ELF file: {error}.", "Copy it again from the build's output.") from error
    if machine not in ELF_MACHINES or not _banner(data):
        raise UserError(
            f"{path} is an ELF file, but not a supported kernel.", "An uncompressed kernel is called vmlinux."
        )
    if machine == "EM_X86_64" and not _starts_by_pvh(data):
        raise UserError(
            f"{path} is an uncompressed kernel without PVH, which the emulator can't boot.",
            "Use the bzImage (arch/x86/boot/bzImage), or build it with CONFIG_PVH=y.",
        )
    return ELF_MACHINES[machine]
