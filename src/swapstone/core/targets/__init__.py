# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where trials run: one contract, and a registry with one entry for each kind of target."""

from __future__ import annotations

from swapstone.core.targets.page_cache import SettledFile
from swapstone.core.targets.registry import (
    clock_of,
    default_target,
    driver_of,
    find_target_kind,
    open_target,
    parse_target,
    spec_of,
    target_below,
    target_kinds,
)
from swapstone.core.targets.target import (
    DEFAULT_MACHINE,
    AgentStartError,
    Capabilities,
    MachineConfig,
    MachineConfigError,
    Target,
    TargetDescription,
    TargetError,
    UnequalRunsError,
)
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions, TargetSpec

__all__ = [
    "DEFAULT_MACHINE",
    "AgentStartError",
    "Capabilities",
    "MachineConfig",
    "MachineConfigError",
    "Notify",
    "SettledFile",
    "Target",
    "TargetDescription",
    "TargetError",
    "TargetKind",
    "TargetOptions",
    "TargetSpec",
    "UnequalRunsError",
    "clock_of",
    "default_target",
    "driver_of",
    "find_target_kind",
    "open_target",
    "parse_target",
    "spec_of",
    "target_below",
    "target_kinds",
]
