# SPDX-License-Identifier: MIT OR Apache-2.0
"""The structure of every report: a document of sections, each made of blocks.

A topic (`swapstone.core.report.topics`) builds sections, and a renderer (`swapstone.core.report.render`) prints blocks. A block has content
and no format. A renderer depends on blocks only. Text in a block may come from outside, so each renderer escapes it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar

import msgspec

from swapstone.core.model import FrozenStruct


class Tone(enum.Enum):
    """The meaning of a text's colour."""

    PLAIN = "plain"
    STRONG = "strong"
    NOTE = "note"
    WARNING = "warning"
    GOOD = "good"
    BAD = "bad"
    NEUTRAL = "neutral"  # a difference of which no direction is better


class Mark(FrozenStruct, frozen=True, kw_only=False):
    """A verdict beside a number: a word, a letter where a word does not fit, and a colour."""

    name: str
    letter: str
    tone: Tone = Tone.PLAIN


class Paragraph(FrozenStruct, frozen=True, kw_only=False, tag=True):
    """One or several sentences."""

    text: str
    tone: Tone = Tone.PLAIN


class Heading(FrozenStruct, frozen=True, kw_only=False, tag=True):
    """A heading inside a section."""

    text: str


class Item(FrozenStruct, frozen=True, kw_only=False):
    """An item of a list.

    Attributes:
        text: the sentence.
        label: what stands before it, followed by a colon; empty for nothing.
        code: whether the label is a name that a user types.
        tone: of the whole item.
        items: sentences that belong to it.
    """

    text: str
    label: str = ""
    code: bool = False
    tone: Tone = Tone.PLAIN
    items: tuple[str, ...] = ()


class BulletList(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A list.

    Attributes:
        items: all of them.
        title: a sentence above it; empty for none.
        most: number of items in a brief rendering, which counts the rest; 0 for all.
        rest: name of the rest, e.g. ``more that differ less``.
    """

    items: tuple[Item, ...]
    title: str = ""
    most: int = 0
    rest: str = "more"


class Column(FrozenStruct, frozen=True, kw_only=False):
    """A column of a table.

    Attributes:
        head: the lines of its heading.
        right: whether its cells are set to the right.
        help: what the column means, for a tooltip.
        optional: whether a terminal that is too narrow for the table leaves it out.
    """

    head: tuple[str, ...]
    right: bool = False
    help: str = ""
    optional: bool = False

    @property
    def name(self) -> str:
        """Return the heading as one line."""
        return ", ".join(filter(None, self.head))


class Cell(FrozenStruct, frozen=True, kw_only=False):
    """A cell of a table: a text, an effect with its verdict, or both.

    Attributes:
        text: a value.
        short: the same for a narrow table; empty for `text`.
        effect: an effect with its unit, e.g. ``1.204``.
        interval: around the effect, without brackets.
        mark: the verdict.
        note: more about the effect, e.g. the published one.
        sign: short form of the note for a narrow table.
        code: whether the text is a name that a user types.
    """

    text: str = ""
    short: str = ""
    effect: str = ""
    interval: str = ""
    mark: Mark | None = None
    note: str = ""
    sign: str = ""
    code: bool = False


class Table(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A table.

    Attributes:
        title: a caption for screen readers.
        columns: in order.
        rows: cells, each row as long as `columns`.
        keys: number of first columns that name a row. They are repeated where a table is too wide and continues below.
        dense: whether a terminal prints marks as letters.
        beside: whether cells have two numbers, which a page prints on a line each.
        left_out: number of further rows, which are not in `rows`.
        left_out_after: number of rows above the place where those would be.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1
    dense: bool = False
    beside: bool = False
    left_out: int = 0
    left_out_after: int = 0


class PairedRuns(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A plot of every run of two sides as a dot, with pairs joined by a line.

    Attributes:
        title: a heading; empty where it belongs to a row that names it.
        before_name, after_name: of the sides.
        before, after: their values, paired.
        low, high: the smallest and the largest value with unit.
        mark: of the comparison.
        text: a description in sentences.
    """

    title: str
    before_name: str
    after_name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    low: str
    high: str
    mark: Mark
    text: str


class ForestRow(FrozenStruct, frozen=True, kw_only=True):
    """A row of a forest plot.

    Attributes:
        name: of the row.
        before, after: values of both sides with unit; empty for none.
        effect: with unit; empty for none.
        interval: around it; ``exact`` where none is needed.
        mark: the verdict.
        ratio, low, high: effect and interval for the plot; None where they are no ratios.
        reference: another ratio to compare with, e.g. a published one; None for none.
        reference_text: the same as text.
        reference_note: how the two compare, in one or two words.
        reference_tone: of that word.
        runs: of the row; None where they don't vary.
        note: why there is no effect, or the smallest effect that would be detected; empty for none.
        detail: what else there is to state about the row, on a line of its own; empty for none.
    """

    name: str
    before: str
    after: str
    effect: str
    interval: str
    mark: Mark
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    reference_text: str = ""
    reference_note: str = ""
    reference_tone: Tone = Tone.NOTE
    runs: PairedRuns | None = None
    note: str = ""
    detail: str = ""


class ForestPlot(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A forest plot: ratios with intervals on one axis, a row each.

    Attributes:
        title: a caption.
        before_name, after_name: of the two sides; `after_name` is what is less or more on the axis.
        reference_name: of the references; empty where no row has one.
        margin: ratios from 1 / (1 + margin) to 1 + margin are of no interest.
        rows: in order.
        left_out, left_out_after: as in `Table`.
    """

    title: str
    before_name: str
    after_name: str
    margin: float
    rows: tuple[ForestRow, ...]
    reference_name: str = ""
    left_out: int = 0
    left_out_after: int = 0


class ResultRow(FrozenStruct, frozen=True, kw_only=True):
    """A row of a table of results: one workload and metric.

    Attributes:
        row: workload, values, effect and verdict.
        metric: its short name.
        keys: what else identifies the row, parallel to `ResultTable.key_names`.
        before, after: values of both sides, to sort by; None for none.
    """

    row: ForestRow
    metric: str
    keys: tuple[str, ...] = ()
    before: float | None = None
    after: float | None = None


class ResultGroup(FrozenStruct, frozen=True, kw_only=True):
    """The rows of one metric.

    Attributes:
        title: the metric's name.
        note: its meaning, and which direction is better.
        rows: in order.
    """

    title: str
    rows: tuple[ResultRow, ...]
    note: str = ""


class ResultTable(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """Every result as one table with a row per workload and metric, grouped by metric. A page can sort and filter it.

    Attributes:
        title: a caption.
        key_names: headings of the rows' further keys, e.g. ``load``.
        before_name, after_name: of the two sides; `after_name` is what is less or more on the axis.
        margin: ratios from 1 / (1 + margin) to 1 + margin are of no interest.
        groups: in order.
        reference_name: of the references; empty where no row has one.
    """

    title: str
    before_name: str
    after_name: str
    margin: float
    groups: tuple[ResultGroup, ...]
    key_names: tuple[str, ...] = ()
    reference_name: str = ""

    @property
    def rows(self) -> tuple[ResultRow, ...]:
        """Return the rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def flat(self) -> bool:
        """Return whether each metric has one row, so that headings between metrics only take room."""
        return all(len(group.rows) == 1 for group in self.groups)


class Drawing(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A drawing of a page. A terminal and Markdown print none: the same numbers are in the section's table or its data.

    Attributes:
        title: what it shows.
        svg: one ``<svg>`` element that loads nothing. Text from outside in it is escaped already. Its colours are the
            page's, which change with the reader's scheme: ``var(--ink)``, ``var(--soft)`` and ``var(--rule)`` for text and lines,
            ``var(--s1)`` to ``var(--s6)`` for series.
        narrow: the same as `svg`, laid out for a page of 360 pixels; empty where `svg` can be read there.
        caption: sentences below the drawing on a page.
        compact: whether a page sets several such drawings side by side.
    """

    title: str
    svg: str
    narrow: str = ""
    caption: str = ""
    compact: bool = False


class Facts(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """A list of pairs (label, value)."""

    pairs: tuple[tuple[str, str], ...]


AS_PAGE = "as a page"
"""Purpose of the command that makes the page of a report. The page itself leaves it out."""


class Commands(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """Commands to copy: pairs (purpose, command)."""

    commands: tuple[tuple[str, str], ...]


class Links(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """Links to files beside the report: pairs (text, path)."""

    links: tuple[tuple[str, str], ...]


class Fold(FrozenStruct, frozen=True, kw_only=True, tag=True):
    """Blocks behind a summary.

    Attributes:
        summary: a heading.
        note: beside the heading, in small.
        blocks: behind the summary.
        open: whether a page shows them without a click.
        brief: whether a brief rendering prints them.
    """

    summary: str
    blocks: tuple[Block, ...]
    note: str = ""
    open: bool = False
    brief: bool = True


Block = (
    Paragraph
    | Heading
    | BulletList
    | Table
    | PairedRuns
    | ForestPlot
    | ResultTable
    | Drawing
    | Facts
    | Commands
    | Links
    | Fold
)
"""What a section is made of. A renderer prints each of them."""


class Section(FrozenStruct, frozen=True, kw_only=True):
    """A part of a document with a heading.

    Attributes:
        title: its heading.
        blocks: in order.
        name: letters, digits and hyphens, unique in a document; empty for a section without data.
        data: its table for programs: dictionaries from a column's plain name to a text, a number or nothing; all have the same keys.
        warnings: sentences printed above the blocks and among the document's notices.
        brief: whether a brief rendering prints it.
    """

    title: str
    blocks: tuple[Block, ...]
    name: str = ""
    data: tuple[dict[str, str | float | None], ...] = ()
    warnings: tuple[str, ...] = ()
    brief: bool = True


class Document(FrozenStruct, frozen=True, kw_only=True):
    """A report.

    Attributes:
        title: the subject.
        lead: sentences below the title.
        notices: limits of the results.
        warning: whether the first notice is a warning.
        answer: the result in one or two sentences of plain words. Every renderer begins with it.
        overview: what a brief rendering prints below the answer: the indices as one small table, the rows that matter most, what is not
            known, and what to do next. Headings separate these parts. A full rendering prints it before the sections.
        sections: in order.
        page_sections: what a page shows in the place of `sections`, e.g. one table that can be sorted; empty where they are the same.
        closing: record and commands, and how to read the report.
        kicker: above the title, e.g. the name of a study.
        version: of swapstone.
    """

    title: str
    lead: tuple[str, ...] = ()
    notices: tuple[Item, ...] = ()
    warning: bool = False
    answer: str = ""
    overview: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    page_sections: tuple[Section, ...] = ()
    closing: tuple[Section, ...] = ()
    kicker: str = ""
    version: str = ""


def notes_of(section: Section) -> tuple[str, ...]:
    """Return the notes among a section's blocks."""
    return tuple(each.text for each in section.blocks if isinstance(each, Paragraph) and each.tone is Tone.NOTE)


Part = TypeVar("Part")

_NUMBERS = frozenset((int, float, bool, type(None)))


def with_texts(part: Part, change: Callable[[str], str]) -> Part:
    """Return a document, or a part of one, whose texts are changed.

    Args:
        part: a document, a block, a tuple of these, or a text; other values are returned unchanged.
        change: returns the new text.
    """
    if isinstance(part, str):
        return change(part)  # type: ignore[return-value] # a str in, a str out
    if isinstance(part, tuple):
        if _NUMBERS.issuperset(map(type, part)):  # the points of a drawing, of which there may be millions
            return part
        return tuple(with_texts(each, change) for each in part)  # type: ignore[return-value] # as above
    if isinstance(part, msgspec.Struct):
        fields = {name: with_texts(getattr(part, name), change) for name in part.__struct_fields__}
        return msgspec.structs.replace(part, **fields)
    return part
