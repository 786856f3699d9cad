# SPDX-License-Identifier: MIT OR Apache-2.0
"""The registry entry of virtual machines, and how they are opened."""

from __future__ import annotations

import msgspec

from swapstone.core.model import VIRTUAL_CLOCK, WALL_CLOCK, Experiment, UserError, check_scale
from swapstone.core.targets.target import Target
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.parts.vm.machine.emulator import check_processors
from swapstone.parts.vm.machine.kvm import by_kvm, kvm_trouble, require_kvm
from swapstone.parts.vm.machine.qemu import HOST_LIMIT_S, Limits
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget


class VmSpec(TargetOptions, frozen=True, kw_only=True):
    """A virtual machine as a target, with the options that the user added; its clock is never empty.

    Attributes:
        kernel: name of a packaged kernel, or path of a kernel's file; empty for the default kernel.
    """

    kernel: str = ""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:
        """Build the images and open the target.

        Args:
            experiment: names what the machines boot.
            notify: called with a line while an image is fetched and built.

        Raises:
            UserError: there is no experiment, an image can't be built, or the emulator is not usable.
            UnavailableError: the clock is the wall clock, and KVM does not work.
        """
        from swapstone.parts.vm.session.vm_images import build_vm_images  # noqa: PLC0415 - lists need no images

        if experiment is None:
            raise UserError("The target vm needs an experiment, which names its images.")
        images, differences = build_vm_images(experiment, self.kernel, self, notify)
        if self.clock == WALL_CLOCK:
            for image in images.values():
                require_kvm(kvm_trouble(image))
            images = {level: by_kvm(image) for level, image in images.items()}
        limits = Limits(host_s=self.guest_timeout_s or HOST_LIMIT_S)
        options = VmOptions(no_cache=self.no_cache, snapshots=self.snapshots, limits=limits)
        return VmTarget(images, options, differences)


def _parse(detail: str, options: TargetOptions) -> VmSpec:
    check_scale(options.ns_per_instruction)
    check_processors(options.processors)
    return VmSpec(**{**msgspec.structs.asdict(options), "kernel": detail, "clock": options.clock or VIRTUAL_CLOCK})


def _programs(experiment: Experiment | None) -> tuple[str, ...]:
    from swapstone.parts.vm.session.vm_images import machine_programs  # noqa: PLC0415 - lists need no images

    return machine_programs(experiment)


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
    programs=_programs,
    does=lambda detail: f"boot virtual machines{f' with the kernel {detail}' if detail else ''}",
)
