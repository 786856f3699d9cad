# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor swap: names of levels, set-up commands, and the observed device."""

import contextlib

import pytest

from swapstone.core.factors import Evidence, Recipe, find_level, parse_choice
from swapstone.core.model import IDLE, USUAL_MEMORY_BYTES, MachineNeeds, Source, UnavailableError, UserError, Workload
from swapstone.core.run.machine_config import machine_config_for
from swapstone.core.run.machine_config import on_board as on_board_config
from swapstone.parts.vm.factors.swap import (
    FLASH_RATE,
    SWAP,
    SWAP_MIB,
)

HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
FLASH = HEAD + "/dev/nullb1                             partition\t262140\t\t5008\t\t-2\n"
ZRAM = HEAD + "/dev/zram0                              partition\t262140\t\t6912\t\t-2\n"
SET_UP = {"memory_backed": "1\n", "irqmode": "2\n", "completion_nsec": "100000\n", "mbps": f"{FLASH_RATE}\n"}


def seen(swaps: str, algorithms: str = "lzo [lzo-rle] lz4 lz4hc zstd \n", **flash: str) -> str | None:
    machine = {f"after /sys/kernel/config/nullb/nullb1/{name}": text for name, text in (SET_UP | flash).items()}
    machine |= {"after /proc/swaps": swaps, "after /sys/block/zram0/comp_algorithm": algorithms}
    return SWAP.observe(Evidence(interp=None, objects=(), machine=tuple(machine.items())))


def test_flash_is_identified_by_device_and_rate() -> None:
    assert seen(FLASH) == "flash"
    assert seen(FLASH, mbps="10\n") == "flash:10"
    assert seen(FLASH, mbps="0\n") == "nullb1 without a limit"
    assert seen(FLASH, mbps="") == "nullb1 without a limit"


@pytest.mark.parametrize("name", ["memory_backed", "irqmode", "completion_nsec"])
def test_a_block_device_with_other_parameters_is_not_flash(name: str) -> None:
    assert seen(FLASH, **{name: "0\n"}) == f"nullb1 with {name}=0"
    assert seen(FLASH, **{name: ""}) == f"nullb1 with {name}=unknown"


def test_another_block_device_is_named() -> None:
    assert seen(FLASH.replace("nullb1", "nullb0")) == "nullb0"


def test_zram_is_identified_by_its_active_algorithm() -> None:
    assert seen(ZRAM) == "zram:lzo-rle"
    assert seen(ZRAM, "lzo lzo-rle lz4 lz4hc [zstd] \n") == "zram:zstd"
    assert seen(ZRAM, "") == "zram with an unknown algorithm"


def test_no_device_is_unknown_and_two_devices_are_both_named() -> None:
    assert seen(HEAD) is None
    assert seen("") is None
    assert seen(ZRAM + FLASH.removeprefix(HEAD)) == "flash+zram:lzo-rle"


BOARD = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
ON_FILE = "/root/.cache/swapstone-board/swapstone-swap file\t\t196604\t\t512\t\t-2\n"
ON_ZRAM = "/dev/zram1                              partition\t196604\t\t0\t\t-2\n"


def on_board(swaps: str, *, own: str = "zram1", algorithms: str = "lzo [lzo-rle] lz4 \n") -> str | None:
    machine = (
        ("board /proc/swaps", swaps),
        ("board zram", own),
        ("board /sys/block/zram1/comp_algorithm", algorithms),
    )
    return SWAP.observe(Evidence(interp=None, objects=(), machine=machine))


@pytest.mark.parametrize(
    ("swaps", "level"),
    [
        (BOARD, "none"),
        (BOARD + ON_FILE, "file"),
        (BOARD + ON_ZRAM, "zram:lzo-rle"),
        (BOARD + ON_FILE.replace("196604", "196328"), "file"),  # as seen on ext2
        (BOARD + ON_FILE.replace("196604", "192675"), "/root/.cache/swapstone-board/swapstone-swap of 192675 KiB"),
        (BOARD + ON_FILE + ON_ZRAM, "file+zram:lzo-rle"),
        (BOARD + ON_FILE.replace("swapstone-swap", "swapfile"), "/root/.cache/swapstone-board/swapfile"),
        (BOARD + ON_ZRAM.replace("zram1", "zram0"), "/dev/zram0"),
        (BOARD + ON_ZRAM.replace("/dev/", "/x/"), "/x/zram1"),
        (BOARD + ON_ZRAM.replace("196604", "196608"), "/dev/zram1 of 196608 KiB"),
        (BOARD + ON_ZRAM.replace("196604", "196543"), "/dev/zram1 of 196543 KiB"),
        (BOARD + ON_ZRAM.replace("196604", "196544"), "zram:lzo-rle"),  # pages of 64 KiB
        (BOARD + "/dev/zram1\n", "/dev/zram1 of unknown KiB"),
        ("no table\n" + ON_ZRAM, None),
        ("\n", None),
        ("", None),
    ],
)
def test_a_board_shows_its_device_by_name_size_and_algorithm(swaps: str, level: str | None) -> None:
    assert on_board(swaps) == level


def test_a_zram_device_of_a_board_that_swapstone_did_not_add_is_named() -> None:
    assert on_board(BOARD + ON_ZRAM, own="") == "/dev/zram1"
    assert on_board(BOARD + ON_ZRAM, own="zram2") == "/dev/zram1"
    assert on_board(BOARD + ON_ZRAM, algorithms="") == "zram with an unknown algorithm"


def test_levels_of_boards_and_of_virtual_machines() -> None:
    def accepted(offer: str) -> list[str]:
        found = []
        for level in ("none", "file", "zram:lz4", "flash", "flash:3"):
            with contextlib.suppress(UnavailableError):
                assert SWAP.acts_on("there", frozenset({offer}), [level])
                found.append(level)
        return found

    assert accepted("sets_swap") == ["none", "file", "zram:lz4"]
    assert accepted("boots") == ["zram:lz4", "flash", "flash:3"]


def test_a_board_sets_the_device_and_the_limit_itself() -> None:
    needs = MachineNeeds(memory_bytes=64 << 20, prepare=("true",))
    work = Workload(name="w", origin=Source(file="w.c"), description="", metrics=(), machine=needs)
    recipe = SWAP.apply("zram:lz4", Recipe())
    config = on_board_config(machine_config_for(work, recipe, IDLE), recipe)
    assert (config.swap, config.memory_bytes, config.prepare) == ("zram:lz4", 0, ("true",))
    plain = machine_config_for(work, Recipe(), IDLE)
    assert on_board_config(plain, Recipe()) == plain


def test_each_rate_and_algorithm_has_one_level_name() -> None:
    assert parse_choice("swap=flash,flash:10,zram:842").levels == ("flash", "flash:10", "zram:842")
    assert find_level(SWAP, f"flash:{FLASH_RATE}").name == "flash"
    with pytest.raises(UserError, match="'flash' twice"):
        parse_choice(f"swap=flash,flash:{FLASH_RATE}")


@pytest.mark.parametrize(
    "text", ["flash:", "flash:0", "flash:007", "flash:1.5", "flash:-1", "zram", "zram:", "zram:LZ4", "zram:lz4;ls"]
)
def test_an_invalid_level_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="level"):
        find_level(SWAP, text)


def test_a_rate_above_the_maximum_is_refused() -> None:
    assert find_level(SWAP, "flash:1024").name == "flash:1024"
    with pytest.raises(UserError) as caught:
        find_level(SWAP, "flash:1025")
    assert caught.value.hint == "The maximum is flash:1024."


def test_each_level_is_one_command_with_a_flash_of_the_same_size() -> None:
    assert SWAP.apply("flash", Recipe()).prepare == (f"/swapstone/swap.sh flash {FLASH_RATE} {SWAP_MIB}",)
    assert SWAP.apply("flash:10", Recipe()).prepare == (f"/swapstone/swap.sh flash 10 {SWAP_MIB}",)
    assert SWAP.apply("zram:lzo-rle", Recipe()).prepare == (f"/swapstone/swap.sh zram:lzo-rle {FLASH_RATE} {SWAP_MIB}",)


def test_the_flash_content_is_added_to_the_memory_of_the_machine() -> None:
    def memory(swap: str, needed: int) -> int:
        work = Workload(
            name="w", origin=Source(file="w.c"), description="", metrics=(), machine=MachineNeeds(memory_bytes=needed)
        )
        return machine_config_for(work, SWAP.apply(swap, Recipe()) if swap else Recipe(), IDLE).memory_bytes

    assert memory("", 0) == 0
    assert memory("", 64 << 20) == 64 << 20
    assert memory("zram:lz4", 64 << 20) == memory("flash", 64 << 20) == (64 + SWAP_MIB) << 20
    assert memory("flash", 0) == USUAL_MEMORY_BYTES + (SWAP_MIB << 20)
