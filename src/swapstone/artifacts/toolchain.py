"""Which command compiles for which C library, and a clang for musl, which Debian has not."""

from __future__ import annotations

import functools
import hashlib
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.artifacts.tool_versions import first_line, header_folders, link_inputs, preprocesses
from swapstone.factors import Recipe
from swapstone.model import UnavailableError
from swapstone.model.directories import cache_dir

_COMMANDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("cc", "glibc"): ("cc",),
    ("cc", "musl"): ("musl-gcc",),
    ("gcc", "glibc"): ("gcc",),
    ("gcc", "musl"): ("musl-gcc",),
    ("clang", "glibc"): ("clang",),
}
"""(compiler, C library) to the command, where a package brings one."""

_CROSS: dict[str, tuple[str, str]] = {"aarch64": ("aarch64-linux-gnu-", "arm64")}
"""Another machine's architecture to what its tools' names begin with, and the architecture's name in packages."""

_LINKING: dict[str, tuple[str, ...]] = {"dynamic": (), "static": ("-static",)}

WRAPPER = "clang-musl"

_UNWINDER = "/* As with musl-gcc, programs take gcc's unwinder from its archive: its shared object needs glibc. */\nINPUT ( -lgcc_eh )\n"

_SCRIPT = """#!/bin/sh
# clang for musl: it finds nothing but what is under this root, and its own headers.
# Clang takes musl's mathematical functions not to set errno; gcc does not know, and the two must compile alike for both C libraries.
exec {clang} --target={triple} --sysroot={root} --gcc-toolchain={root}/usr \\
    --start-no-unused-arguments -fmath-errno --end-no-unused-arguments "$@"
"""


def compiler_command(recipe: Recipe) -> tuple[str, ...]:
    """Return the command that compiles and links for a recipe's C library with its compiler; clang for musl is made where needed.

    Raises:
        UnavailableError: there is none, or a tool is missing.
    """
    if recipe.architecture:
        return _cross_compiler(recipe)
    if (recipe.compiler, recipe.libc) == ("clang", "musl"):
        return (str(clang_for_musl(cache_dir())),)
    command = _COMMANDS.get((recipe.compiler, recipe.libc))
    if command is None:
        raise UnavailableError(f"There is no way to compile for {recipe.libc} with {recipe.compiler}.")
    return command


def _cross_compiler(recipe: Recipe) -> tuple[str, ...]:
    """Return the compiler for another architecture: packages bring one, gcc, with one C library, glibc."""
    if recipe.architecture not in _CROSS:
        raise UnavailableError(f"Nothing here compiles programs for {recipe.architecture}.")
    if (recipe.compiler, recipe.libc) not in {("cc", "glibc"), ("gcc", "glibc")}:
        compiler = "" if recipe.compiler == "cc" else f" with {recipe.compiler}"
        raise UnavailableError(
            f"Nothing here compiles for {recipe.libc} on {recipe.architecture}{compiler}: there is gcc for glibc."
        )
    prefix, debian = _CROSS[recipe.architecture]
    command = (_tool(f"{prefix}gcc", f"gcc-{prefix}".rstrip("-"), f"Compiling for {recipe.architecture}"),)
    if not preprocesses(command, "stdio.h"):
        raise UnavailableError(
            f"{prefix}gcc has no C library to compile for: its headers are not installed.",
            f"Install them: sudo apt-get install libc6-dev-{debian}-cross",
        )
    return command


def strip_command(recipe: Recipe) -> str:
    """Return the command that strips a recipe's programs; that of an architecture comes with its compiler."""
    return f"{_CROSS[recipe.architecture][0]}strip" if recipe.architecture else "strip"


def linking_flags(recipe: Recipe) -> tuple[str, ...]:
    """Return the flags that link in a recipe's way.

    Raises:
        UnavailableError: there is no such way.
    """
    if recipe.linking not in _LINKING:
        raise UnavailableError(f"There is no way to link that is called {recipe.linking!r}.")
    return _LINKING[recipe.linking]


def linked_dynamically(recipe: Recipe) -> Recipe:
    """Return a provided recipe as it would be for a dynamic program; all else stays."""
    flags = tuple(flag for flag in recipe.ldflags if flag not in _LINKING["static"])
    return msgspec.structs.replace(recipe, linking="dynamic", ldflags=flags)


@functools.cache
def clang_for_musl(cache: Path) -> Path:
    """Make a compiler command that is clang with musl's headers, start-up objects, libraries and loader, and nothing of glibc's.

    Clang takes everything from a folder that it is given as the root of its system: links to musl's files, and to those of gcc's own
    objects that musl-gcc links programs with too. There is one for each version of what it links to.

    Args:
        cache: the folder of what was built.

    Returns:
        The path of an executable script that takes all that clang takes.

    Raises:
        UnavailableError: clang or musl-gcc is missing, or musl-gcc doesn't say where musl is.
    """
    clang, gcc = _tool("clang", "clang"), _tool("musl-gcc", "musl-tools")
    triple = first_line([clang, "-dumpmachine"]).replace("-gnu", "-musl")
    # Clang looks for gcc's objects in a folder that is named by the target, spelled in full.
    spelled = first_line([clang, f"--target={triple}", "-dumpmachine"])
    of_gcc = f"usr/lib/gcc/{spelled}/{first_line([gcc, '-dumpversion'])}"
    links = _places(gcc, of_gcc)
    described = [first_line([clang, "--version"]), _SCRIPT, _UNWINDER, clang, of_gcc]
    described += [f"{name} {target} {_stamp(target)}" for name, target in sorted(links.items())]
    home = cache / "toolchains" / hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]
    if not (home / WRAPPER).is_file():
        root = home / "root"
        script = _SCRIPT.format(clang=shlex.quote(clang), triple=triple, root=shlex.quote(str(root)))
        _make(home, script, links, f"root/{of_gcc}/libgcc_s.so")
    return home / WRAPPER


def _tool(command: str, package: str, what: str = "Compiling for musl with clang") -> str:
    found = shutil.which(command)
    if found is None:
        raise UnavailableError(
            f"{what} needs the command {command!r}, which is not installed.",
            f"Install it: sudo apt-get install {package}",
        )
    return found


def _places(gcc: str, of_gcc: str) -> dict[str, Path]:
    """Return what lies where under the root: a link's place to its target, as `gcc` (which compiles for musl) says them itself."""
    inputs = link_inputs((gcc,))
    headers = [folder for folder in header_folders((gcc,)) if (folder / "stdio.h").is_file()]
    ours = next((path.parent for path in inputs if path.name.endswith("crt1.o")), None)
    theirs = next((path.parent for path in inputs if path.name.startswith("crtbegin")), None)
    if ours is None or theirs is None or not headers:
        raise UnavailableError(
            "musl-gcc does not say where musl's headers and start-up objects are, so clang can't be pointed to them.",
            "See what `musl-gcc -### -x c /dev/null` prints.",
        )
    files = {f"usr/lib/{file.name}": file for file in ours.iterdir() if file.suffix in {".o", ".a", ".so"}}
    files |= {f"{of_gcc}/{file.name}": file for file in theirs.glob("crt*.o")}
    files |= {f"{of_gcc}/{name}": theirs / name for name in ("libgcc.a", "libgcc_eh.a") if (theirs / name).exists()}
    return {**files, "usr/include": headers[0]}


def _stamp(path: Path) -> str:
    status = path.resolve().stat()
    return f"{status.st_size}:{status.st_mtime_ns}"


def _make(home: Path, script: str, links: Mapping[str, Path], unwinder: str) -> None:
    """Make the folder beside its place and move it there whole, so that a crash leaves no half tool."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".making-") as temporary:
        work = Path(temporary) / "whole"
        for name, target in links.items():
            link = work / "root" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        (work / unwinder).write_text(_UNWINDER)
        (work / WRAPPER).write_text(script)
        (work / WRAPPER).chmod(0o755)
        try:
            work.rename(home)
        except OSError:
            if not (home / WRAPPER).is_file():  # else another process made the same one at the same time
                raise
