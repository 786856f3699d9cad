"""Loads: what else a virtual machine does while something is measured in it."""

from __future__ import annotations

from swapstone.model import IDLE, Load, MachineNeeds, unknown

LOADS: tuple[Load, ...] = (
    IDLE,
    Load(
        name="cpu",
        describes="four processes that compute (stress-ng --cpu)",
        beside=("stress-ng --cpu 4 --cpu-method all --temp-path /tmp --quiet",),
        settle_ms=200,
        machine=MachineNeeds(parts=("stress-ng",)),
    ),
)
"""Every load. A new one is one entry here."""


def find_load(name: str) -> Load:
    """Return the load of a name.

    Raises:
        UserError: there is none; the hint gives near names.
    """
    for load in LOADS:
        if load.name == name:
            return load
    raise unknown("load", name, (load.name for load in LOADS))
