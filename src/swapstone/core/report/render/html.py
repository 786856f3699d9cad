# SPDX-License-Identifier: MIT OR Apache-2.0
"""A document as one self-contained HTML page: it loads nothing, and its only script sorts and filters its own table."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from markupsafe import Markup, escape

from swapstone.core.report.document import (
    AS_PAGE,
    BulletList,
    Commands,
    Document,
    ForestPlot,
    Item,
    ResultGroup,
    ResultRow,
    ResultTable,
    Tone,
)
from swapstone.core.report.formatting import percent, ratio, safe
from swapstone.core.report.render import html_plots

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
_LONG_NAME = 9
_UNIT = re.compile(r"([0-9]) (%|[num]?s|[KMG]?i?B(?:/s)?|[kMG]?/s|[kMG]|min|h)(?![A-Za-z])")
_RANGE = re.compile(r"(\([^()\s]{1,24}\u2013[^()\s]{1,24}\))")
_MANY_COLUMNS = 8


def render(document: Document) -> str:
    """Print a document as one HTML page.

    Returns:
        The page. Its own policy forbids it to load anything and to run another script. Text from outside is escaped. Without
        JavaScript, the page shows the same text.
    """
    sections = document.page_sections or document.sections
    # Without the command that makes this page.
    overview = tuple(
        Commands(commands=tuple(each for each in block.commands if each[0] != AS_PAGE))
        if isinstance(block, Commands)
        else block
        for block in document.overview
    )
    sorts = any(isinstance(block, ResultTable) for section in sections for block in section.blocks)
    script, digest = page_script("document.js" if sorts else "")
    return template("document.html.j2").render(
        document=msgspec.structs.replace(document, overview=overview),
        sections=(*sections, *document.closing),
        notices=_notices(document),
        script=script,
        digest=digest,
    )


def _notices(document: Document) -> tuple[Item, ...]:
    """Return the notices that the overview does not have."""
    lists = (block for block in document.overview if isinstance(block, BulletList))
    known = {item.text for block in lists for item in block.items}
    return tuple(notice for notice in document.notices if notice.text not in known)


@functools.cache
def page_script(name: str) -> tuple[Markup, str]:
    """Return a script of this package for a page, and its digest for the page's policy; nothing for an empty name."""
    text = (_TEMPLATES / name).read_text(encoding="utf-8") if name else ""
    return Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()  # noqa: S704 - ours


def _as_results(plot: ForestPlot) -> ResultTable:
    """Return a forest plot as a table of results of one metric without a name."""
    return ResultTable(
        title=plot.title,
        before_name=plot.before_name,
        after_name=plot.after_name,
        margin=plot.margin,
        groups=(ResultGroup(title="", rows=tuple(ResultRow(row=row, metric="") for row in plot.rows)),),
        reference_name=plot.reference_name,
    )


def _unbroken(text: str) -> str:
    """Keep numbers and their units on one line."""
    return _UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text)


def _ranged(text: str) -> Markup:
    """Return the text of a cell, escaped, with each interval in brackets kept on one line."""
    escaped = str(escape(safe(_unbroken(text))))
    return Markup(_RANGE.sub(r'<span class="range">\1</span>', escaped))  # noqa: S704 - escaped above


@functools.cache
def template(name: str) -> jinja2.Template:
    """Return a template of this package. Every text that it prints is escaped and made safe."""
    import jinja2  # noqa: PLC0415 - a terminal's report does without it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("swapstone.core.report.render", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every string that is printed passes through here: nothing from outside can reorder or hide text.
        finalize=lambda value: safe(value) if type(value) is str else value,
    )
    environment.filters.update(
        {
            "unbroken": _unbroken,
            "ranged": _ranged,
            "kind": lambda block: type(block).__name__,
            "heading": lambda column: column.name,
            # Then a table needs smaller letters and cells of several lines.
            "has_many_columns": lambda table: len(table.columns) >= _MANY_COLUMNS,
            # Then names need more room on a narrow page, where they stand beside each cell.
            "has_long_names": lambda table: any(len(column.name) > _LONG_NAME for column in table.columns[1:]),
            "as_results": _as_results,
            "verdicts": lambda table: Counter(each.row.mark for each in table.rows).most_common(),
            "class": html_plots.css_class,
        }
    )
    environment.globals.update(
        {
            "plots": html_plots,
            "svg": Markup,  # a drawing: the topic that made it has escaped text from outside
            "percent": percent,
            "ratio": ratio,
            "WARNING": Tone.WARNING,
            "NOTE": Tone.NOTE,
            "STRONG": Tone.STRONG,
        }
    )
    return environment.get_template(name)
