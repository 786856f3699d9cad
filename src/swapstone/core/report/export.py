# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports of an analysis: JSON, CSV, hyperfine's JSON, Go's benchmark text and the formats of continuous integration.

Every number was measured or is in the analysis. A field of a format that was not measured is null or left out.
"""

from __future__ import annotations

import itertools
import json
import shlex
import statistics
import urllib.parse
from collections.abc import Callable, Iterator, Mapping

import msgspec

from swapstone.core.model import Analysis, Copy, Direction, Metric, OwnProgram, Variant, filled_text
from swapstone.core.report import comparison_columns, formatting
from swapstone.core.report.ci_export import CI_EXPORTS
from swapstone.core.report.context import ReportContext
from swapstone.core.report.printed_json import labelled, printed_json
from swapstone.core.report.record_report import answer_of, described, sections_of
from swapstone.core.report.tables import Datum, as_csv, comma_separated, item, plain
from swapstone.core.report.topics import sentences
from swapstone.core.report.variant_values import Side, grouped, sides

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
        **({"exhibits": described(shown)} if shown else {}),
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
    for unit, of in grouped(found, lambda side: _go_unit(side.metric)).items():
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
    copies = (("" if side.variant.copy is Copy.FIRST else side.variant.copy.value, side) for side in found)
    ordered = sorted(copies, key=lambda pair: pair[0])
    for (copy, suite, load), of in itertools.groupby(ordered, lambda pair: (pair[0], pair[1].suite, pair[1].load)):
        lines += ["", f"suite: {formatting.safe(suite)}", f"load: {formatting.safe(load)}"]
        lines += [f"copy: {copy}", ""] if copy else [""]
        for _, side in of:
            parts = [f"{_go_name(key)}={_go_name(level)}" for key, level in side.variant.levels]
            # The number after the last hyphen is GOMAXPROCS in this format; without it, a level such as rt-2 would be misread.
            # After Benchmark, the format does not allow a lower-case letter.
            name = "/".join([f"Benchmark{sentences.upper_first(_go_name(side.workload))}", *parts]) + "-1"
            unit = _go_unit(side.metric)
            parts_of_unit = 1e9 if unit.endswith("sec/op") else 1
            lines += [f"{name} 1 {plain(value / parts_of_unit)} {unit}" for value in side.values]
    return "\n".join(lines) + "\n"


_Place = tuple[str, str, str, Variant]
"""(suite, workload, load, variant)"""


def to_hyperfine(context: ReportContext, analysis: Analysis) -> str:
    """Return one result per workload and variant in the JSON of hyperfine 1.15 to 1.20 (`src/benchmark/benchmark_result.rs`).

    Times are seconds of elapsed time for one operation, memory is the peak resident size in bytes. `user` and `system` are means of
    those metrics where they were measured, else null; `stddev` is null for one run, as hyperfine has it. Workloads without elapsed
    time are left out, and so are runs that failed: every exit code is 0, unless other ones were accepted.
    """
    found = grouped(sides(analysis, copies=True), lambda side: (side.suite, side.workload, side.load, side.variant))
    measured = {place: {side.metric.name: side for side in of} for place, of in found.items()}
    results = [_result(context, place, metrics) for place, metrics in measured.items() if "wall" in metrics]
    return json.dumps({"results": results}, indent=2, allow_nan=False) + "\n"


def _result(context: ReportContext, key: _Place, metrics: dict[str, Side]) -> dict[str, object]:
    suite, workload, load, variant = key
    own, parameters = context.experiment.own, context.parameters(suite, workload)
    command = workload if own is None else formatting.safe(shlex.join(_own_command(own, variant, parameters)))
    times = [value / 1e9 for value in metrics["wall"].values]

    def mean_seconds(name: str) -> float | None:
        return statistics.mean(v / 1e9 for v in metrics[name].values) if name in metrics else None

    whole = {
        name: [round(value) for value in metrics[name].values]
        for name in ("maxrss", "exit_status")
        if name in metrics and len(metrics[name].values) == len(times)
    }
    place = {"suite": suite, "workload": workload, "load": load, "variant": variant.label}
    return {
        "command": f"{command} [{variant.label}]" if load == "idle" else f"{command} [{variant.label}, load {load}]",
        "mean": statistics.mean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": mean_seconds("user"),
        "system": mean_seconds("system"),
        "min": min(times),
        "max": max(times),
        "times": times,
        **({"memory_usage_byte": whole["maxrss"]} if "maxrss" in whole else {}),
        "exit_codes": whole.get("exit_status", [0] * len(times)),
        "parameters": {**place, **parameters, **{name.strip("{}"): level for name, level in variant.levels}},
    }


def _own_command(own: OwnProgram, variant: Variant, parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line of the own program on a variant, with the values of its placeholders."""
    free = {name[1:-1]: level for name, level in variant.levels if name.startswith("{")}
    values = {**free, **{name: parameters.get(name, "") for name, _ in own.parameters}}
    return tuple(filled_text(word, values) for word in own.command_of(dict(variant.levels)).words)


def to_effects_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return the effects and interactions of crossed factors as CSV; the header alone where fewer than two factors were varied."""
    del context  # every export has this signature
    return as_csv(comparison_columns.EFFECT_FIELDS, comparison_columns.estimates(analysis))


def to_exhibits_csv(context: ReportContext, analysis: Analysis) -> str:
    """Return one row per number or text of a section's table: its name, its row counted from 1, its column, its value.

    An empty value means that there is none. The header alone where a record has no such section.
    """
    rows: list[Datum] = [
        {"exhibit": section.name, "row": place, "column": column, "value": value}
        for section in sections_of(context, analysis)
        for place, row in enumerate(section.data, start=1)
        for column, value in row.items()
    ]
    return as_csv([item("", key) for key in ("exhibit", "row", "column", "value")], rows)


EXPORTS: dict[str, Callable[[ReportContext, Analysis], str]] = {
    "json": to_json,
    "csv": to_csv,
    "runs": to_runs_csv,
    "hyperfine": to_hyperfine,
    "benchstat": to_benchstat,
    "effects": to_effects_csv,
    "exhibits": to_exhibits_csv,
    **CI_EXPORTS,
}
"""Every format of `swapstone export --format`."""
