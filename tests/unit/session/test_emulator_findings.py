# SPDX-License-Identifier: MIT OR Apache-2.0
"""Findings on emulators."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.targets.health import State
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.machine.emulator import EMULATORS_VARIABLE
from swapstone.parts.vm.session import emulator_findings
from tests.unit.targets.fake_emulator import emulator


@pytest.mark.parametrize(("version", "state"), [("7.2.22", State.MISSING), ("10.0.2", State.GOOD)])
def test_the_emulator_for_several_processors_is_explained(
    version: str, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(emulator(tmp_path / "q", version=f"QEMU emulator version {version}"))
    path.rename(path.with_name("qemu-system-aarch64"))
    monkeypatch.setenv(EMULATORS_VARIABLE, str(path.parent))
    (found,) = emulator_findings.several_processors(find_machine_architecture("arm64"))
    assert (found.name, found.state) == ("--smp of arm64", state)
    assert version in found.found + found.meaning
    assert ("bookworm-backports" in found.remedy) == (state is State.MISSING)
    assert emulator_findings.several_processors(find_machine_architecture("riscv64")) == []
