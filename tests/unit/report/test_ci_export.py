# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports for continuous integration have the documented shape of each format, and a result for each comparison.

The shapes are written down here, from the formats' documentation. Where the packages junitparser and kcidb-io are installed, they read the
exports as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import statistics
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import msgspec
import pytest
from tests.golden import latency, servers, synthetic

from swapstone.core.model import Analysis, Verdict
from swapstone.core.report.context import ReportContext
from swapstone.core.report.export import CI_EXPORTS, to_junit, to_kcidb, to_lava

CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()
COPIES = {null.copy for null in ANALYSIS.nulls}
ROWS = [c for c in ANALYSIS.comparisons if c.candidate not in COPIES]
RECORDS = [(CONTEXT, ANALYSIS), (servers.context(), servers.analysis()), (latency.context(), latency.analysis())]


def _every_verdict() -> Analysis:
    """Return an analysis with a row of each verdict, and a hostile name."""
    rows = [
        msgspec.structs.replace(
            ROWS[0], workload=f'<&"]]>\x1b[31m é {verdict.value}', verdict=verdict, reason="why & <b>"
        )
        for verdict in Verdict
    ]
    return msgspec.structs.replace(ANALYSIS, comparisons=tuple(rows))


def test_the_record_has_every_verdict_that_matters() -> None:
    assert {Verdict.WORSE, Verdict.BETTER} <= {c.verdict for c in ROWS}


# junit-10.xsd of Jenkins' xUnit plugin: attributes and children of each element.
JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "disabled", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {
            "name",
            "tests",
            "failures",
            "errors",
            "time",
            "disabled",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
        },
        {"name", "tests"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "assertions", "time", "classname", "status"},
        {"name"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "skipped": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "failure": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def _check_junit(element: ET.Element) -> None:
    allowed, required, children = JUNIT[element.tag]
    assert required <= element.attrib.keys() <= allowed, (element.tag, element.attrib)
    assert {child.tag for child in element} <= children
    for child in element:
        _check_junit(child)


@pytest.mark.parametrize(("context", "analysis"), [*RECORDS, (CONTEXT, _every_verdict())])
def test_junit_has_the_elements_of_its_schema_and_counts_that_are_right(
    context: ReportContext, analysis: Analysis
) -> None:
    root = ET.fromstring(to_junit(context, analysis))
    _check_junit(root)
    copies = {null.copy for null in analysis.nulls}
    rows = [c for c in analysis.comparisons if c.candidate not in copies]
    assert int(root.attrib["tests"]) == len(rows) == len(root.findall(".//testcase")) > 0
    for suite in root:
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[name]) == len(suite.findall(f".//{tag}"))
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        keys = [(case.attrib["classname"], case.attrib["name"]) for case in suite]
        assert len(set(keys)) == len(keys)
    verdicts = Counter(c.verdict for c in rows)
    assert len(root.findall(".//failure")) == verdicts[Verdict.WORSE] + verdicts[Verdict.WORSE_TAIL]
    assert len(root.findall(".//error")) == verdicts[Verdict.INVALID]
    skipped = (Verdict.UNAVAILABLE, Verdict.INCONCLUSIVE, Verdict.DISTURBED, Verdict.MIXED)
    assert len(root.findall(".//skipped")) == sum(verdicts[verdict] for verdict in skipped)


def test_junit_is_read_by_junitparser_where_it_is_installed() -> None:
    text = to_junit(CONTEXT, ANALYSIS)
    if importlib.util.find_spec("junitparser"):
        read = importlib.import_module("junitparser").JUnitXml.fromstring(text.encode())
        assert sum(len(list(suite)) for suite in read) == len(ROWS)
    assert text.count("<testcase ") == len(ROWS)


def test_a_failure_has_the_effect_and_its_interval() -> None:
    root = ET.fromstring(to_junit(CONTEXT, ANALYSIS))
    (case,) = root.findall(".//testcase[@name='b_malloc_sparse: wall']")
    text = case.findtext("system-out") or ""
    assert re.match(r"ratio [0-9.]+ \([0-9.]+–[0-9.]+\): ", text), text  # noqa: RUF001 - a dash between numbers


def _check_kcidb(whole: dict[str, Any]) -> None:
    """Check the parts of `kcidb_io.schema.v05_03` that the export uses."""
    assert whole.keys() == {"version", "checkouts", "builds", "tests"}
    assert whole["version"] == {"major": 5, "minor": 3}
    for kind in ("checkouts", "builds", "tests"):
        identities = [each["id"] for each in whole[kind]]
        assert len(set(identities)) == len(identities) > 0
        for each in whole[kind]:
            assert re.fullmatch(r"[a-z0-9_]+", each["origin"])
            assert re.fullmatch(r"[a-z0-9_]+:[^\0]*", each["id"])
    assert {each["checkout_id"] for each in whole["builds"]} == {each["id"] for each in whole["checkouts"]}
    builds = {each["id"] for each in whole["builds"]}
    fields = {"id", "origin", "build_id", "path", "status", "comment", "misc", "number", "start_time"}
    for each in whole["tests"]:
        assert each.keys() <= fields
        assert each["build_id"] in builds
        assert re.fullmatch(r"[.a-zA-Z0-9_-]*", each["path"])
        assert each["status"] in {"FAIL", "ERROR", "MISS", "PASS", "DONE", "SKIP"}
        number = each.get("number", {"value": 0.0})
        assert number.keys() <= {"value", "unit", "prefix"} and isinstance(number["value"], float | int)
        assert number.get("prefix", "metric") in {"metric", "binary"}


@pytest.mark.parametrize(("context", "analysis"), [*RECORDS, (CONTEXT, _every_verdict())])
def test_kcidb_has_the_shape_of_its_schema(context: ReportContext, analysis: Analysis) -> None:
    whole = json.loads(to_kcidb(context, analysis))
    _check_kcidb(whole)
    if importlib.util.find_spec("kcidb_io"):
        importlib.import_module("kcidb_io.schema").V5_3.validate_exactly(whole)


def test_kcidb_has_the_median_in_seconds_and_the_verdict() -> None:
    tests = {
        (each["path"], each["misc"]["candidate"]): each for each in json.loads(to_kcidb(CONTEXT, ANALYSIS))["tests"]
    }
    assert len(tests) == len(ROWS)
    for c in ROWS:
        test = tests[
            f"{c.suite}.{re.sub(r'[^A-Za-z0-9_-]+', '_', c.workload).strip('_')}.{c.metric.name}", c.candidate.label
        ]
        assert (test["status"] == "FAIL") == (c.verdict is Verdict.WORSE)
        if c.metric.name == "wall" and c.candidate_values:
            assert test["number"]["unit"] == "s"
            assert test["number"]["value"] == pytest.approx(statistics.median(c.candidate_values) / 1e9)


@pytest.mark.parametrize(("context", "analysis"), [*RECORDS, (CONTEXT, _every_verdict())])
def test_lava_signals_are_lines_that_the_dispatcher_matches(context: ReportContext, analysis: Analysis) -> None:
    """LAVA matches ``<LAVA_SIGNAL_NAME PARAMETERS>``, splits at blanks, and reads KEY=VALUE."""
    depth, cases = 0, 0
    for line in to_lava(context, analysis).splitlines():
        found = re.fullmatch(r"<LAVA_SIGNAL_(\S+) ([^>]+)>", line)
        assert found, line
        words = found[2].split()
        if found[1] == "TESTSET":
            depth += 1 if words[0] == "START" else -1
            assert depth in {0, 1} and (words == ["STOP"] or len(words) == 2)
            continue
        assert found[1] == "TESTCASE" and depth == 1
        facts = dict(word.split("=") for word in words)
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", facts["TEST_CASE_ID"])
        assert facts["RESULT"] in {"pass", "fail", "skip", "unknown"}
        assert re.fullmatch(r"-?[0-9]+(\.[0-9]{1,10})?", facts.get("MEASUREMENT", "0"))
        cases += 1
    assert depth == 0
    assert cases == len([c for c in analysis.comparisons if c.candidate not in {null.copy for null in analysis.nulls}])


def test_hostile_names_steer_neither_a_terminal_nor_a_parser() -> None:
    for export in CI_EXPORTS.values():
        text = export(CONTEXT, _every_verdict())
        assert "\x1b" not in text and "\\u001b" not in text
    assert "]]>" not in to_lava(CONTEXT, _every_verdict()).replace("<LAVA", "")
