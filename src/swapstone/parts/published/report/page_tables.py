# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tables of a published page, in its order and with its rows and columns, and beside each number that of records."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from swapstone.core.model.references import Figure, Side
from swapstone.core.report import formatting
from swapstone.core.report.document import BulletList, Cell, Column, Item, Mark, Paragraph, Section, Table, Tone
from swapstone.core.report.ratios import Column as Place
from swapstone.core.report.ratios import Ratio, Ratios, mean_of
from swapstone.core.report.record_report import sections_of
from swapstone.core.report.study_index import PartOfStudy
from swapstone.parts.published.data import (
    Joined,
    MeasuredRow,
    PageRatio,
    PageTable,
    absent_reason,
    figures,
    joined,
    measured_rows,
    page_tables,
    source_of,
)
from swapstone.parts.published.report.kernel_services import RATES, ratio_of, values_of
from swapstone.parts.published.report.measured import Analysed, like_the_pages, sign_of
from swapstone.parts.published.report.published_differences import FACTOR, kind_of, reason_of, shipped_reasons

AGREES = Mark("agrees", "agrees", Tone.GOOD)
DIFFERS = Mark("differs", "differs", Tone.BAD)
ONE_SIDED = Mark("one-sided", "one-sided", Tone.NOTE)
UNDECIDED = Mark("undecided", "undecided", Tone.NOTE)
ABSENT = Mark("not in the records", "not in the records", Tone.NOTE)
UNAVAILABLE = Mark("not measurable here", "not measurable here", Tone.NOTE)

_MANY = {AGREES.name: "agree", DIFFERS.name: "differ"}
_UNITS = {("ns", "s"): 1e-9, ("ns", "us"): 1e-3, ("B", "KiB"): 1 / 1024, ("B/s", "KiB/s"): 1 / 1024}
"""What a number in a metric's unit is multiplied by for that of the page."""
_SECOND_NS = 1e9
_KIN = "*: of another program of the same kind. Ratios can be compared with the page's, values can't."
_HOW = (
    "Each cell has the page's number first and ours in bold, with its interval below. Only ratios are judged, because the machines differ. "
    f"agrees: the same direction, and within a factor of {FACTOR}. one-sided: within that factor, but only one of the two differs from 1 "
    "by more than the margin. differs: the opposite direction, or another size. undecided: ours may be on either side of 1. A ratio in "
    "brackets is not on the page. The page's ratios are computed again from its figures: swapstone published check names those that it "
    "prints otherwise."
)


class _Here(NamedTuple):
    """What a record has beside a number of the page.

    Attributes:
        record: whose.
        joined: the figure and the place; of a ratio those of the candidate.
        value: in the page's unit; None where the record has a ratio, or no such second.
        ratio: None where the record has a value.
    """

    record: Analysed
    joined: Joined
    value: float | None = None
    ratio: Ratio | None = None


class _Shown(NamedTuple):
    """A cell.

    Attributes:
        page: the page's number.
        here, interval: ours; empty without one.
        mark: None for a value, which is of another machine.
        reason: why it differs, or why there is no number; may be empty.
        kin: whether ours is of another program of the same kind.
    """

    page: str
    here: str = ""
    interval: str = ""
    mark: Mark | None = None
    reason: str = ""
    kin: bool = False


class _Records:
    """Records of a study. The first that has a number is taken.

    Args:
        table: of the page.
        records: in the study's order.
    """

    def __init__(self, table: PageTable, records: Iterable[Analysed]) -> None:
        self._table = table
        self._records = [(each, Ratios(each.analysis)) for each in records]

    def _places(self, figure: Figure) -> list[Joined]:
        """Return the places of a figure, those with the page's own work first."""
        found = (each for each in _joins().get(figure, ()) if fnmatchcase(each.place.workload, self._table.workload))
        return sorted(found, key=lambda each: bool(each.place.kin))

    def value(self, figure: Figure) -> _Here | None:
        """Return the value that stands beside a figure; None without one."""
        for each, (record, ratios) in itertools.product(self._places(figure), self._records):
            if each.place.series and (found := _of_second(each, record)):
                return found
            column = _column(ratios, each.place.side)
            if column and (value := self._value(each, ratios, column)) is not None:
                return _Here(record, each, value=value)
        return None

    def _value(self, each: Joined, ratios: Ratios, column: Place) -> float | None:
        place, unit = each.place, each.figure.unit
        if row := _measured(each):
            known = values_of(row, ratios, column)
            return known and known.value
        side = ratios.side((place.suite, place.workload), column, place.metric)
        if side is None:
            return None
        if place.inverse:
            return RATES[unit] * _SECOND_NS / side.median if side.median else None
        return side.median * _UNITS.get((side.metric.unit, unit), 1.0) * self._table.scale

    def ratio(self, figure: Figure, over: Figure | None = None) -> _Here | None:
        """Return the ratio of what stands beside two figures, or beside one that is a ratio itself; None without one."""
        for each, (record, ratios) in itertools.product(self._places(figure), self._records):
            place = each.place
            work, other = (place.suite, place.workload), _beside(each, self._places(over) if over else ())
            base = other.place.side if other else place.over
            first, second = _column(ratios, base) if base else None, _column(ratios, place.side)
            if first is None or second is None:
                continue
            row = _measured(each)
            found = ratio_of(row, ratios, first, second) if row else ratios.ratio(work, first, second, place.metric)
            if found is not None and found.value is not None:
                turned = found.inverse if place.inverse and row is None else found
                return _Here(record, other if other and each.baseline else each, ratio=turned)
        return None


@functools.cache
def _joins() -> dict[Figure, tuple[Joined, ...]]:
    found: dict[Figure, tuple[Joined, ...]] = {}
    for each in joined():
        found[each.figure] = (*found.get(each.figure, ()), each)
    return found


def _beside(each: Joined, others: Iterable[Joined]) -> Joined | None:
    """Return the place of another figure that has the same workload and metric."""
    mine = (each.place.suite, each.place.workload, each.place.metric)
    same = (other for other in others if (other.place.suite, other.place.workload, other.place.metric) == mine)
    return next(same, None)


def _column(ratios: Ratios, side: Side) -> Place | None:
    return next((Place(side.load, each) for each in ratios.variants() if side.has_label(each.label)), None)


def _measured(each: Joined) -> MeasuredRow | None:
    """Return the row whose number several workloads give, or one with the unit of a rate."""
    key = (each.place.suite, each.place.workload, each.figure.unit)
    return next((row for row in measured_rows() if (row.own_suite, row.workload, row.unit) == key), None)


_SECONDS = "swap out, second "


def _of_second(each: Joined, record: Analysed) -> _Here | None:
    """Return the value of a second, counted from the first second with swap-out on the page and here; None without a time series."""
    place, figure = each.place, each.figure
    sampled = (
        dict(found.series)
        for found in record.analysis.time_series
        if (found.suite, found.workload, found.load) == (place.suite, place.workload, place.side.load)
        and place.side.has_label(found.variant.label)
    )
    if (series := next(sampled, None)) is None:
        return None
    here = next((at for at, kib in enumerate(series["so"]) if kib), 0)
    seconds = (other for other in figures(figure.study) if other.metric.startswith(_SECONDS) and other.value)
    page = next((other.metric for other in seconds if other.level == figure.level), f"{_SECONDS}0")
    at = here + int(figure.metric.rpartition(" ")[2]) - int(page.rpartition(" ")[2])
    values = series.get(place.metric, ())
    return _Here(record, each, value=values[at] if 0 <= at < len(values) else None)


def _cells(table: PageTable, records: _Records) -> Iterator[tuple[str, str, _Shown]]:
    """Yield (row, column, cell) of a table, row by row."""
    rows = table.cells()
    units = any(len({known[key].unit for known in rows.values()}) > 1 for key in table.columns)
    bases = rows.get(table.base, {})
    for row, known in rows.items():
        for key in table.columns:
            base = bases.get(key) if row != table.base else None
            yield row, key, _value_cell(records, known[key], base, units=units)
        for ratio in table.ratios:
            of, over = known[ratio.of], known[ratio.over]
            others = [each for each in rows.values() if each is not known]
            index = any(each.place.index for each in _joins().get(of, ()))
            found = _index(records, ratio, others) if index else records.ratio(of, over)
            yield row, ratio.head, _ratio_cell(ratio, table.digits, of, over, found)


def _value_cell(records: _Records, figure: Figure, base: Figure | None, *, units: bool) -> _Shown:
    """Return the cell of a figure. It is judged where it is a ratio, or has another cell as its base."""
    page = f"{figure.printed} {figure.unit}" if units and figure.unit != "1" else figure.printed
    places = _joins().get(figure, ())
    if places and places[0].place.over:
        return _judged(page, figure.value, records.ratio(figure), "ratio")
    shown = _judged(page, figure.value / base.value, records.ratio(figure, base), "ratio") if base else _Shown(page)
    found = records.value(figure)
    here = "" if found is None or found.value is None else formatting.trimmed(formatting.digits(found.value, 4))
    kin = found is not None and bool(here and found.joined.place.kin)
    return shown._replace(here=here, interval="", kin=kin, reason=shown.reason if places else absent_reason(figure))


def _ratio_cell(ratio: PageRatio, digits: int, of: Figure, over: Figure, found: _Here | None) -> _Shown:
    value = of.value / over.value
    page = f"{_formed(value, ratio.form):.{digits}f}{' %' * (ratio.form != 'ratio')}"
    if of not in _joins():
        return _Shown(page, mark=UNAVAILABLE, reason=absent_reason(of))
    return _judged(f"[{page}]" if ratio.ours else page, value, found, ratio.form)


def _index(records: _Records, ratio: PageRatio, rows: Iterable[dict[str, Figure]]) -> _Here | None:
    """Return the geometric mean of the other rows' ratios; None unless all have one."""
    found = [records.ratio(row[ratio.of], row[ratio.over]) for row in rows]
    known = [each for each in found if each is not None]
    mean = mean_of(each.ratio for each in known) if len(known) == len(found) else None
    return known[0]._replace(ratio=mean) if mean is not None and mean.value is not None else None


def _formed(value: float, form: str) -> float:
    return {"ratio": value, "gain": (value - 1) * 100, "share": value * 100}[form]


def _judged(page: str, published: float, found: _Here | None, form: str) -> _Shown:
    if found is None or found.ratio is None or found.ratio.value is None:
        return _Shown(page, mark=ABSENT)
    ratio, value, margin = found.ratio, found.ratio.value, found.record.experiment.margin
    numbers = [value, *(ratio.bounds or ())]
    width = 0.0 if ratio.bounds is None else formatting.narrower(value, *ratio.bounds)
    here, *bounds = (
        formatting.ratio(each, width) if form == "ratio" else f"{_formed(each, form):.1f}" for each in numbers
    )
    kind, place = kind_of(published, ratio, margin), found.joined
    sign = 0 if ratio.within(margin) else ratio.sign
    mark = (
        DIFFERS if kind else UNDECIDED if sign is None else AGREES if sign == sign_of(published, margin) else ONE_SIDED
    )
    why = reason_of(place.figure, place.place, found.record, shipped_reasons())
    interval = " to ".join(bounds) if ratio.low != ratio.high else ""
    unit = "" if form == "ratio" else " %"
    return _Shown(page, here + unit, interval, mark, (why or "No reason is given.") if kind else "")


def sections(study: str, parts: Sequence[PartOfStudy]) -> tuple[Section, ...]:
    """Return the page's tables; none for a study without a page.

    Args:
        study: the published one.
        parts: of the study, with runs.
    """
    tables = page_tables(study)
    if not tables:
        return ()
    records, left_out = like_the_pages(
        Analysed(
            name=each.name,
            experiment=each.context.experiment,
            analysis=each.analysis,
            architecture=each.context.experiment.architecture or dict(each.context.facts).get("architecture", ""),
        )
        for each in parts
        if each.context.published == study
    )
    reasons: dict[str, None] = {}
    printed: set[str] = set()
    found, marks = [], Counter[str]()
    for number, table in enumerate(tables, start=1):
        if not table.columns:
            found.append(_picture(table, f"page-{number}", parts))
            continue
        cells = list(_cells(table, _Records(table, records)))
        marks.update(each.mark.name for _, _, each in cells if each.mark)
        found.append(_section(table, f"page-{number}", cells, reasons, printed))
    source = source_of(study)
    platforms = "; ".join(dict.fromkeys(each.platform for each in figures(study)))
    counts = ", ".join(f"{number} {name if number == 1 else _MANY.get(name, name)}" for name, number in marks.items())
    opening = (
        Paragraph(f"{source['title']}. {source['project']}; measured on {platforms}."),
        Paragraph(
            f"Of {formatting.count(sum(marks.values()), 'ratio')}: {counts}." if marks else "No ratio.", Tone.STRONG
        ),
        Paragraph(" ".join(filter(None, (_HOW, formatting.safe(left_out)))), Tone.NOTE),
    )
    return (Section(title="The published page", blocks=opening), *found)


def _picture(table: PageTable, name: str, parts: Sequence[PartOfStudy]) -> Section:
    """Return what stands for a picture of the page: code, or the section of a part's report."""
    lines = itertools.zip_longest(*(text.split("\n") for text in table.code.values()), fillvalue="")
    rows = tuple(tuple(Cell(line, code=bool(line)) for line in row) for row in lines if any(row))
    heads = tuple(Column((head,)) for head in table.code)
    code = (Table(title=table.title, columns=heads, rows=rows, keys=0),) if rows else ()
    every = (each for part in parts for each in sections_of(part.context, part.analysis) if each.name == table.section)
    same = next(every, None) if table.section else None
    missing = Paragraph("Not in the records.") if table.section and same is None else None
    texts = (Paragraph(table.note, Tone.NOTE) if table.note else None, missing)
    # On a narrow page their cells stand below each other.
    shown = (
        msgspec.structs.replace(block, beside=True) if isinstance(block, Table) else block
        for block in (same.blocks if same else ())
    )
    return Section(name=name, title=table.title, blocks=(*shown, *code, *filter(None, texts)))


def _section(
    table: PageTable, name: str, cells: Sequence[tuple[str, str, _Shown]], reasons: dict[str, None], printed: set[str]
) -> Section:
    """Return a table as a section, with the reasons that no table before it has.

    Args:
        table: of the page.
        name: of the section.
        cells: row by row.
        reasons: of the tables before, in the order of their numbers; those of this one are added.
        printed: notes of the tables before, to which those of this one are added.
    """
    before = len(reasons)
    reasons |= dict.fromkeys(each.reason for _, _, each in cells if each.reason)
    numbers = {reason: number for number, reason in enumerate(reasons, start=1)}
    heads = [*table.columns.values(), *(each.head for each in table.ratios)]
    rows = [list(each) for _, each in itertools.groupby(cells, key=lambda each: each[0])]
    joins = (
        each for figures in table.cells().values() for figure in figures.values() for each in _joins().get(figure, ())
    )
    texts = (
        (True, table.note),
        *((True, text) for text in dict.fromkeys(each.place.differs for each in joins)),
        (any(each.kin for _, _, each in cells), _KIN),
        (
            not any(each.here or each.mark or each.reason for _, _, each in cells),
            "The records have none of these rows.",
        ),
    )
    notes = [Item(text) for holds, text in texts if holds and text and text not in printed]
    printed.update(note.text for note in notes)
    items = [Item(text, label=str(number)) for text, number in numbers.items() if number > before]
    made = Table(
        title=table.title,
        columns=(Column(("",)), *(Column((head,)) for head in heads)),
        rows=tuple((Cell(table.name_of(row[0][0])), *(_cell(shown, numbers) for _, _, shown in row)) for row in rows),
        beside=True,
    )
    return Section(
        name=name,
        title=table.title,
        data=tuple(
            {
                "row": row,
                "column": column,
                "page": each.page,
                "here": each.here,
                "interval": each.interval,
                "verdict": each.mark.name if each.mark else "",
                "reason": each.reason,
            }
            for row, column, each in cells
        ),
        blocks=(made, *((BulletList(items=(*items, *notes)),) if items or notes else ())),
    )


def _cell(each: _Shown, numbers: dict[str, int]) -> Cell:
    notes = (each.interval and f"{each.interval}", each.reason and f"because {numbers[each.reason]}")
    return Cell(each.page, effect=each.here + "*" * each.kin, mark=each.mark, note=", ".join(filter(None, notes)))
