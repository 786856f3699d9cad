# SPDX-License-Identifier: MIT OR Apache-2.0
"""Elements of Markdown: escaped text, code, tables, links, folded parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from swapstone.core.report import formatting

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!$@])")


def plain(text: str) -> str:
    """Return text from outside so that Markdown shows it and does nothing else."""
    return _SPECIAL.sub(r"\\\1", formatting.safe(text))


def code(text: str) -> str:
    """Return text from outside as code; in a table a bar must be escaped even there."""
    shown = formatting.safe(text).replace("`", "'").replace("|", "\\|").strip()
    return f"`{shown}`" if shown else ""


def table(head: Sequence[str], right: Sequence[bool], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, one blank line around it.

    Args:
        head: names of the columns.
        right: for each column, whether it is flush right.
        rows: cells.
    """
    lines = ["", f"| {' | '.join(head)} |", f"|{'|'.join('---:' if flush else '---' for flush in right)}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return [*lines, ""]


def details(summary: str, body: list[str]) -> list[str]:
    """Return lines that are folded away behind a summary, which is HTML."""
    return ["", f"<details><summary>{summary}</summary>", *body, "</details>", ""]


def html_text(text: str) -> str:
    """Return text for HTML inside Markdown, without the characters that either of the two interprets."""
    return re.sub(r"[<>&\"'`*_\[\]\\|]", "", formatting.safe(text))


def link(text: str, target: str) -> str:
    """Return a link to a file beside the document; a target with a scheme is shown and not linked."""
    shown = formatting.safe(target)
    if ":" in shown or re.search(r"[<>()\s]", shown):
        return f"{plain(text)}: {plain(target)}"
    return f"[{plain(text)}]({shown})"
