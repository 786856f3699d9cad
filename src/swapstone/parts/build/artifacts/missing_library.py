# SPDX-License-Identifier: MIT OR Apache-2.0
"""Find in a build's output which header or library was missing, and which option builds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from swapstone.parts.build.artifacts.library_table import LIBRARIES, Library

_HEADER = re.compile(r"fatal error: ['\"]?([\w./+-]+\.h\w*)['\"]?(?:: No such file or directory| file not found)")
_LIBRARY = re.compile(r"(?:cannot find|unable to find library|library not found for) -l([\w.+-]+)")
_PACKAGE = re.compile(
    r"(?:No package|Package) '?([\w.+-]+)'? (?:was not )?found"
    r"|Package '([\w.+-]+)', required by|Dependency \"([\w.+-]+)\" not found|Could NOT find ([\w.+-]+)"
    r"|C(?:\+\+)? (?:shared or static )?library '([\w.+-]+)' not found"
)


_NO_CRATE, _TARGET = re.compile(r"can't find crate for `(?:core|std)`"), re.compile(r"rustup target add ([\w-]+)")


_CXX = re.compile(
    r"fatal error: '?[a-z_]+'?(?:: No such file or directory| file not found)"
    r"|(?:cannot find|unable to find library|library not found for) -lstdc\+\+"
    r"|C\+\+ compiler cannot create executables"
)
"""The headers of the C++ library, such as ``iostream``, have no ending."""


def needs_cxx_library(output: str) -> bool:
    """Return whether a build did not find the headers or the files of the C++ library."""
    return _CXX.search(output) is not None


def missing_rust_target(output: str) -> str:
    """Return the target whose Rust standard library a build did not find; empty if its output does not report that."""
    crate = _NO_CRATE.search(output)
    found = _TARGET.search(output, crate.end()) if crate else None
    return found[1] if found else ""


def missing_library(output: str) -> tuple[str, str] | None:
    """Return what a build did not find.

    Args:
        output: of a build that failed.

    Returns:
        What was missing, e.g. ``the header zlib.h``, and the name of the library for ``--with`` that provides it; an empty name if no
        known library does. None if the output reports nothing missing.
    """
    found = [
        *(("the header", name, _with_header(name)) for name in _HEADER.findall(output)),
        *(("the library", f"-l{name}", _with_link(name)) for name in _LIBRARY.findall(output)),
        *(("the package", name, _with_package(name)) for names in _PACKAGE.findall(output) for name in names if name),
    ]
    if not found:
        return None
    kind, name, library = next((each for each in found if each[2]), found[0])
    return f"{kind} {name}", library


def missing_hint(library: str, given: Sequence[str], libc: str) -> str:
    """Return what to do about a missing library.

    Args:
        library: the entry of the table that provides it; empty for none.
        given: the libraries that ``--with`` names already.
        libc: the C library that the program is built for.
    """
    if library in given:
        return (
            f"{library} was built. Does the build command use {{cflags}} and {{ldflags}}, or replace PKG_CONFIG_PATH?"
        )
    if library:
        return f"Build it for each variant: --with {','.join((*given, library))}"
    known = f"--with builds libraries for each variant: {', '.join(LIBRARIES)}."
    if libc == "glibc":
        return f"Install its development package. {known}"
    return f"This machine's libraries are for its own C library, not for {libc}. {known}"


def _with_header(name: str) -> str:
    return _first(lambda library: re.fullmatch(library.headers, name) is not None)


def _with_link(name: str) -> str:
    return _first(lambda library: name in library.links)


def _with_package(name: str) -> str:
    lower = name.lower()
    by_name = lower if lower in LIBRARIES else ""
    return by_name or _first(lambda library: lower in {each.lower() for each in (*library.packages, *library.find)})


def _first(accepts: Callable[[Library], bool]) -> str:
    return next((name for name, library in LIBRARIES.items() if accepts(library)), "")
