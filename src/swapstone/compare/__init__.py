"""From runs to comparisons. docs/statistics.md says which methods, and why these."""

from swapstone.compare.analyse_runs import analyse
from swapstone.compare.precision import precision
from swapstone.compare.rows import SizeValues

__all__ = ["SizeValues", "analyse", "precision"]
