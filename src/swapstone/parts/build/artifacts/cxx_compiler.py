# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C++ compiler that belongs to a recipe's C compiler and C library."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError
from swapstone.parts.build.artifacts.c_library_tree import compiler_script, installed_musl, tree_options
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS
from swapstone.parts.build.artifacts.libstdcxx import libstdcxx, unwinder_folder
from swapstone.parts.build.artifacts.own_toolchain import is_own, own_command, tree_of
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.sdk import command_of_level, sdk_of_level

CXX_SUFFIXES = frozenset({".cc", ".cpp", ".cxx", ".c++", ".C", ".hpp", ".hh", ".hxx"})
"""Endings of files by which sources are recognized as C++."""

_PACKAGES = {"g++": "g++", "c++": "g++", "clang++": "clang"} | {
    f"{cross.prefix}g++": cross.package.replace("gcc-", "g++-", 1) for cross in CROSS_COMPILERS.values()
}


def cxx_command(recipe: Recipe, notify: Callable[[str], None] = lambda _: None, *, needed: bool) -> tuple[str, ...]:
    """Return the command that compiles and links C++ for a resolved recipe; build a C++ library for musl if necessary.

    Args:
        recipe: resolved.
        notify: called with a line for the user before a long step.
        needed: whether the sources are C++. If not, nothing is built.

    Returns:
        The command; empty if there is none and none is needed.

    Raises:
        UnavailableError: it is needed, and there is no compiler or no C++ library.
    """
    try:
        if is_own(recipe):
            return _own(recipe, notify, needed=needed)
        if recipe.architecture:
            return (_cross(recipe),)
        if recipe.of(Build).libc == "glibc":
            return (_name(recipe),)
        driver, clang = ("clang++", True) if recipe.of(Build).compiler == "clang" else ("g++", False)
        require_command(driver, "Compiling C++", _PACKAGES[driver])
        tree = installed_musl()
        library = libstdcxx(tree, notify) if needed else None
        cxx = library.headers if library else ()
        folders = (library.folder, str(unwinder_folder(tree))) if library else ()
        return (
            str(
                compiler_script(
                    f"{driver}-{tree.kind}",
                    (driver, *tree_options(tree, (driver,), clang=clang, cxx=cxx, libraries=folders)),
                )
            ),
        )
    except UnavailableError:
        if needed:
            raise
        return ()


def _cross(recipe: Recipe) -> str:
    """Return the C++ compiler for another architecture: g++, for glibc only."""
    build = recipe.of(Build)
    if build.libc != "glibc" or build.compiler == "clang":
        compiler = "clang" if build.compiler == "clang" else "g++"
        raise UnavailableError(
            f"Swapstone can't compile C++ for {build.libc} on {recipe.architecture} with {compiler}: there is only g++ for glibc.",
            "Compare C programs there, or C++ programs of this machine: leave --arch out.",
        )
    return _name(recipe)


def _own(recipe: Recipe, notify: Callable[[str], None], *, needed: bool) -> tuple[str, ...]:
    """Return the C++ compiler beside the user's compiler, for the user's C library."""
    sdk = sdk_of_level(recipe.of(Build).compiler)
    if sdk is not None:
        cxx = dict(sdk.tools).get("CXX")
        if cxx is None:
            raise UnavailableError(f"{sdk.script} sets no CXX.", "Compare C programs with it.")
        return own_command(recipe, cxx)
    options = command_of_level(recipe.of(Build).compiler)[1:] if "/" in recipe.of(Build).compiler else ()
    base = (_name(recipe), *options)
    tree = tree_of(recipe)
    if tree is None or not needed:
        return own_command(recipe, base)
    library = libstdcxx(tree, notify)
    folders = (library.folder, *(() if tree.kind == "glibc" else (str(unwinder_folder(tree)),)))
    return own_command(recipe, base, library.headers, folders)


def _name(recipe: Recipe) -> str:
    """Return the name of the C++ compiler beside the C compiler: g++ beside gcc, clang++-16 beside clang-16; it must be installed."""
    if "/" in recipe.of(Build).compiler:
        name = cxx_beside(command_of_level(recipe.of(Build).compiler)[0])
    else:
        name = (
            f"{cross_prefix(recipe.architecture)}g++" if recipe.architecture else _CXX_NAMES[recipe.of(Build).compiler]
        )
    require_command(name, "Compiling C++", _PACKAGES.get(name, ""))
    return name


def cxx_beside(compiler: str) -> str:
    """Return the path of the C++ compiler beside a C compiler, by the usual names.

    Raises:
        UnavailableError: the C compiler's name does not end as usual.
    """
    path = Path(compiler)
    name, count = re.subn(
        r"(clang|gcc|cc)(-[0-9.]+)?$", lambda found: f"{_CXX_NAMES[found[1]]}{found[2] or ''}", path.name
    )
    if not count:
        raise UnavailableError(
            f"The name of the C++ compiler beside {compiler} is not known.", "Name its link gcc, clang or cc."
        )
    return str(path.with_name(name))


_CXX_NAMES = {"clang": "clang++", "gcc": "g++", "cc": "c++"}
