# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain the difference of two variants by their counts and profiles: a ledger of costs, and findings. Runs nothing."""

from swapstone.parts.explain.explanation.cost_classes import CostClasses, load_classes
from swapstone.parts.explain.explanation.findings import explain
from swapstone.parts.explain.explanation.profile_formats import difference, folded, folded_difference, speedscope

__all__ = ["CostClasses", "difference", "explain", "folded", "folded_difference", "load_classes", "speedscope"]
