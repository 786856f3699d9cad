# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emulator's command line of `swapstone image boot`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.session.image_store import boot_arguments


@pytest.mark.parametrize("name", ["x86_64", "arm64", "armhf", "riscv64"])
def test_only_kernels_of_x86_64_are_told_not_to_test_their_timer(name: str) -> None:
    built: Any = SimpleNamespace(options="quiet=0", kernel=Path("k"), initrd=Path("i"))
    command = boot_arguments(find_machine_architecture(name), built, 256)
    words = command[command.index("-append") + 1].split()
    assert ("no_timer_check" in words) == (name == "x86_64")
    assert (
        words[0].startswith("console=tty") and words[-1] == "quiet=0" and command[command.index("-kernel") + 1] == "k"
    )
