# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record says of its emulated machines: boot options, and features that the processor lacks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from swapstone.core.model.safe_text import safe
from swapstone.parts.vm.factors.kernel_parameters import DROPPED_OPTIONS, KEPT_OPTIONS, PARAMETERS
from swapstone.parts.vm.machine import qemu
from swapstone.parts.vm.machine.guest import GuestReport
from swapstone.parts.vm.machine.machine_models import EmulatedMachine


def counted_clock(machine: EmulatedMachine) -> str:
    """Return how the virtual clock counts, for the description of a target."""
    nanoseconds = machine.ns_per_instruction
    counted = "one instruction a nanosecond" if nanoseconds == 1 else f"one instruction every {nanoseconds} ns"
    return counted if machine.processors == 1 else f"{counted} of {machine.processors} processors in turn"


_ONLINE = "/sys/devices/system/cpu/online"


def files_of_processors(machine: EmulatedMachine) -> tuple[str, ...]:
    """Return the files of a guest that show how many processors it has; none for one processor."""
    return (_ONLINE,) if machine.processors > 1 else ()


def why_other_processors(machine: EmulatedMachine, report: GuestReport) -> str:
    """Return which processors a guest has, if they are not those of its machine; else an empty text."""
    requested = f"0-{machine.processors - 1}"
    online = report.file(_ONLINE).strip()
    if machine.processors == 1 or online == requested:
        return ""
    return f"the processors {requested} were requested, and {safe(online)[:40] or 'no list of them'} are online"


def missing_features(machine: EmulatedMachine, cpuinfo: str) -> str:
    """Return which features the processor lacks, and so which variants of their functions C libraries can't choose; a suffix."""
    listed = re.search(r"^(?:flags|Features)[ \t]*: (.*)$", cpuinfo, re.MULTILINE)
    missing = [flag for flag in machine.model.cpu_flags if flag not in listed[1].split()] if listed else []
    return f"; no variants of C libraries that need {', '.join(missing)}" if missing else ""


def option_pairs(machine: EmulatedMachine) -> tuple[tuple[str, str], ...]:
    """Return what the factor ``kernel`` compares with the guest's command line."""
    lists = (
        (KEPT_OPTIONS, qemu.kept_base_options(machine)),
        (DROPPED_OPTIONS, machine.dropped),
        (PARAMETERS, machine.parameters),
    )
    return tuple((name, " ".join(words)) for name, words in lists)


def boot_options(levels: Mapping[str, EmulatedMachine], machine: EmulatedMachine) -> Iterator[tuple[str, str]]:
    """Yield the base options of all machines, and the options of each level that changes them, for the manifest."""
    yield "base boot options", " ".join(qemu.base_options(machine))
    for level, own in levels.items():
        if own.parameters or own.dropped:
            yield f"boot options of {level}", " ".join(qemu.kernel_command_line(own))


def boot_digests(level: str, kernel: bytes, initrd: bytes) -> tuple[tuple[str, str], ...]:
    """Return the digests of one image, for the manifest.

    Args:
        level: of the factor ``kernel``; empty for the only one.
        kernel: digest of its file.
        initrd: the archive without programs.
    """
    which = f" of {level}" if level else ""
    return (
        (f"kernel{which}", f"SHA-256 {kernel.hex()}"),
        (f"initrd{which}", f"SHA-256 {hashlib.sha256(initrd).hexdigest()}"),
    )


def is_running(report: GuestReport, banner: str) -> bool:
    """Return whether the running kernel has the banner of a kernel's file."""
    text = banner.removeprefix("Linux version ")  # the banner of a bzImage does not contain these words
    return text.startswith(f"{report.release} ") and report.version in text
