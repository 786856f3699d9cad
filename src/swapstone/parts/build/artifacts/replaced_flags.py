# SPDX-License-Identifier: MIT OR Apache-2.0
"""Flags that a project sets in its makefiles and that a variable on make's command line replaces.

Source: the GNU make manual, "Overriding Variables": an argument of make overrides all assignments in the makefile, ``+=`` too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_ON_COMMAND_LINE = re.compile(
    r"""(?<!\S)["']?(?P<name>CFLAGS|CXXFLAGS|LDFLAGS)=["']?\{(?P<placeholder>cflags|cxxflags|ldflags)\}(?P<more>[^\s"';&|]*["'\s]?)"""
)
_MAKE = re.compile(r"(?:^|[;&|(\s])(?:g?make|\$\(MAKE\))(?:\s|$)")
_ASSIGNMENT = re.compile(
    r"^[ \t]*(?P<name>CFLAGS|CXXFLAGS|LDFLAGS)[ \t]*[:+?]?=(?P<value>(?:\\\n|[^\n#])*)", re.MULTILINE
)
_NEEDED = re.compile(r"(?<!\S)-(?:I|D|U|std=|f|m|pthread|include|isystem|L|l|W[lap],|O[0-9s])\S*")
_NAMES = ("Makefile", "makefile", "GNUmakefile")
_MOST_BYTES = 1 << 20
_MOST_FILES = 200


def replaced_flags_warning(build: str, source: Path) -> str:
    """Return a warning if a build command replaces flags that the project's makefiles set; else an empty text.

    Args:
        build: the build command, with its placeholders.
        source: the folder of the sources.
    """
    if not _MAKE.search(build):
        return ""
    for match in _ON_COMMAND_LINE.finditer(build):
        for path, flags in _assigned(source, match["name"]):
            lost = [flag for flag in flags if flag not in build and not re.fullmatch(r"-O[0-9s]", flag)]
            if lost:
                name, placeholder, needed = match["name"], match["placeholder"], " ".join(lost)
                where = path.relative_to(source)
                return (
                    f"{name}={{{placeholder}}} on make's command line replaces the {name} of {where}, which has {needed}. "
                    f'Keep them with {name}="{{{placeholder}}} {needed}", or leave {name}=... out: a makefile with {name} += '
                    "finds the experiment's flags in the environment."
                )
    return ""


def _assigned(source: Path, name: str) -> Iterator[tuple[Path, list[str]]]:
    """Yield the makefiles that assign flags to a variable, and these flags. References to other variables are ignored."""
    files = [path for path in sorted(source.rglob("*")) if path.name in _NAMES or path.suffix == ".mk"]
    for path in files[:_MOST_FILES]:
        try:
            with path.open("rb") as handle:
                text = handle.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        values = [found["value"] for found in _ASSIGNMENT.finditer(text) if found["name"] == name]
        flags = [flag for value in values for flag in _NEEDED.findall(value) if "$" not in flag]
        if flags:
            yield path, list(dict.fromkeys(flags))
