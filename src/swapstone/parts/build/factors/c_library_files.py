# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds the headers, objects, libraries and loader of a C library in a folder of the user (a sysroot)."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.factors.facts import read_facts
from swapstone.core.model import FrozenStruct, UserError

MARK = ".swapstone.libc"
"""Section of the marked start-up objects. It is not loaded. It shows in a static program which folder's objects were linked."""

_FORMS = "It must have include/stdio.h, lib/crt1.o and lib/libc.so or lib/libc.a, in the folder itself or in its usr."


class CLibraryTree(FrozenStruct, frozen=True, kw_only=True):
    """A C library's files.

    Attributes:
        kind: ``glibc``, ``musl`` or ``uclibc``.
        headers: folders of its headers, in order.
        objects: folder of its start-up objects.
        libraries: folders of its libraries, in order.
        loader: absolute path of its dynamic loader; empty if it has none.
        rpath: whether programs must search its libraries in `libraries`: the loader does not search them by itself.
        root: the folder of the user; empty for an installed library.
        machine: of its objects, by the name in ELF.
        library: its main file, whose digest identifies it.
    """

    kind: str
    headers: tuple[str, ...]
    objects: str
    libraries: tuple[str, ...]
    loader: str = ""
    rpath: bool = False
    root: str = ""
    machine: str = ""
    library: str = ""

    def digest(self) -> str:
        """Return the SHA-256 of the main file."""
        return hashlib.sha256(Path(self.library).read_bytes()).hexdigest() if self.library else ""

    def mark(self) -> str:
        """Return the text in `MARK`."""
        return f"{self.root} {self.digest()}"


@functools.cache
def read_tree(root: Path) -> CLibraryTree:
    """Find a C library's files below a folder. Symbolic links are followed inside the folder only.

    Raises:
        UserError: it is no folder, or a part is missing.
    """
    if not root.is_dir():
        raise UserError(f"There is no folder {root} with a C library.", f"libc=FOLDER names a sysroot. {_FORMS}")
    headers = tuple(_header_folders(root))
    libraries = tuple(_library_folders(root))
    objects = next((folder for folder in libraries if (folder / "crt1.o").is_file()), None)
    missing = (
        "stdio.h"
        if not headers
        else "crt1.o"
        if objects is None
        else ""
        if _main(root, libraries)
        else "libc.so or libc.a"
    )
    if missing or objects is None:
        raise UserError(f"The folder {root} has no {missing}: it holds no C library to build with.", _FORMS)
    facts = read_facts(_inside(root, objects / "crt1.o"))
    return CLibraryTree(
        kind=_kind(root, headers),
        headers=tuple(map(str, headers)),
        objects=str(objects),
        libraries=tuple(map(str, libraries)),
        loader=str(_loader(root, libraries) or ""),
        rpath=True,
        root=str(root),
        machine=facts.machine if facts else "",
        library=str(_main(root, libraries) or ""),
    )


def _header_folders(root: Path) -> Iterator[Path]:
    for folder in (root / "include", root / "usr" / "include", *sorted((root / "usr" / "include").glob("*-linux-*"))):
        if any((folder / name).is_file() for name in ("stdio.h", "gnu/stubs.h")):
            yield folder


def _library_folders(root: Path) -> Iterator[Path]:
    seen = set()
    for folder in (root / "lib", root / "lib64", root / "usr" / "lib", root / "usr" / "lib64"):
        for each in (folder, *sorted(folder.glob("*-linux-*"))):
            real = each.resolve()
            if each.is_dir() and real.is_relative_to(root) and real not in seen:
                seen.add(real)
                yield real


_OWN_HEADERS = {"uclibc": "bits/uClibc_config.h", "glibc": "gnu/libc-version.h", "musl": "bits/alltypes.h"}
"""A header that no other C library has; uClibc-ng also has glibc's."""


def _kind(root: Path, headers: tuple[Path, ...]) -> str:
    """Name the C library by its headers."""
    for kind, header in _OWN_HEADERS.items():
        if any((folder / header).is_file() for folder in headers):
            return kind
    raise UserError(
        f"The C library in {root} can't be recognized by its headers.", "Known are glibc, musl and uClibc-ng."
    )


def _loader(root: Path, libraries: tuple[Path, ...]) -> Path | None:
    patterns = ("ld-musl-*.so.1", "ld-linux*.so.[0-9]*", "ld.so.[0-9]*", "ld*-uClibc*.so.[0-9]*")
    named = (path for pattern in patterns for folder in libraries for path in sorted(folder.glob(pattern)))
    found = next((real for real in (_inside(root, path) for path in named) if real.is_file()), None)
    if found is not None:
        return found
    # musl's library is its loader.
    return next((folder / "libc.so" for folder in libraries if read_facts(folder / "libc.so")), None)


def _main(root: Path, libraries: tuple[Path, ...]) -> Path | None:
    names = ("libc.so.6", "libc.so.0", "libc.so.1", "libc.so", "libc.a")
    found = (_inside(root, folder / name) for name in names for folder in libraries)
    return next((path for path in found if path.is_file()), None)


def _inside(root: Path, path: Path) -> Path:
    """Follow a symbolic link as if `root` were the root of the file system."""
    for _ in range(8):
        if not path.is_symlink():
            break
        target = path.readlink()
        path = root / target.relative_to("/") if target.is_absolute() else path.parent / target
    real = path.resolve()
    return real if real.is_relative_to(root) else root / "nonexistent"
