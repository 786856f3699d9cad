# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placeholders such as ``{N}`` in texts. `swapstone.core.artifacts.placeholders` adds the quoting of shell commands."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""A regular expression for the name of a placeholder: that of an environment variable (POSIX, 8.1)."""

_PLACEHOLDER = re.compile(rf"\{{\{{(?P<doubled>{NAME})\}}\}}|(?<!\$)\{{(?P<name>{NAME})\}}")


def split_placeholders(text: str) -> list[tuple[str, str]]:
    """Split a text into pairs: (placeholder, "") and ("", text between them).

    ``${NAME}`` is text, because it is a variable of the shell; ``{{NAME}}`` is the text ``{NAME}``.
    """
    pieces, at = [], 0
    for match in _PLACEHOLDER.finditer(text):
        pieces.append(("", text[at : match.start()]))
        at = match.end()
        pieces.append(("", f"{{{match['doubled']}}}") if match["doubled"] else (match["name"], ""))
    return [*pieces, ("", text[at:])]


def placeholders_in(text: str) -> frozenset[str]:
    """Return the names of the placeholders in a text."""
    return frozenset(name for name, _ in split_placeholders(text) if name)


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced.

    Args:
        text: a word of a command line, or a path. Placeholders without a value stay, e.g. ``{port}``.
        values: by name. Without any, the text is returned unchanged: ``{{NAME}}`` is then no placeholder either.
    """
    if not values:
        return text
    return "".join(values.get(name, f"{{{name}}}") if name else between for name, between in split_placeholders(text))
