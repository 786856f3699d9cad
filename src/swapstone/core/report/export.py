# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports of an analysis: JSON, CSV, hyperfine's JSON, Go's benchmark text and the formats of continuous integration.

Every number was measured or is in the analysis. A field of a format that was not measured is null or left out.

JUnit XML, KCIDB and LAVA signals are for continuous integration. Each comparison is a test case, but for those with a copy of the
baseline. A verdict is its result; docs/exports.md has the table.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import re
import shlex
import statistics
import urllib.parse
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from swapstone.core.model import (
    Analysis,
    Comparison,
    Copy,
    Direction,
    Metric,
    OwnProgram,
    Variant,
    Verdict,
    filled_text,
    grouped,
)
from swapstone.core.model.safe_text import safe_json
from swapstone.core.report import comparison_columns, formatting
from swapstone.core.report.answer import tails
from swapstone.core.report.context import ReportContext
from swapstone.core.report.printed_json import labelled, printed_json
from swapstone.core.report.record_report import answer_of, described, sections_of
from swapstone.core.report.tables import Datum, as_csv, comma_separated, item, plain
from swapstone.core.report.topics import sentences
from swapstone.core.report.variant_values import Side, sides, without_copies

ORIGIN = "swapstone"
"""The name of the system that submits results, in KCIDB."""


def _sentence(c: Comparison) -> str:
    """Describe a comparison in a line: its effect, its verdict and the reason for it."""
    effect = f"{c.scale.value} {formatting.estimate(c)}: " if formatting.estimate(c) else ""
    bound = f" ({formatting.BOUNDED} {tails.bound(c)})" if tails.bound(c) else ""
    text = f"{effect}{c.verdict.value}{bound}" + (f": {c.reason}" if c.reason else "")
    if detail := tails.detail(c):
        text += f"; {detail.removeprefix('same median; ')}"
    return formatting.safe(text)


_RESULTS = {
    Verdict.BETTER: ("", "PASS", "pass"),
    Verdict.EQUIVALENT: ("", "PASS", "pass"),
    Verdict.BELOW_MARGIN: ("", "PASS", "pass"),
    Verdict.SAME_MEDIAN: ("", "PASS", "pass"),
    Verdict.BETTER_TAIL: ("", "PASS", "pass"),
    Verdict.CHANGED: ("", "DONE", "pass"),
    Verdict.MEASURED: ("", "DONE", "pass"),
    Verdict.WORSE: ("failure", "FAIL", "fail"),
    Verdict.WORSE_TAIL: ("failure", "FAIL", "fail"),
    Verdict.MIXED: ("skipped", "DONE", "unknown"),
    Verdict.DISTURBED: ("skipped", "DONE", "unknown"),
    Verdict.INCONCLUSIVE: ("skipped", "DONE", "unknown"),
    Verdict.INVALID: ("error", "ERROR", "fail"),
    Verdict.UNAVAILABLE: ("skipped", "MISS", "skip"),
}
"""By verdict: the element of JUnit, empty for a test case that passes, the status of KCIDB, and the result of LAVA."""


def to_junit(context: ReportContext, analysis: Analysis) -> str:
    """Return JUnit XML: a test suite per suite, load and candidate, and a test case per workload and metric.

    A worse row is a failure, an invalid one an error; rows without a direction of their own are skipped: inconclusive, mixed, disturbed
    and unavailable ones. Elements and attributes are those of
    the schema of Jenkins' xUnit plugin (junit-10.xsd). `time` is left out: no test case has a duration of its own.
    """
    groups = grouped(
        without_copies(analysis), lambda c: (formatting.place(c.suite, c.load), c.baseline.label, c.candidate.label)
    )
    suites = [
        (f"{suite}: {candidate} against {baseline}", [_junit_case(c) for c in rows])
        for (suite, baseline, candidate), rows in groups.items()
    ]
    return junit_xml(f"swapstone {context.record_id}", suites, context.started_unix_ns)


class JunitCase(NamedTuple):
    """A test case: its class and name, a text, and unless it passes the element ``failure``, ``error`` or ``skipped`` with its type."""

    classname: str
    name: str
    text: str
    element: str = ""
    type: str = ""


def junit_xml(name: str, suites: Sequence[tuple[str, Sequence[JunitCase]]], started_unix_ns: int = 0) -> str:
    """Return JUnit XML of test suites, each with its name; control characters of all texts become visible."""
    every = [case for _, cases in suites for case in cases]
    root = ET.Element("testsuites", {"name": formatting.safe(name), **_counts(every, skipped=False)})
    for number, (suite, cases) in enumerate(suites):
        facts = {"name": formatting.safe(suite), "id": str(number), **_counts(cases, skipped=True)}
        if started_unix_ns:
            facts["timestamp"] = _moment(started_unix_ns).strftime("%Y-%m-%dT%H:%M:%S")
        parent = ET.SubElement(root, "testsuite", facts)
        for case in cases:
            text = formatting.safe(case.text)
            element = ET.SubElement(
                parent, "testcase", {"name": formatting.safe(case.name), "classname": formatting.safe(case.classname)}
            )
            if case.element:
                typed = {} if case.element == "skipped" else {"type": case.type}
                ET.SubElement(element, case.element, {"message": text, **typed})
            ET.SubElement(element, "system-out").text = text
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cases: Sequence[JunitCase], *, skipped: bool) -> dict[str, str]:
    """Return the number of test cases, and of those that don't pass."""
    counted = Counter(case.element for case in cases)
    found = {"tests": len(cases), "failures": counted["failure"], "errors": counted["error"]}
    return {
        name: str(number) for name, number in (found | ({"skipped": counted["skipped"]} if skipped else {})).items()
    }


def _moment(unix_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_ns / 1e9, tz=datetime.UTC)


def _junit_case(c: Comparison) -> JunitCase:
    classname = f"{ORIGIN}.{_word(formatting.place(c.suite, c.load))}.{_word(c.candidate.label)}"
    name = f"{c.workload}: {c.metric.name}"
    return JunitCase(classname, name, _sentence(c), _RESULTS[c.verdict][0], c.verdict.value)


def to_kcidb(context: ReportContext, analysis: Analysis) -> str:
    """Return KCIDB's JSON, version 5.3: a checkout, a build per variant, and a test per comparison, with the candidate's median as number.

    The schema is `kcidb_io.schema.v05_03` of the package kcidb-io. Times are in seconds. Baseline, effect and interval are in ``misc``.
    """
    record = formatting.safe(context.record_id)
    checkout = f"{ORIGIN}:{record}"
    rows = without_copies(analysis)
    builds = [
        {
            "id": _id(record, variant.label),
            "origin": ORIGIN,
            "checkout_id": checkout,
            "comment": formatting.safe(variant.label),
            "misc": {"levels": dict(variant.levels)},
        }
        for variant in dict.fromkeys(variant for c in rows for variant in (c.baseline, c.candidate))
    ]
    whole = {
        "version": {"major": 5, "minor": 3},
        "checkouts": [{"id": checkout, "origin": ORIGIN, "comment": f"Swapstone's record {record}"}],
        "builds": builds,
        "tests": [_kcidb_test(context, record, c) for c in rows],
    }
    return safe_json(json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False)) + "\n"


def _kcidb_test(context: ReportContext, record: str, c: Comparison) -> dict[str, object]:
    place = (c.suite, c.load, c.workload, c.metric.name, c.candidate.label, c.baseline.label)
    path = ".".join(map(_word, (c.suite, c.workload, c.metric.name)))
    test: dict[str, object] = {
        "id": _id(record, *place),
        "origin": ORIGIN,
        "build_id": _id(record, c.candidate.label),
        "path": path,
        "status": _RESULTS[c.verdict][1],
        "comment": _sentence(c),
        "misc": {
            "baseline": c.baseline.label,
            "candidate": c.candidate.label,
            "load": c.load,
            "verdict": c.verdict.value,
            "scale": c.scale.value,
            "effect": c.effect,
            "low": c.low,
            "high": c.high,
            "baseline_median": statistics.median(c.baseline_values) if c.baseline_values else None,
        },
    }
    # As the schema has it, a number belongs to a test that ran.
    if c.candidate_values and c.verdict is not Verdict.UNAVAILABLE:
        test["number"] = _number(c.metric, statistics.median(c.candidate_values))
    if context.started_unix_ns:
        test["start_time"] = _moment(context.started_unix_ns).isoformat()
    return test


def _number(metric: Metric, value: float) -> dict[str, object]:
    value, unit = (value / 1e9, "s") if metric.unit == "ns" else (value, metric.unit)
    prefix = {"prefix": "binary" if unit.startswith("B") else "metric"}
    return {"value": value, **({} if unit == "1" else {"unit": unit}), **prefix}


def _id(record: str, *parts: str) -> str:
    """Return an identity that is the same in each export of a record."""
    return f"{ORIGIN}:{record}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"


def _word(text: str) -> str:
    """Return a text in the characters that names of tests may have in KCIDB and LAVA: letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_") or "_"


def to_lava(_context: ReportContext, analysis: Analysis) -> str:
    """Return the signals that LAVA reads on a device's console: a test set per suite, load and candidate, a test case per comparison.

    The measurement is the candidate's median, times in seconds. Without a comparison, one test case is `unknown`.
    These are the lines that `lava-test-case` and `lava-test-set` print.
    """
    lines: list[str] = []
    for name, rows in itertools.groupby(
        without_copies(analysis), lambda c: f"{_word(formatting.place(c.suite, c.load))}.{_word(c.candidate.label)}"
    ):
        lines += [f"<LAVA_SIGNAL_TESTSET START {name}>", *map(_lava_case, rows), "<LAVA_SIGNAL_TESTSET STOP>"]
    # Without a signal, LAVA counts a job as passed.
    none = ["<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=comparisons RESULT=unknown>"]
    return "".join(f"{line}\n" for line in lines or none)


_UNIT = re.compile(r"[^A-Za-z0-9_/%.^*-]+")
"""What the unit of a signal may not have: a blank or ``>`` would end it."""


def _lava_case(c: Comparison) -> str:
    words = [f"TEST_CASE_ID={_word(c.workload)}.{_word(c.metric.name)}", f"RESULT={_RESULTS[c.verdict][2]}"]
    if c.candidate_values and c.verdict is not Verdict.UNAVAILABLE:
        number = _number(c.metric, statistics.median(c.candidate_values))
        value, unit = number["value"], str(number.get("unit", "count"))
        assert isinstance(value, float | int)
        # Without an exponent; LAVA stores ten decimals.
        words += [f"UNITS={_UNIT.sub('_', unit)}", f"MEASUREMENT={formatting.trimmed(f'{value:.10f}')}"]
    return f"<LAVA_SIGNAL_TESTCASE {' '.join(words)}>"


CI_EXPORTS: dict[str, Callable[[ReportContext, Analysis], str]] = {
    "junit": to_junit,
    "kcidb": to_kcidb,
    "lava": to_lava,
}


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


def to_runs_csv(_context: ReportContext, analysis: Analysis) -> str:
    """Return one row per value of a run. `pair` numbers the pairs of a comparison from 1: equal numbers ran in the same block."""
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


def to_effects_csv(_context: ReportContext, analysis: Analysis) -> str:
    """Return the effects and interactions of crossed factors as CSV; the header alone where fewer than two factors were varied."""
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
