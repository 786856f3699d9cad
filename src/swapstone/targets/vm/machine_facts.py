# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a record says of its emulated machines: boot options, and features that the processor lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from swapstone.factors.kernel_parameters import DROPPED_OPTIONS, KEPT_OPTIONS, PARAMETERS
from swapstone.targets.vm import qemu
from swapstone.targets.vm.machine_models import EmulatedMachine


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
