# SPDX-License-Identifier: MIT OR Apache-2.0
"""The swap device of the machine: a flash device, compressed memory (zram), a file, or none. docs/swap.md explains the levels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import MachineNeeds, UnavailableError, UserError

SWAP_MIB = 256
"""Size of either device: of the flash of the board that the published page measured."""

FLASH_RATE = 26
"""Limit of the level ``flash``, in null_blk's unit: MiB a second of reads and writes; calibrated, see docs/swap.md."""

BOARD_SWAP_MIB = 192
"""Size of the swap device that a board gets for a trial. What zram stores takes memory of the board, which may have 512 MiB."""

BOARD_MEMORY_BYTES = 96 << 20
"""Limit of a trial's memory on a board: about what a virtual machine of the suite `swap` leaves for programs."""

NONE, FILE = "none", "file"
"""Levels of boards."""

BOARD_SWAPS = "board /proc/swaps"
"""Name of what a board reports in `Evidence.machine`: its swap devices after a trial."""

BOARD_ZRAM = "board zram"
"""Name of what a board reports in `Evidence.machine`: the zram device that was added."""

BOARD_SWAP_FILE = "swapstone-swap"
"""Name of the file of the level `FILE`."""

_MOST_RATE = 1024
_LARGEST_PAGE_KIB = 64  # the first page of a device is its header
_LEAST_OF_FILE = (
    0.98  # the kernel leaves out pages that are not contiguous on the disk, as on ext2 with blocks of 1 KiB
)
_FLASH = "nullb1"
_OF_FLASH = f"after /sys/kernel/config/nullb/{_FLASH}/"
_KEPT = {
    "memory_backed": "1",
    "irqmode": "2",
    "completion_nsec": "100000",
}  # of a slow device that stores what is written
_LEVEL = re.compile(r"flash(?::(?P<rate>[1-9][0-9]{0,3}))?|zram:(?P<algorithm>[a-z0-9]+(?:-[a-z0-9]+)*)", re.ASCII)
_CHOSEN = re.compile(r"\[([\w-]+)\]")  # comp_algorithm lists the algorithms; the active one is in brackets


class Swap:
    """The swap device of the machine."""

    name = "swap"
    stage = Stage.BOOT
    limits_memory = True
    description = "the swap device of the machine"
    unseen = "The machine's /proc/swaps lists no device."
    levels: tuple[Level, ...] = (
        Level(
            name="flash",
            description=f"a slow block device, {FLASH_RATE} MiB/s in the guest's time; flash:N for another rate",
        ),
        Level(name="zram:lzo-rle", description="memory compressed with lzo-rle"),
        Level(name="zram:lz4", description="memory compressed with lz4"),
        Level(name="zram:zstd", description="memory compressed with zstd"),
        Level(name=FILE, description="on boards: a file in the board's folder"),
        Level(name=NONE, description="on boards: no swap"),
    )

    machine = MachineNeeds(parts=("busybox",), modules=("configfs", "null_blk", "lz4", "zstd", "zram"))
    """What the machines of all levels contain."""

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a flash with a rate, or of zram with another algorithm; None for other texts.

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
                f"A flash of {rate} MiB/s exceeds the limit of null_blk.", f"The maximum is flash:{_MOST_RATE}."
            )
        return Level(name=_flash(rate), description=f"a slow block device, {rate} MiB/s in the guest's time")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        kind, _, rate = level.partition(":")
        device, limit = (level, FLASH_RATE) if kind == "zram" else (kind, rate or FLASH_RATE)
        return msgspec.structs.replace(
            recipe,
            swap=level,
            prepare=(*recipe.prepare, f"/swapstone/swap.sh {device} {limit} {SWAP_MIB}"),
            # At every level the machine contains the content of the flash.
            more_memory_bytes=recipe.more_memory_bytes + (SWAP_MIB << 20),
        )

    def acts_on(self, target: str, offers: frozenset[str], levels: Sequence[str]) -> bool:
        """Return whether a target sets swap devices; see `ChecksPlace`.

        Raises:
            UnavailableError: it lacks the device of a level.
        """
        boots = "boots" in offers
        if not boots and "sets_swap" not in offers:
            return False
        elsewhere = (NONE, FILE) if boots else ("flash",)
        missing = next((level for level in levels if level.partition(":")[0] in elsewhere), "")
        if missing:
            hint = "Name levels of boards: swap=file,zram:lzo-rle. Or measure on --target vm."
            raise UnavailableError(
                f"The target {target} has no swap device {missing}.",
                "Measure on a board: --target ssh:root@BOARD" if boots else hint,
            )
        return True

    def observe(self, evidence: Evidence) -> str | None:
        """Name the swap device after the work: zram with the algorithm that was read back, flash with its rate.

        Returns:
            A level; the device, if it is another one or has other parameters; several joined by ``+``; None without any, where
            `NONE` is no level.
        """
        if board := evidence.machine_text(BOARD_SWAPS):
            return _on_board(board, evidence)
        devices = [
            line.split()[0] for line in evidence.machine_text("after /proc/swaps").splitlines()[1:] if line.strip()
        ]
        return "+".join(sorted(_level_of(device.rsplit("/", 1)[-1], evidence) for device in devices)) or None


def _level_of(device: str, evidence: Evidence) -> str:
    if device == "zram0":
        chosen = _CHOSEN.search(evidence.machine_text("after /sys/block/zram0/comp_algorithm"))
        return f"zram:{chosen[1]}" if chosen else "zram with an unknown algorithm"
    if device != _FLASH:
        return device
    for name, value in _KEPT.items():
        if (found := evidence.machine_text(_OF_FLASH + name).strip()) != value:
            return f"{device} with {name}={found or 'unknown'}"
    rate = evidence.machine_text(_OF_FLASH + "mbps").strip()
    return _flash(int(rate)) if rate.isdecimal() and len(rate) < 10 and rate != "0" else f"{device} without a limit"


def _on_board(swaps: str, evidence: Evidence) -> str | None:
    """Return the level that a board shows; a device that Swapstone did not make is named."""
    head, *lines = swaps.splitlines()
    if head.split()[:3] != ["Filename", "Type", "Size"]:
        return None
    return "+".join(sorted(_of_line(line.split(), evidence) for line in lines if line.strip())) or NONE


def _of_line(fields: list[str], evidence: Evidence) -> str:
    """Return the level of a line of a board's /proc/swaps: path, type, KiB without the header, KiB in use, priority."""
    path, kind, kib = (*fields, "", "")[:3]
    folder, _, device = path.rpartition("/")
    own = evidence.machine_text(BOARD_ZRAM)
    if (kind, device) != ("file", BOARD_SWAP_FILE) and (folder, device) != ("/dev", own or None):
        return path
    size_kib = BOARD_SWAP_MIB << 10
    least_kib = size_kib * _LEAST_OF_FILE if kind == "file" else size_kib - _LARGEST_PAGE_KIB
    if not kib.isdecimal() or not least_kib <= int(kib[:12]) < size_kib:
        return f"{path} of {kib[:12] or 'unknown'} KiB"
    if kind == "file":
        return FILE
    chosen = _CHOSEN.search(evidence.machine_text(f"board /sys/block/{device}/comp_algorithm"))
    return f"zram:{chosen[1]}" if chosen else "zram with an unknown algorithm"


def _flash(rate: int) -> str:
    return "flash" if rate == FLASH_RATE else f"flash:{rate}"


SWAP = Swap()
