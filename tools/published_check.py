# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute again what the published pages derive from their figures, and compare it with the result that the program prints.

Usage: tools/published-check [--write]

Reads tools/published: derived.csv, the numbers that the pages derive, facts.csv, further numbers in their text, and statements.toml, what
they state in words. The result is src/swapstone/parts/published/check.json, which `swapstone published check` prints; --write stores it.
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swapstone.core.report import formatting
from swapstone.core.report.document import BulletList, Cell, Column, Document, Heading, Item, Mark, Section, Table, Tone
from swapstone.parts.published.data import baselines, figures, further, sources

TOP = Path(__file__).resolve().parents[1]
DATA = TOP / "tools" / "published"
RESULT = Path("src", "swapstone", "parts", "published", "check.json")

_INDEX, _FITS = "geometric mean of 10 x result / baseline", "table 7 load / idle = table 8 generic / rt"
FORMULAS: dict[str, Callable[[list[Decimal], list[Decimal]], Decimal]] = {
    "ratio": lambda a, b: a[0] / b[0],
    "truncated ratio": lambda a, b: (a[0] / b[0]).to_integral_value(rounding=ROUND_DOWN),
    "percent gain": lambda a, b: (a[0] / b[0] - 1) * 100,
    "percent share": lambda a, b: a[0] / b[0] * 100,
    "score": lambda a, b: a[0] / b[0] * 10,
    "mean": lambda a, _: sum(a, Decimal(0)) / len(a),
    _INDEX: lambda a, b: math.prod(10 * x / y for x, y in zip(a, b, strict=True)) ** (1 / Decimal(len(a))),
}
"""What a and b, one number or several, give."""


Row = Mapping[str, str]
"""A row of derived.csv: the number `printed` that a page computed from those of `a` and `b`, in the digits that it prints."""


class Recomputed(NamedTuple):
    """A row, what the page prints, the same computed again in as many digits, and whether the two agree."""

    row: Row
    printed: str
    computed: str
    agrees: bool


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a file of tools/published."""
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines(), strict=True))


def statements() -> list[dict[str, Any]]:
    """Return the tables of statements.toml."""
    found: list[dict[str, Any]] = tomllib.loads((DATA / "statements.toml").read_text())["statement"]
    return found


def recompute(row: Row) -> Recomputed:
    """Compute a number again from its inputs, rounded half up.

    Two tables fit if both quotients can be equal, given that each number is rounded: `printed` and `computed` are then their ranges.
    """
    a, b = ([Decimal(text) for text in row[side].split()] for side in ("a", "b"))
    if row["formula"] == _FITS:
        one, two = _range(a), _range(b)
        printed, computed = (f"{low:.2f} to {high:.2f}" for low, high in (two, one))
        return Recomputed(row, printed, computed, one[0] <= two[1] and two[0] <= one[1])
    value = FORMULAS[row["formula"]](a, b).quantize(Decimal(row["printed"]), rounding=ROUND_HALF_UP)
    return Recomputed(row, row["printed"], str(value), value == Decimal(row["printed"]))


def _range(sides: list[Decimal]) -> tuple[Decimal, Decimal]:
    """Return the smallest and the largest quotient of two rounded numbers."""
    half = [Decimal((0, (5,), int(each.as_tuple().exponent) - 1)) for each in sides]
    (above, below), (more, less) = sides, half
    return (above - more) / (below + less), (above + more) / (below - less)


def problems(top: Path, *, write: bool = False) -> Iterator[str]:
    """Yield each number in a sentence that its formula does not give, each input that no page has, and whether the result differs.

    Args:
        top: folder of the checkout.
        write: whether to store the result first.
    """
    made = msgspec.json.format(msgspec.json.encode(msgspec.to_builtins(document())), indent=1) + b"\n"
    if write:
        (top / RESULT).write_bytes(made)
    if (top / RESULT).read_bytes() != made:
        yield f"{RESULT} is not the result. Then run: tools/published-check --write"
    quoted = [
        (each["numbers"], {"row": each["words"], **dict(zip(("formula", "a", "b", "printed"), row, strict=True))})
        for each in statements()
        for row in each.get("computed", ())
    ]
    for text, row in quoted:
        found = recompute(row)
        if not found.agrees or row["printed"].lstrip("-") not in text:
            yield f"statements.toml, {row['row']}: {row['formula']} of {row['a']} and {row['b']} is {found.computed}."
    known = {figure.value for figure in (*figures(), *further())} | {value for _, value, _ in baselines()}
    known |= {float(text) for fact in table("facts.csv") if fact["unit"] != "name" for text in fact["values"].split()}
    for row in (*table("derived.csv"), *(row for _, row in quoted)):
        for text in (*row["a"].split(), *row["b"].split()):
            if float(text) not in known:
                yield f"{row['row']}: no page has {text}."


def document() -> Document:
    """Return the result."""
    rows, words = list(map(recompute, table("derived.csv"))), Counter(each["result"] for each in statements())
    answer = (
        f"{len(figures())} published figures. {sum(row.agrees for row in rows)} of {len(rows)} numbers that the pages derived from "
        f"theirs are reproduced to the printed digit. Words and numbers disagree in {formatting.count(words['contradicted'], 'place')}; "
        f"{formatting.count(words['no numbers'], 'more claim')} without numbers."
    )
    words_of = (
        Section(title=f"{name}: {source['title']}", blocks=tuple(_words(name))) for name, source in sources().items()
    )
    numbers = Section(title="Derived numbers", blocks=tuple(_recomputed(rows)))
    return Document(title="Check of the published pages", answer=answer, sections=(numbers, *words_of))


def _recomputed(rows: list[Recomputed]) -> Iterator[Table | Heading | BulletList]:
    every = Counter(f"{row['source']}, {row['place']}" for row, *_ in rows)
    good = Counter(f"{row['source']}, {row['place']}" for row, *_, agrees in rows if agrees)
    places = [(place, str(number), str(good[place])) for place, number in every.items()]
    yield _marked("Numbers derived by the pages", ("derived by the page", "numbers", "reproduced"), places)
    indices = [
        (f"{row['source']}, {row['place'].removeprefix('UnixBench, ')}, {row['row']}", printed, computed)
        for row, printed, computed, _ in rows
        if row["formula"] == _INDEX
    ]
    yield Heading("UnixBench indices")
    yield _marked("UnixBench indices", ("UnixBench index", "printed", "recomputed"), indices)
    off = (
        f"{row['place']}, {row['row']}: {row['formula']}, but that is {computed} = {printed}"
        if row["formula"] == _FITS
        else f"{row['place']}, {row['row']}: printed {printed}, recomputed {computed} ({row['formula']})"
        for row, printed, computed, agrees in rows
        if not agrees
    )
    yield Heading("Not reproduced")
    yield BulletList(items=tuple(map(Item, off)))


def _marked(title: str, head: tuple[str, ...], rows: list[tuple[str, str, str]]) -> Table:
    marks = {True: Mark("reproduced", "", Tone.GOOD), False: Mark("different", "", Tone.BAD)}
    return Table(
        title=title,
        columns=tuple(Column((name,), right=name != head[0]) for name in head),
        rows=tuple((Cell(row), Cell(one), Cell(effect=two, mark=marks[one == two])) for row, one, two in rows),
        dense=True,
    )


def _words(source: str) -> Iterator[BulletList]:
    mine = [each for each in statements() if each["source"] == source]
    silent = {"contradicted": "numbers", "no numbers": "no numbers"}
    against = [
        Item(f"{each['words']}.", f"{each['place']}, words", items=(f"{silent[each['result']]}: {each['numbers']}",))
        for each in mine
        if each["result"] in silent
    ]
    held = [Item(f"{each['words']} ({each['numbers'].rstrip('.')})") for each in mine if each["result"] not in silent]
    yield from (
        BulletList(items=tuple(found), title=title) for title, found in (("", against), ("Borne out:", held)) if found
    )
