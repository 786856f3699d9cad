# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pure functions on arrays of numbers. docs/statistics.md gives the reasons for choosing these methods."""

from swapstone.core.stats.mean_ratio import (
    MeanEffect,
    MeanOfMeans,
    PooledEstimate,
    deviating_units,
    mean_difference,
    mean_ratio,
    pooled_estimate,
)
from swapstone.core.stats.predecessor_test import PredecessorTest, RunOrder
from swapstone.core.stats.signed_rank import (
    LOG_QUANTUM,
    Interval,
    SignedRank,
    difference_of_estimates,
    difference_p_value,
    difference_quantum,
    differences,
    interval_of_difference,
    log_ratios,
    pairs_needed,
)
from swapstone.core.stats.summary import (
    binomial_tail,
    common_level,
    dependence_p_value,
    exceedance,
    median,
    median_interval,
    rejections,
    run_value,
    sign_flip_p_value,
    wilson,
)

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
