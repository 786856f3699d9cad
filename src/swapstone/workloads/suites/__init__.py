# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every suite: declarations of workloads, without code that measures."""

from __future__ import annotations

from swapstone.model import Suite
from swapstone.model.parts import provided

SUITES: tuple[Suite, ...] = provided("suite", Suite)
"""In the order of ``swapstone list workloads``."""
