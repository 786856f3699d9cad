# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C++ compiler that belongs to a recipe's C compiler and C library."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from swapstone.core.artifacts.cache_folder import locked, new_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import compiler_identity, first_line
from swapstone.core.factors import Recipe
from swapstone.core.model import UnavailableError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.parts.build.artifacts.build_command import build_environment, run_build, run_compiler
from swapstone.parts.build.artifacts.own_toolchain import (
    compiler_script,
    is_own,
    own_command,
    tree_of,
    tree_options,
)
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.build.artifacts.upstream_sources import fetch, read_lock
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.libc import CLibraryTree
from swapstone.parts.build.factors.sdk import command_of_level, sdk_of_level

LOCK = "native/cxx.toml"
LOG = "build.log"

_FOLDERS = ("libstdc++-v3", "libgcc", "libiberty", "include", "config")
_FILES = ("gcc/BASE-VER", "gcc/DATESTAMP", "gcc/DEV-PHASE")
_LEFT_OUT = ("libstdc++-v3/testsuite/", "libstdc++-v3/doc/xml/", "libstdc++-v3/doc/html/")
_PARTS = ("include", "libsupc++", "src")
_TIMEOUT_S = 3600


def libstdcxx(
    tree: CLibraryTree, notify: Callable[[str], None] = lambda _: None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Build libstdc++ for a C library, or return it from the cache.

    Args:
        tree: the C library.
        notify: called with a line before each long step.

    Returns:
        The folders of its headers, in order, and the folders of the archives that it needs.

    Raises:
        UnavailableError: the source can't be fetched, a tool is missing, or the build fails; names the log.
    """
    for tool in ("g++", "gcc", "make", "awk"):
        require_command(tool, f"The C++ library for {tree.kind}, which is built once,")
    source = read_lock(share_dir() / LOCK)["libstdcxx"]
    described = "\n".join(("libstdc++ 3", source.sha256, *_identity(tree), compiler_identity(("g++",))))
    home = cache_dir().resolve() / "cxx-libraries" / hashlib.sha256(described.encode()).hexdigest()[:16]
    with locked(home.with_suffix(".lock")):
        if not (home / LOG).is_file():
            what = f"libstdc++ {source.version} for {tree.root or tree.kind}"
            notify(f"building {what} (only once; it takes some minutes): fetching the source, 83 MiB")
            archive = fetch(source, LOCK)
            with new_folder(home) as done:
                _build(tree, what, archive, done, notify, failed=home.with_suffix(".failed.log"))
    top = next((home / "include" / "c++").iterdir())
    target = next(path.parent.parent for path in top.glob("*/bits/c++config.h"))
    unwinder = () if tree.kind == "glibc" else (str(unwinder_folder(tree)),)
    return (str(top), str(target), str(top / "backward")), (str(home / "lib"), *unwinder)


def unwinder_folder(tree: CLibraryTree) -> Path:
    """Return a folder with gcc's unwinder and the function of glibc that it calls, for a C library without that function.

    Raises:
        UnavailableError: the function can't be compiled.
    """
    source = share_dir() / "native" / "cxx" / "find_object.c"
    real = first_line(["gcc", "-print-file-name=libgcc_eh.a"])
    described = "\n".join(("unwinder 2", source.read_text(), real, *_identity(tree), compiler_identity(("gcc",))))
    home = cache_dir().resolve() / "cxx-libraries" / hashlib.sha256(described.encode()).hexdigest()[:16]
    if not (home / "libgcc_eh.a").is_file():
        with new_folder(home) as made:
            options = [*tree_options(tree, ("gcc",), clang=False), "-O2", "-fPIC", "-c", str(source)]
            run_compiler(["gcc", *options, "-o", str(made / "find_object.o")])
            run_compiler(["ar", "rcsD", str(made / "libfind_object.a"), str(made / "find_object.o")])
            (made / "libgcc_eh.a").write_text(f"GROUP ( {real} {home}/libfind_object.a )\n")
    return home


def _identity(tree: CLibraryTree) -> list[str]:
    """Return texts that change with the place and the files of a C library."""
    files = sorted(
        path for folder in (tree.objects, *tree.libraries) for path in Path(folder).glob("*") if path.is_file()
    )
    places = [tree.kind, tree.loader, tree.objects, *tree.headers, *tree.libraries]
    return places + [
        f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}"
        for path in files
        if path.suffix in {".o", ".a", ".so"}
    ]


def _build(
    tree: CLibraryTree, what: str, archive: Path, done: Path, notify: Callable[[str], None], *, failed: Path
) -> None:
    """Unpack, configure, compile, install to a folder; store the log of a failed build in a file."""
    notify(f"building {what}: unpacking")
    source = unpack_parts(archive, done.parent / "source")
    objects = done.parent / "objects"
    objects.mkdir()
    options = [
        "--disable-multilib",
        "--disable-nls",
        "--disable-libstdcxx-pch",
        "--disable-shared",
        "--with-pic",
    ]
    compilers = [
        f"{variable}={compiler_script(f'{name}-{tree.kind}', (name, *tree_options(tree, (name,), clang=False)))}"
        for variable, name in (("CC", "gcc"), ("CXX", "g++"))
    ]
    target = f"{os.uname().machine}-linux-{ {'glibc': 'gnu'}.get(tree.kind, tree.kind) }"
    machines = [f"--build={os.uname().machine}-linux-gnu", f"--host={target}"]
    tools = ["AR=ar", "RANLIB=ranlib", "NM=nm", "STRIP=strip", "AS=as", "LD=ld", "CFLAGS=-O2", "CXXFLAGS=-O2"]
    configure = str(source / "libstdc++-v3" / "configure")
    steps = [(objects, [configure, *machines, f"--prefix={done}", *options, *compilers, *tools])]
    for goal in ("all", "install"):
        steps += [(objects / part, ["make", f"-j{len(os.sched_getaffinity(0))}", goal]) for part in _PARTS]
    for folder, command in steps:
        notify(f"building {what}: {Path(command[0]).name} in {folder.name}")
        status, output = run_build(shlex.join(command), folder, _TIMEOUT_S, build_environment())
        with (done / LOG).open("ab") as log:
            log.write(output)
        if status != 0:
            shutil.copy(done / LOG, failed)
            raise UnavailableError(f"{what} can't be built: {Path(command[0]).name} failed.", f"The log: {failed}")
    for file in (done / "lib").glob("*.la"):
        file.unlink()  # it names the temporary folder


def unpack_parts(archive: Path, folder: Path) -> Path:
    """Unpack the parts of GCC's source that libstdc++ needs; return their folder.

    The archive of the distribution contains an archive of GCC.
    """
    with tarfile.open(archive) as outer:
        inner = next(
            member for member in outer if PurePosixPath(member.name).name.startswith("gcc-") and member.isfile()
        )
        opened = outer.extractfile(inner)
        assert opened is not None, inner.name
        with tarfile.open(fileobj=opened, mode="r|xz") as gcc:
            gcc.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            for member in gcc:
                if _is_needed(member.name.partition("/")[2]):
                    gcc.extract(member, folder)
    top = next(path for path in folder.iterdir() if path.is_dir())
    tests = top / "libstdc++-v3" / "testsuite" / "Makefile.in"
    tests.parent.mkdir(parents=True, exist_ok=True)
    tests.touch()  # the configure script converts it
    (top / "libgcc" / "gthr-default.h").symlink_to(
        "gthr-posix.h"
    )  # created by the build of libgcc; without it, there is no std::thread
    return top


def _is_needed(name: str) -> bool:
    if "/" not in name or name in _FILES:
        return True
    return name.startswith(tuple(f"{folder}/" for folder in _FOLDERS)) and not name.startswith(_LEFT_OUT)


CXX_SUFFIXES = frozenset({".cc", ".cpp", ".cxx", ".c++", ".C", ".hpp", ".hh", ".hxx"})
"""Endings of files by which sources are recognized as C++."""


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
        return _command(recipe, notify, needed=needed)
    except UnavailableError:
        if needed:
            raise
        return ()


def _command(recipe: Recipe, notify: Callable[[str], None], *, needed: bool) -> tuple[str, ...]:
    """Return the C++ compiler beside the recipe's compiler, for its C library."""
    build, sdk = recipe.of(Build), sdk_of_level(recipe.of(Build).compiler)
    if recipe.architecture and not is_own(recipe) and (build.libc != "glibc" or build.compiler == "clang"):
        compiler = "clang" if build.compiler == "clang" else "g++"
        raise UnavailableError(
            f"Swapstone can't compile C++ for {build.libc} on {recipe.architecture} with {compiler}: there is only g++ for glibc.",
            "Compare C programs there, or C++ programs of this machine: leave --arch out.",
        )
    if sdk is not None:
        cxx = dict(sdk.tools).get("CXX")
        if cxx is None:
            raise UnavailableError(f"{sdk.script} sets no CXX.", "Compare C programs with it.")
        return own_command(recipe, cxx)
    options = command_of_level(build.compiler)[1:] if "/" in build.compiler else ()
    base = (_name(recipe), *options)
    tree = tree_of(recipe)
    if tree is None or not needed:
        return own_command(recipe, base)
    return own_command(recipe, base, *libstdcxx(tree, notify))


def _name(recipe: Recipe) -> str:
    """Return the name of the C++ compiler beside the C compiler: g++ beside gcc, clang++-16 beside clang-16; it must be installed."""
    build = recipe.of(Build)
    if "/" in build.compiler:
        name = cxx_beside(command_of_level(build.compiler)[0])
    elif recipe.architecture:
        name = f"{cross_prefix(recipe.architecture)}g++"
    else:
        name = "g++" if (build.compiler, build.libc) == ("cc", "musl") else _CXX_NAMES[build.compiler]
    require_command(name, "Compiling C++")
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
