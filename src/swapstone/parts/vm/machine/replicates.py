# SPDX-License-Identifier: MIT OR Apache-2.0
"""Replicates: what differs between two runs that are otherwise the same (docs/virtual-machine-runs.md)."""

from __future__ import annotations

import hashlib
import re

from swapstone.core.model import FrozenStruct

_MAX_IDLE_NS = 4_000_000_000
_MAX_DELAY_NS = 100_000_000
_LAYOUTS = (1 << 62) - 1


class Perturbation(FrozenStruct, frozen=True, kw_only=True):
    """The inputs of a run that its replicate determines. They are lines of the order, and so part of the run's name.

    Attributes:
        layout: seed of the memory layout (native/guest/layout.c), below 2^62; 0 leaves it as it is.
        idle_ns: how long the machine is idle before the order's commands: up to 4 s, the longest period of what an idle kernel does
            regularly (its watchdog for soft lockups).
        delay_ns: delay before the agent starts, after the commands: less than 100 ms, several ticks of a kernel's clock and any fraction
            of one.
    """

    layout: int = 0
    idle_ns: int = 0
    delay_ns: int = 0


def perturbation(replicate: int) -> Perturbation:
    """Return the inputs that make a replicate differ from others. Replicate 0 has no perturbation.

    Args:
        replicate: its number.
    """
    if replicate == 0:
        return Perturbation()
    return Perturbation(
        layout=1 + _number(f"layout {replicate}") % _LAYOUTS,
        idle_ns=_number(f"idle {replicate}") % _MAX_IDLE_NS,
        delay_ns=_number(f"draw {replicate}") % _MAX_DELAY_NS,
    )


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def block_of(identity: str) -> int:
    """Return the block of a trial's identifier ``BLOCK-POSITION``; 0 for other identifiers."""
    difference = re.match(r"([0-9]{1,9})-", identity)
    return int(difference[1]) if difference else 0
