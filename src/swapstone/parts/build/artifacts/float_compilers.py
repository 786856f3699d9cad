# SPDX-License-Identifier: MIT OR Apache-2.0
"""The compilers of the factor ``float``: two cross gcc of the distribution, of which each has a C library of its own ABI."""

from __future__ import annotations

import os
import shutil

from swapstone.core.artifacts.distribution_packages import install_command, require_command
from swapstone.core.artifacts.tool_versions import preprocesses
from swapstone.core.factors import Recipe, find_level
from swapstone.core.model import UnavailableError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.allocator import DEFAULT
from swapstone.parts.build.factors.float_abi import FLOAT, HARD, MACHINES

_TRIPLES = {True: "arm-linux-gnueabihf", False: "arm-linux-gnueabi"}


def float_prefix(level: str) -> str:
    """Return the prefix of the names of a level's tools."""
    return f"{_TRIPLES[level == HARD]}-"


def float_command(recipe: Recipe) -> tuple[str, ...]:
    """Return the command that compiles and links with the floating-point ABI of a recipe.

    Raises:
        UnavailableError: as `check_float`.
    """
    check_float(recipe)
    gcc = f"{float_prefix(recipe.of(Build).float_abi)}gcc"
    return (shutil.which(gcc) or gcc,)


def check_float(recipe: Recipe) -> None:
    """Check that a program can be built with the floating-point ABI of a recipe.

    Raises:
        UnavailableError: the combination does not exist, or a package is missing; the hint names it.
    """
    machine = recipe.architecture or os.uname().machine
    limits = (
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
    )
    for unavailable, reason, hint in limits:
        if unavailable:
            raise UnavailableError(reason, hint)
    gcc, package = (
        f"{float_prefix(recipe.of(Build).float_abi)}gcc",
        find_level(FLOAT, recipe.of(Build).float_abi).package,
    )
    require_command(gcc, f"float={recipe.of(Build).float_abi}", package)
    if not preprocesses((gcc,), "stdio.h"):
        raise UnavailableError(
            f"The C library's headers for {gcc} are not installed.", f"Install them: {install_command(package)}"
        )
