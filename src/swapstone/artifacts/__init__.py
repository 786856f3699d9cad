"""From a variant and a workload to a program, addressed by the digest of everything that went into it."""

from swapstone.artifacts.allocators import allocator_tools, built_for
from swapstone.artifacts.crates import build_crate, build_package, crate_trouble, require_crate
from swapstone.artifacts.elf_compatibility import program_libc
from swapstone.artifacts.link_layouts import environment_padding, wrapped
from swapstone.artifacts.placeholders import placeholders
from swapstone.artifacts.program_size import SIZE_METRICS, sizes_of
from swapstone.artifacts.recipe_resolution import resolve_recipe
from swapstone.artifacts.servers import build_packaged, find_load_generator, load_generator_identity
from swapstone.artifacts.source_build import OWN_RECIPE, OwnBuilder, own_sizes
from swapstone.artifacts.source_tree import Amount, count_sources, sha256_of
from swapstone.artifacts.tool_versions import compiler_version, loader_version, require_tools
from swapstone.artifacts.workload_build import (
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
    "environment_padding",
    "find_load_generator",
    "load_generator_identity",
    "loader_version",
    "own_sizes",
    "placeholders",
    "program_libc",
    "require_crate",
    "require_tools",
    "resolve_recipe",
    "sha256_of",
    "sizes_of",
    "wrapped",
]
