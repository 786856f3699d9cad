# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernel files are recognised by what they hold. Real kernels are read in the slow tests; here they are made up to their headers."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts.kernels import read_kernel
from tests.tiny_kernel import HANG, tiny_kernel

BANNER = b"Linux version 6.1.0-test (user@host) #1 SMP\n\0"


def elf(machine: int, note: tuple[bytes, int] | None = (b"Xen\0", 18)) -> bytes:
    """Return a 64-bit ELF file with one note segment, a version banner, and nothing else."""
    name, kind = note or (b"GNU\0", 1)
    body = struct.pack("<III", len(name), 8, kind) + name + bytes(8)
    header = (
        b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    )
    segment = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(body), len(body), 4)
    return header + segment + body + BANNER


def bzimage(payload: bytes) -> bytes:
    """Return a boot image around a payload: one sector of set-up code, then the payload at offset 16."""
    data = bytearray(2 * 512)
    data[0x1F1] = 1
    data[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", data, 0x20E, 0x100)
    data[0x300:0x310] = b"6.1.0-test #1 \0\0"
    struct.pack_into("<II", data, 0x248, 16, len(payload))
    return bytes(data) + bytes(16) + payload


def written(folder: Path, data: bytes) -> Path:
    path = folder / "kernel"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_the_plain_kernel_is_taken_out_of_a_boot_image(tmp_path: Path, pack: object) -> None:
    plain = elf(62)
    assert callable(pack)
    kernel = read_kernel(written(tmp_path, bzimage(pack(plain) + struct.pack("<I", len(plain)))))
    assert (kernel.architecture, kernel.image) == ("x86_64", plain)
    assert kernel.banner == "Linux version 6.1.0-test #1 ", "the version line of the kernel, without the builder"


@pytest.mark.parametrize(
    "payload",
    [lzma.compress(elf(62, None)), lzma.compress(b"no kernel"), b"\xfd7zXZ\0 damaged", b"\x28\xb5\x2f\xfd...", b"?"],
    ids=["without PVH", "no ELF", "damaged", "zstd", "unknown"],
)
def test_a_boot_image_whose_kernel_cannot_be_extracted_is_unchanged(tmp_path: Path, payload: bytes) -> None:
    image = bzimage(payload)
    assert read_kernel(written(tmp_path, image)).image == image


@pytest.mark.parametrize(
    ("at", "magic", "architecture"),
    [(0x38, b"ARM\x64", "aarch64"), (0x38, b"RSC\x05", "riscv64"), (0x24, b"\x18\x28\x6f\x01", "arm")],
)
def test_other_architectures_are_known_by_their_headers(
    tmp_path: Path, at: int, magic: bytes, architecture: str
) -> None:
    data = bytes(at) + magic + bytes(100) + BANNER
    for content in (data, gzip.compress(data)):
        kernel = read_kernel(written(tmp_path, content))
        assert (kernel.architecture, kernel.image) == (architecture, data)
        assert kernel.banner == "Linux version 6.1.0-test (user@host) #1 SMP"


def test_the_banner_is_the_one_that_the_kernel_will_say(tmp_path: Path) -> None:
    early = b"Linux version 6.1.0-test (user@host) # SMP\n\0"
    data = elf(62)
    assert read_kernel(written(tmp_path, data.replace(BANNER, early + BANNER))).banner.endswith(" #1 SMP")
    assert read_kernel(written(tmp_path, data.replace(BANNER, early))).banner.endswith(" # SMP"), "better than none"


def test_a_plain_kernel_is_known_by_its_machine(tmp_path: Path) -> None:
    assert read_kernel(written(tmp_path, elf(62))).architecture == "x86_64"
    assert read_kernel(written(tmp_path, elf(183, None))).architecture == "aarch64"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (elf(62, None), "without PVH"),
        (elf(8), "not a supported kernel"),
        (b"\x7fELF damaged", "damaged ELF file"),
        (b"\x1f\x8b damaged", "damaged gzip file"),
        (b"#!/bin/sh\n", "is not a supported kernel"),
        (b"", "is not a supported kernel"),
    ],
)
def test_a_file_that_is_no_kernel_is_a_user_error(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_kernel(written(tmp_path, data))


@pytest.mark.parametrize("pack", [lambda plain: bzimage(lzma.compress(plain)), bytes], ids=["bzImage", "vmlinux"])
def test_a_kernel_that_can_t_unpack_an_initrd_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Detected by its messages: a kernel without messages (CONFIG_PRINTK is off) is accepted."""
    talks, unpacks = b"\x015Kernel command line: %s\0", b"\x010Initramfs unpacking failed: %s\0"
    with pytest.raises(UserError, match="kernel was built without support for an initrd") as caught:
        read_kernel(written(tmp_path, pack(elf(62) + talks)))
    assert "CONFIG_BLK_DEV_INITRD=y" in caught.value.hint
    assert read_kernel(written(tmp_path, pack(elf(62) + talks + unpacks))).architecture == "x86_64"
    assert read_kernel(written(tmp_path, pack(elf(62)))).architecture == "x86_64"


def test_a_missing_kernel_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        read_kernel(tmp_path / "none")


def test_a_boot_image_of_an_old_protocol_is_taken_as_it_is(tmp_path: Path) -> None:
    """Before version 2.08 the header has no payload; the file may end after the set-up code."""
    old = bzimage(b"")[:0x210] + bytes(1024 - 0x210)
    kernel = read_kernel(written(tmp_path, old))
    assert (kernel.architecture, kernel.image) == ("x86_64", old)


def with_pe(data: bytes, *sections: tuple[int, int]) -> bytes:
    """Return a boot image with PE headers at 0x80: of sections, each (offset, size) in the file."""
    headers = b"".join(bytes(16) + struct.pack("<II", size, at) + bytes(16) for at, size in sections)
    pe = b"PE\0\0" + struct.pack("<HHIIIHH", 0xAA64, len(sections), 0, 0, 0, 0, 0) + headers
    made = bytearray(data)
    made[:2], made[0x3C:0x40], made[0x80 : 0x80 + len(pe)] = b"MZ", struct.pack("<I", 0x80), pe
    return bytes(made)


ARM64 = with_pe(bytes(0x38) + b"ARM\x64" + bytes(1000), (512, 100), (612, 400))
RISCV = with_pe(bytes(0x38) + b"RSC\x05" + bytes(1000), (512, 500))
ARM = bytes(0x24) + b"\x18\x28\x6f\x01" + struct.pack("<II", 0x1000, 0x1400) + bytes(0x400 - 0x30)


@pytest.mark.parametrize(
    ("data", "needed"),
    [
        (bzimage(lzma.compress(elf(62))), len(bzimage(lzma.compress(elf(62))))),
        (ARM64, 1012),
        (RISCV, 1012),
        (ARM, 0x400),
    ],
    ids=["bzImage", "Image of arm64", "Image of riscv64", "zImage"],
)
def test_a_boot_image_shorter_than_its_headers_state_is_truncated(tmp_path: Path, data: bytes, needed: int) -> None:
    read_kernel(written(tmp_path, data[:needed]))
    for length in (needed - 1, needed // 2 + 0x100):
        with pytest.raises(UserError, match=f"is truncated: it has {length} bytes, and its headers describe {needed}"):
            read_kernel(written(tmp_path, data[:length]))


def test_a_boot_image_that_ends_in_its_header_is_truncated(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is truncated: it has 518 bytes, and its headers describe 1024"):
        read_kernel(written(tmp_path, bzimage(b"")[:0x206]))


def test_a_plain_kernel_without_the_end_of_a_segment_is_damaged(tmp_path: Path) -> None:
    data = tiny_kernel(("one",), HANG)
    assert read_kernel(written(tmp_path, data)).architecture == "x86_64"
    with pytest.raises(UserError, match="is a damaged ELF file: segment 0 is not inside the file"):
        read_kernel(written(tmp_path, data[:-1]))


def test_a_device_a_folder_a_pipe_and_a_huge_file_are_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path, tmp_path / "pipe"):
        with pytest.raises(UserError, match="is not a regular file"):
            read_kernel(path)
    with (tmp_path / "huge").open("wb") as handle:
        handle.truncate((1 << 30) + 1)
    with pytest.raises(UserError, match="is larger than 1024 MiB"):
        read_kernel(tmp_path / "huge")
