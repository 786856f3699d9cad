# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiler commands for each C library, including a clang for musl, which Debian does not package."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import first_line, link_inputs
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError, refuse
from swapstone.parts.build.artifacts.cross_compilers import (
    CROSS_COMPILERS,
    SHIM,
    check_cross,
    cross_command,
    gcc_programs,
    header_of,
    require_headers,
)
from swapstone.parts.build.artifacts.own_toolchain import (
    compiler_script,
    installed_musl,
    is_own,
    own_command,
    tree_options,
)
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.allocator import DEFAULT
from swapstone.parts.build.factors.float_abi import MACHINES
from swapstone.parts.build.factors.sdk import command_of_level

_COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("cc", "glibc"): ("cc",),
    ("cc", "musl"): ("musl-gcc",),
    ("gcc", "glibc"): ("gcc",),
    ("gcc", "musl"): ("musl-gcc",),
    ("clang", "glibc"): ("clang",),
}
"""Commands of compilers that a package provides, by (compiler, C library)."""

_FLOAT_PREFIXES = {"soft": "arm-linux-gnueabi-", "softfp": "arm-linux-gnueabi-", "hard": "arm-linux-gnueabihf-"}
"""Prefixes of the names of tools, by level of the factor ``float``."""

_LINKING: dict[str, tuple[str, ...]] = {"dynamic": (), "static": ("-static",)}


def compiler_command(recipe: Recipe, notify: Callable[[str], None] = lambda _: None) -> tuple[str, ...]:
    """Return the command that compiles and links for a recipe's C library; creates the compiler for musl if necessary.

    Args:
        recipe: its names of compiler, C library and architecture.
        notify: called with a line for the user before a download.

    Raises:
        UnavailableError: the combination does not exist, or a tool is missing.
        UserError: musl of another architecture can't be fetched.
    """
    if recipe.of(Build).float_abi:
        return (float_compiler(recipe),)
    if is_own(recipe):
        by_path = "/" in recipe.of(Build).compiler
        return own_command(recipe, command_of_level(recipe.of(Build).compiler) if by_path else _own_base(recipe))
    if (recipe.of(Build).compiler, recipe.of(Build).libc) == ("clang", "musl"):
        return (str(_clang_for_musl(recipe, notify)),)
    if recipe.architecture:
        return cross_command(recipe.architecture, recipe.of(Build).compiler, recipe.of(Build).libc, notify)
    command = _COMMANDS.get((recipe.of(Build).compiler, recipe.of(Build).libc))
    if command is None:
        raise UnavailableError(f"Swapstone can't compile for {recipe.of(Build).libc} with {recipe.of(Build).compiler}.")
    return command


def check_compiler(recipe: Recipe) -> None:
    """Check that the compiler of a recipe for another architecture is installed; nothing is fetched or made.

    Raises:
        UnavailableError: the combination does not exist, or a package is missing; the hint names it.
    """
    if recipe.of(Build).float_abi:
        float_compiler(recipe)
    elif recipe.architecture and not is_own(recipe):
        check_cross(recipe.architecture, recipe.of(Build).compiler, recipe.of(Build).libc)


def compiler_programs(recipe: Recipe) -> tuple[str, ...]:
    """Return the programs of this machine that compile for a recipe; see `swapstone.core.run.builder.Builder.programs`."""
    build = recipe.of(Build)
    found = (
        gcc_programs(tool_prefix(recipe))
        if recipe.architecture
        else (*_COMMANDS.get((build.compiler, build.libc), ("musl-gcc",)), header_of(""))
    )
    return () if is_own(recipe) else (*found, *(("clang",) if build.compiler == "clang" else ()))


def float_compiler(recipe: Recipe) -> str:
    """Return the path of the compiler for a recipe's floating-point ABI: a cross gcc of the distribution, with a C library of that ABI.

    Raises:
        UnavailableError: the combination does not exist, or a package is missing; the hint names it.
    """
    machine = recipe.architecture or os.uname().machine
    refuse(
        (
            machine not in MACHINES,
            f"The factor float is for 32-bit ARM, not for {machine}.",
            "Run it in a virtual machine: --target vm --arch armhf",
        ),
        (
            recipe.of(Build).compiler not in {"cc", "gcc"} or recipe.of(Build).libc != "glibc",
            f"The factor float has the distribution's gcc and glibc only, not {recipe.of(Build).compiler} and {recipe.of(Build).libc}.",
            "Leave these factors out.",
        ),
        (
            recipe.of(Build).linking != "static",
            "Programs of the factor float are linked statically: images have no loader of soft and softfp.",
            "Leave linking out, or add --hold linking=static.",
        ),
        (
            recipe.of(Build).allocator != DEFAULT,
            "Allocators are built for one floating-point ABI only, so the factor float can't be combined with them.",
            "Leave allocator out.",
        ),
        kind=UnavailableError,
    )
    prefix = tool_prefix(recipe)
    gcc = require_command(f"{prefix}gcc", f"float={recipe.of(Build).float_abi}")
    require_headers(gcc, header_of(prefix))
    return gcc


def _own_base(recipe: Recipe) -> tuple[str, ...]:
    """Return the command of the compiler that builds for a C library of the user."""
    if recipe.architecture:
        return cross_command(recipe.architecture, recipe.of(Build).compiler, "glibc", lambda _: None)
    return _COMMANDS[recipe.of(Build).compiler, "glibc"]


def cross_prefix(architecture: str) -> str:
    """Return the prefix of the tools' names for an architecture; empty for the build machine's."""
    return CROSS_COMPILERS[architecture].prefix if architecture in CROSS_COMPILERS else ""


def native_compiler(architecture: str) -> str:
    """Return the C compiler of the agent for an architecture: of this machine's that of the user, CC."""
    here = architecture == os.uname().machine
    return os.environ.get("CC") or "cc" if here else f"{cross_prefix(architecture)}gcc"


def tool_prefix(recipe: Recipe) -> str:
    """Return the prefix of the names of a recipe's tools; empty for the build machine's."""
    return _FLOAT_PREFIXES.get(recipe.of(Build).float_abi) or cross_prefix(recipe.architecture)


def linking_flags(recipe: Recipe) -> tuple[str, ...]:
    """Return the flags for a recipe's linking."""
    return _LINKING[recipe.of(Build).linking]


def linked_dynamically(recipe: Recipe) -> Recipe:
    """Return a resolved recipe with dynamic linking; all else is unchanged."""
    flags = tuple(flag for flag in recipe.of(Build).ldflags if flag not in _LINKING["static"])
    return recipe.changed(Build, linking="dynamic", ldflags=flags)


def _clang_for_musl(recipe: Recipe, notify: Callable[[str], None]) -> Path:
    """Return a script of clang that uses the musl of gcc for musl, and that gcc's start-up objects and libgcc.

    The root of its system does not exist: it finds neither headers nor libraries of glibc there.
    """
    what = "Compiling for musl with clang"
    require_command("clang", what)
    if recipe.architecture:
        check_cross(recipe.architecture, "clang", "musl")
        (gcc,) = cross_command(recipe.architecture, "gcc", "musl", notify)
        cross = CROSS_COMPILERS[recipe.architecture]
        # By the target's name alone, clang would find the linker of this machine.
        target = (*cross.clang, f"--ld-path={shutil.which(f'{cross.prefix}ld') or f'{cross.prefix}ld'}")
    else:
        gcc = require_command("musl-gcc", what)
        target = (f"--target={first_line(['clang', '-dumpmachine'])}",)
    theirs = next((str(path.parent) for path in link_inputs((gcc,)) if path.name.startswith("crtbegin")), "")
    tree = installed_musl(gcc)
    # The C library of a static program has its function. Elsewhere -u links it always: the archive stands before the objects.
    has_shim = recipe.of(Build).linking == "dynamic" and (Path(tree.objects) / SHIM).exists()
    # Clang sets the loader itself, and none for a static program.
    tree = msgspec.structs.replace(tree, loader="", libraries=(*tree.libraries, theirs))
    options = (
        *("--sysroot=/nonexistent", "--start-no-unused-arguments", *target[1:], f"-B{theirs}/"),
        *tree_options(tree, ("clang",), clang=True)[1:-1],
        *(("-Wl,-u,__getauxval", f"-l:{SHIM}") if has_shim else ()),
    )
    command = ("clang", target[0].replace("-gnu", "-musl"), *options, "--end-no-unused-arguments")
    return compiler_script("clang-musl", command)
