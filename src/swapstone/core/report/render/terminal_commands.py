# SPDX-License-Identifier: MIT OR Apache-2.0
"""Commands on a terminal: wrapped so that a shell accepts the copied lines."""

from __future__ import annotations

import re
import shlex

from rich.cells import cell_len

_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_BREAK = " \\"


def command_lines(label: str, command: str, room: int, width: int) -> list[str]:
    r"""Return a command with its purpose before it, no line wider than `width`.

    Lines that continue end in a backslash, so that a shell joins them. A word that is wider than a line is broken too: the rest of it
    begins in the first column, and a quoted word is quoted in pieces.

    Args:
        label: what the command is for; without characters that steer a terminal.
        command: as a shell accepts it, likewise.
        room: columns for the label.
        width: columns of the terminal, at least 20.
    """
    for start in (f"  {label.ljust(room)} ", f"  {label} ") if label else ("  ",):
        if cell_len(start + command) <= width:
            return [start + command]
    lines = [f"  {label}:"] if label else []
    line, indent = "", "    "
    for word in _WORD.findall(command):
        joined = f"{line} {word}" if line.strip() else f"{indent}{word}"
        if cell_len(joined) + len(_BREAK) <= width:
            line = joined
            continue
        if line.strip():
            lines.append(line + _BREAK)
        *full, line = _pieces(word, indent, width)
        lines += full
    return [*lines, line]


def _pieces(word: str, indent: str, width: int) -> list[str]:
    """Return a word as lines of which each but the last ends in a backslash and continues in the first column."""
    if cell_len(indent + word) + len(_BREAK) <= width:
        return [indent + word]
    try:
        (plain,) = shlex.split(word)
    except ValueError:
        return [indent + word]
    pieces, piece, start = [], "", indent
    for character in plain:
        if cell_len(start + shlex.quote(piece + character)) + len(_BREAK) > width:
            pieces.append(f"{start}{shlex.quote(piece)}\\")
            piece, start = "", ""
        piece += character
    return [*pieces, start + shlex.quote(piece)]
