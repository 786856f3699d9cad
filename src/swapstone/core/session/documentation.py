# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pages of the documentation, which an installed package contains too."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import NamedTuple

from swapstone.core.model.directories import share_dir
from swapstone.core.model.errors import UserError


class Page(NamedTuple):
    """A page: its name, its heading, and its file."""

    name: str
    title: str
    path: Path


def pages() -> list[Page]:
    """Return all pages in the order of their names; those of a folder have its name, as in ``measurements/scale``."""
    docs = share_dir() / "docs"
    found = {
        str(path.relative_to(docs).with_suffix("")): path
        for path in (*docs.glob("*.md"), *docs.glob("measurements/*.md"))
    }
    return [Page(name, _title(found[name]), found[name]) for name in sorted(found)]


def find_page(name: str) -> Page:
    """Return a page.

    Args:
        name: of the page, with or without ``docs/`` and ``.md``.

    Raises:
        UserError: there is none of that name.
    """
    known = {page.name: page for page in pages()}
    topic = name.removeprefix("docs/").removesuffix(".md")
    if topic not in known:
        near = difflib.get_close_matches(topic, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UserError(f"There is no page {name!r}.", f"{hint}`swapstone docs` lists the pages.")
    return known[topic]


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as opened:
        return next((line[2:].strip() for line in opened if line.startswith("# ")), path.stem)
