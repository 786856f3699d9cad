# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of five public pages, and the pages they come from."""

from __future__ import annotations

import csv
import functools
import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from importlib import resources

from swapstone.model import Direction, FrozenStruct, unknown

_PRINTED = re.compile(
    r"(?P<words>about |nearly )?(?P<digits>-?[0-9]+(\.[0-9]+)?)(?P<thousands>K?)(?P<more>\+?)", re.ASCII
)


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
    def qualified(self) -> str:
        """Return ``about``, ``nearly`` or ``at least`` where the page states the number so; else an empty text."""
        found = _PRINTED.fullmatch(self.printed)
        return "" if found is None else "at least" if found["more"] else (found["words"] or "").strip()


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


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files("swapstone.published").joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines(), strict=True)


def _figure(row: dict[str, str]) -> Figure:
    printed = row.pop("value")
    found = _PRINTED.fullmatch(printed)
    if found is None:
        raise ValueError(printed)
    # Decimal, because 16.52 * 1000 is not 16520 in binary.
    value = float(Decimal(found["digits"]) * (1000 if found["thousands"] else 1))
    return Figure(better=Direction(row.pop("better")), value=value, printed=printed, **row)


@functools.cache
def _figures() -> tuple[Figure, ...]:
    return tuple(map(_figure, _rows("published.csv")))


@functools.cache
def further() -> tuple[Figure, ...]:
    """Return further numbers of the pages: the rest of wrk's output and of vmstat's columns, and samples of stacks.

    They are not among `figures`, because the pages derive and claim nothing from most of them.
    """
    return tuple(map(_figure, _rows("further.csv")))


@functools.cache
def _tables() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(resources.files("swapstone.published").joinpath("sources.toml").read_text(encoding="utf-8"))


@functools.cache
def baselines() -> tuple[tuple[str, float, str], ...]:
    """Return UnixBench's twelve reference results: (test, result, unit)."""
    return tuple((row["metric"], float(row["baseline"]), row["unit"]) for row in _rows("unixbench.csv"))


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
