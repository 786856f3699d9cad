# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports of an analysis: JSON, CSV, hyperfine's JSON, Go's benchmark text and the formats of continuous integration.

Every number was measured or is in the analysis. A field of a format that was not measured is null or left out.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterator

import msgspec

from swapstone.core.model import Analysis, Copy, Direction, Metric
from swapstone.core.report import comparison_columns, factorial_export, formatting, section_export
from swapstone.core.report.ci_export import CI_EXPORTS
from swapstone.core.report.context import ReportContext
from swapstone.core.report.hyperfine_export import to_hyperfine
from swapstone.core.report.printed_json import labelled, printed_json
from swapstone.core.report.record_report import answer_of, sections_of
from swapstone.core.report.tables import as_csv, comma_separated, plain
from swapstone.core.report.topics import sentences
from swapstone.core.report.variant_values import Side, sides

_GO_ALLOWED = "_.-()+,:@#~"
"""Characters of a name in Go's benchmark format besides letters and digits. Others are percent-encoded (RFC 3986)."""


def to_json(context: ReportContext, analysis: Analysis) -> str:
    """Return everything, as JSON of the format ``analysis``. Where the record has sections with data, they follow as ``exhibits``."""
    shown_context = msgspec.to_builtins(context)
    del (
        shown_context["workloads"],
        shown_context["selection"],
        shown_context["pieces"],
    )
    shown = sections_of(context, analysis)
    return printed_json(
        "analysis",
        answer=answer_of(context, analysis),
        context=shown_context,
        analysis=labelled(analysis),
        **({"exhibits": section_export.described(shown)} if shown else {}),
    )


def to_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return one row per comparison. Times are in the metric's unit; an empty cell stands for no number.

    ``not_observed`` names the factors that differ and whose level rests on the request alone; ``seal`` is the digest of the record.
    """
    fields = comparison_columns.csv_fields(context.experiment.unobserved, context.seal_digest)
    return as_csv(fields, comparison_columns.rows_of(analysis))


def to_runs_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return one row per value of a run. `pair` numbers the pairs of a comparison from 1: equal numbers ran in the same block."""
    del context
    rows = (
        (
            c.suite,
            c.workload,
            c.load,
            c.metric.name,
            c.metric.unit,
            c.baseline.label,
            c.candidate.label,
            side,
            pair,
            plain(value),
        )
        for c in analysis.comparisons
        for side, values in (("baseline", c.baseline_values), ("candidate", c.candidate_values))
        for pair, value in enumerate(values, start=1)
    )
    return comma_separated(
        ["suite", "workload", "load", "metric", "unit", "baseline", "candidate", "side", "pair", "value"], rows
    )


def _go_name(text: str) -> str:
    """Return a name that Go's benchmark format allows: without blanks, slashes and equals signs. Different names stay different."""
    return urllib.parse.quote(text, safe=_GO_ALLOWED) or "_"


def _go_unit(metric: Metric) -> str:
    """Return a metric's unit, from which benchstat reads name and scale.

    Elapsed time is ``ns/op``, as in Go's own output. Other times are seconds: benchstat turns nanoseconds into seconds too, but not
    where they are zero, and then takes the zeros for another metric.
    """
    if metric.name == "wall":
        return "ns/op"
    suffix = {"ns": "sec/op", "B": "bytes", "1/s": "/s", "B/s": "B/s"}.get(metric.unit, "count")
    return f"{_go_name(metric.name)}-{suffix}"


def _go_metadata(found: tuple[Side, ...]) -> Iterator[str]:
    units: dict[str, list[Side]] = {}
    for side in found:
        units.setdefault(_go_unit(side.metric), []).append(side)
    for unit, of in units.items():
        better = of[0].metric.better
        facts = [] if better is Direction.NEITHER else [f"better={better.value}"]
        # benchstat then prints the number itself and warns when it varies.
        if all(side.exact for side in of):
            facts.append("assume=exact")
        if facts:
            yield f"Unit {unit} {' '.join(facts)}"


def to_benchstat(context: ReportContext, analysis: Analysis) -> str:
    """Return Go's benchmark text (golang.org/design/14313-benchmark-format), one section per suite, load and copy.

    Each variant's levels are keys of the benchmark's name, so that ``benchstat -col /libc FILE`` puts them side by side, and
    ``-row '.name /compiler' -col /libc`` those of two factors. What the format does not allow in a name is written as in an address:
    ``/libc=%2Fopt%2Fx``.

    The lines ``suite:``, ``load:`` and ``copy:`` are configuration, of which benchstat makes a table each; so the copies of the
    baseline in a null comparison are not mixed with it, and ``-col copy`` compares them. The variant is no configuration.
    """
    found = sides(analysis, copies=True)
    lines = [
        "goos: linux",
        f"record: {formatting.safe(context.record_id)}",
        f"target: {formatting.safe(context.experiment.target)}",
    ]
    lines += _go_metadata(found)
    place: tuple[str, ...] | None = None
    copies = (("" if side.variant.copy is Copy.FIRST else side.variant.copy.value, side) for side in found)
    for copy, side in sorted(copies, key=lambda pair: pair[0]):
        if (copy, side.suite, side.load) != place:
            place = (copy, side.suite, side.load)
            lines += ["", f"suite: {formatting.safe(side.suite)}", f"load: {formatting.safe(side.load)}"]
            lines += [f"copy: {copy}", ""] if copy else [""]
        parts = [f"{_go_name(key)}={_go_name(level)}" for key, level in side.variant.levels]
        # The number after the last hyphen is GOMAXPROCS in this format; without it, a level such as rt-2 would be misread.
        # After Benchmark, the format does not allow a lower-case letter.
        name = "/".join([f"Benchmark{sentences.upper_first(_go_name(side.workload))}", *parts]) + "-1"
        unit = _go_unit(side.metric)
        parts_of_unit = 1e9 if unit.endswith("sec/op") else 1
        lines += [f"{name} 1 {plain(value / parts_of_unit)} {unit}" for value in side.values]
    return "\n".join(lines) + "\n"


EXPORTS: dict[str, Callable[[ReportContext, Analysis], str]] = {
    "json": to_json,
    "csv": to_csv,
    "runs": to_runs_csv,
    "hyperfine": to_hyperfine,
    "benchstat": to_benchstat,
    "effects": factorial_export.to_csv,
    "exhibits": section_export.to_csv,
    **CI_EXPORTS,
}
"""Every format of `swapstone export --format`."""
