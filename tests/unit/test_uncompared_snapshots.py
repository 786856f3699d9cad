# SPDX-License-Identifier: MIT OR Apache-2.0
"""Snapshots that tests save without a comparison: tests of the same code accept them, the program does not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from swapstone.parts.vm.machine import snapshot
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import GuestRun, Limits, Setup
from swapstone.parts.vm.machine.snapshot import MachineRunner
from tests import uncompared_snapshots
from tests.no_sync import UNCOMPARED


def test_only_tests_with_the_same_code_accept_what_was_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(setup: Setup, limits: Limits, state: Path) -> GuestRun | None:
        state.write_bytes(b"a machine")
        return None

    monkeypatch.setattr(snapshot, "save", save)
    (tmp_path / "this-code").mkdir()
    monkeypatch.setenv(UNCOMPARED, str(tmp_path / "this-code"))
    runner, state = MachineRunner(tmp_path, Limits(stop=threading.Event()), snapshots=True), tmp_path / "state"
    setup = Setup(None, EmulatedMachine(), tmp_path, tmp_path, b"")  # type: ignore[arg-type] # nothing is emulated
    assert uncompared_snapshots._saved_once(setup, Limits(), state) is None
    assert uncompared_snapshots.is_whole_or_ours(runner, state)
    assert not runner._is_whole(state)
    monkeypatch.setenv(UNCOMPARED, str(tmp_path / "another-code"))
    assert not uncompared_snapshots.is_whole_or_ours(runner, state)
    monkeypatch.setenv(UNCOMPARED, str(tmp_path / "this-code"))
    state.write_bytes(b"another machine")
    assert not uncompared_snapshots.is_whole_or_ours(runner, state)
