# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published ratios beside those of records: which differ in sign, or in size by more than a factor.

Reports count how often the signs of differences agree with a published page.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from swapstone.core.model import Analysis, FrozenStruct
from swapstone.core.model.references import Figure, Side
from swapstone.core.report import formatting
from swapstone.core.report.answer.wording import listed
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import BulletList, Cell, Document, Heading, Item, Mark, Paragraph, Section, Tone
from swapstone.core.report.printed_json import printed_json
from swapstone.core.report.ratios import LOADS_NOTE, Ratio
from swapstone.core.report.tables import Field, known, table_of
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import Agreement, Row, comparison_groups, memory_rows, shown
from swapstone.core.report.topics.topic import Topic
from swapstone.parts.published.data import Joined, PublishedPlace, figures, joined, shipped, source_of
from swapstone.parts.published.report.measured import Analysed, Effect, damaged, effect_of, like_the_pages, sign_of

FACTOR = 1.5
"""Two ratios are of different size if one is larger than the other by more than this factor."""

_SIGN, _SIZE = "other sign", "other size"
Reason = dict[str, str]
"""Why published ratios differ from those here: ``reason``, a sentence; ``study``, the published one; and patterns with ``*`` and ``?``.

``workload``, ``metric``, ``level`` and ``load`` are of the rows; ``platform`` is that of the page; ``clock``, ``wall`` or ``virtual``, and
``architecture`` are the record's.
"""


class Difference(FrozenStruct, frozen=True, kw_only=True):
    """A published ratio beside that of a record.

    Attributes:
        figure: of the candidate's side on the page.
        place: the row here.
        over: the side by which is divided.
        page: the published ratio, turned where the page has rates beside times.
        here: the record's.
        kind: ``other sign``, ``other size``, or empty where both agree.
        reason: why; empty if no reason is given.
    """

    figure: Figure
    place: PublishedPlace
    over: Side
    page: float
    here: Effect
    kind: str
    reason: str


class Differences(FrozenStruct, frozen=True, kw_only=True):
    """All published ratios that records have.

    Attributes:
        records: their names.
        rows: every ratio that a record has.
        absent: number of published ratios that no record has.
        left_out: a sentence about the records that are not compared; empty if all are.
        damaged: a sentence about each record that is damaged.
    """

    records: tuple[str, ...]
    rows: tuple[Difference, ...]
    absent: int
    left_out: str = ""
    damaged: tuple[str, ...] = ()

    @property
    def different(self) -> tuple[Difference, ...]:
        """Return the rows that differ in sign or size, the largest difference first."""
        found = [each for each in self.rows if each.kind]
        return tuple(sorted(found, key=lambda each: (each.kind != _SIGN, -_apart(each.page, each.here.value))))

    @property
    def answer(self) -> str:
        """Return the sentence with the number of rows that differ."""
        unexplained = sum(not each.reason for each in self.different)
        ratios = formatting.count(len(self.rows), "published ratio")
        if not self.rows:
            return f"The records have none of the {self.absent} published ratios."
        signs = sum(each.kind == _SIGN for each in self.different)
        return (
            f"Of {ratios} beside the records', {signs} {'differs' if signs == 1 else 'differ'} in sign and "
            f"{len(self.different) - signs} by more than a factor of {FACTOR}; "
            f"{unexplained} of these {'has' if unexplained == 1 else 'have'} no reason."
        )


@functools.cache
def shipped_reasons() -> list[Reason]:
    """Return the reasons of reasons.toml."""
    with shipped("reasons.toml") as text:
        return msgspec.convert(tomllib.loads(text)["reason"], list[Reason])


def differences(records: Iterable[Analysed], reasons: Sequence[Reason] = ()) -> Differences:
    """Put published ratios beside those of records.

    Args:
        records: analysed records. Where several have a row, each is compared, but those that are no `like_the_pages`.
        reasons: why rows differ; the first that matches is taken.
    """
    known, left_out = like_the_pages(records)
    every = tuple(ratios())
    rows = tuple(
        Difference(
            figure=figure,
            place=place,
            over=over,
            page=page,
            here=here,
            kind=kind_of(page, here.ratio, record.experiment.margin),
            reason=reason_of(figure, place, record, reasons),
        )
        for figure, place, over, page in every
        for record in known
        if (here := effect_of(record, (place.suite, place.workload, place.metric), over, place.side)) is not None
    )
    return Differences(
        records=tuple(each.name for each in known),
        rows=rows,
        absent=len(every) - len({(each.figure, each.place) for each in rows}),
        left_out=left_out,
        damaged=damaged(known),
    )


def ratios() -> Iterator[tuple[Figure, PublishedPlace, Side, float]]:
    """Yield each published ratio: (figure, place, side by which is divided, ratio), of time series, indices and derived numbers none."""
    bases = {_key(each): each for each in reversed(joined()) if each.baseline and each.place.over is None}
    for each in joined():
        place, figure, base = each.place, each.figure, bases.get(_key(each))
        if place.series or place.index or place.derived:
            continue
        if place.over is not None:
            yield figure, place, place.over, figure.value
        elif not each.baseline and base is not None and min(base.figure.value, figure.value) > 0:
            ratio = figure.value / base.figure.value
            yield figure, place, base.place.side, 1 / ratio if place.inverse else ratio


def _key(each: Joined) -> tuple[object, ...]:
    place, figure = each.place, each.figure
    return each.join, place.workload, place.metric, figure.metric, figure.unit, figure.condition, figure.platform


def _apart(one: float, other: float) -> float:
    return max(one / other, other / one)


def kind_of(page: float, here: Ratio, margin: float) -> str:
    """Return in what a published ratio and one with a value differ; empty for nothing."""
    if here.sign is not None and here.sign * sign_of(page, margin) < 0:
        return _SIGN
    return _SIZE if _apart(page, here.value or math.nan) > FACTOR else ""


def reason_of(figure: Figure, place: PublishedPlace, record: Analysed, reasons: Iterable[Reason]) -> str:
    """Return why a figure differs from a record: the text of the first reason whose patterns match its place; empty if none does."""
    facts = {
        "study": figure.study,
        "workload": place.workload,
        "metric": place.metric,
        "level": place.side.text,
        "load": place.side.load,
        "platform": figure.platform,
        "clock": "virtual" if record.experiment.virtual else "wall",
        "architecture": record.architecture,
    }
    fitting = (
        each for each in reasons if all(fnmatchcase(facts[key], text) for key, text in each.items() if key != "reason")
    )
    return next((each["reason"] for each in fitting), "")


_TONES = {_SIGN: Tone.BAD, _SIZE: Tone.NOTE}
_TITLE = "Published ratios that differ from the records'"
_FIELDS: tuple[Field[Difference], ...] = (
    Field("study", "", lambda each: each.figure.study, right=False),
    Field("row here", "", lambda each: Cell(each.place.workload, code=True), right=False),
    Field("metric", "", lambda each: each.place.metric, right=False),
    Field("ratio", "", lambda each: ratio_text(each.place.side, each.over), right=False),
    Field("page", "", lambda each: each.figure.printed if each.place.over else formatting.ratio(each.page)),
    Field("here", "", lambda each: each.here.ratio.text()),
    Field("record", "", lambda each: each.here.record, formatting.safe, right=False),
    Field("differs", "", lambda each: Cell(mark=Mark(each.kind, "", _TONES[each.kind])), right=False),
    Field("measured by the page on", "", lambda each: each.figure.platform, right=False),
)


def document_of(found: Differences) -> Document:
    """Return the rows that differ, and the reasons, each with the rows that have it."""
    platforms = {each.figure.platform for each in found.different}
    single = next(iter(platforms)) if len(platforms) == 1 else ""  # then there is no column for it
    notes = (
        f"{formatting.count(found.absent, 'published ratio')} that no given record has." if found.absent else "",
        formatting.safe(found.left_out),
        f"The page measured on: {single}." if single else "",
        LOADS_NOTE,
    )
    table = table_of(_TITLE, _FIELDS[:-1] if single else _FIELDS, found.different, keys=2)
    why = (table, Heading("Why they differ"), BulletList(items=tuple(_explained(found)))) if found.different else ()
    return Document(
        title="Published ratios beside the records'",
        answer=found.answer,
        notices=tuple(Item(formatting.safe(text)) for text in found.damaged),
        sections=(Section(title=_TITLE, blocks=(*why, BulletList(items=tuple(map(Item, filter(None, notes)))))),),
    )


def _explained(found: Differences) -> Iterator[Item]:
    """Yield an item for each reason, with its rows; rows without a reason come last."""
    groups: dict[tuple[bool, str, str], list[Difference]] = {}
    for each in found.different:
        groups.setdefault((not each.reason, each.figure.study, each.reason), []).append(each)
    for (_, study, reason), rows in sorted(groups.items(), key=lambda group: group[0][0]):
        works = listed(list(dict.fromkeys(f"{each.place.workload} ({each.place.metric})" for each in rows)))
        yield Item(f"{works}: {reason or 'No reason is given.'}", label=study)


def ratio_text(side: Side, over: Side) -> str:
    """Return two sides as a ratio of the levels in which they differ."""
    sides = [
        [level for factor, level in mine.levels if (factor, level) not in other.levels]
        + ([mine.load] if side.load != over.load else [])
        for mine, other in ((side, over), (over, side))
    ]
    text = " / ".join(map(", ".join, sides))
    if dict(side.levels) == dict(over.levels):
        return f"{text}, {side.text}"
    return f"{text} under {side.load}" if side.load == over.load != "idle" else text


def to_json(found: Differences) -> str:
    """Return every row, as JSON of the format ``published-differences``."""
    return printed_json(
        "published-differences",
        answer=found.answer,
        records=found.records,
        absent=found.absent,
        left_out=found.left_out or None,
        damaged=found.damaged,
        factor=FACTOR,
        rows=[
            {
                "study": each.figure.study,
                "suite": each.place.suite,
                "workload": each.place.workload,
                "metric": each.place.metric,
                "ratio": ratio_text(each.place.side, each.over),
                "platform": each.figure.platform,
                "page": each.page,
                "here": each.here.value,
                "low": each.here.interval[0],
                "high": each.here.interval[1],
                "record": each.here.record,
                "not_same": each.place.differs or None,
                "differs": each.kind or None,
                "reason": each.reason or None,
            }
            for each in found.rows
        ],
    )


def sections(context: ReportContext, analysis: Analysis) -> tuple[Section, ...]:
    """Return a section that names the page and counts agreements; none where no row has a published figure."""
    groups = comparison_groups(context, analysis)
    times, memory = tuple(row for group in groups for row in group.rows), memory_rows(groups)
    if not any(row.published for row in (*times, *memory)):
        return ()
    items = (Item(f"Time: {sentences.against_page(times)}"), Item(f"Memory: {sentences.against_page(memory)}"))
    off = [row for row in (*times, *memory) if row.agreement is Agreement.DISAGREES]
    table = table_of("Rows whose sign differs from the published one", _AGREEMENT_FIELDS, off)
    source = source_of(context.published)
    platforms = "; ".join(sorted({figure.platform for figure in figures(context.published)}))
    page = Paragraph(f"Published: {source['title']}. {source['project']}; measured on {platforms}.")
    more = (Heading("Rows whose sign disagrees"), table) if off else ()
    return (Section(title="Comparison with the published page", blocks=(page, BulletList(items=items), *more)),)


_AGREEMENT_FIELDS: tuple[Field[Row], ...] = (
    Field("workload", "", lambda row: Cell(row.comparison.workload, code=True), right=False),
    Field("metric", "", lambda row: sentences.metric_name(row.comparison.metric.name), right=False),
    Field("here", "", lambda row: formatting.estimate(row.comparison) if shown(row.comparison) is not None else ""),
    Field("page", "", lambda row: row.published, known(formatting.ratio)),
)
PUBLISHED_FIGURES = Topic("published-figures", 160, sections, selective=True)
