# SPDX-License-Identifier: MIT OR Apache-2.0
"""Placeholders such as ``{cc}`` in a command of the shell, replaced with the quoting that the shell needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from swapstone.core.model import UserError, placeholders_in, split_placeholders

KNOWN: dict[str, str] = {
    "cc": "the C compiler's command",
    "cxx": "the C++ compiler's command",
    "cflags": "flags for compiling C",
    "cxxflags": "flags for compiling C++",
    "ldflags": "flags for linking",
    "ld": "the linker",
    "ar": "the archiver",
    "ranlib": "the indexer of archives",
    "nm": "the lister of symbols",
    "strip": "the remover of symbols",
    "pkg_config": "the command pkg-config, with --static for static linking",
    "cmake_toolchain": "path of a toolchain file for CMake",
    "meson_cross": "path of a cross file for Meson",
    "rust_target": "the target triple of cargo and rustc",
    "host": "the triple for --host of a configure script",
    "jobs": "number of processors for the build",
}
"""The placeholders and their meanings."""

_APART = {"", *" \t\n;&|()`"}
"""Characters that separate words of the shell; the empty string stands for the command's ends."""


def placeholders(command: str, others: Iterable[str] = ()) -> frozenset[str]:
    """Return the placeholders of a build command.

    Args:
        command: for ``/bin/sh -c``. ``${NAME}`` is left to the shell; ``{{word}}`` gives ``{word}``.
        others: names of the user's free factors, which are known too.

    Raises:
        UserError: one is unknown; the hint lists the known ones.
    """
    found, own = placeholders_in(command), tuple(others)
    wrong = sorted(found - KNOWN.keys() - frozenset(own))
    if wrong:
        known = ", ".join(
            [*(f"{{{name}}}" for name in own), *(f"{{{name}}} ({meaning})" for name, meaning in KNOWN.items())]
        )
        raise UserError(
            f"--build has the unknown placeholder {{{wrong[0]}}}.",
            f"Known: {known}. Write {{{{{wrong[0]}}}}} for a literal {{{wrong[0]}}}.",
        )
    return found


def fill(command: str, values: Mapping[str, str], texts: Mapping[str, str] = MappingProxyType({})) -> str:
    """Replace the placeholders of a command, quoted for their positions.

    Args:
        command: for ``/bin/sh -c``, checked by `placeholders`.
        values: of each placeholder, in the shell's syntax.
        texts: of the user's placeholders, as typed. They replace `values` of the same names. A placeholder in neither stays.

    Returns:
        The command. ``CFLAGS={cflags}``, ``"CFLAGS={cflags}"`` and ``'CFLAGS={cflags}'`` each give one word of the shell. A placeholder
        that is a word by itself, as in ``{cc} {cflags} prog.c``, gives as many words as its value has.
    """
    quotes, filled = _Quotes(), ""
    pieces = split_placeholders(command)
    known = {**values, **texts}
    for at, (name, text) in enumerate(pieces):
        if name in known:
            after = pieces[at + 1][1] if not pieces[at + 1][0] else name
            alone = filled[-1:] in _APART and after[:1] in _APART
            words = _words(texts[name]) if name in texts else values[name]
            filled += words if alone and not quotes.inside else quotes.quoted(texts.get(name, values.get(name, "")))
        else:
            between = f"{{{name}}}" if name else text
            quotes.read(between)
            filled += between
    return filled


def _words(text: str) -> str:
    """Return a user's text as words of the shell: split as the shell would, each quoted; one word if its quotes don't match."""
    try:
        return shlex.join(shlex.split(text))
    except ValueError:
        return shlex.quote(text)


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
