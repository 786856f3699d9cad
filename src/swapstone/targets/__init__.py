"""Where trials run: one contract, one file for each kind of target."""

from __future__ import annotations

from swapstone.targets.base import (
    DEFAULT_MACHINE,
    MachineConfig,
    MachineConfigError,
    Target,
    TargetDescription,
    TargetError,
)
from swapstone.targets.registry import TARGETS, open_target

__all__ = [
    "DEFAULT_MACHINE",
    "TARGETS",
    "MachineConfig",
    "MachineConfigError",
    "Target",
    "TargetDescription",
    "TargetError",
    "open_target",
]
