# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks that every source file of the repository has an SPDX licence line, and adds it with --add."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[1]
LICENCE = "MIT OR Apache-2.0"
EXCEPTIONS = {"native/planted": "GPL-2.0-only"}
"""Folders with a licence of their own: a module of the Linux kernel must be compatible with the kernel's."""

COMMENTS = {
    ".py": ("# ", ""),
    ".sh": ("# ", ""),
    ".rs": ("// ", ""),
    ".c": ("// ", ""),
    ".h": ("// ", ""),
    ".ld": ("/* ", " */"),
    ".css": ("/* ", " */"),
    ".js": ("// ", ""),
    ".j2": ("{#- ", " -#}"),
}
"""How a comment of one line begins and ends, by suffix. A script without a suffix begins with ``#!`` and is like ``.sh``."""

SEARCHED_LINES = 2
"""The line is the first, or the second after ``#!``."""

_LINE = re.compile(r"SPDX-License-Identifier: (?P<licence>[A-Za-z0-9.+ -]+?) *(?:\*/|-?#\}|$)")


def source_files(top: Path) -> list[Path]:
    """Return the source files that git tracks or would add, sorted; a file without content needs no line."""
    listed = subprocess.run(
        ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = sorted({top / name for name in listed.split("\0") if name})
    return [path for path in files if path.is_file() and not path.is_symlink() and comment_of(path)]


def comment_of(path: Path) -> tuple[str, str] | None:
    """Return how a comment begins and ends in a source file; None for an empty file and for what is no source."""
    if path.suffix:
        return COMMENTS.get(path.suffix) if path.stat().st_size else None
    with path.open("rb") as file:
        return COMMENTS[".sh"] if file.read(2) == b"#!" else None


def wanted_licence(name: str) -> str:
    """Return the licence of a file, named relative to the top."""
    return next((licence for folder, licence in EXCEPTIONS.items() if name.startswith(f"{folder}/")), LICENCE)


def stated_licence(text: str) -> str | None:
    """Return the licence that a file's first lines state."""
    for line in text.split("\n")[:SEARCHED_LINES]:
        if found := _LINE.search(line):
            return found["licence"]
    return None


def with_line(text: str, comment: tuple[str, str], licence: str) -> str:
    """Return a file's text with the licence line, in place of one that states another licence."""
    line = f"{comment[0]}SPDX-License-Identifier: {licence}{comment[1]}"
    lines = text.split("\n")
    for index, old in enumerate(lines[:SEARCHED_LINES]):
        if _LINE.search(old):
            lines[index] = line
            return "\n".join(lines)
    lines.insert(1 if text.startswith("#!") else 0, line)
    return "\n".join(lines)


def problems(top: Path, *, add: bool = False) -> list[str]:
    """Return one line for each file without the right licence line; with `add`, write the line and return none."""
    found = []
    for path in source_files(top):
        name = path.relative_to(top).as_posix()
        text, wanted = path.read_text(), wanted_licence(name)
        stated = stated_licence(text)
        if stated == wanted:
            continue
        if add:
            comment = comment_of(path)
            assert comment is not None
            path.write_text(with_line(text, comment, wanted))
        else:
            found.append(f"{name}: {f'states {stated}' if stated else 'no licence line'}; expected {wanted}")
    return found


def main() -> int:
    """Check the repository, or the tree that --top names; exit with 1 if a line is missing."""
    parser = argparse.ArgumentParser(prog="tools/check-spdx", description=__doc__)
    parser.add_argument("--add", action="store_true", help="write the missing lines")
    parser.add_argument("--top", type=Path, default=TOP, help="top of a git checkout [this one]")
    options = parser.parse_args()
    found = problems(options.top.resolve(), add=options.add)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
