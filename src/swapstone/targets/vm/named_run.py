# SPDX-License-Identifier: MIT OR Apache-2.0
"""A run that can be made here or elsewhere, and the contract of what gets runs from elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from swapstone.targets.vm.boot_image import Parts
from swapstone.targets.vm.qemu import GuestRun, Setup


@dataclasses.dataclass(frozen=True)
class NamedRun:
    """A run that can be made here or elsewhere.

    Attributes:
        name: digest of its inputs.
        setup: emulator, machine, files and order.
        inputs: by `run_inputs`.
        parts: of the initrd.
    """

    name: str
    setup: Setup
    inputs: Mapping[str, bytes]
    parts: Parts


class RunSource(Protocol):
    """Gets runs, also from elsewhere. Several threads may call it at once.

    Attributes:
        at_once: how many runs it makes at the same time; 0 for as many as this machine.
        used: names of the runs that were needed.
    """

    at_once: int
    used: set[str]

    def get(self, named: NamedRun, known: GuestRun | None) -> GuestRun:
        """Return a run.

        Args:
            named: its name and inputs.
            known: the run, if this machine has it.

        Raises:
            TargetError: it can't be made.
            UserError: the source is not usable.
        """
        ...

    def close(self) -> None:
        """End what it makes."""
        ...
