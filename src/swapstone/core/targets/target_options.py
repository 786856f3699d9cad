# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a user may add to the name of a target."""

from __future__ import annotations

from swapstone.core.model import FrozenStruct


class TargetOptions(FrozenStruct, frozen=True, kw_only=True):
    """What a user may add to a target's name. Most kinds accept only some of it.

    Attributes:
        clock: `WALL_CLOCK` or `VIRTUAL_CLOCK`; empty for the kind's default.
        architecture: of a machine that is emulated, a name of the image catalog; empty for this machine's.
        cpu_model: of a machine that is emulated, a value of QEMU's option ``-cpu``; empty for the default.
        ns_per_instruction: guest time of an instruction on the virtual clock: one of `swapstone.core.model.CLOCK_SCALES`.
        processors: of a machine that is emulated.
        no_cache: run every trial anew; kinds without a cache of runs ignore it.
        guest_timeout_s: limit of a machine's run, in seconds of this machine's time; 0 for the default. Kinds without machines ignore it.
        snapshots: whether machines are restored from a snapshot, which is worth it where several trials have an equal machine.
    """

    clock: str = ""
    architecture: str = ""
    cpu_model: str = ""
    ns_per_instruction: int = 1
    processors: int = 1
    no_cache: bool = False
    guest_timeout_s: float = 0.0
    snapshots: bool = True
