# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every ratio of two variants that a report or an export prints is in the analysis, with its interval and its validity.

The tests have no list of tables. They change an analysis, and find what is printed otherwise then. So a topic, an exhibit or an export that
is added is covered: `tests.golden.noisy` has records of every registered suite.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from typing import TypeVar

import msgspec
import pytest
from tests.golden import noisy, reports

from swapstone.core.model import NO_NUMBERS, Analysis, Comparison, Index, Variant, Verdict
from swapstone.core.model.analysis import Estimate
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.export import EXPORTS
from swapstone.core.report.record_report import answer_of, sections_of
from swapstone.core.report.render import html, markdown
from swapstone.core.report.topics import all_topics

SCALE = 2.0
"""By which values are multiplied: rounding does not hide it, and quotients stay exact."""

Rows = list[tuple[str, str]]
"""Pairs (output, text): a line, a row of a table, a sentence, or an object."""
READ = {"report", "page"}
"""Outputs for readers, whose ratios have their bounds in the same row."""
Found = TypeVar("Found", bound=Estimate | Index)


class _Page(HTMLParser):
    """Collects the rows of a page: the texts of a row of a table, of a paragraph, or of an item. Ticks of axes are none."""

    ROWS = frozenset(
        {"tr", "p", "li", "h1", "h2", "h3", "h4", "figcaption", "summary", "title", "desc", "option", "button", "div"}
    )
    LEFT_OUT = frozenset({"style", "script", "text"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = [[]]
        self._left_out = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._left_out += tag in self.LEFT_OUT
        if tag in self.ROWS:
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        self._left_out -= tag in self.LEFT_OUT
        if tag in self.ROWS:
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self.rows[-1].append(data)


def _objects(part: object) -> Iterator[dict[str, object]]:
    """Yield the objects in decoded JSON, each without the objects and lists in it."""
    if isinstance(part, dict):
        yield {key: value for key, value in part.items() if not isinstance(value, dict | list)}
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _objects(each)


def exhibits(context: ReportContext, analysis: Analysis) -> Rows:
    """Return the rows of a report's tables for programs, without ratios whose bounds are stated to be a range of quotients."""
    return [
        (f"exhibit {section.name}", json.dumps(_without_ranges(datum)))
        for section in sections_of(context, analysis)
        for datum in section.data
    ]


def _without_ranges(datum: dict[str, str | float | None]) -> dict[str, str | float | None]:
    ranged = {
        key.removesuffix("_bounds") for key, value in datum.items() if key.endswith("_bounds") and value == "range"
    }
    gone = {f"{key}{end}" for key in ranged for end in ("", "_low", "_high")}
    return {key: value for key, value in datum.items() if key not in gone}


def printed(context: ReportContext, analysis: Analysis) -> Rows:
    """Return every row of a report with all metrics, of its page, of its tables for programs, and of every export."""
    document = reports.document(context, analysis, Selection(every=True))
    found = [("report", line) for line in markdown.render(document).splitlines()]
    found += [("page", " ".join(row)) for row in _Page(html.render(document)).rows if row]
    found += exhibits(context, analysis)
    for name, export in EXPORTS.items():
        if name == "exhibits":
            continue  # they are above
        text = export(context, analysis)
        if name == "json":
            # Its exhibits are above.
            found += [(name, json.dumps(each)) for each in _objects(json.loads(text)["analysis"])]
        elif name == "kcidb":
            found += [(name, json.dumps(each)) for each in _objects(json.loads(text))]
        else:
            found += [(name, line) for line in text.splitlines()]
    return found


@functools.cache
def _printed(factors: str, suite: str) -> Rows:
    return printed(*noisy.record(factors, suite))


_NUMBER = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?(?!\w)(?!\.[0-9])")
_RANGE = re.compile(r"(?:[0-9.]+ )?\[[^\[\]]* \.\. [^\[\]]*\]|[0-9.]+ to [0-9.]+ in \d+ pairs")
"""A ratio with the range of the quotients of runs: its table states what that is."""


def _multiplied(values: Iterable[float], by: float) -> tuple[float, ...]:
    return tuple(value * by for value in values)


def scaled(analysis: Analysis, scale: Callable[[Variant], float]) -> Analysis:
    """Return an analysis in which every value of a variant is multiplied by a number, and every effect is as before."""

    def row(c: Comparison) -> Comparison:
        sides: dict[str, object] = {}
        for name, variant in (("baseline", c.baseline), ("candidate", c.candidate)):
            by, runs = scale(variant), getattr(c, f"{name}_runs")
            sides[f"{name}_values"] = _multiplied(getattr(c, f"{name}_values"), by)
            mean = {} if runs is None else {each: getattr(runs, each) * by for each in ("mean", "p90", "maximum")}
            sides[f"{name}_runs"] = runs and msgspec.structs.replace(runs, **mean)
        return msgspec.structs.replace(c, **sides)

    return msgspec.structs.replace(
        analysis,
        comparisons=tuple(map(row, analysis.comparisons)),
        latencies=tuple(
            msgspec.structs.replace(
                each,
                maxima=_multiplied(each.maxima, by),
                averages=_multiplied(each.averages, by),
                histogram=tuple((round(edge * by), count) for edge, count in each.histogram),
                percentiles=tuple((percent, value * by) for percent, value in each.percentiles),
                median_interval=each.median_interval and _multiplied(each.median_interval, by),
            )
            for each in analysis.latencies
            for by in (scale(each.variant),)
        ),
    )


def _without_unit(one: Rows, other: Rows) -> list[tuple[str, list[str]]]:
    """Return the numbers of each row that are the same in two reports whose values have two units."""
    assert [where for where, _ in one] == [where for where, _ in other]
    pairs = ([_NUMBER.findall(_RANGE.sub("", text)) for _, text in each] for each in zip(one, other, strict=True))
    return [
        (where, [a for a, b in zip(*pair, strict=False) if a == b]) for (where, _), pair in zip(one, pairs, strict=True)
    ]


PLACES = pytest.mark.parametrize(("factors", "suite"), tuple(noisy.places()))


@PLACES
def test_no_ratio_follows_the_values_of_one_side(factors: str, suite: str) -> None:
    """A number without a unit stays where all values are multiplied. One that follows the candidate's values alone is their quotient."""
    context, analysis = noisy.record(factors, suite)
    baseline = analysis.comparisons[0].baseline
    turned = scaled(analysis, lambda variant: 1.0 if variant == baseline else SCALE)
    shown, of_turned = _printed(factors, suite), printed(context, turned)
    before, after = (
        _without_unit(rows, printed(context, scaled(each, lambda _: SCALE)))
        for each, rows in ((analysis, shown), (turned, of_turned))
    )
    texts = itertools.zip_longest(before, after, shown, of_turned)
    assert [each for each in texts if each[0] != each[1]] == []


def _moved(c: Comparison, share: float) -> Comparison:
    """Return a comparison whose effects are elsewhere in their intervals; without an interval they are multiplied."""
    found: dict[str, float] = {}
    for name in ("", "mean_", "median_"):
        effect, low, high = (getattr(c, f"{name}{end}") for end in ("effect", "low", "high"))
        if effect is not None and effect != 0:
            bound = effect * (1 + share) if high is None or c.exact else effect + share * (high - effect)
            found[f"{name}effect"] = bound if low is None or c.exact or low <= bound else effect
    return msgspec.structs.replace(c, **found)


def _changed(before: Rows, after: Rows) -> Rows:
    """Return the rows of the second report that the first one does not have."""
    known = set(before)
    return [row for row in after if row not in known]


def _with_rows(analysis: Analysis, change: Callable[[Comparison], Comparison]) -> Analysis:
    return msgspec.structs.replace(analysis, comparisons=tuple(map(change, analysis.comparisons)))


@PLACES
def test_a_row_that_can_not_be_compared_has_no_ratio(factors: str, suite: str) -> None:
    """Exports have its effect in the same line as its verdict; a report, its page and its tables have none."""
    context, analysis = noisy.record(factors, suite)

    def change(c: Comparison) -> Comparison:
        return _moved(c, 0.7) if c.verdict in NO_NUMBERS else c

    words = {verdict.value for verdict in NO_NUMBERS}
    found = _changed(_printed(factors, suite), printed(context, _with_rows(analysis, change)))
    exported = [row for row in found if row[0] in EXPORTS]
    assert [row for row in exported if not any(word in row[1] for word in words)] == []
    assert [row for row in found if row not in exported] == []


@PLACES
def test_exhibits_print_the_time_to_read_first(factors: str, suite: str) -> None:
    """Of a workload whose CPU time is read first, no table for programs has the ratio of elapsed time."""
    context, analysis = noisy.record(factors, suite)
    preferred = {(c.workload, c.load, c.metric.name) for c in analysis.comparisons if c.preferred}

    def change(c: Comparison) -> Comparison:
        other = c.metric.name in {"wall", "cpu"} and (c.workload, c.load, c.metric.name) not in preferred
        return _moved(c, 0.7) if other else c

    assert _changed(exhibits(context, analysis), exhibits(context, _with_rows(analysis, change))) == []


_NO_RATIO = re.compile(r"[-+0-9.]+(?:–| to )[-+0-9.]+|size x [0-9.]+|[0-9.]+ times the page")  # noqa: RUF001 - a dash between numbers
"""Intervals, and what a ratio is over the published one beside it, or over the nearest and the farthest of them."""
_VERDICTS = "|".join(verdict.value for verdict in Verdict)
_INTERVAL = r"\(?[-+0-9.]+(?: %| times)?[^ ]*(?:–| to )"  # noqa: RUF001 - a dash between numbers
_BOUNDS = (
    rf"(?: times| %)?(?: page [0-9.]+, [a-z]+:? [a-z]+)? (?:too few runs|{_INTERVAL}|\(no interval|exact|{_VERDICTS})"
)
"""What follows a ratio: its interval, that there is none, or, in the matrix of crossed factors, its verdict; every row is printed below."""


def _bare(answer: str, before: Rows, after: Rows) -> list[tuple[str, str]]:
    """Return the numbers in a second report that the first does not have and that no bounds follow, each with its row.

    The sentence of the answer is left out: tables below it have each of its ratios again.
    """
    known = {number for where, text in before if where in READ for number in _NUMBER.findall(text)}
    found = []
    for where, text in after:
        plain = " ".join(re.sub(r"[*|\\]", "", text).split())
        if where in READ and answer not in plain and re.search("[a-z]", plain):  # not the ticks of an axis
            numbers = [each for each in _NUMBER.findall(_NO_RATIO.sub("", plain)) if each not in known]
            found += [(plain, each) for each in numbers if not re.search(rf"{re.escape(each)}{_BOUNDS}", plain)]
    return found


def _estimates(analysis: Analysis, change: Callable[[Found], Found]) -> Analysis:
    """Return an analysis whose estimates but comparisons are changed."""
    kinds = ("indices", "effects", "interactions")
    return msgspec.structs.replace(analysis, **{kind: tuple(map(change, getattr(analysis, kind))) for kind in kinds})


@PLACES
def test_bounds_follow_a_ratio(factors: str, suite: str) -> None:
    context, analysis = noisy.record(factors, suite)

    def moved(each: Found) -> Found:
        if each.effect is None or each.high is None:
            return each
        return msgspec.structs.replace(each, effect=each.effect + 0.3 * (each.high - each.effect))

    other = _estimates(_with_rows(analysis, lambda c: _moved(c, 0.3)), moved)
    before, after = _printed(factors, suite), printed(context, other)
    assert _bare(answer_of(context, other), before, after) == []
    data = [[json.loads(text) for where, text in each if where.startswith("exhibit ")] for each in (before, after)]
    keys = {
        key
        for one, two in zip(*data, strict=True)
        for key in one
        if one[key] != two[key] and f"{key}_bounds" not in one
    }
    # What a ratio is over published ones.
    assert {key for key in keys if not key.startswith("factor_apart") and not key.endswith("_of_page")} == set()


@pytest.mark.parametrize(("factors", "suite"), [("libc", "core"), ("libc allocator", "server")])
def test_a_ratio_without_an_interval_is_printed_so(factors: str, suite: str) -> None:
    context, analysis = noisy.record(factors, suite)
    names = ("low", "high", "mean_low", "mean_high", "median_low", "median_high", "smallest_visible")

    def without(each: Found) -> Found:
        return msgspec.structs.replace(each, **{name: None for name in names if hasattr(each, name)})

    bare = _estimates(_with_rows(analysis, without), without)
    other = _with_rows(bare, lambda c: _moved(c, 0.3))
    assert _bare(answer_of(context, other), printed(context, bare), printed(context, other)) == []


def test_every_topic_is_printed() -> None:
    """A topic that no record has is not tested: it needs a record in `tests.golden.noisy`."""
    of_facts = {"executed"}  # shares of counts, each with its range, that no analysis has: test_executed.py
    of_times = {"float-loops"}  # a drawing of times, without a ratio: test_float_abi_report.py
    silent = {topic.name for topic in all_topics()} - of_facts - of_times
    for place in noisy.places():
        context, analysis = noisy.record(*place)
        silent -= {
            topic.name
            for topic in all_topics()
            if topic.sections(context, analysis) or (topic.page and topic.page(context, analysis))
        }
    assert silent == set()
