"""From a variant and a workload to a program, addressed by the digest of everything that went into it."""

from swapstone.artifacts.allocators import allocator_tools, built_for
from swapstone.artifacts.crates import build_crate, build_package, crate_trouble, require_crate
from swapstone.artifacts.layouts import environment_padding, wrapped
from swapstone.artifacts.native import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    Built,
    build_empty,
    build_layouts,
    build_whole,
    build_workload,
    c_library_version,
)
from swapstone.artifacts.objects import program_libc
from swapstone.artifacts.own import OWN_RECIPE, OwnBuilder, own_sizes
from swapstone.artifacts.placeholders import placeholders
from swapstone.artifacts.provide import provide
from swapstone.artifacts.servers import build_packaged, driver_identity, find_driver, packaged_recipe
from swapstone.artifacts.sizes import SIZE_METRICS, sizes_of
from swapstone.artifacts.tools import compiler_version, loader_version, require_tools
from swapstone.artifacts.tree import Amount, count_sources, sha256_of

__all__ = [
    "BASE_RECIPE",
    "EMPTY_AS_VARIED",
    "EMPTY_PROGRAMS",
    "EMPTY_SUITE",
    "OWN_RECIPE",
    "SIZE_METRICS",
    "Amount",
    "Built",
    "OwnBuilder",
    "allocator_tools",
    "build_crate",
    "build_empty",
    "build_layouts",
    "build_package",
    "build_packaged",
    "build_whole",
    "build_workload",
    "built_for",
    "c_library_version",
    "compiler_version",
    "count_sources",
    "crate_trouble",
    "driver_identity",
    "environment_padding",
    "find_driver",
    "loader_version",
    "own_sizes",
    "packaged_recipe",
    "placeholders",
    "program_libc",
    "provide",
    "require_crate",
    "require_tools",
    "sha256_of",
    "sizes_of",
    "wrapped",
]
