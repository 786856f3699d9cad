# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print how much code there is, in statements and lines, at one git revision or at two with their difference.

Usage: tools/size [REVISION [REVISION]]     (without one: the working tree)

A statement is:
- in Python, a statement of the syntax tree, but none that is only a string: docstrings;
- in C, a semicolon outside parentheses, a word if, for, while or switch, or the body of a function;
- in Rust, a semicolon outside parentheses and brackets, or a word fn, if, for, while, loop or match.
In C and Rust, comments, strings and preprocessor lines are left out. Code inside a string is not counted: C in a Python string is no C.
The sum has src, tools, benchmarks and native. Tests, the crates and the Markdown of docs have rows of their own below it.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[1]

SUMMED = ("src", "tools", "benchmarks", "native")
BELOW = ("tests", "crates", "docs")
"""Areas outside the sum."""

_LEFT_OUT = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"'
_C = re.compile(
    _LEFT_OUT
    + r"|'(?:\\.|[^'\\])+'|^[ \t]*#(?:\\\n|[^\n])*|\b(?P<word>if|for|while|switch)\b|(?P<body>\)\s*\{)|(?P<mark>[(){};\[\]])",
    re.DOTALL | re.MULTILINE,
)
_RUST = re.compile(
    r'\br(#*)".*?"\1|'
    + _LEFT_OUT
    + r"|'(?:\\[^']+|[^'\\])'|\b(?P<word>fn|if|for|while|loop|match)\b|(?P<body>(?!))|(?P<mark>[(){};\[\]])",
    re.DOTALL,
)


class Size(NamedTuple):
    """Statements, lines and bytes of some files."""

    statements: int = 0
    lines: int = 0
    size_bytes: int = 0


def python_statements(text: str) -> int:
    """Return the statements of a module without those that are only a string."""
    docstring = (ast.Constant, ast.JoinedStr)
    return sum(
        isinstance(node, ast.stmt) and not (isinstance(node, ast.Expr) and isinstance(node.value, docstring))
        for node in ast.walk(ast.parse(text))
    )


def marked_statements(text: str, tokens: re.Pattern[str]) -> int:
    """Return the statements of C or Rust by the rule above; a semicolon belongs to the innermost open bracket."""
    brackets: list[str] = []
    count = 0
    for token in tokens.finditer(text):
        mark = token["mark"] or ("){" if token["body"] else "")
        count += bool(token["word"])
        for each in mark:
            if each in ")}]":
                del brackets[-1:]
            elif each != ";":
                brackets.append(each)
            elif brackets[-1:] in ([], ["{"]):
                count += 1
        count += mark == "){" and brackets == ["{"]
    return count


def statements(path: str, text: str) -> int | None:
    """Return the statements of a file: 0 for Markdown, None for what is neither that nor in one of the three languages."""
    match PurePosixPath(path).suffix:
        case ".md" if path.startswith("docs/"):
            return 0
        case ".py":
            return python_statements(text)
        case ".c" | ".h":
            return marked_statements(text, _C)
        case ".rs":
            return marked_statements(text, _RUST)
    return None


def area(path: str) -> str:
    """Return the row of a file: a package of the source, or a folder at the top."""
    first, *rest = path.split("/")
    if first == "src" and len(rest) > 1:
        depth = 3 if rest[1] == "parts" and len(rest) > 3 else 2
        return f"src {'/'.join(rest[1:depth])}" if len(rest) > 2 else "src (top)"
    return first


def contents(top: Path, revision: str | None) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of a revision of a repository; of its working tree for None. Bytes outside UTF-8 are replaced."""
    if revision is None:
        names = _git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
        yield from ((name, (top / name).read_text(errors="replace")) for name in names if (top / name).is_file())
        return
    with tarfile.open(fileobj=io.BytesIO(_git(top, "archive", revision))) as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)):
                yield member.name, file.read().decode(errors="replace")


def sizes(files: Iterable[tuple[str, str]]) -> dict[str, Size]:
    """Return the size of each area."""
    found: dict[str, Size] = {}
    for path, text in files:
        name = area(path)
        count = statements(path, text)
        if count is not None and (name in BELOW or name.partition(" ")[0] in SUMMED):
            old = found.get(name, Size())
            found[name] = Size(
                old.statements + count, old.lines + text.count("\n"), old.size_bytes + len(text.encode())
            )
    return found


def table(columns: dict[str, dict[str, Size]]) -> str:
    """Return the rows of one revision, or of two with the difference, by the revisions' names."""
    names = {name for column in columns.values() for name in column}
    rows = {
        **{
            name: [column.get(name, Size()) for column in columns.values()]
            for name in sorted(names - {*BELOW}, key=_place)
        },
        "sum": [_sum(column[name] for name in column if name not in BELOW) for column in columns.values()],
        **{name: [column.get(name, Size()) for column in columns.values()] for name in BELOW},
    }
    heads = [*columns, *(["difference"] if len(columns) == 2 else [])]
    printed = [
        f"{'':<16}" + "".join(f"{head[:24]:>26}" for head in heads),
        f"{'':<16}" + f"{'statements':>16}{'lines':>10}" * len(heads),
    ]
    for name, found in rows.items():
        shown = found if len(found) == 1 else [*found, Size(*(new - old for old, new in zip(*found, strict=True)))]
        if name == "docs":
            printed.append(
                f"{'docs, KiB':<16}" + "".join(f"{each.size_bytes / 1024:>16,.0f}{each.lines:>10,}" for each in shown)
            )
        else:
            printed.append(f"{name:<16}" + "".join(f"{each.statements:>16,}{each.lines:>10,}" for each in shown))
    return "\n".join(printed)


def _place(name: str) -> tuple[int, str]:
    return SUMMED.index(name.partition(" ")[0]), name


def _sum(found: Iterable[Size]) -> Size:
    return Size(*map(sum, zip(Size(), *found, strict=True)))


def _git(top: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(top), *arguments], check=True, capture_output=True).stdout


if __name__ == "__main__":
    revisions: list[str | None] = list(sys.argv[1:]) or [None]
    if len(revisions) > 2 or any(name.startswith("-") for name in sys.argv[1:]):
        print(__doc__)
    else:
        print(table({name or "working tree": sizes(contents(TOP, name)) for name in revisions}))
