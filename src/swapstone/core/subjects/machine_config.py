# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of a trial: what its workload, its variant and its load need together."""

from __future__ import annotations

import msgspec

from swapstone.core.factors import PRIORITY_VARIABLE, Recipe
from swapstone.core.model import USUAL_MEMORY_BYTES, ImageTool, Load, MachineNeeds, Source, Workload
from swapstone.core.targets import MachineConfig

_WAKEUPS, _FIFO = "cyclictest", "fifo:"
"""The reader of workloads that measure wake-ups, and the beginning of `PRIORITY_VARIABLE` for SCHED_FIFO."""


def machine_config_for(workload: Workload, recipe: Recipe, load: Load, memory_bytes: int = 0) -> MachineConfig:
    """Return the machine that a trial runs in.

    Args:
        workload: its needs come first.
        recipe: names kernel and swap.
        load: prepared last.
        memory_bytes: instead of what the workload needs; 0 for that. The content of a swap device comes on top.
    """
    needs = workload.machine or MachineNeeds()
    memory_bytes = memory_bytes or needs.memory_bytes
    memory_bytes = (
        (memory_bytes or USUAL_MEMORY_BYTES) + recipe.more_memory_bytes if recipe.more_memory_bytes else memory_bytes
    )
    return MachineConfig(
        kernel=recipe.kernel,
        memory_bytes=memory_bytes,
        own_modules=(*needs.own_modules, *load.machine.own_modules),
        prepare=(*needs.prepare, *recipe.prepare, *load.machine.prepare),
        beside=load.beside,
        settle_ms=load.settle_ms,
        real_time=load.real_time or _is_real_time(workload, recipe),
    )


def on_board(config: MachineConfig, recipe: Recipe) -> MachineConfig:
    """Return the machine of a trial on a target that sets swap devices: it sets the device and the limit of the memory itself.

    Args:
        config: as for a virtual machine.
        recipe: names the device.
    """
    if not recipe.swap:
        return config
    prepare = tuple(command for command in config.prepare if command not in recipe.prepare)
    return msgspec.structs.replace(config, swap=recipe.swap, memory_bytes=0, prepare=prepare)


def _is_real_time(workload: Workload, recipe: Recipe) -> bool:
    """Return whether the threads of a workload have a real-time priority: those that measure wake-ups, unless a level is another one."""
    waits = isinstance(workload.origin, Source | ImageTool) and workload.origin.reader == _WAKEUPS
    return waits and dict(recipe.environment).get(PRIORITY_VARIABLE, _FIFO).startswith(_FIFO)
