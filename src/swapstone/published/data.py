# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of five public pages, and the pages they come from."""

from __future__ import annotations

import csv
import functools
import io
import math
import re
import tomllib
from collections.abc import Iterator
from importlib import resources

from swapstone.model import Direction, FrozenStruct, UserError, unknown

FIGURE_COLUMNS = ("study", "source", "platform", "condition", "suite", "metric", "unit", "better", "level", "value")
BASELINE_COLUMNS = ("metric", "baseline", "unit")
DERIVED_COLUMNS = ("source", "place", "row", "formula", "a", "b", "printed")
FACT_COLUMNS = ("source", "fact", "unit", "values")
FORMULAS = ("ratio", "percent gain", "percent share", "score")

_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,12})?", re.ASCII)
_REINSTALL = "These files come with swapstone: install it again."

# The musl page names this test by the needle "abcd" in its time table, and "abc" in its memory tables.
_ALIASES = {"b_string_strstr(abcd)": ("b_string_strstr(abc)",)}
_MEMORY = ("virt", "res", "dirty")


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
        printed: its digits on the page, which bound its rounding error.
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


class Derived(FrozenStruct, frozen=True, kw_only=True):
    """A number that a page computed from two other numbers.

    Attributes:
        source, place, row: where it is.
        formula: ``ratio`` a / b; ``percent gain`` (a / b - 1) * 100; ``percent share`` a / b * 100; ``score`` 10 * a / b.
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


class PublishedPair(FrozenStruct, frozen=True, kw_only=True):
    """Two published figures of one metric, as a study's baseline and candidate.

    Attributes:
        figure: the published metric's name.
        unit, better: of both values.
        baseline_level, candidate_level: e.g. ``glibc`` and ``musl``.
        baseline, candidate: the values.
    """

    study: str
    suite: str
    figure: str
    unit: str
    better: Direction
    baseline_level: str
    candidate_level: str
    baseline: float
    candidate: float

    @property
    def ratio(self) -> float:
        """Return candidate / baseline."""
        return self.candidate / self.baseline

    def oriented(self, baseline: str, candidate: str) -> PublishedPair | None:
        """Return this pair with the given levels as its sides.

        Args:
            baseline: level of the baseline.
            candidate: level of the candidate.

        Returns:
            The pair, reversed if necessary; None if it is of other levels.
        """
        if (baseline, candidate) == (self.baseline_level, self.candidate_level):
            return self
        if (candidate, baseline) != (self.baseline_level, self.candidate_level):
            return None
        return PublishedPair(
            study=self.study,
            suite=self.suite,
            figure=self.figure,
            unit=self.unit,
            better=self.better,
            baseline_level=baseline,
            candidate_level=candidate,
            baseline=self.candidate,
            candidate=self.baseline,
        )


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


def _named(row: dict[str, str], names: tuple[str, ...], where: str) -> None:
    for name in names:
        if not row[name].strip() or not row[name].isprintable():
            raise UserError(f"{where}: {name} is empty or not printable.", _REINSTALL)


def decode_figures(text: str) -> tuple[Figure, ...]:
    """Decode a file of figures.

    Args:
        text: CSV with exactly the columns `FIGURE_COLUMNS`.

    Returns:
        The figures, in the file's order.

    Raises:
        UserError: a line is invalid, or two lines give the same figure; names the line.
    """
    figures = []
    seen: dict[tuple[str, ...], int] = {}
    for line, row in _rows(text, "published.csv", FIGURE_COLUMNS):
        where = f"published.csv line {line}"
        _named(row, ("study", "source", "platform", "suite", "metric", "unit", "level"), where)
        if row["better"] not in {direction.value for direction in Direction}:
            raise UserError(f"{where}: {row['better'][:40]!r} is not a direction.", _REINSTALL)
        key = tuple(row[name] for name in FIGURE_COLUMNS[:-1] if name != "better")
        if key in seen:
            raise UserError(f"{where}: the same figure as line {seen[key]}.", _REINSTALL)
        seen[key] = line
        value = _number(row["value"], where)
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


@functools.cache
def _index() -> dict[tuple[str, str, str], tuple[Figure, ...]]:
    found: dict[tuple[str, str, str], list[Figure]] = {}
    for figure in _figures():
        found.setdefault((figure.study, figure.suite, figure.metric), []).append(figure)
    return {key: tuple(each) for key, each in found.items()}


def find(study: str, suite: str, workload: str, metric: str) -> PublishedPair | None:
    """Return the published pair for a workload's metric.

    Args:
        study: name of a published study.
        suite: name of a suite.
        workload: name of a workload, in Swapstone or on the page.
        metric: ``wall`` for the page's time; ``virt``, ``res`` or ``dirty`` for its memory tables.

    Returns:
        The pair; None if the page does not have it, or has only one level.

    Raises:
        UserError: there is no such study.
    """
    about = _study(study)
    if metric != "wall" and metric not in _MEMORY:
        return None
    suffix = "" if metric == "wall" else f":{metric}"
    for name in (workload, *_ALIASES.get(workload, ())):
        level = {figure.level: figure for figure in _index().get((study, suite, name + suffix), ())}
        if about.baseline in level and about.candidate in level:
            base, other = level[about.baseline], level[about.candidate]
            if base.value <= 0 or not math.isfinite(other.value):
                return None
            return PublishedPair(
                study=study,
                suite=suite,
                figure=base.metric,
                unit=base.unit,
                better=base.better,
                baseline_level=about.baseline,
                candidate_level=about.candidate,
                baseline=base.value,
                candidate=other.value,
            )
    return None


_study = study  # `find` has a parameter of that name
