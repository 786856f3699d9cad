# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is needed to open virtual machines as a target."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from swapstone.model import WALL_CLOCK, ImageDifference, UnavailableError, UserError
from swapstone.targets.target import Target
from swapstone.targets.target_options import TargetOptions
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.kvm import by_kvm, kvm_trouble
from swapstone.targets.vm.qemu import HOST_LIMIT_S, Limits
from swapstone.targets.vm.vm_target import VmOptions, VmTarget


@dataclasses.dataclass(frozen=True)
class VmImages:
    """The images that the trials of an experiment boot.

    Attributes:
        images: by level of the factor ``kernel``, the baseline first.
        differences: what differs between the first image and each of the others.
    """

    images: Mapping[str, VmImage]
    differences: tuple[ImageDifference, ...] = ()


class VmSpec(TargetOptions, frozen=True, kw_only=True):
    """A virtual machine as a target, with the options that the user added; its clock is never empty.

    Attributes:
        kernel: name of a packaged kernel, or path of a kernel's file; empty for the default kernel.
    """

    kernel: str = ""

    def open(self, build_images: Callable[[VmSpec], VmImages] | None) -> Target:
        """Build the images and open the target.

        Args:
            build_images: builds, or finds in the cache, what the machines boot.

        Raises:
            UserError: `build_images` is None, an image can't be built, or the emulator is not usable.
            UnavailableError: the clock is the wall clock, and KVM does not work.
        """
        if build_images is None:
            raise UserError("The target vm needs images, and no image builder was given.")
        made = build_images(self)
        images = dict(made.images)
        if self.clock == WALL_CLOCK:
            for image in images.values():
                require_kvm(kvm_trouble(image))
            images = {level: by_kvm(image) for level, image in images.items()}
        limits = Limits(host_s=self.guest_timeout_s or HOST_LIMIT_S)
        options = VmOptions(no_cache=self.no_cache, snapshots=self.snapshots, limits=limits)
        return VmTarget(images, options, made.differences)


def require_kvm(trouble: str) -> None:
    """Refuse the wall clock in a virtual machine without KVM: it would time the emulator.

    Args:
        trouble: what `kvm_device_trouble` or `kvm_trouble` returned.

    Raises:
        UnavailableError: `trouble` is not empty.
    """
    if trouble:
        raise UnavailableError(
            f"A virtual machine on the wall clock needs KVM, which is unavailable: {trouble}.",
            "Leave --clock out: the virtual clock needs none. Or measure on --target host.",
        )
