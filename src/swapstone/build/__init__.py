"""From a variant and a workload to a program, addressed by the digest of everything that went into it."""

from swapstone.build.native import (
    BASE_RECIPE,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    Built,
    build_empty,
    build_workload,
)
from swapstone.build.own import OWN_RECIPE, OwnBuilder, own_sizes
from swapstone.build.placeholders import placeholders
from swapstone.build.provide import provide
from swapstone.build.sizes import SIZE_METRICS, sizes_of
from swapstone.build.tools import compiler_version, loader_version, require_tools
from swapstone.build.tree import Amount, count_sources, sha256_of

__all__ = [
    "BASE_RECIPE",
    "EMPTY_PROGRAMS",
    "EMPTY_SUITE",
    "OWN_RECIPE",
    "SIZE_METRICS",
    "Amount",
    "Built",
    "OwnBuilder",
    "build_empty",
    "build_workload",
    "compiler_version",
    "count_sources",
    "loader_version",
    "own_sizes",
    "placeholders",
    "provide",
    "require_tools",
    "sha256_of",
    "sizes_of",
]
