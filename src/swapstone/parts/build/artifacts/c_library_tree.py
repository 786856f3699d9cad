# SPDX-License-Identifier: MIT OR Apache-2.0
"""The headers, objects, libraries and loader of a C library in a folder, and the compiler options that use them and no others."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import new_folder
from swapstone.core.artifacts.tool_versions import first_line, header_folders, link_inputs
from swapstone.core.model import UnavailableError
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.factors.c_library_files import CLibraryTree


def installed_musl(command: str = "musl-gcc") -> CLibraryTree:
    """Return the musl that a command links.

    Args:
        command: gcc for musl.

    Raises:
        UnavailableError: it does not print where its files are.
    """
    gcc = (command,)
    start = next((path.parent for path in link_inputs(gcc) if path.name.endswith("crt1.o")), None)
    headers = tuple(str(folder) for folder in header_folders(gcc) if (folder / "stdio.h").is_file())
    loader = next(iter(sorted(Path("/lib").glob("ld-musl-*.so.1"))), None)
    if start is None or not headers:
        raise UnavailableError(
            f"{command} does not print the location of musl's headers and start-up objects.",
            f"Check the output of `{command} -### -x c /dev/null`.",
        )
    return CLibraryTree(
        kind="musl", headers=headers, objects=str(start), libraries=(str(start),), loader=str(loader or "")
    )


def tree_options(
    tree: CLibraryTree,
    compiler: Sequence[str],
    *,
    clang: bool,
    cxx: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the options with which a compiler uses a C library's files and none of the system's.

    Args:
        tree: the C library.
        compiler: a command of gcc or clang.
        clang: whether it is clang, which finds its own headers in another way.
        cxx: folders of a C++ library's headers.
        libraries: further folders of libraries, searched first.
    """
    headers = [option for folder in (*cxx, *tree.headers) for option in ("-isystem", folder)]
    if clang:
        own = ["-nostdlibinc", "-fmath-errno"]
        after: list[str] = []
    else:
        own = ["-nostdinc"]
        folders = (first_line([*compiler, f"-print-file-name={name}"]) for name in ("include", "include-fixed"))
        after = [option for folder in folders if folder.startswith("/") for option in ("-isystem", folder)]
    start = [f"-B{tree.objects}/", *(f"-L{folder}" for folder in (*libraries, *tree.libraries))]
    link = ["-static-libgcc", *([f"-Wl,--dynamic-linker={tree.loader}"] if tree.loader else [])]
    link += [f"-Wl,-rpath,{folder}" for folder in tree.libraries if tree.rpath]
    options = [*own, *(["-nostdinc++"] if cxx else []), *headers, *after, *start, *link]
    return ("--start-no-unused-arguments", *options, "--end-no-unused-arguments") if clang else tuple(options)


def compiler_script(name: str, command: Sequence[str]) -> Path:
    """Return an executable script that runs a command with further arguments; it is created in the cache if necessary.

    Args:
        name: of the file.
        command: with its options.
    """
    text = f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
    home = cache_dir().resolve() / "toolchains" / hashlib.sha256(f"{name}\n{text}".encode()).hexdigest()[:16]
    script = home / name
    if not script.is_file():
        with new_folder(home, ".making-") as made:
            (made / name).write_text(text)
            (made / name).chmod(0o755)
    return script
