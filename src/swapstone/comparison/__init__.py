# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute comparisons from runs. docs/statistics.md gives the methods and the reasons for choosing them."""

from swapstone.comparison.analyse_runs import analyse
from swapstone.comparison.precision import precision
from swapstone.comparison.rows import SizeValues

__all__ = ["SizeValues", "analyse", "precision"]
