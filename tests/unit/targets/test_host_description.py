# SPDX-License-Identifier: MIT OR Apache-2.0
"""The description of this machine, with and without the files that it is read from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.targets.host import describe_host

CPUINFO = """processor\t: 0
model name\t: Fast CPU 3000
microcode\t: 0x42
flags\t\t: fpu {}

processor\t: 1
model name\t: Slow CPU 1
"""


def machine(root: Path, flags: str = "sse") -> Path:
    """Write files of /proc, /sys and /etc that describe a machine."""
    files = {
        "proc/cpuinfo": CPUINFO.format(flags),
        "proc/meminfo": "MemTotal:        2048 kB\nMemFree: 1 kB\n",
        "etc/os-release": 'NAME=x\nPRETTY_NAME="Some Linux 12"\n',
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n",
        "sys/devices/system/cpu/vulnerabilities/l1tf": "Not affected\n",
        "sys/class/dmi/id/sys_vendor": "Maker\n",
        "sys/class/dmi/id/product_name": "Box\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_readable_files_are_described(tmp_path: Path) -> None:
    seen = describe_host(machine(tmp_path))
    assert (seen.cpu, seen.microcode, seen.memory_bytes, seen.system) == (
        "Fast CPU 3000",
        "0x42",
        2048 * 1024,
        "Some Linux 12",
    )
    assert seen.governor == "performance,powersave"
    assert seen.mitigations == "l1tf: Not affected; meltdown: Mitigation: PTI"
    assert seen.virtualization == "none"


def test_a_hypervisor_is_described(tmp_path: Path) -> None:
    assert describe_host(machine(tmp_path, "sse hypervisor")).virtualization == "Maker Box"


def test_unreadable_files_give_empty_fields(tmp_path: Path) -> None:
    seen = describe_host(tmp_path)
    assert (seen.cpu, seen.microcode, seen.governor, seen.mitigations, seen.virtualization, seen.system) == ("",) * 6
    assert seen.memory_bytes == 0
    assert {name for name, _ in seen.facts()} == {"kernel", "architecture", "cpus"}


def test_this_machine_is_described() -> None:
    seen = describe_host()
    assert os.uname().release in seen.kernel
    assert seen.cpus == tuple(sorted(os.sched_getaffinity(0)))
    assert seen.memory_bytes > 1 << 20


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000, "-1", ""])
def test_a_memory_size_of_another_form_is_unknown(tmp_path: Path, number: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: {number} kB\n")
    assert describe_host(tmp_path).memory_bytes == 0
