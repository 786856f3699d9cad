# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that workloads start, such as a shell: built from pinned sources with the compiler and the C library of each variant."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.factors import Recipe
from swapstone.parts.build.artifacts.servers import unpacked_builder

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


def build_companion(name: str, recipe: Recipe) -> Path:
    """Return a program that a workload starts, built for a variant or taken from the cache.

    Args:
        name: in the lock.
        recipe: resolved; without the warnings and the dialect of this project's sources.

    Raises:
        UnavailableError: the sources can't be fetched, or there is no compiler.
        UserError: the build fails; the message ends with its output.
    """
    return unpacked_builder(name, *_MAKES[name], LOCK).build(recipe, lambda _: "").path
