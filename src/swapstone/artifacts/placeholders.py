# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placeholders such as ``{cc}`` in a build command, replaced with the quoting that the shell needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from swapstone.model import UserError

KNOWN: dict[str, str] = {
    "cc": "the C compiler's command",
    "cflags": "flags for compiling",
    "ldflags": "flags for linking",
    "jobs": "number of processors for the build",
}
"""The placeholders and their meanings."""

_WORD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_APART = {"", *" \t\n;&|()`"}
"""Characters that separate words of the shell; the empty string stands for the command's ends."""

_DOUBLED = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")


def placeholders(command: str) -> frozenset[str]:
    """Return the placeholders of a build command.

    Args:
        command: for ``/bin/sh -c``. ``${NAME}`` is left to the shell; ``{{word}}`` gives ``{word}``.

    Raises:
        UserError: one is unknown; the hint lists the known ones.
    """
    found = frozenset(name for name, _ in _pieces(command) if name)
    wrong = sorted(found - KNOWN.keys())
    if wrong:
        known = ", ".join(f"{{{name}}} ({meaning})" for name, meaning in KNOWN.items())
        raise UserError(
            f"--build has the unknown placeholder {{{wrong[0]}}}.",
            f"Known: {known}. Write {{{{{wrong[0]}}}}} for a literal {{{wrong[0]}}}.",
        )
    return found


def fill(command: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of a build command, quoted for their positions.

    Args:
        command: for ``/bin/sh -c``, checked by `placeholders`.
        values: of each placeholder, in the shell's syntax.

    Returns:
        The command. ``CFLAGS={cflags}``, ``"CFLAGS={cflags}"`` and ``'CFLAGS={cflags}'`` each give one word of the shell. A placeholder
        that is a word by itself, as in ``{cc} {cflags} prog.c``, gives as many words as its value has.
    """
    quotes, filled = _Quotes(), ""
    pieces = _pieces(command)
    for at, (name, text) in enumerate(pieces):
        if name:
            after = pieces[at + 1][1] if not pieces[at + 1][0] else name
            alone = filled[-1:] in _APART and after[:1] in _APART
            filled += values[name] if alone and not quotes.inside else quotes.quoted(values[name])
        else:
            quotes.read(text)
            filled += text
    return filled


def _pieces(command: str) -> list[tuple[str, str]]:
    """Split a command into pairs: (placeholder, "") and ("", text between them)."""
    pieces, at = [], 0
    for match in re.finditer(rf"(?P<doubled>{_DOUBLED.pattern})|(?<!\$)(?P<word>{_WORD.pattern})", command):
        pieces.append(("", command[at : match.start()]))
        at = match.end()
        pieces.append(("", match["doubled"][1:-1]) if match["doubled"] else (match["word"][1:-1], ""))
    return [*pieces, ("", command[at:])]


class _Quotes:
    """The open quotes at a position of a command, for each level of ``$(...)`` and backquotes."""

    def __init__(self) -> None:
        self._open = [""]
        self._closing = [""]
        self._escaped = False

    @property
    def inside(self) -> bool:
        """Return whether this position is inside quotes."""
        return bool(self._open[-1])

    def read(self, text: str) -> None:
        """Advance over text."""
        for char in text:
            self._take(char)

    def quoted(self, value: str) -> str:
        """Return a value quoted so that it joins the text around this position."""
        if self._open[-1] == "'":
            return value.replace("'", "'\\''")
        if self._open[-1] == '"':
            return re.sub(r'([\\"$`])', r"\\\1", value)
        return shlex.quote(value)

    def _take(self, char: str) -> None:
        quote = self._open[-1]
        if self._escaped:
            self._escaped = False
        elif quote == "'":
            self._open[-1] = "" if char == "'" else quote
        elif char == "\\":
            self._escaped = True
        elif char == self._closing[-1]:
            self._open.pop()
            self._closing.pop()
        elif char == '"':
            self._open[-1] = "" if quote else '"'
        elif char == "'" and not quote:
            self._open[-1] = "'"
        elif char in "(`" and (not quote or char == "`" or self._dollar):
            self._open.append("")
            self._closing.append(")" if char == "(" else "`")
        self._dollar = char == "$"

    _dollar = False
