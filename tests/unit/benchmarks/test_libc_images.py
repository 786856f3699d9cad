# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/libc-images: what it reads from a console, and its table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from benchmarks.libc_images import Boot, read_console, report

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts.libc_files import BuiltLibcImage

CONSOLE = """\
<4>[    0.000000] Linux version 6.1
[    1.500000] swapstone: init
[    1.512345] swapstone: served\r
[    1.513000] swapstone: MemTotal: 100000 kB
[    1.513000] swapstone: MemFree: 90000 kB
[    1.513000] swapstone: MemAvailable: 91000 kB
[    1.514000] reboot: Power down
"""


def test_times_and_memory_are_read() -> None:
    found = read_console(CONSOLE)
    assert (found.init_us, found.served_us, found.used_kb) == (1_500_000, 1_512_345, 10_000)
    assert found.memory_kb["MemAvailable"] == 91_000


@pytest.mark.parametrize("left_out", ["init", "served", "MemTotal", "MemFree", "MemAvailable"])
def test_a_boot_without_a_mark_is_an_error(left_out: str) -> None:
    text = "".join(line for line in CONSOLE.splitlines(keepends=True) if f"swapstone: {left_out}" not in line)
    with pytest.raises(UserError, match="served no page"):
        read_console(text)


def test_the_answer_comes_first_and_ratios_are_of_glibc() -> None:
    def image(size: int) -> BuiltLibcImage:
        files = {"bin/busybox": SimpleNamespace(size_bytes=size // 2)}
        described = SimpleNamespace(root_bytes=size, initrd_bytes=size + 10, files=files)
        return cast(BuiltLibcImage, SimpleNamespace(description=described))

    memory = {"MemTotal": 1000, "MemFree": 600, "MemAvailable": 700}
    boots = {
        "glibc": Boot(1_000_000, 1_020_000, memory),
        "musl": Boot(1_000_000, 1_010_000, memory | {"MemFree": 700}),
    }
    lines = report({"glibc": image(400), "musl": image(100)}, boots)
    assert lines[0] == (
        "With musl instead of glibc the root has 0.250 of the size, the first process needs 0.500 of the time to a served page,"
        " and 100 kB less memory is in use."
    )
    assert lines[2].split() == ["root,", "bytes", "400", "100", "0.250"]
    assert lines[6].split() == ["init", "to", "page,", "ms", "20.000", "10.000", "0.500"]
    assert {len(line) for line in lines[2:]} == {len(lines[1])}
