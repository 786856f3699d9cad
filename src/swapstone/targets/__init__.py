"""Where trials run: one contract, one file for each kind of target."""

from __future__ import annotations

from swapstone.targets.base import AS_IT_IS, Setting, SettingError, Target, TargetDescription, TargetError
from swapstone.targets.registry import TARGETS, open_target

__all__ = [
    "AS_IT_IS",
    "TARGETS",
    "Setting",
    "SettingError",
    "Target",
    "TargetDescription",
    "TargetError",
    "open_target",
]
