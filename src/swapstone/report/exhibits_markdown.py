"""Exhibits as Markdown."""

from __future__ import annotations

import re

from swapstone.report import words
from swapstone.report.exhibit import Exhibit
from swapstone.report.markdown_parts import plain, table

_TICKS = re.compile(r"`+")


def lines(exhibit: Exhibit) -> list[str]:
    """Return all about an exhibit; its drawing is the terminal's, as a block of code."""
    found = ["", f"## {plain(exhibit.title)}", ""]
    found += [f"**{plain(flag)}**\n" for flag in exhibit.flags]
    if exhibit.head:
        found += table([*map(plain, exhibit.head)], exhibit.right, [[*map(plain, row)] for row in exhibit.rows])
    if exhibit.drawn:
        drawn = [words.safe(line).rstrip() for line in exhibit.drawn]
        longest = max((len(run) for line in drawn for run in _TICKS.findall(line)), default=0)
        fence = "`" * max(3, longest + 1)
        found += ["", f"{fence}text", *drawn, fence, ""]
    return [*found, *(f"{plain(note)}\n" for note in exhibit.notes)]
