# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports for continuous integration: JUnit XML, KCIDB and LAVA signals.

Each comparison is a test case, but for those with a copy of the baseline. A verdict is its result; docs/exports.md has the table.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Sequence

from swapstone.core.model import Analysis, Comparison, Metric, Verdict
from swapstone.core.model.safe_text import safe_json
from swapstone.core.report import formatting
from swapstone.core.report.answer import tails
from swapstone.core.report.context import ReportContext
from swapstone.core.report.variant_values import grouped, without_copies

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
    cases = without_copies(analysis)
    groups = grouped(cases, lambda c: (formatting.place(c.suite, c.load), c.baseline.label, c.candidate.label))
    root = ET.Element(
        "testsuites",
        {"name": f"swapstone {formatting.safe(context.record_id)}", **_counts(cases, skipped=False)},
    )
    for number, ((suite, baseline, candidate), rows) in enumerate(groups.items()):
        name = formatting.safe(f"{suite}: {candidate} against {baseline}")
        facts = {"name": name, "id": str(number), **_counts(rows, skipped=True)}
        if context.started_unix_ns:
            facts["timestamp"] = _moment(context.started_unix_ns).strftime("%Y-%m-%dT%H:%M:%S")
        element = ET.SubElement(root, "testsuite", facts)
        for c in rows:
            _junit_case(element, f"{ORIGIN}.{_word(formatting.place(c.suite, c.load))}.{_word(candidate)}", c)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(rows: Sequence[Comparison], *, skipped: bool) -> dict[str, str]:
    """Return the number of test cases, and of those that don't pass."""
    counted = Counter(_RESULTS[c.verdict][0] for c in rows)
    found = {"tests": len(rows), "failures": counted["failure"], "errors": counted["error"]}
    return {
        name: str(number) for name, number in (found | ({"skipped": counted["skipped"]} if skipped else {})).items()
    }


def _moment(unix_ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_ns / 1e9, tz=datetime.UTC)


def _junit_case(parent: ET.Element, classname: str, c: Comparison) -> None:
    name = formatting.safe(f"{c.workload}: {c.metric.name}")
    case = ET.SubElement(parent, "testcase", {"name": name, "classname": classname})
    kind = _RESULTS[c.verdict][0]
    if kind:
        typed = {} if kind == "skipped" else {"type": c.verdict.value}
        ET.SubElement(case, kind, {"message": _sentence(c), **typed})
    ET.SubElement(case, "system-out").text = _sentence(c)


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


def to_lava(context: ReportContext, analysis: Analysis) -> str:
    """Return the signals that LAVA reads on a device's console: a test set per suite, load and candidate, a test case per comparison.

    The measurement is the candidate's median, times in seconds. Without a comparison, one test case is `unknown`.
    These are the lines that `lava-test-case` and `lava-test-set` print.
    """
    del context  # every export has this signature
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
