# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build third-party servers, and programs that workloads start, from pinned sources for each variant; and load generators once."""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import compiler_identity
from swapstone.core.factors import Recipe
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import LoadGenerator, OwnProgram
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.workloads.load_generators import PACE
from swapstone.parts.build.artifacts.build_command import run_compiler
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.source_build import SourceBuilder
from swapstone.parts.build.artifacts.upstream_sources import read_lock, unpacked
from swapstone.parts.build.build import Build

LOCK = "native/servers.toml"
COMPANIONS = "native/companions.toml"
"""Lock of the programs that workloads start, such as a shell."""

_BUSYBOX_OPTIONS = "ASH DESKTOP EXPR GREP LFS LONG_OPTS OD RM SHELL_ASH SORT TEE WC"
"""The shell and the tools of UnixBench's script, and the options of sort and wc that it uses. Without `SH_STANDALONE`, the shell
executes each tool by its path, as other shells do."""

_MAKES: dict[str, tuple[str, str, str]] = {
    "redis": (
        LOCK,
        "src/redis-server",
        # Its bundled allocator is off, because the allocator is a factor. Without LTO and systemd, to limit what differs.
        "make -C src -j{jobs} redis-server MALLOC=libc USE_SYSTEMD=no OPTIMIZATION= CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}",
    ),
    "busybox": (
        COMPANIONS,
        "busybox",
        "make -s allnoconfig HOSTCC=cc </dev/null >configured 2>&1; "
        f"for option in {_BUSYBOX_OPTIONS}; do sed -i s/^#.CONFIG_$option.is.not.set/CONFIG_$option=y/ .config; done; "
        "yes '' | make -s oldconfig HOSTCC=cc >configured 2>&1; "
        "make -s -j{jobs} busybox HOSTCC=cc SKIP_STRIP=y CC={cc} AR={ar} NM={nm} STRIP={strip} EXTRA_CFLAGS={cflags}",
    ),
}
"""The lock, the program that a build creates, and the build command, by name in the lock."""

_DRIVERS_OF_SERVERS = {"redis-benchmark": ("redis", "src/redis-benchmark")}
"""Load generators that are part of a server's sources."""

_PACE_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")


def build_packaged(package: str, recipe: Recipe) -> Built:
    """Build a program from its pinned sources, or take it from the cache.

    Args:
        package: its name in the lock.
        recipe: the levels applied and resolved, without the warnings and the dialect of this project's sources.

    Raises:
        UnavailableError: the sources can't be fetched, or there is no compiler.
        UserError: the build fails; the message ends with its output.
    """
    return _builder(package, *_MAKES[package]).build(recipe, lambda _: "")


@functools.cache
def _builder(package: str, lock: str, program: str, command: str) -> SourceBuilder:
    """Return the builder of a program from pinned sources, which are fetched and unpacked once.

    Args:
        package: its name in the lock.
        lock: path of the lock.
        program: its path in the sources after the build.
        command: of the build, with placeholders.

    Raises:
        UnavailableError: the sources can't be fetched.
    """
    home = unpacked(read_lock(share_dir() / lock)[package], lock)
    return SourceBuilder(OwnProgram(name=package, arguments=(program,), source=str(home), build=command))


def is_installed_name(name: str) -> bool:
    """Return whether a load generator is a program of the system: a name, or the path of one in a folder of the system's programs."""
    return name != PACE and (("/" not in name) or str(Path(name).parent) in _SYSTEM_FOLDERS)


_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin"})


def find_load_generator(generator: LoadGenerator, *, alone: bool = False, architecture: str = "") -> Path:
    """Return the path of a load generator; bundled ones are built once, others must be installed.

    Args:
        generator: the load generator.
        alone: whether a bundled one must need no file of this machine, to run on another one.
        architecture: for which one that can be built is built; empty for this machine's.

    Raises:
        UnavailableError: it is not installed, or there is no compiler for the architecture; the hint names the package.
        UserError: a bundled one can't be built.
    """
    name = generator.command[0]
    if name == PACE:
        return _build_pace(architecture, ("-static",) if alone else ())
    if "/" in name:
        return Path(name)
    if name not in _DRIVERS_OF_SERVERS or (shutil.which(name) and not architecture):
        return Path(require_command(name, "Sending requests to a server")).resolve()
    return _build_part(name, msgspec.structs.replace(SOURCE_RECIPE, architecture=architecture))


def is_built(name: str) -> bool:
    """Return whether a load generator is part of the sources of a server of the suites, so that it can be built."""
    return name in _DRIVERS_OF_SERVERS


def build_static_load_generator(name: str) -> Path:
    """Build a load generator that `is_built`, statically linked, to run on another machine of this one's architecture.

    Raises:
        UnavailableError: the sources can't be fetched, or there is no compiler.
        UserError: the build fails.
    """
    return _build_part(name, SOURCE_RECIPE.changed(Build, linking="static"))


def _build_part(name: str, recipe: Recipe) -> Path:
    package, program = _DRIVERS_OF_SERVERS[name]
    lock, _, command = _MAKES[package]
    return (
        _builder(package, lock, program, command.replace("redis-server", name))
        .build(resolve_recipe(recipe), lambda _: "")
        .path
    )


def load_generator_identity(path: str) -> tuple[str, str]:
    """Return the manifest's entry for a load generator: its name and the SHA-256 of its file."""
    return (f"driver {Path(path).name}", f"sha256 {hashlib.sha256(Path(path).read_bytes()).hexdigest()}")


def _build_pace(architecture: str, more: tuple[str, ...] = ()) -> Path:
    source = share_dir() / "native" / "load_generator" / "pace.c"
    header = share_dir() / "native" / "workloads" / "figures.h"
    command = resolve_recipe(msgspec.structs.replace(SOURCE_RECIPE, architecture=architecture)).of(Build).command
    flags = (*_PACE_FLAGS, *more)
    parts = (source.read_text(), header.read_text(), *flags, compiler_identity(command))
    home = cache_dir() / "drivers" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    program = home / PACE
    if not program.is_file():
        with new_folder(home) as made:
            run_compiler([*command, *flags, "-o", str(made / PACE), str(source)])
    return program
