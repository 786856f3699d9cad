# SPDX-License-Identifier: MIT OR Apache-2.0
"""The registry entry of virtual machines."""

from __future__ import annotations

import msgspec

from swapstone.model import VIRTUAL_CLOCK, WALL_CLOCK
from swapstone.targets.target_kind import TargetKind, TargetOptions
from swapstone.targets.vm.machine_models import check_processors, check_scale
from swapstone.targets.vm.spec import VmSpec
from swapstone.targets.vm.vm_target import VmTarget


def _parse(detail: str, options: TargetOptions) -> VmSpec:
    check_scale(options.ns_per_instruction)
    check_processors(options.processors)
    return VmSpec(**{**msgspec.structs.asdict(options), "kernel": detail, "clock": options.clock or VIRTUAL_CLOCK})


VM = TargetKind(
    name="vm",
    description="a virtual machine for each trial; its clock counts instructions",
    opens=VmTarget,
    parse=_parse,
    usage="vm or vm:KERNEL (generic, rt, or a kernel's path)",
    usages=(
        ("vm", "a virtual machine for each trial; its clock counts instructions, so no other program disturbs it"),
        ("vm:generic or vm:rt", "the same with another kernel of the distribution"),
        ("vm:./bzImage", "the same with a kernel of your own, by its path"),
    ),
    clocks=(VIRTUAL_CLOCK, WALL_CLOCK),
    has_architectures=True,
    names_file=lambda detail: "/" in detail,
    does=lambda detail: f"boot virtual machines{f' with the kernel {detail}' if detail else ''}",
)
