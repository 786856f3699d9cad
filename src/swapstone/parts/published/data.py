# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of five public pages, and the pages they come from."""

from __future__ import annotations

import contextlib
import csv
import functools
import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec

from swapstone.core.model import FrozenStruct, UserError, unknown
from swapstone.core.model.references import Figure

_PRINTED = re.compile(r"(about |nearly )?(?P<digits>-?[0-9]+(\.[0-9]+)?)(?P<thousands>K?)\+?", re.ASCII)


@contextlib.contextmanager
def shipped(name: str) -> Iterator[str]:
    """Yield the text of a file of this package, to be decoded in the context.

    Raises:
        UserError: it can't be read or decoded.
    """
    try:
        yield Path(__file__).with_name(name).read_text(encoding="utf-8")
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise UserError(
            f"{name} of the published figures is damaged: {type(error).__name__}: {error}.", "Install Swapstone again."
        ) from error


def rows_of(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a text of comma-separated values."""
    return csv.DictReader(text.splitlines(), strict=True)


def _figure(row: dict[str, str]) -> Figure:
    printed = row.pop("value")
    found = _PRINTED.fullmatch(printed)
    if found is None:
        raise ValueError(printed)
    # Decimal, because 16.52 * 1000 is not 16520 in binary.
    value = float(Decimal(found["digits"]) * (1000 if found["thousands"] else 1))
    return Figure(value=value, printed=printed, **row)


@functools.cache
def _read(name: str) -> tuple[Figure, ...]:
    with shipped(name) as text:
        return tuple(map(_figure, rows_of(text)))


def further() -> tuple[Figure, ...]:
    """Return further numbers of the pages: the rest of wrk's output and of vmstat's columns, and samples of stacks.

    They are not among `figures`, because the pages derive and claim nothing from most of them.
    """
    return _read("further.csv")


@functools.cache
def _tables() -> dict[str, dict[str, dict[str, str]]]:
    with shipped("sources.toml") as text:
        return tomllib.loads(text)


@functools.cache
def baselines() -> tuple[tuple[str, float, str], ...]:
    """Return UnixBench's twelve reference results: (test, result, unit)."""
    with shipped("unixbench.csv") as text:
        return tuple((row["metric"], float(row["baseline"]), row["unit"]) for row in rows_of(text))


def sources() -> dict[str, dict[str, str]]:
    """Return the pages by name: ``title``, ``project`` and the other keys of sources.toml."""
    return _tables()["source"]


def source_of(study: str) -> dict[str, str]:
    """Return the page of a published study: of a question that a page answers with figures.

    Raises:
        UserError: there is no such study.
    """
    known = _tables()["study"]
    if study not in known:
        raise unknown("published study", study, known)
    return sources()[known[study]["source"]]


def figures(study: str | None = None, suite: str | None = None) -> tuple[Figure, ...]:
    """Return published figures.

    Args:
        study: only of this study.
        suite: only of this suite.

    Raises:
        UserError: there is no such study or suite.
    """
    found = _read("published.csv")
    for kind, name in (("study", study), ("suite", suite)):
        known = {getattr(figure, kind) for figure in found}
        if name not in {None, *known}:
            raise unknown(f"published {kind}", str(name), known)
        found = tuple(figure for figure in found if name in {None, getattr(figure, kind)})
    return found


class MeasuredRow(FrozenStruct, frozen=True, kw_only=True):
    """A published row and the workload with the same work.

    Attributes:
        suite, metric, unit, condition: of the published figures; they name one row of the page.
        own_suite, workload: measured here.
        less: the workload whose time is subtracted, as the published program subtracts it; empty for none.
        plus: the workload whose time was subtracted from that of `less` before, so that it is added here; empty for none.
        same_kind: whether the workload is other work of the same kind: then ratios can be compared and values can't.
    """

    suite: str
    metric: str
    unit: str
    condition: str
    own_suite: str
    workload: str
    less: str
    plus: str
    same_kind: bool


@functools.cache
def measured_rows(suite: str = "") -> tuple[MeasuredRow, ...]:
    """Return the rows of a suite of the pages, or all, in the order of the pages' tables.

    UnixBench's index is computed from its rows.
    """
    with shipped("measured_rows.csv") as text:
        found = msgspec.convert(list(rows_of(text)), tuple[MeasuredRow, ...], strict=False)
    return tuple(row for row in found if suite in {"", row.suite})
