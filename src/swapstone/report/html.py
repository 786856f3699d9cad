"""The report as one self-contained HTML page: no network, no fonts, no script that decides anything."""

from __future__ import annotations

import functools
import re

import jinja2
from markupsafe import Markup

from swapstone.model import Analysis, Comparison, Quantity, Scale
from swapstone.report import crossed, exhibits, plots, sentences, view, words
from swapstone.report.context import ReportContext
from swapstone.report.exhibit import Exhibit
from swapstone.report.view import Row, Section

_UNIT = re.compile(r"([0-9]) (%|[num]?s|[KMG]?i?B|min|h)(?![A-Za-z])")


def _values(comparison: Comparison) -> tuple[str, str]:
    pair = view.medians(comparison)
    return (
        (words.quantity(pair[0], comparison.metric.unit), words.quantity(pair[1], comparison.metric.unit))
        if pair
        else ("", "")
    )


def _effect(comparison: Comparison) -> str:
    effect = view.shown(comparison)
    return "" if effect is None else words.effect(effect, comparison)


def _interval(comparison: Comparison) -> str:
    return "" if view.shown(comparison) is None else words.interval(comparison)


def _spread(comparison: Comparison) -> tuple[str, str]:
    """Return the smallest and the largest value of both sides: the ends of the drawing of its runs."""
    both = (*comparison.baseline_values, *comparison.candidate_values)
    return words.quantity(min(both), comparison.metric.unit), words.quantity(max(both), comparison.metric.unit)


def _varies(comparison: Comparison) -> bool:
    """Return whether there are runs to draw: values on both sides that are not all equal."""
    return bool(comparison.baseline_values and comparison.candidate_values) and not comparison.exact


def _facts(comparison: Comparison) -> str:
    """Say in words what a drawing of runs shows, and what the analysis made of them."""
    before, after = _values(comparison)
    unit, pairs = comparison.metric.unit, words.count(len(comparison.baseline_values), "pair")
    parts = [f"{pairs}. Medians {before} and {after}"]
    for name, values in (("baseline", comparison.baseline_values), ("candidate", comparison.candidate_values)):
        parts.append(f"{name} from {words.quantity(min(values), unit)} to {words.quantity(max(values), unit)}")
    text = "; ".join(parts) + "."
    if comparison.low is not None:
        text += f" The interval holds at {words.digits(comparison.confidence * 100, 4)} %."
    if comparison.p_value is not None:
        text += f" p of no difference {words.digits(comparison.p_value, 2)}, uncorrected."
    if seen := words.smallest(comparison):
        text += f" The smallest effect that would have been seen: {seen}."
    return text


def _memory(section: Section) -> dict[str, Row]:
    """Return per workload the memory row that stands beside its time: resident, else the first there is."""
    found: dict[str, Row] = {}
    for grid in section.grids:
        if grid.quantity is not Quantity.MEMORY:
            continue
        names = [metric.name for metric in grid.metrics]
        place = names.index("res") if "res" in names else 0
        found.update({name: row for name, cells in grid.lines if (row := cells[place]) is not None})
    return found


def _memory_name(memory: dict[str, Row]) -> str:
    """Return the heading of that column."""
    names = {row.comparison.metric.name for row in memory.values()}
    return "resident memory" if names == {"res"} else "memory"


def _direction(comparison: Comparison) -> str:
    better = comparison.metric.better.value
    return "neither direction is better" if better == "neither" else f"{better} is better"


def _tight(text: str) -> str:
    """Keep numbers and their units on one line."""
    return _UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text)


def _drawing(exhibit: Exhibit) -> Markup:
    """Return an exhibit's drawing as it is: we made it, and whatever makes one escapes text from outside."""
    return Markup(exhibit.svg)  # noqa: S704 - see above


@functools.cache
def template(name: str) -> jinja2.Template:
    """Return one of our templates, with all that they use: every text in it is escaped and made safe."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("swapstone.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Every string that is printed passes through here: nothing from outside can reorder or hide text.
        finalize=lambda value: words.safe(value) if type(value) is str else value,
    )
    environment.filters["tight"] = _tight
    environment.globals.update(
        {
            "words": words,
            "view": view,
            "sentences": sentences,
            "plots": plots,
            "crossed": crossed,
            "values": _values,
            "effect": _effect,
            "interval": _interval,
            "spread": _spread,
            "varies": _varies,
            "facts": _facts,
            "spoken": lambda comparison: view.shown(comparison) is not None,
            "memory_of": _memory,
            "memory_name": _memory_name,
            "direction": _direction,
            "drawing": _drawing,
            "RATIO": Scale.RATIO,
        }
    )
    return environment.get_template(name)


def render(context: ReportContext, analysis: Analysis) -> str:
    """Render an analysis as one HTML page.

    Args:
        context: what stands beside the comparisons.
        analysis: what may be said.

    Returns:
        The page. Its own policy forbids it to load anything. Text from outside is escaped.
    """
    found = view.sections(context, analysis)
    copies = {null.copy for null in analysis.nulls}
    crossing = crossed.sections(context, analysis)
    shown = exhibits.exhibits(context, analysis)
    return template("report.html.j2").render(
        crossing=crossing,
        exhibits=shown,
        flags=exhibits.flags(shown),
        failures=crossed.failures(analysis),
        context=context,
        analysis=analysis,
        sections=found,
        margin=context.experiment.margin,
        indices=[index for index in analysis.indices if index.candidate not in copies],
        baseline=analysis.comparisons[0].baseline.label if analysis.comparisons else "the baseline",
        page=sentences.page(context.published) if context.published else "",
        time_rows=tuple(row for section in found for row in section.rows),
        memory_rows=view.memory_rows(found),
    )
