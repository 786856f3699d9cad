# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that workloads start, such as a shell: built from pinned sources with the compiler and the C library of each variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.model import Workload
from swapstone.parts.build.artifacts import workload_build
from swapstone.parts.build.artifacts.servers import unpacked_builder
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.build.build import Build

LOCK = "native/companions.toml"

_BUSYBOX_OPTIONS = "ASH DESKTOP EXPR GREP LFS LONG_OPTS OD RM SHELL_ASH SORT TEE WC"
"""The shell and the tools of UnixBench's script, and the options of sort and wc that it uses. Without `SH_STANDALONE`, the shell
executes each tool by its path, as other shells do."""

_MAKES: dict[str, tuple[str, str]] = {
    "busybox": (
        "busybox",
        "make -s allnoconfig HOSTCC=cc </dev/null >configured 2>&1; "
        f"for option in {_BUSYBOX_OPTIONS}; do sed -i s/^#.CONFIG_$option.is.not.set/CONFIG_$option=y/ .config; done; "
        "yes '' | make -s oldconfig HOSTCC=cc >configured 2>&1; "
        "make -s -j{jobs} busybox HOSTCC=cc SKIP_STRIP=y CC={cc} AR={ar} NM={nm} STRIP={strip} EXTRA_CFLAGS={cflags}",
    ),
}
"""The program that a build creates and the build command, by name in the lock."""

_OF_THIS_PROJECT = frozenset(flag for flag in BASE_RECIPE.of(Build).cflags if not flag.startswith(("-O", "-U")))
"""The warnings and the dialect of this project's own sources."""


def companion_programs(workload: Workload, recipe: Recipe) -> tuple[Path, ...]:
    """Return the programs that a workload starts, built for a variant or taken from the cache.

    Args:
        workload: whose table in ``native/workloads.toml`` names them.
        recipe: resolved; of the workload's own program.

    Raises:
        UnavailableError: the sources can't be fetched, or there is no compiler.
        UserError: a build fails; the message ends with its output.
    """
    cflags = tuple(flag for flag in recipe.of(Build).cflags if flag not in _OF_THIS_PROJECT)
    theirs = recipe.changed(Build, cflags=cflags)
    return tuple(
        unpacked_builder(name, *_MAKES[name], LOCK).build(theirs, lambda _: "").path
        for name in workload_build.inputs_of(workload).packages
    )


def build_workload(workload: Workload, recipe: Recipe, *, relinked: bool = False) -> Built:
    """Build a workload with the programs that it starts; see `swapstone.parts.build.artifacts.workload_build.build_workload`."""
    beside = companion_programs(workload, recipe)
    return workload_build.build_workload(workload, recipe, relinked=relinked, beside=beside)


def build_layouts(workload: Workload, recipe: Recipe, seeds: Sequence[str]) -> tuple[Built, ...]:
    """Build several links of a workload; see `workload_build.build_layouts`. What it starts is linked once."""
    beside = companion_programs(workload, recipe)
    return workload_build.build_layouts(workload, recipe, seeds, beside=beside)
