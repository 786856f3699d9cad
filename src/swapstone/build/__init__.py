"""From a variant and a workload to a program, addressed by the digest of everything that went into it."""

from swapstone.build.allocators import allocator_tools, built_for
from swapstone.build.layouts import environment_padding
from swapstone.build.native import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    Built,
    build_empty,
    build_layouts,
    build_workload,
    c_library_version,
)
from swapstone.build.objects import program_libc
from swapstone.build.provide import provide
from swapstone.build.sizes import SIZE_METRICS, sizes_of
from swapstone.build.tools import compiler_version, loader_version, require_tools

__all__ = [
    "BASE_RECIPE",
    "EMPTY_AS_VARIED",
    "EMPTY_PROGRAMS",
    "EMPTY_SUITE",
    "SIZE_METRICS",
    "Built",
    "allocator_tools",
    "build_empty",
    "build_layouts",
    "build_workload",
    "built_for",
    "c_library_version",
    "compiler_version",
    "environment_padding",
    "loader_version",
    "program_libc",
    "provide",
    "require_tools",
    "sizes_of",
]
