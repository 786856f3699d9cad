# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain the difference of two variants by their counts and profiles: a ledger of costs, and findings. Runs nothing."""

from swapstone.explanation.cost_classes import CostClasses, load_classes
from swapstone.explanation.findings import explain
from swapstone.explanation.profile_formats import difference, folded, folded_difference, speedscope

__all__ = ["CostClasses", "difference", "explain", "folded", "folded_difference", "load_classes", "speedscope"]
