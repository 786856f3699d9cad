# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build the libraries that an own program needs (``--with``) from pinned sources, once for each compiler, C library and set of flags.

C libraries by version are built in the same way, once. Each library gets a folder of its own in the cache. A program's build gets a folder
with links to the files of the libraries that it needs: for dynamic linking the shared ones, for static linking the archives. So a linker
can't choose another kind.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.cache_folder import locked, new_folder, read_description, sha256_of
from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.placeholders import fill
from swapstone.core.artifacts.tool_versions import compiler_identity, preprocesses
from swapstone.core.factors import Recipe
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, share_dir, write_whole
from swapstone.parts.build.artifacts.build_command import build_environment, link_kernel_headers, run_build
from swapstone.parts.build.artifacts.library_table import C_LIBRARIES, LIBRARIES, Library
from swapstone.parts.build.artifacts.upstream_sources import Source, fetch, read_lock, unpack
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.libc import folder_name

LOCK = "native/libraries.toml"
LOG = "build.log"
IDENT = "swapstone library"
"""The beginning of the text in ``.comment`` of every object of a library that Swapstone built."""

_KNOWN = f"Known: {', '.join(LIBRARIES)}."
_TIMEOUT_S = 3600
_TOOL_TIMEOUT_S = 30
_FINISHED = "library.json"
_DYNAMIC, _STATIC = re.compile(r"\.so(\.|$)"), re.compile(r"\.a$")

Notify = Callable[[str], None]
"""Called with a line of text for the user."""


class BuiltLibrary(FrozenStruct, frozen=True, kw_only=True):
    """A library in the cache.

    Attributes:
        name: as ``--with`` names it.
        version: of the library.
        ident: the text in ``.comment`` of its objects.
        files: pairs (file name in ``lib``, SHA-256) of its archives and shared objects.
    """

    name: str
    version: str
    ident: str
    files: tuple[tuple[str, str], ...]


def parse_libraries(text: str) -> tuple[str, ...]:
    """Return the names in a list such as ``zlib,openssl``, without duplicates.

    Raises:
        UserError: one is unknown; the hint lists the known ones.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in LIBRARIES:
            import difflib  # noqa: PLC0415 - only needed for a mistake

            near = difflib.get_close_matches(name, LIBRARIES, n=1)
            similar = f"Did you mean {near[0]!r}? " if near else ""
            raise UserError(f"--with can't build {name!r}.", f"{similar}{_KNOWN}")
    if not names:
        raise UserError("--with names no library.", _KNOWN)
    return names


def with_libraries(recipe: Recipe, names: Sequence[str], notify: Notify) -> Recipe:
    """Build libraries for a recipe, or take them from the cache.

    Args:
        recipe: resolved; its compiler, C library and flags are used for the libraries too.
        names: of the libraries; those that they need are built first.
        notify: called with a line before each download and build.

    Returns:
        The recipe whose flags name the libraries' folder.

    Raises:
        UnavailableError: sources can't be fetched, a tool is missing, or a library can't be built; gives the reason.
    """
    if not names:
        return recipe
    if recipe.architecture:
        raise UnavailableError(
            f"Libraries (--with) are built for this machine's architecture only, not for {recipe.architecture}."
        )
    built: dict[str, Path] = {}
    order = in_order(names)
    for name in order:
        _require_tools(name)
    for name in order:  # all downloads before the first build
        fetch(_source(name), LOCK, notify, name)
    for name in order:
        needs = tuple(built[need] for need in in_order(LIBRARIES[name].needs))
        built[name] = _library(name, recipe, needs, notify)
    static = recipe.of(Build).linking == "static"
    folder = _linked_folder(tuple(built.values()), _DYNAMIC if static else _STATIC)
    rpath = () if static else (f"-Wl,-rpath,{folder}/lib",)
    return recipe.changed(
        Build,
        cflags=(*recipe.of(Build).cflags, f"-I{folder}/include"),
        ldflags=(f"-L{folder}/lib", *rpath, *recipe.of(Build).ldflags),
        prefix=str(folder),
        libraries=tuple(read_library(built[name]).ident for name in names),
    )


def with_c_library(recipe: Recipe, notify: Notify) -> Recipe:
    """Return a recipe whose C library of the table is a folder. It is built the first time, by ``cc``, whatever compiler is compared.

    Args:
        recipe: others than those of the table are unchanged.
        notify: called with a line before a download and a build.

    Raises:
        UnavailableError: as `with_libraries`.
    """
    name = recipe.of(Build).libc
    if name not in C_LIBRARIES:
        return recipe
    _require_tools(name)
    fetch(_source(name), LOCK, notify, name)
    maker = Recipe().changed(Build, command=("cc",), cflags=())
    return recipe.changed(Build, libc=str(_library(name, maker, (), notify)))


def library_environment(recipe: Recipe) -> dict[str, str]:
    """Return the variables by which pkg-config and CMake find a recipe's libraries; none without libraries.

    For another C library than the system's, pkg-config finds only these.
    """
    if not recipe.of(Build).prefix:
        return {}
    path = f"{recipe.of(Build).prefix}/lib/pkgconfig"
    alone = {} if recipe.of(Build).libc == "glibc" else {"PKG_CONFIG_LIBDIR": path}
    return {"PKG_CONFIG_PATH": path, "CMAKE_PREFIX_PATH": recipe.of(Build).prefix, **alone}


def library_digests(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return pairs (name, SHA-256) of the library files that a recipe's programs can be linked with, for the manifest."""
    found = []
    for ident in recipe.of(Build).libraries:
        library = read_library(_builds_of(ident.split()[2]) / ident.split()[-1])
        kind = _STATIC if recipe.of(Build).linking == "static" else _DYNAMIC
        found += [(f"{library.name} {library.version} {file}", d) for file, d in library.files if kind.search(file)]
    return tuple(found)


def read_library(home: Path) -> BuiltLibrary:
    """Return the description of a library in the cache.

    Raises:
        OSError, msgspec.DecodeError: there is none.
    """
    return msgspec.json.decode((home / _FINISHED).read_bytes(), type=BuiltLibrary)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return libraries and all that they need, each after what it needs."""
    return tuple(dict.fromkeys(each for name in names for each in (*in_order(LIBRARIES[name].needs), name)))


def _require_tools(name: str) -> None:
    for package, test in _entry(name).tools:
        if run_build(test, Path("/"), _TOOL_TIMEOUT_S, build_environment())[0] != 0:
            raise UnavailableError(
                f"Building {name} needs {package}, which is not installed.",
                f"Install it: {install_command(package)}",
            )


def _builds_of(name: str) -> Path:
    return cache_dir().resolve() / "libraries" / folder_name(name)


def _entry(name: str) -> Library:
    return C_LIBRARIES.get(name) or LIBRARIES[name]


def _source(name: str) -> Source:
    return read_lock(share_dir() / LOCK)[name]


def library_version(name: str) -> str:
    """Return the version of a library that the lock pins."""
    return _entry(name).version or _source(name).version


def _library(name: str, recipe: Recipe, needs: tuple[Path, ...], notify: Notify) -> Path:
    """Return the folder of a library; build it the first time."""
    library, source = _entry(name), _source(name)
    ldflags = tuple(
        flag for flag in recipe.of(Build).ldflags if flag.startswith("-") and not flag.startswith(("-l", "-static"))
    )
    built = (library.command, library.folder, *library.pkg_config, library.version)
    inputs = (
        "library 1",
        name,
        *built,
        source.sha256,
        compiler_identity(recipe.of(Build).command),
        shlex.join(recipe.of(Build).command),
    )
    flags = (shlex.join(recipe.of(Build).cflags), shlex.join(ldflags), *map(str, needs))
    digest = hashlib.sha256("\n".join((*inputs, *flags)).encode(errors="surrogateescape")).hexdigest()[:32]
    home = _builds_of(name) / digest
    with locked(home.with_suffix(".lock")):
        if read_description(home / _FINISHED, BuiltLibrary) is not None:
            return home
        version = library_version(name)
        notify(f"building {name.partition(':')[0]} {version} with {Path(recipe.of(Build).command[0]).name} (only once)")
        archive = fetch(source, LOCK)
        ident = f"{IDENT} {name} {version} {digest}"
        _build(home, library, recipe.changed(Build, ldflags=ldflags), needs, archive=archive, ident=ident)
        files = tuple(
            (path.name, sha256_of(path))
            for path in sorted((home / "lib").iterdir())
            if path.is_file() and not path.is_symlink() and (_DYNAMIC.search(path.name) or _STATIC.search(path.name))
        )
        description = BuiltLibrary(name=name, version=version, ident=ident, files=files)
        write_whole(home / _FINISHED, description.encoded())
    return home


def _build(home: Path, library: Library, recipe: Recipe, needs: tuple[Path, ...], *, archive: Path, ident: str) -> None:
    """Build at the final path, because pkg-config files contain it. The description of the library is written last."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    # By the text that the compiler puts into .comment, a library is recognized where it is linked.
    header = home / "ident.h"
    header.write_text(f'#ifndef __ASSEMBLER__\n__asm__(".ident \\"{ident}\\"");\n#endif\n')
    cflags = (
        *recipe.of(Build).cflags,
        "-include",
        str(header),
        *_kernel_flags(home, recipe.of(Build).command),
    )
    below = _linked_folder(needs, _STATIC) if needs else None
    rpaths = (f"-Wl,-rpath,{home}/lib", *((f"-L{below}/lib", f"-Wl,-rpath,{below}/lib") if below else ()))
    values = {
        "cc": shlex.join(recipe.of(Build).command),
        "cflags": shlex.join(cflags),
        "ldflags": shlex.join((*recipe.of(Build).ldflags, *rpaths)),
        "jobs": str(len(os.sched_getaffinity(0))),
        "prefix": shlex.quote(str(home)),
    }
    environment = build_environment()
    if below:
        path = f"{below}/lib/pkgconfig"
        environment |= {"SWAPSTONE_NEEDS": str(below), "PKG_CONFIG_PATH": path, "PKG_CONFIG_LIBDIR": path}
    command = fill(library.command, values)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".sources-") as work:
        folder = unpack(archive, Path(work)) / library.folder
        status, output = run_build(command, folder, _TIMEOUT_S, environment, options=("-e",))
    (home / LOG).write_bytes(f"$ {command}\n".encode() + output)
    expected = [f"lib{name}{end}" for name in library.links for end in (".a", ".so")]
    missing = [name for name in expected if not (home / "lib" / name).exists()]
    if status != 0 or missing:
        raise _failed(home, ident, status, output, missing)
    _finish_pkg_config(home, library, ident)


def _kernel_flags(home: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    if preprocesses(command, "linux/futex.h"):
        return ()
    folder = home / "kernel"
    folder.mkdir()
    link_kernel_headers(folder)
    return ("-idirafter", str(folder))


def _failed(home: Path, ident: str, status: int | None, output: bytes, missing: Sequence[str]) -> UnavailableError:
    """Keep the log of a failed build; return the error."""
    kept = home.with_suffix(".failed.log")
    (home / LOG).replace(kept)
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|cannot find|not found", line, re.IGNORECASE)]
    reason = (errors or lines[-1:] or ["it printed nothing"])[0]
    if status is None:
        reason = f"it took more than {_TIMEOUT_S} s"
    elif status == 0:
        reason = f"its build installed no {missing[0]}"
    name, version = ident.split()[2:4]
    return UnavailableError(f"{name.partition(':')[0]} {version} can't be built: {reason}", f"The log: {kept}")


def _finish_pkg_config(home: Path, library: Library, ident: str) -> None:
    """Write the pkg-config file if there is none; let each name the run-time path; remove libtool's files."""
    folder = home / "lib" / "pkgconfig"
    folder.mkdir(exist_ok=True)
    libs, private = library.pkg_config
    if libs:
        (folder / f"{library.packages[0]}.pc").write_text(
            f"prefix={home}\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\nName: {library.packages[0]}\n"
            f"Description: {library.description}\nVersion: {ident.split()[3]}\nLibs: -L${{libdir}} {libs}\n"
            f"Libs.private: {private}\nCflags: -I${{includedir}}\n"
        )
    for path in folder.glob("*.pc"):
        if not path.is_symlink():
            text = path.read_text("utf-8")
            path.write_text(re.sub(r"(?m)^(Libs:.*)$", r"\1 -Wl,-rpath,${libdir}", text))
    for path in (home / "lib").glob("*.la"):
        path.unlink()


def _linked_folder(homes: tuple[Path, ...], without: re.Pattern[str]) -> Path:
    """Return a folder with links to the files of several libraries, except library files whose name matches a pattern."""
    address = "\n".join((without.pattern, *map(str, homes)))
    folder = cache_dir().resolve() / "libraries" / f"set-{hashlib.sha256(address.encode()).hexdigest()[:28]}"
    if folder.is_dir():
        return folder
    with new_folder(folder, ".linking-") as work:
        for home, part in itertools.product(homes, ("include", "lib")):
            for path in sorted((home / part).rglob("*")):
                link = work / path.relative_to(home)
                if path.is_file() and not (link.parent.name == "lib" and without.search(link.name)):
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path)
    return folder
