# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factors of booted machines: the guest's report determines the level in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.factors import Evidence, Recipe, find_factor, find_level, parse_choice
from swapstone.core.model import UserError

KERNEL, SWAP = find_factor("kernel"), find_factor("swap")
GENERIC = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.1"
RT = "#1 SMP PREEMPT_RT Debian 6.1.1"
MODES = "before /sys/kernel/debug/sched/preempt"


def _evidence(*machine: tuple[str, str]) -> Evidence:
    return Evidence(interp=None, objects=(), machine=machine)


@pytest.mark.parametrize(
    ("machine", "level"),
    [
        ([("version", GENERIC), ("/proc/cmdline", "console=ttyS0 quiet")], "generic"),
        ([("version", GENERIC), (MODES, "none (voluntary) full")], "generic"),
        ([("version", RT)], "rt"),
        ([("version", "#1 SMP"), ("/sys/kernel/realtime", "1\n")], "rt"),
        ([("version", GENERIC), ("/proc/cmdline", "quiet preempt=full"), (MODES, "none voluntary (full)")], "full"),
        # The mode in force differs from the mode on the kernel command line.
        (
            [("version", GENERIC), ("/proc/cmdline", "preempt=full quiet"), (MODES, "none (voluntary) full")],
            "voluntary",
        ),
        ([("version", GENERIC), ("/proc/cmdline", "preempt=full")], None),
        ([("version", RT), ("/proc/cmdline", "preempt=none")], "rt"),
        ([("version", "#2 SMP me"), ("booted", "/home/me/bzImage")], "/home/me/bzImage"),
        ([("version", GENERIC), ("booted", "rt")], "generic"),
        ([], None),
    ],
)
def test_the_kernel_is_identified_by_the_running_kernel(machine: list[tuple[str, str]], level: str | None) -> None:
    assert KERNEL.observe(_evidence(*machine)) == level


HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
ZRAM = HEAD + "/dev/zram0                              partition\t524284\t\t0\t\t-2\n"


@pytest.mark.parametrize(
    ("swaps", "algorithm", "level"),
    [
        (ZRAM, "lzo [lzo-rle] lz4 zstd \n", "zram:lzo-rle"),
        (ZRAM, "lzo lzo-rle [lz4] zstd \n", "zram:lz4"),
        (HEAD, "lzo lzo-rle [lz4] zstd \n", None),
        ("", "", None),
    ],
)
def test_swap_is_identified_by_the_active_device(swaps: str, algorithm: str, level: str | None) -> None:
    seen = _evidence(("after /proc/swaps", swaps), ("after /sys/block/zram0/comp_algorithm", algorithm))
    assert SWAP.observe(seen) == level


def test_levels_are_applied_to_the_recipe() -> None:
    assert KERNEL.apply("rt", Recipe()).kernel == "rt"
    assert SWAP.apply("flash", Recipe()).swap == "flash"
    assert SWAP.apply("zram:lz4", Recipe()).prepare == ("/swapstone/swap.sh zram:lz4 26 256",)


def test_a_kernel_path_is_a_level(tmp_path: Path) -> None:
    (tmp_path / "bzImage").write_bytes(b"")
    (tmp_path / "link").symlink_to("bzImage")
    assert find_level(KERNEL, f"{tmp_path}/link").name == f"{tmp_path}/bzImage"
    assert parse_choice(f"kernel=generic,{tmp_path}/bzImage").levels == ("generic", f"{tmp_path}/bzImage")
    with pytest.raises(UserError, match=r"There is no kernel \./none") as caught:
        find_level(KERNEL, "./none")
    assert "bzImage" in caught.value.hint
