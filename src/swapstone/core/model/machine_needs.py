# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a virtual machine must have for a workload or a load."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct

USUAL_MEMORY_BYTES = 256 << 20
"""Memory of a virtual machine whose workload needs no other size."""


class MachineNeeds(FrozenStruct, frozen=True, kw_only=True):
    """What a virtual machine must have for a workload or a load.

    Attributes:
        parts: parts of its image, names of `swapstone.parts.vm.artifacts.image_catalog.PARTS`.
        modules: names of kernel modules that are loaded at boot.
        own_modules: names of `swapstone.parts.vm.artifacts.bundled_modules.OWN_MODULES`. They are built for the machine's kernel; the
            machine has them as ``/NAME.ko``, and `prepare` loads them.
        memory_bytes: a multiple of 1 MiB; 0 for `USUAL_MEMORY_BYTES`. Ignored for a load. The content of a swap device comes on top.
        prepare: shell commands that run in this order before the measurement; each must succeed.
    """

    parts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    own_modules: tuple[str, ...] = ()
    memory_bytes: int = 0
    prepare: tuple[str, ...] = ()
