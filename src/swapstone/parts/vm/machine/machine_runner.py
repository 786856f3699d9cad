# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes runs on this machine: boots QEMU, or restores a snapshot where one can be saved."""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from swapstone.core.artifacts.cache_folder import take_lock
from swapstone.core.model.directories import mark_used
from swapstone.core.targets.agent_build import is_whole
from swapstone.parts.vm.machine import qemu, snapshot
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Limits, Setup
from swapstone.parts.vm.machine.run_cache import digest_of
from swapstone.parts.vm.machine.snapshot import not_written, save_checked

_LOOK_S = 0.1
_OF_A_TRIAL = frozenset({"order", "counts"})
"""Inputs of a run that its snapshot does not have."""


class MachineRunner:
    """Makes runs; several threads may call it at once.

    Args:
        folder: of the snapshots.
        limits: of each machine.
        snapshots: whether machines are restored from a snapshot, where one can be saved.
    """

    def __init__(self, folder: Path, limits: Limits, *, snapshots: bool) -> None:
        self._folder = folder
        self._limits = limits
        self._snapshots = snapshots
        self._saved: set[Path] = set()
        self._unsaved: set[Path] = set()
        self._saving: collections.defaultdict[Path, threading.Lock] = collections.defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def make(self, setup: Setup, inputs: Mapping[str, bytes]) -> GuestRun:
        """Make a run, however it ends.

        Args:
            setup: emulator, machine, files and order.
            inputs: of the same run, by `swapstone.parts.vm.machine.run_cache.run_inputs`.

        Raises:
            UserError: a snapshot can't be written.
        """
        machine, limits = setup.machine, self._limits
        if not (self._snapshots and machine.is_saved):
            return qemu.boot(setup, limits)
        later = {*_OF_A_TRIAL, *(("received",) if machine.receives else ())}
        state = self._folder / digest_of({name: value for name, value in inputs.items() if name not in later})
        with self._lock:
            saving = self._saving[state]
        with saving:  # several trials may need the same snapshot: one of them saves it
            if state not in self._unsaved and not self._is_whole(state) and (failed := self._save(setup, state)):
                return failed
            if state in self._unsaved:
                return qemu.boot(setup, limits)
        return snapshot.restore(setup, limits, state)

    def _save(self, setup: Setup, state: Path) -> GuestRun | None:
        """Save a snapshot, unless another process of this machine does it meanwhile; return the run if it failed."""
        try:
            locks = state.parent.with_name("snapshot-locks")
            locks.mkdir(parents=True, exist_ok=True)
            lock = os.open(locks / state.name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise not_written(state.parent, error) from error
        try:
            while not take_lock(lock, locks / state.name, wait=False):
                if self._limits.stop.wait(_LOOK_S):
                    return GuestRun(end=GuestEnd.STOPPED, reason="it was stopped")
            if self._is_whole(state):
                return None
            failed = save_checked(dataclasses.replace(setup, plugin=(), points=b""), self._limits, state)
        except snapshot.SnapshotError:  # the run is the same without a snapshot
            self._unsaved.add(state)
            return None
        finally:
            os.close(lock)
        if failed is None:
            self._saved.add(state)
        return failed

    def _is_whole(self, state: Path) -> bool:
        """Return whether a snapshot exists and matches its digest; checked once."""
        if state in self._saved:
            return state.exists()
        if whole := is_whole(state):
            mark_used(state)
            self._saved.add(state)
        return whole
