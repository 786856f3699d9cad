# SPDX-License-Identifier: MIT OR Apache-2.0
"""Published ratios beside those of records: which differ in sign, or in size by more than a factor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from swapstone import published
from swapstone.model import FrozenStruct, UserError
from swapstone.model.toml_file import TomlError, decode_toml
from swapstone.published import Figure, Joined, Place, Side
from swapstone.report import formatting
from swapstone.report.answer.wording import listed
from swapstone.report.document import BulletList, Cell, Column, Heading, Item, Mark, Section, Table, Tone
from swapstone.report.measured import Analysed, Effect, damaged, effects, like_the_pages

FACTOR = 1.5
"""Two ratios are of different size if one is larger than the other by more than this factor."""

_SIGN, _SIZE = "other sign", "other size"
_MOST_REASONS = 1000
_MOST_CHARACTERS = 500


class Reason(FrozenStruct, frozen=True, kw_only=True):
    """Why published ratios differ from those here.

    Attributes:
        study: the published study.
        workload, metric, level, load: of the rows, as patterns with ``*`` and ``?``.
        platform: on which the page measured, as a pattern.
        clock: of the record, ``wall`` or ``virtual``, as a pattern.
        architecture: of the machine that the record is of, such as ``x86_64``, as a pattern.
        reason: the sentence.
    """

    study: str
    reason: str
    workload: str = "*"
    metric: str = "*"
    level: str = "*"
    load: str = "*"
    platform: str = "*"
    clock: str = "*"
    architecture: str = "*"


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
    place: Place
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
        return tuple(sorted(found, key=lambda each: (each.kind != _SIGN, -_apart(each.page, each.here.ratio))))

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


def decode_reasons(content: bytes, name: str) -> tuple[Reason, ...]:
    """Decode a file of reasons: TOML with tables [[reason]] that have the keys of `Reason`.

    Args:
        content: the whole file.
        name: of the file, for messages.

    Raises:
        UserError: the file is invalid.
    """
    hint = 'A reason: [[reason]], study = "musl-vs-glibc", workload = "b_malloc_*", reason = "...".'
    try:
        table = decode_toml(content)
    except TomlError as error:
        raise UserError(f"{formatting.safe(name)}: {formatting.safe(str(error))}.", hint) from error
    rows = table.get("reason")
    if set(table) - {"reason"} or not isinstance(rows, list) or len(rows) > _MOST_REASONS:
        raise UserError(
            f"{formatting.safe(name)}: it must have at most {_MOST_REASONS} tables [[reason]] and nothing else.", hint
        )
    return tuple(
        _reason(row, f"{formatting.safe(name)}, reason {number}", hint) for number, row in enumerate(rows, start=1)
    )


def _reason(row: object, where: str, hint: str) -> Reason:
    known = set(Reason.__struct_fields__)
    if not isinstance(row, dict) or set(row) - known or not {"study", "reason"} <= set(row):
        raise UserError(f"{where}: the keys are {', '.join(sorted(known))}; study and reason are necessary.", hint)
    for key, value in row.items():
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _MOST_CHARACTERS:
            raise UserError(f"{where}: {key} must be a printable text of 1 to {_MOST_CHARACTERS} characters.", hint)
    published.study(row["study"])
    return Reason(**row)


def differences(records: Iterable[Analysed], reasons: Iterable[Reason] = ()) -> Differences:
    """Put published ratios beside those of records.

    Args:
        records: analysed records. Where several have a row, each is compared, but those that are no `like_the_pages`.
        reasons: why rows differ; the first that matches is taken.
    """
    (known, left_out), kept = like_the_pages(records), tuple(reasons)
    rows: list[Difference] = []
    absent = 0
    for figure, place, over, page in ratios():
        row = (place.suite, place.workload, place.metric)
        here = [(record, each) for record in known for each in effects((record,), row, over, place.side)]
        absent += not here
        for record, each in here:
            reason = reason_of(figure, place, record, kept)
            kind = _kind(page, each, record.experiment.margin)
            rows.append(
                Difference(figure=figure, place=place, over=over, page=page, here=each, kind=kind, reason=reason)
            )
    names = tuple(each.name for each in known)
    return Differences(records=names, rows=tuple(rows), absent=absent, left_out=left_out, damaged=damaged(known))


def ratios() -> Iterator[tuple[Figure, Place, Side, float]]:
    """Yield each published ratio: (figure, place, side by which is divided, ratio), of time series, indices and derived numbers none."""
    bases: dict[tuple[object, ...], Joined] = {}
    for each in published.joined():
        if each.baseline and each.place.over is None:
            bases.setdefault(_key(each), each)
    for each in published.joined():
        place, figure = each.place, each.figure
        if place.series or place.index or place.derived:
            continue
        if place.over is not None:
            yield figure, place, place.over, figure.value
        elif (
            not each.baseline
            and (base := bases.get(_key(each))) is not None
            and min(base.figure.value, figure.value) > 0
        ):
            ratio = figure.value / base.figure.value
            yield figure, place, base.place.side, 1 / ratio if place.inverse else ratio


def _key(each: Joined) -> tuple[object, ...]:
    place, figure = each.place, each.figure
    return each.join, place.workload, place.metric, figure.metric, figure.unit, figure.condition, figure.platform


def _apart(one: float, other: float) -> float:
    return max(one / other, other / one)


def _kind(page: float, here: Effect, margin: float) -> str:
    """Return in what two ratios differ; empty for nothing."""
    sign = here.sign if here.estimated else _sign(here.ratio, margin)
    opposite = sign is not None and sign * _sign(page, margin) < 0
    return _SIGN if opposite else _SIZE if _apart(page, here.ratio) > FACTOR else ""


def reason_of(figure: Figure, place: Place, record: Analysed, reasons: Iterable[Reason]) -> str:
    """Return why a figure differs from a record: the text of the first reason whose patterns match its place; empty if none does."""
    level = ",".join(f"{factor}={name}" for factor, name in place.side.levels)
    for each in reasons:
        patterns = (
            (place.workload, each.workload),
            (place.metric, each.metric),
            (level, each.level),
            (place.side.load, each.load),
            (figure.platform, each.platform),
            ("virtual" if record.experiment.virtual else "wall", each.clock),
            (record.architecture, each.architecture),
        )
        if each.study == figure.study and all(fnmatchcase(text, pattern) for text, pattern in patterns):
            return each.reason
    return ""


def _sign(ratio: float, margin: float) -> int:
    return 0 if abs(math.log(ratio)) <= math.log1p(margin) else 1 if ratio > 1 else -1


_TONES = {_SIGN: Tone.BAD, _SIZE: Tone.NOTE}


def differences_section(found: Differences) -> Section:
    """Return the rows that differ, and the reasons, each with the rows that have it."""
    head: tuple[str, ...] = (
        "study",
        "row here",
        "metric",
        "ratio",
        "page",
        "here",
        "record",
        "",
        "measured by the page on",
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            Cell(each.figure.study),
            Cell(each.place.workload, code=True),
            Cell(each.place.metric),
            Cell(ratio_text(each.place.side, each.over)),
            Cell(each.figure.printed if each.place.over else formatting.ratio(each.page)),
            Cell(here_text(each.here)),
            Cell(formatting.safe(each.here.record)),
            Cell(mark=Mark(each.kind, "", _TONES[each.kind])),
            Cell(each.figure.platform),
        )
        for each in found.different
    )
    items = (
        [Item(f"{formatting.count(found.absent, 'published ratio')} that no given record has.")] if found.absent else []
    )
    if found.left_out:
        items.append(Item(formatting.safe(found.left_out)))
    platforms = tuple(dict.fromkeys(each.figure.platform for each in found.different))
    if len(platforms) == 1:  # no column for it
        items.append(Item(f"The page measured on: {platforms[0]}."))
        head, rows = head[:-1], tuple(row[:-1] for row in rows)
    items.append(
        Item(
            "Without an interval, the number here is the quotient of two medians, and its sign is that beyond the margin."
        )
    )
    table = Table(
        title="Published ratios that differ from the records'",
        columns=tuple(Column((name,), right=place in {4, 5}) for place, name in enumerate(head)),
        rows=rows,
        keys=2,
    )
    notes = BulletList(items=tuple(items))
    why = (Heading("Why they differ"), BulletList(items=tuple(_explained(found)))) if rows else ()
    blocks = (table, *why, notes) if rows else (notes,)
    return Section(title="Published ratios that differ from the records'", blocks=blocks)


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
    above, below = dict(side.levels), dict(over.levels)
    texts = []
    for mine, other, load in ((above, below, side.load), (below, above, over.load)):
        parts = [level for factor, level in mine.items() if other.get(factor) != level]
        parts += [load] if side.load != over.load else []
        texts.append(", ".join(parts))
    text = " / ".join(texts)
    if above == below:
        return f"{text}, {','.join(f'{factor}={level}' for factor, level in above.items())}"
    return f"{text} under {side.load}" if side.load == over.load != "idle" else text


def here_text(here: Effect) -> str:
    """Return a ratio with its interval."""
    middle = formatting.ratio(here.ratio)
    if here.low is None or here.high is None or here.low == here.high:
        return middle
    return f"{middle} ({formatting.ratio(here.low)}–{formatting.ratio(here.high)})"  # noqa: RUF001 - a dash between numbers


def differences_json(found: Differences) -> dict[str, object]:
    """Return the rows for a JSON encoder."""
    return {
        "answer": found.answer,
        "records": found.records,
        "absent": found.absent,
        "left_out": found.left_out or None,
        "damaged": found.damaged,
        "factor": FACTOR,
        "rows": [
            {
                "study": each.figure.study,
                "suite": each.place.suite,
                "workload": each.place.workload,
                "metric": each.place.metric,
                "ratio": ratio_text(each.place.side, each.over),
                "platform": each.figure.platform,
                "page": each.page,
                "here": each.here.ratio,
                "low": each.here.low,
                "high": each.here.high,
                "record": each.here.record,
                "differs": each.kind or None,
                "reason": each.reason or None,
            }
            for each in found.rows
        ],
    }
