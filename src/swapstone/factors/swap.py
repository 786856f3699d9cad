"""Where the machine swaps to: a flash device, or memory that is compressed. docs/swap.md explains the levels."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage
from swapstone.model import MachineNeeds, UserError

SWAP_MIB = 256
"""Size of either device: of the flash of the board that the published page measured."""

FLASH_RATE = 26
"""Limit of the level ``flash``, in null_blk's unit: MiB a second of reads and writes; calibrated, see docs/swap.md."""

_MOST_RATE = 1024
_FLASH = "nullb1"
_OF_FLASH = f"after /sys/kernel/config/nullb/{_FLASH}/"
_KEPT = {
    "memory_backed": "1",
    "irqmode": "2",
    "completion_nsec": "100000",
}  # what makes it a slow device that keeps what it is given
_LEVEL = re.compile(r"flash(?::(?P<rate>[1-9][0-9]{0,3}))?|zram:(?P<algorithm>[a-z0-9]+(?:-[a-z0-9]+)*)", re.ASCII)
_CHOSEN = re.compile(r"\[([\w-]+)\]")  # of the algorithms in comp_algorithm, the chosen one stands in brackets


class Swap:
    """Which device the machine swaps to."""

    name = "swap"
    stage = Stage.BOOT
    description = "where the machine swaps to"
    unseen = "The guest names no device that it swaps to in /proc/swaps."
    levels: tuple[Level, ...] = (
        Level(
            name="flash",
            description=f"a slow block device, {FLASH_RATE} MiB/s in the guest's time; flash:N for another rate",
        ),
        Level(name="zram:lzo-rle", description="memory compressed with lzo-rle"),
        Level(name="zram:lz4", description="memory compressed with lz4"),
        Level(name="zram:zstd", description="memory compressed with zstd"),
    )

    machine = MachineNeeds(parts=("busybox",), modules=("configfs", "null_blk", "lz4", "zstd", "zram"))
    """What a machine must have for any of the levels; all have it alike."""

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a rate of the flash, or of another algorithm of zram's; None for a text that is neither.

        Raises:
            UserError: the rate is out of range.
        """
        found = _LEVEL.fullmatch(text)
        if found is None:
            return None
        if found["algorithm"]:
            return Level(name=text, description=f"memory compressed with {found['algorithm']}, if the kernel has it")
        rate = int(found["rate"] or FLASH_RATE)
        if rate > _MOST_RATE:
            raise UserError(
                f"A flash of {rate} MiB/s is faster than can be limited.", f"The most is flash:{_MOST_RATE}."
            )
        return Level(name=_flash(rate), description=f"a slow block device, {rate} MiB/s in the guest's time")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, swap=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the device that was swapped to after the work: zram with its algorithm as it was read back, flash with its rate.

        Returns:
            A level; or the device where it is none of ours, or not set up as ours is; several joined by ``+``; None without any.
        """
        lines = evidence.said("after /proc/swaps").splitlines()[1:]
        devices = [line.split()[0] for line in lines if line.strip()]
        return "+".join(sorted(_level_of(device.rsplit("/", 1)[-1], evidence) for device in devices)) or None


def _level_of(device: str, evidence: Evidence) -> str:
    if device == "zram0":
        chosen = _CHOSEN.search(evidence.said("after /sys/block/zram0/comp_algorithm"))
        return f"zram:{chosen[1]}" if chosen else "zram with an unknown algorithm"
    if device != _FLASH:
        return device
    for name, value in _KEPT.items():
        if (said := evidence.said(_OF_FLASH + name).strip()) != value:
            return f"{device} with {name}={said or 'unknown'}"
    rate = evidence.said(_OF_FLASH + "mbps").strip()
    return _flash(int(rate)) if rate.isdecimal() and rate != "0" else f"{device} without a limit"


def _flash(rate: int) -> str:
    return "flash" if rate == FLASH_RATE else f"flash:{rate}"


SWAP = Swap()


def swap_commands(level: str) -> tuple[str, ...]:
    """Return the shell commands that make a machine swap as a level says; none for no level."""
    if not level:
        return ()
    kind, _, rest = level.partition(":")
    device = level if kind == "zram" else kind
    return (f"/swapstone/swap.sh {device} {rest if kind == 'flash' and rest else FLASH_RATE} {SWAP_MIB}",)


def swap_memory_bytes(level: str) -> int:
    """Return how much memory a machine needs beside what it would have without: the flash's content lies in it, whatever the level."""
    return SWAP_MIB << 20 if level else 0
