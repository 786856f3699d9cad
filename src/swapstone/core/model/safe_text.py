# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text from outside, such as names in a record, made harmless for a terminal, for JSON and for a spreadsheet."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

# Controls, formats, surrogates, private use, unassigned, separators of lines and paragraphs (Unicode, general categories).
_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
"""Select Graphic Rendition (ECMA-48, 8.3.117): the only sequence that Swapstone's own renderers print."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|nan)")

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+][A-Za-z0-9_./+:@%,=-]*")

# The last four are the full-width forms, which spreadsheets of East Asian locales accept.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe(text: str) -> str:
    r"""Return text from outside with every character made visible that could steer a terminal or reorder a line.

    Args:
        text: anything.

    Returns:
        One line; an escape character becomes ``\x1b``, a right-to-left override ``\u202e``. The result of a second call is the same.
    """
    return _replaced(text, _visible)


def safe_excerpt(text: str, most: int = 200) -> str:
    """Return the first characters of a text from outside as a part of a message: as `safe`, with ``...`` where something is left out."""
    return f"{safe(text[:most])}..." if len(text) > most else safe(text)


def utf8_path(path: Path) -> str:
    r"""Return a path for JSON, a database or a page, which have UTF-8: bytes that are none become ``\xNN``. Other paths stay."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_plain_word(text: str) -> bool:
    """Return whether a text stays what it is as a word of a command line: no shell interprets it, and it is no option."""
    return _PLAIN_WORD.fullmatch(text) is not None


def safe_lines(text: str, *, colours: bool = False) -> str:
    """Return text of several lines for a terminal: as `safe`, but newlines and tabs stay.

    Args:
        text: anything.
        colours: whether the sequences of `_COLOURS` stay, for text of which a renderer has coloured parts.
    """
    if not colours:
        return _replaced(text, _visible, kept="\n\t")
    parts = _COLOURS.split(text)  # every second part is a sequence
    return "".join(part if place % 2 else _replaced(part, _visible, kept="\n\t") for place, part in enumerate(parts))


def safe_json(text: str) -> str:
    r"""Return JSON that is equal when it is decoded, with ``\uXXXX`` for every character that could steer a terminal.

    JSON (RFC 8259) has such characters inside strings only, but for the newlines and tabs between its tokens.
    """
    return _replaced(text, _json_escape, kept="\n\t")


def spreadsheet_cell(value: object) -> object:
    r"""Return the value of a CSV cell that no spreadsheet takes for a formula, and that can't steer a terminal.

    Numbers and texts that are one number, such as ``-1.5e-3``, stay. Of other texts, control characters become visible as by `safe`,
    and one that begins with ``=``, ``+``, ``-`` or ``@`` gets an apostrophe before it (OWASP, CSV injection). A leading tab or carriage
    return becomes ``\x09`` or ``\x0d``.
    """
    if not isinstance(value, str):
        return value if value is None or isinstance(value, (int, float)) else spreadsheet_cell(str(value))
    if _NUMBER.fullmatch(value):
        return value
    shown = safe(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


def _replaced(text: str, escape: Callable[[str], str], kept: str = "") -> str:
    """Return a text with its steering characters escaped. The characters are looked up once each."""
    table = {
        ord(char): escape(char)
        for char in set(text)
        if not " " <= char <= "~" and char not in kept and unicodedata.category(char) in _STEERING
    }
    return text.translate(table) if table else text


def _visible(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(char: str) -> str:
    """Return the escape of RFC 8259, section 7: beyond the basic plane two surrogates."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
