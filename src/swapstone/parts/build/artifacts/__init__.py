# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build programs and images. Each is stored in the cache under the digest of all its inputs."""

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.placeholders import KNOWN as KNOWN_PLACEHOLDERS
from swapstone.core.artifacts.placeholders import fill, placeholders
from swapstone.core.artifacts.program_size import SIZE_METRICS, sizes_of, stripped_sizes
from swapstone.core.artifacts.source_tree import SourceSize, count_sources, sha256_of
from swapstone.core.artifacts.tool_versions import compiler_version, loader_version, require_tools
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.parts.build.artifacts.allocators import allocator_tools, cached_libcs
from swapstone.parts.build.artifacts.command_names import may_read_environment
from swapstone.parts.build.artifacts.companion_programs import build_layouts, build_workload
from swapstone.parts.build.artifacts.elf_compatibility import program_libc
from swapstone.parts.build.artifacts.libraries import library_digests, library_version, parse_libraries, with_libraries
from swapstone.parts.build.artifacts.library_table import LIBRARIES
from swapstone.parts.build.artifacts.link_layouts import environment_padding, with_layout_compiler
from swapstone.parts.build.artifacts.own_toolchain import own_tools
from swapstone.parts.build.artifacts.recipe_resolution import check_recipe, resolve_recipe
from swapstone.parts.build.artifacts.replaced_flags import replaced_flags_warning
from swapstone.parts.build.artifacts.servers import (
    build_packaged,
    build_static_load_generator,
    check_load_generator,
    find_load_generator,
    is_built,
    is_installed_name,
    load_generator_identity,
)
from swapstone.parts.build.artifacts.source_build import SourceBuilder
from swapstone.parts.build.artifacts.toolchain import check_compiler
from swapstone.parts.build.artifacts.workload_build import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    build_empty,
    build_whole,
    c_library_version,
)

__all__ = [
    "BASE_RECIPE",
    "EMPTY_AS_VARIED",
    "EMPTY_PROGRAMS",
    "EMPTY_SUITE",
    "KNOWN_PLACEHOLDERS",
    "LIBRARIES",
    "SIZE_METRICS",
    "SOURCE_RECIPE",
    "Built",
    "SourceBuilder",
    "SourceSize",
    "allocator_tools",
    "build_empty",
    "build_layouts",
    "build_packaged",
    "build_static_load_generator",
    "build_whole",
    "build_workload",
    "c_library_version",
    "cached_libcs",
    "check_compiler",
    "check_load_generator",
    "check_recipe",
    "compiler_version",
    "count_sources",
    "environment_padding",
    "fill",
    "find_load_generator",
    "install_command",
    "is_built",
    "is_installed_name",
    "library_digests",
    "library_version",
    "load_generator_identity",
    "loader_version",
    "may_read_environment",
    "own_tools",
    "parse_libraries",
    "placeholders",
    "program_libc",
    "replaced_flags_warning",
    "require_tools",
    "resolve_recipe",
    "sha256_of",
    "sizes_of",
    "stripped_sizes",
    "with_layout_compiler",
    "with_libraries",
]
