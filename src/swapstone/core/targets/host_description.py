# SPDX-License-Identifier: MIT OR Apache-2.0
"""Describes this machine: hardware, kernel and system."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from swapstone.core.model.regular_file import text_of
from swapstone.core.targets.target import TargetDescription

_GOVERNORS = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


def describe_host(root: Path = Path("/")) -> TargetDescription:
    """Describe this machine.

    Args:
        root: the folder that contains ``proc``, ``sys`` and ``etc``; another one for tests.

    Returns:
        What could be read; other fields are empty.
    """
    name = platform.uname()
    kernel = f"{name.system} {name.release} {name.version}"
    return describe_machine(root, kernel, name.machine, tuple(sorted(os.sched_getaffinity(0))))


def describe_machine(root: Path, kernel: str, architecture: str, cpus: tuple[int, ...]) -> TargetDescription:
    """Describe a machine by its files.

    Args:
        root: the folder that contains its ``proc``, ``sys`` and ``etc``.
        kernel: name, release and version.
        architecture: as ``uname -m`` prints it.
        cpus: numbers of the processors that trials may use.
    """
    cpu = _pairs(text_of(root / "proc/cpuinfo"), ":")
    vulnerabilities = root / "sys/devices/system/cpu/vulnerabilities"
    return TargetDescription(
        kernel=kernel,
        architecture=architecture,
        cpu=cpu.get("model name") or cpu.get("uarch") or cpu.get("Processor") or cpu.get("CPU part", ""),
        cpus=cpus,
        microcode=cpu.get("microcode", ""),
        governor=",".join(sorted({text_of(path) for path in root.glob(_GOVERNORS)} - {""})),
        mitigations="; ".join(f"{path.name}: {text_of(path)}" for path in sorted(vulnerabilities.glob("*"))),
        virtualization=_virtualization(root, cpu),
        memory_bytes=_memory_bytes(root / "proc/meminfo"),
        system=_pairs(text_of(root / "etc/os-release"), "=").get("PRETTY_NAME", "").strip('"'),
    )


def _pairs(text: str, separator: str) -> dict[str, str]:
    """Parse lines of ``key SEPARATOR value``; the first line of each key counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(separator)
        if mark:
            found.setdefault(key.strip(), value.strip())
    return found


def _virtualization(root: Path, cpu: dict[str, str]) -> str:
    kind = text_of(root / "sys/hypervisor/type")
    maker = " ".join(
        filter(None, (text_of(root / f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")))
    )
    flags = cpu.get("flags", "").split()
    if kind or "hypervisor" in flags:
        return kind or maker or "a hypervisor"
    return "none" if flags else ""


def _memory_bytes(path: Path) -> int:
    number, _, unit = _pairs(text_of(path), ":").get("MemTotal", "").partition(" ")
    return int(number) * 1024 if number.isdecimal() and len(number) < 16 and unit == "kB" else 0
