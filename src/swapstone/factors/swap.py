"""Where the machine swaps to: a flash device, or memory that is compressed."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage
from swapstone.model import MachineNeeds

_CHOSEN = re.compile(r"\[([\w-]+)\]")  # of the algorithms in comp_algorithm, the chosen one stands in brackets


class Swap:
    """Which device the machine swaps to."""

    name = "swap"
    stage = Stage.BOOT
    describes = "where the machine swaps to"
    unseen = "The guest names no device that it swaps to in /proc/swaps."
    levels: tuple[Level, ...] = (
        Level(name="flash", describes="a slow block device, its rate limited in the guest's time"),
        Level(name="zram:lzo-rle", describes="memory compressed with lzo-rle"),
        Level(name="zram:lz4", describes="memory compressed with lz4"),
        Level(name="zram:zstd", describes="memory compressed with zstd"),
    )

    machine = MachineNeeds(parts=("busybox",), modules=("configfs", "null_blk", "lz4", "zstd", "zram"))
    """What a machine must have for any of the levels; all have it alike."""

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, swap=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the device that was swapped to after the work, and zram's algorithm as it was read back.

        Returns:
            A level; ``zram`` and the algorithm, or the device, where that is none; several joined by ``+``; None without any.
        """
        lines = evidence.said("after /proc/swaps").splitlines()[1:]
        devices = [line.split()[0] for line in lines if line.strip()]
        chosen = _CHOSEN.search(evidence.said("after /sys/block/zram0/comp_algorithm"))
        seen = (_level_of(device.rsplit("/", 1)[-1], chosen[1] if chosen else "?") for device in devices)
        return "+".join(sorted(seen)) or None


def _level_of(device: str, algorithm: str) -> str:
    if device == "zram0":
        return f"zram:{algorithm}"
    return "flash" if device.startswith("flash") or device.startswith("nullb") else device


SWAP = Swap()


def swap_commands(level: str) -> tuple[str, ...]:
    """Return the shell commands that make a machine swap as a level says; none for no level."""
    return (f"/swapstone/swap.sh {level}",) if level else ()
