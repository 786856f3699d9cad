# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of five public pages, and the pages they come from."""

from __future__ import annotations

import csv
import functools
import io
import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from importlib import resources

from swapstone.model import Direction, FrozenStruct, UserError, unknown

FIGURE_COLUMNS = ("study", "source", "platform", "condition", "suite", "metric", "unit", "better", "level", "value")
BASELINE_COLUMNS = ("metric", "baseline", "unit")
DERIVED_COLUMNS = ("source", "place", "row", "formula", "a", "b", "printed")
FACT_COLUMNS = ("source", "fact", "unit", "values")
FORMULAS = ("ratio", "truncated ratio", "percent gain", "percent share", "score")

_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,12})?", re.ASCII)
_PRINTED = re.compile(
    rf"(?P<words>about |nearly )?(?P<digits>{_NUMBER.pattern})(?P<thousands>K?)(?P<more>\+?)", re.ASCII
)
_REINSTALL = "These files come with swapstone: install it again."

_THOUSAND = 1000.0


class Figure(FrozenStruct, frozen=True, kw_only=True):
    """A published number.

    Attributes:
        study, source: the question it answers, and the page (a key of `sources`).
        platform, condition: where and how it was measured, if the page states it.
        suite, metric: the test.
        unit: of `value`, e.g. ``s``, ``KiB``, ``1``.
        better: which direction is better.
        level: e.g. ``musl``.
        value: the number.
        printed: the same as the page prints it: ``21.8K``; ``about 190000``; ``8000+`` for 8000 or more; ``nearly 1.6``.
    """

    study: str
    source: str
    platform: str
    condition: str
    suite: str
    metric: str
    unit: str
    better: Direction
    level: str
    value: float
    printed: str

    @property
    def rounding(self) -> float | None:
        """Return half a unit of the last printed digit, in the figure's unit; None where the page only states about how much it is."""
        found = _PRINTED.fullmatch(self.printed)
        if found is None or found["words"] or found["more"]:
            return None
        decimals = len(found["digits"].partition(".")[2])
        return 0.5 * 10.0**-decimals * (_THOUSAND if found["thousands"] else 1.0)

    @property
    def qualified(self) -> str:
        """Return ``about``, ``nearly`` or ``at least`` where the page states the number so; else an empty text."""
        found = _PRINTED.fullmatch(self.printed)
        return "" if found is None else "at least" if found["more"] else (found["words"] or "").strip()


class Derived(FrozenStruct, frozen=True, kw_only=True):
    """A number that a page computed from two other numbers.

    Attributes:
        source, place, row: where it is.
        formula: ``ratio`` a / b; ``truncated ratio`` the whole part of a / b;
            ``percent gain`` (a / b - 1) * 100; ``percent share`` a / b * 100; ``score`` 10 * a / b.
        a, b: the inputs, in the digits the page prints.
        printed: the result, in the digits the page prints.
    """

    source: str
    place: str
    row: str
    formula: str
    a: str
    b: str
    printed: str


class Source(FrozenStruct, frozen=True, kw_only=True):
    """A page: title, project, language (BCP 47), date and address if stated, and notes."""

    name: str
    title: str
    project: str
    language: str
    date: str
    address: str
    known: str


class Study(FrozenStruct, frozen=True, kw_only=True):
    """A question that a page answers with figures. Its first two levels are `baseline` and `candidate`."""

    name: str
    source: str
    question: str
    baseline: str
    candidate: str


def _rows(text: str, name: str, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    if text and not text.endswith("\n"):
        raise UserError(f"{name} line {text.count(chr(10)) + 1}: truncated.", _REINSTALL)
    try:
        if tuple(next(reader, ())) != columns:
            raise UserError(f"{name} line 1: the columns must be {', '.join(columns)}.", _REINSTALL)
        for cells in reader:
            if len(cells) != len(columns):
                message = f"{name} line {reader.line_num}: {len(cells)} columns instead of {len(columns)}."
                raise UserError(message, _REINSTALL)
            yield reader.line_num, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise UserError(f"{name} line {reader.line_num}: {error}.", _REINSTALL) from error


def _number(text: str, where: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise UserError(f"{where}: {text[:40]!r} is not a decimal number.", _REINSTALL)
    return float(text)


def _as_printed(text: str, where: str) -> float:
    """Return the value of a number as a page prints it: with a K for 1000, or with the words of `Figure.printed`."""
    found = _PRINTED.fullmatch(text)
    if found is None:
        raise UserError(f"{where}: {text[:40]!r} is not a decimal number.", _REINSTALL)
    # Decimal, because 16.52 * 1000 is not 16520 in binary.
    return float(Decimal(found["digits"]) * (1000 if found["thousands"] else 1))


def _named(row: dict[str, str], names: tuple[str, ...], where: str) -> None:
    for name in names:
        if not row[name].strip() or not row[name].isprintable():
            raise UserError(f"{where}: {name} is empty or not printable.", _REINSTALL)


def decode_figures(text: str, name: str = "published.csv") -> tuple[Figure, ...]:
    """Decode a file of figures.

    Args:
        text: CSV with exactly the columns `FIGURE_COLUMNS`; the values as `Figure.printed`.
        name: of the file, for messages.

    Returns:
        The figures, in the file's order.

    Raises:
        UserError: a line is invalid, or two lines give the same figure; names the line.
    """
    figures = []
    seen: dict[tuple[str, ...], int] = {}
    for line, row in _rows(text, name, FIGURE_COLUMNS):
        where = f"{name} line {line}"
        _named(row, ("study", "source", "platform", "suite", "metric", "unit", "level"), where)
        if row["better"] not in {direction.value for direction in Direction}:
            raise UserError(f"{where}: {row['better'][:40]!r} is not a direction.", _REINSTALL)
        key = tuple(row[name] for name in FIGURE_COLUMNS[:-1] if name != "better")
        if key in seen:
            raise UserError(f"{where}: the same figure as line {seen[key]}.", _REINSTALL)
        seen[key] = line
        value = _as_printed(row["value"], where)
        fields = {name: row[name] for name in FIGURE_COLUMNS if name not in {"better", "value"}}
        figures.append(Figure(**fields, better=Direction(row["better"]), value=value, printed=row["value"]))
    return tuple(figures)


def decode_derived(text: str) -> tuple[Derived, ...]:
    """Decode a file of derived numbers: CSV with the columns `DERIVED_COLUMNS`.

    Raises:
        UserError: a line is invalid; names the line.
    """
    found = []
    for line, row in _rows(text, "derived.csv", DERIVED_COLUMNS):
        where = f"derived.csv line {line}"
        _named(row, ("source", "place", "row"), where)
        if row["formula"] not in FORMULAS:
            raise UserError(f"{where}: {row['formula'][:40]!r} is not a formula.", _REINSTALL)
        for name in ("a", "b", "printed"):
            _number(row[name], where)
        if _number(row["b"], where) == 0:
            raise UserError(f"{where}: b is zero.", _REINSTALL)
        found.append(Derived(**row))
    return tuple(found)


def decode_baselines(text: str) -> tuple[tuple[str, float, str], ...]:
    """Decode UnixBench's reference results: (test, result, unit), from CSV with the columns `BASELINE_COLUMNS`.

    Raises:
        UserError: a line is invalid; names the line.
    """
    found = []
    for line, row in _rows(text, "unixbench.csv", BASELINE_COLUMNS):
        where = f"unixbench.csv line {line}"
        _named(row, ("metric", "unit"), where)
        value = _number(row["baseline"], where)
        if value <= 0:
            raise UserError(f"{where}: a baseline must be above zero.", _REINSTALL)
        found.append((row["metric"], value, row["unit"]))
    return tuple(found)


def decode_facts(text: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Decode further numbers of the pages, which claims refer to: values as printed, by (source, fact).

    Raises:
        UserError: a line is invalid; names the line.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for line, row in _rows(text, "facts.csv", FACT_COLUMNS):
        where = f"facts.csv line {line}"
        _named(row, FACT_COLUMNS, where)
        values = tuple(row["values"].split())
        if row["unit"] != "name":
            for value in values:
                _number(value, where)
        if (row["source"], row["fact"]) in found:
            raise UserError(f"{where}: {row['fact']} occurs twice.", _REINSTALL)
        found[row["source"], row["fact"]] = values
    return found


def _text(name: str) -> str:
    return resources.files("swapstone.published").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _figures() -> tuple[Figure, ...]:
    return decode_figures(_text("published.csv"))


@functools.cache
def further() -> tuple[Figure, ...]:
    """Return further numbers of the pages: the rest of wrk's output and of vmstat's columns, and samples of stacks.

    They are not among `figures`, because the pages derive and claim nothing from most of them.
    """
    return decode_figures(_text("further.csv"), "further.csv")


@functools.cache
def _tables() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(_text("sources.toml"))


@functools.cache
def derived() -> tuple[Derived, ...]:
    """Return every number that the pages derived, with its inputs."""
    return decode_derived(_text("derived.csv"))


@functools.cache
def baselines() -> tuple[tuple[str, float, str], ...]:
    """Return UnixBench's twelve reference results: (test, result, unit)."""
    return decode_baselines(_text("unixbench.csv"))


@functools.cache
def facts() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return further numbers of the pages, which claims refer to, as printed, by (source, fact)."""
    return decode_facts(_text("facts.csv"))


def sources() -> tuple[Source, ...]:
    """Return the pages."""
    return tuple(Source(name=name, **fields) for name, fields in _tables()["source"].items())


def studies() -> tuple[Study, ...]:
    """Return the questions that the pages answer."""
    return tuple(Study(name=name, **fields) for name, fields in _tables()["study"].items())


def study(name: str) -> Study:
    """Return a study by name.

    Raises:
        UserError: there is no such study.
    """
    found = {each.name: each for each in studies()}
    if name not in found:
        raise unknown("published study", name, found)
    return found[name]


def figures(study: str | None = None, suite: str | None = None) -> tuple[Figure, ...]:
    """Return published figures.

    Args:
        study: only of this study.
        suite: only of this suite.

    Raises:
        UserError: there is no such study or suite.
    """
    found = _figures()
    if study is not None:
        known = {figure.study for figure in found}
        if study not in known:
            raise unknown("published study", study, known)
        found = tuple(figure for figure in found if figure.study == study)
    if suite is not None:
        known = {figure.suite for figure in found}
        if suite not in known:
            raise unknown("published suite", suite, known)
        found = tuple(figure for figure in found if figure.suite == suite)
    return found
