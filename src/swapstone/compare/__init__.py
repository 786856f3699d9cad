"""Compute comparisons from runs. docs/statistics.md gives the methods and the reasons for choosing them."""

from swapstone.compare.analyse_runs import analyse
from swapstone.compare.precision import precision
from swapstone.compare.rows import SizeValues

__all__ = ["SizeValues", "analyse", "precision"]
