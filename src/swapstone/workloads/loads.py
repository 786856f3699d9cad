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
    # A positive control: does what is measured find 2 ms?
    Load(
        name="planted",
        describes="a module of ours that every 100 ms keeps the processor for 2 ms with its interrupts off",
        machine=MachineNeeds(
            own_modules=("planted",),
            prepare=("busybox insmod /lib/modules/planted.ko every_us=100000 for_us=2000",),
        ),
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
