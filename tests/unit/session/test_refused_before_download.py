# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can't run here is refused before anything is downloaded or built: the fetchers fail if they are called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.build.artifacts import apt, upstream_sources
from swapstone.parts.vm.session import vm_images
from tests.small_records import compared
from tests.tiny_kernel import HANG, tiny_kernel
from tests.unit.artifacts.test_kernels import bzimage

WHOLE = tiny_kernel(("one",), HANG)
BOOT_IMAGE = bzimage(bytes(484))
ONE = {"only": "b_string_strlen", "target": "vm"}


@pytest.fixture(autouse=True)
def _no_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module, name in ((upstream_sources, "_run"), (apt.Apt, "_run"), (vm_images, "build_image")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("something is fetched or built"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"allocator": "default,tcmalloc", "architecture": "arm64", **ONE}, "tcmalloc is written in C++"),
        ({"libc": "glibc,musl", "target": "vm", "programs": {"a": "/bin/true", "b": "/bin/false"}}, "not built here"),
        ({"kernel": "generic,rt", "command": "/bin/true", "setup": "true"}, "--setup is unavailable on the target vm"),
        ({"kernel": "generic,rt", "command": "/bin/true", "output": "/tmp/o"}, "--output FILE is unavailable"),
        ({"kernel": "generic,rt", "command": "/bin/true", "artifacts": ["o"]}, "--artifact is unavailable"),
        ({"kernel": "generic,rt", "commands": ["true", "false"], "shell": True}, "--shell is unavailable"),
        ({"kernel": "generic,rt", "command": "/bin/true", "files": ["/no/such"]}, "--files: /no/such is not there"),
        ({"kernel": "generic,rt", "command": "/bin/true", "files": ["/dev/null"]}, "/dev/null can't be in"),
        ({"kernel": "generic,rt", "command": "/bin/true", "architecture": "arm64"}, "the machine is aarch64"),
        ({"kernel": "generic,rt", "command": "/bin/true", "memory": "1M"}, "is no size from 128M"),
        ({"allocator": "default,mimalloc", "command": "/bin/true", "memory": "1G"}, "--memory is for virtual machines"),
        ({"allocator": "default,mimalloc", "command": "/bin/true", "files": ["/etc"]}, "--files is for virtual"),
        ({"netstack": "kernel,lwip", "target": "vm", "only": "http-churn"}, "built by cargo for this machine"),
        (
            {"netstack": "kernel,lwip", "target": "bare-riscv64"},
            "netstack=kernel is unavailable: there is no operating",
        ),
        ({"netstack": "lwip,smoltcp", "target": "bare-riscv64", "suites": "netstack"}, "which http-keepalive needs"),
        ({"libc": "glibc,musl", "target": "bare-riscv64"}, "bare-riscv64 has no factor libc"),
        ({"libc": "glibc,musl", "cpu_model": "nope", **ONE}, "can't emulate the processor nope"),
        (
            {"libc": "glibc,musl", "cpu_model": "Nehalem", "only": "b_string_strlen"},
            "--cpu-model is of an emulated machine",
        ),
        ({"libc": "glibc,musl", "ns_per_instruction": 4, "only": "b_string_strlen"}, "--ns-per-instruction is of the"),
        ({"libc": "glibc,musl", "processors": 2, "only": "b_string_strlen"}, "--smp is of an emulated machine"),
        ({"libc": "glibc,musl", "processors": 9, **ONE}, "can't have 9 processors"),
        ({"libc": "glibc,musl", "processors": 2, "architecture": "riscv64", **ONE}, "riscv64 has one processor"),
        ({"libc": "glibc,musl", "ns_per_instruction": 5, **ONE}, "can't count 5 ns for an instruction"),
        (
            {"kernel": "generic,generic+drop:nonsense"},
            "leaves out the boot option nonsense, which the machine does not have",
        ),
        (
            {
                "allocator": "default,mimalloc",
                "server": "/bin/cat {port}",
                "load_generator": "no-such-generator {port}",
            },
            "The load generator no-such-generator",
        ),
        (
            {"vary": {"env:X": [str(number) for number in range(1100)]}, "command": ["/bin/true"]},
            "could not be read back from its record: it has 1100 variants, more than the 1024",
        ),
    ],
)
def test_a_refusal_precedes_every_download(arguments: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        compared(out=tmp_path / "record", **arguments)
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WHOLE[:-1], "is a damaged ELF file"),
        (BOOT_IMAGE[:-1], "is truncated: it has 1523 bytes, and its headers describe 1524"),
        (bytes(0x38) + b"ARM\x64" + bytes(100), "is for aarch64, not for x86_64"),
        (b"#!/bin/sh\n", "is not a supported kernel file"),
        (b"", "is not a supported kernel file"),
        (None, "There is no kernel"),
    ],
    ids=["truncated vmlinux", "truncated bzImage", "arm64", "script", "empty", "none"],
)
def test_a_kernel_file_that_can_t_boot_is_refused_before_the_other_level_s_image(
    content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "vmlinux").write_bytes(content)
    (tmp_path / "whole").write_bytes(WHOLE)
    for first in ("generic", str(tmp_path / "whole")):
        with pytest.raises(UserError, match=message):
            compared(
                kernel=f"{first},{tmp_path / 'vmlinux'}",
                architecture="x86_64",
                only="b_string_strlen",
                out=tmp_path / "record",
            )
    assert not (tmp_path / "record").exists()


def test_a_missing_emulator_precedes_every_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if "qemu" in name else real(name))
    with pytest.raises(UserError, match="Packages are missing:\n    qemu-system-"):
        compared(libc="glibc,musl", out=tmp_path / "record", **ONE)
