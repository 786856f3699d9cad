# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiler commands for each C library, including a clang for musl, which Debian does not package."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import first_line, link_inputs
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.c_library_tree import installed_musl
from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS, check_cross, cross_command
from swapstone.parts.build.artifacts.cross_musl import SHIM
from swapstone.parts.build.artifacts.float_compilers import check_float, float_command, float_prefix
from swapstone.parts.build.artifacts.own_toolchain import is_own, own_compiler_command
from swapstone.parts.build.build import Build

_COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("cc", "glibc"): ("cc",),
    ("cc", "musl"): ("musl-gcc",),
    ("gcc", "glibc"): ("gcc",),
    ("gcc", "musl"): ("musl-gcc",),
    ("clang", "glibc"): ("clang",),
}
"""Commands of compilers that a package provides, by (compiler, C library)."""

_LINKING: dict[str, tuple[str, ...]] = {"dynamic": (), "static": ("-static",)}

WRAPPER = "clang-musl"

_UNWINDER = (
    "/* As in musl-gcc, programs use gcc's static unwinder: its shared object needs glibc. */\nINPUT ( -lgcc_eh{} )\n"
)

_SCRIPT = """#!/bin/sh
# clang for musl: it searches only this root and its own headers.
# By default clang assumes that musl's mathematical functions don't set errno. gcc has no such default, and both must compile alike.
exec {clang} --target={triple} --sysroot={root} --gcc-toolchain={root}/usr \\
    --start-no-unused-arguments -fmath-errno{further} --end-no-unused-arguments "$@"
"""


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
        return float_command(recipe)
    if is_own(recipe):
        return own_compiler_command(recipe, () if "/" in recipe.of(Build).compiler else _own_base(recipe))
    if recipe.architecture:
        return _cross_command(recipe, notify)
    if (recipe.of(Build).compiler, recipe.of(Build).libc) == ("clang", "musl"):
        return (str(clang_for_musl(cache_dir())),)
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
        check_float(recipe)
    elif recipe.architecture and not is_own(recipe):
        check_cross(recipe.architecture, recipe.of(Build).compiler, recipe.of(Build).libc)


def _own_base(recipe: Recipe) -> tuple[str, ...]:
    """Return the command of the compiler that builds for a C library of the user."""
    if recipe.architecture:
        return _cross_command(recipe.changed(Build, libc="glibc"), lambda _: None)
    return _COMMANDS[recipe.of(Build).compiler, "glibc"]


def _cross_command(recipe: Recipe, notify: Callable[[str], None]) -> tuple[str, ...]:
    if (recipe.of(Build).compiler, recipe.of(Build).libc) != ("clang", "musl"):
        return cross_command(recipe.architecture, recipe.of(Build).compiler, recipe.of(Build).libc, notify)
    check_cross(recipe.architecture, "clang", "musl")
    (gcc,) = cross_command(recipe.architecture, "gcc", "musl", notify)
    return (str(clang_for_musl(cache_dir(), gcc, recipe.architecture)),)


def cross_prefix(architecture: str) -> str:
    """Return the prefix of the tools' names for an architecture; empty for the build machine's."""
    return CROSS_COMPILERS[architecture].prefix if architecture in CROSS_COMPILERS else ""


def native_compiler(architecture: str) -> str:
    """Return the C compiler of the agent for an architecture: of this machine's that of the user, CC."""
    here = architecture == os.uname().machine
    return os.environ.get("CC") or "cc" if here else f"{cross_prefix(architecture)}gcc"


def tool_prefix(recipe: Recipe) -> str:
    """Return the prefix of the names of a recipe's tools; empty for the build machine's."""
    return float_prefix(recipe.of(Build).float_abi) if recipe.of(Build).float_abi else cross_prefix(recipe.architecture)


def strip_command(recipe: Recipe) -> str:
    """Return the command that strips a recipe's programs."""
    return f"{tool_prefix(recipe)}strip"


def linking_flags(recipe: Recipe) -> tuple[str, ...]:
    """Return the flags for a recipe's linking.

    Raises:
        UnavailableError: the level is unknown.
    """
    if recipe.of(Build).linking not in _LINKING:
        raise UnavailableError(f"Unknown linking: {recipe.of(Build).linking!r}.")
    return _LINKING[recipe.of(Build).linking]


def linked_dynamically(recipe: Recipe) -> Recipe:
    """Return a resolved recipe with dynamic linking; all else is unchanged."""
    flags = tuple(flag for flag in recipe.of(Build).ldflags if flag not in _LINKING["static"])
    return recipe.changed(Build, linking="dynamic", ldflags=flags)


@functools.cache
def clang_for_musl(cache: Path, musl_gcc: str = "musl-gcc", architecture: str = "") -> Path:
    """Create a compiler command: clang with musl's headers, start-up objects, libraries and loader, without glibc's.

    The root of clang's system is a folder of links to musl's files, and to the objects of gcc that musl-gcc links too. There is one folder
    for each version of the link targets.

    Args:
        cache: the cache folder.
        musl_gcc: the gcc for musl, whose files are linked.
        architecture: of another machine that it compiles for, as in recipes; empty for this machine's.

    Returns:
        The path of an executable script that accepts clang's arguments.

    Raises:
        UnavailableError: clang or musl-gcc is missing, or musl-gcc does not print the location of musl.
    """
    what = "Compiling for musl with clang"
    clang, gcc = require_command("clang", what, "clang"), require_command(musl_gcc, what, "musl-tools")
    triple, further = first_line([clang, "-dumpmachine"]), ""
    if architecture:
        cross = CROSS_COMPILERS[architecture]
        triple = cross.clang[0].removeprefix("--target=")
        # By the target's name alone, clang would find the linker of this machine.
        further = f" --ld-path={shlex.quote(shutil.which(f'{cross.prefix}ld') or f'{cross.prefix}ld')}"
        further += "".join(f" {option}" for option in cross.clang[1:])
    triple = triple.replace("-gnu", "-musl")
    # Clang searches gcc's objects in a folder named by the full target triple.
    spelled = first_line([clang, f"--target={triple}", "-dumpmachine"])
    of_gcc = f"usr/lib/gcc/{spelled}/{first_line([gcc, '-dumpversion'])}"
    links = _places(gcc, of_gcc)
    described = [first_line([clang, "--version"]), _SCRIPT, _UNWINDER, clang, of_gcc, further]
    described += [f"{name} {path} {_stamp(path)}" for name, path in sorted(links.items())]
    home = cache / "toolchains" / hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    if not (home / WRAPPER).is_file():
        root = home / "root"
        script = _SCRIPT.format(clang=shlex.quote(clang), triple=triple, root=shlex.quote(str(root)), further=further)
        shim = f" -l:{SHIM}" if f"usr/lib/{SHIM}" in links else ""
        _make(home, script, links, (f"root/{of_gcc}/libgcc_s.so", _UNWINDER.format(shim)))
    return home / WRAPPER


def _places(gcc: str, of_gcc: str) -> dict[str, Path]:
    """Return the links under the root, as pairs of location and target, from the output of `gcc` (which compiles for musl)."""
    musl = installed_musl(gcc)
    begins = (path.parent for path in link_inputs((gcc,)) if path.name.startswith("crtbegin"))
    theirs = next(begins, Path(musl.objects))
    files = {
        f"usr/lib/{file.name}": file for file in Path(musl.objects).iterdir() if file.suffix in {".o", ".a", ".so"}
    }
    files |= {f"{of_gcc}/{file.name}": file for file in theirs.glob("crt*.o")}
    files |= {f"{of_gcc}/{name}": theirs / name for name in ("libgcc.a", "libgcc_eh.a") if (theirs / name).exists()}
    return {**files, "usr/include": Path(musl.headers[0])}


def _stamp(path: Path) -> str:
    status = path.resolve().stat()
    return f"{status.st_size}:{status.st_mtime_ns}"


def _make(home: Path, script: str, links: Mapping[str, Path], unwinder: tuple[str, str]) -> None:
    """Create the folder under a temporary name and rename it, so that it is complete."""
    with new_folder(home, ".making-") as made:
        for name, target in links.items():
            link = made / "root" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        (made / unwinder[0]).write_text(unwinder[1])
        (made / WRAPPER).write_text(script)
        (made / WRAPPER).chmod(0o755)
