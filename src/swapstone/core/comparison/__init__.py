# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute comparisons from runs. docs/statistics.md gives the methods and the reasons for choosing them."""

from swapstone.core.comparison.analyse_runs import analyse
from swapstone.core.comparison.precision import precision
from swapstone.core.comparison.rows import SizeValues

__all__ = ["SizeValues", "analyse", "precision"]
