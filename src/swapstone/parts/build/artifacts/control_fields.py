# SPDX-License-Identifier: MIT OR Apache-2.0
"""Debian's control files, deb-control(5): what apt-cache prints about packages. ARCHITECTURE.md states why this is no library."""

from __future__ import annotations


def paragraphs(text: str) -> list[dict[str, str]]:
    """Return the fields of each paragraph. A value keeps its lines, without the space that marks a continuation.

    Args:
        text: paragraphs separated by empty lines. Lines without a colon are ignored.
    """
    return [_fields(paragraph) for paragraph in text.split("\n\n") if paragraph.strip()]


def _fields(paragraph: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph.strip("\n").splitlines():
        start, colon, value = line.partition(":")
        if line[:1].isspace():
            if name:
                fields[name] += f"\n{line.strip()}"
        elif colon:
            name = start
            fields[name] = value.strip()
    return fields
