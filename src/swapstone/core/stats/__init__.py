# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pure functions on arrays of numbers. docs/statistics.md gives the reasons for choosing these methods."""

from swapstone.core.stats.mean_of_means import MeanOfMeans
from swapstone.core.stats.mean_ratio import MeanEffect, mean_difference, mean_ratio
from swapstone.core.stats.multiple_comparisons import common_level, rejections
from swapstone.core.stats.order_statistics import exceedance, median_interval
from swapstone.core.stats.predecessor_test import PredecessorTest, RunOrder
from swapstone.core.stats.random_effects import PooledEstimate, deviating_units, pooled_estimate
from swapstone.core.stats.sign_flips import sign_flip_p_value
from swapstone.core.stats.signed_rank import (
    LOG_QUANTUM,
    Interval,
    SignedRank,
    difference_quantum,
    differences,
    log_ratios,
    pairs_needed,
)
from swapstone.core.stats.summary import binomial_tail, dependence_p_value, median, run_value, wilson
from swapstone.core.stats.two_estimates import difference_of_estimates, difference_p_value, interval_of_difference

__all__ = [
    "LOG_QUANTUM",
    "Interval",
    "MeanEffect",
    "MeanOfMeans",
    "PooledEstimate",
    "PredecessorTest",
    "RunOrder",
    "SignedRank",
    "binomial_tail",
    "common_level",
    "dependence_p_value",
    "deviating_units",
    "difference_of_estimates",
    "difference_p_value",
    "difference_quantum",
    "differences",
    "exceedance",
    "interval_of_difference",
    "log_ratios",
    "mean_difference",
    "mean_ratio",
    "median",
    "median_interval",
    "pairs_needed",
    "pooled_estimate",
    "rejections",
    "run_value",
    "sign_flip_p_value",
    "wilson",
]
