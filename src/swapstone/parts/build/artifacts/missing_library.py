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


_MISSING: tuple[tuple[str, re.Pattern[str], Callable[[Library, str, str], bool]], ...] = (
    ("the header ", _HEADER, lambda library, _, name: re.fullmatch(library.headers, name) is not None),
    ("the library -l", _LIBRARY, lambda library, _, name: name in library.links),
    (
        "the package ",
        _PACKAGE,
        lambda library, known, name: name.lower() in {known, *map(str.lower, (*library.packages, *library.find))},
    ),
)
"""What a build may miss, the output that reports it, and whether a library with its name in the table provides it."""


def missing_library(output: str) -> tuple[str, str] | None:
    """Return what a build did not find.

    Args:
        output: of a build that failed.

    Returns:
        What was missing, e.g. ``the header zlib.h``, and the name of the library for ``--with`` that provides it; an empty name if no
        known library does. None if the output reports nothing missing.
    """
    found = [
        (f"{what}{name}", next((known for known, library in LIBRARIES.items() if provides(library, known, name)), ""))
        for what, pattern, provides in _MISSING
        for names in pattern.findall(output)
        for name in ([names] if isinstance(names, str) else filter(None, names))
    ]
    return next((each for each in found if each[1]), found[0] if found else None)


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
