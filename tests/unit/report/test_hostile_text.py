# SPDX-License-Identifier: MIT OR Apache-2.0
"""No name, label, reason or unit in a record reaches a terminal, a spreadsheet or a parser of an export as anything but text."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import msgspec
import pytest
from tests.golden import synthetic
from tests.unit.model.test_safe_text import HOSTILE, steering

from swapstone.core.comparison.side_by_side import side_by_side
from swapstone.core.model import Analysis, Metric
from swapstone.core.report import export, record_report, side_by_side_table
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.document import with_texts
from swapstone.core.report.render import RENDERERS, terminal

EVIL = "".join(HOSTILE.values()).replace("\udcff", "") + "\n=1+1"
PREFIXES = ("=", "+", "-", "@")


def _hostile(text: str) -> str:
    """Return a name that begins as a formula and ends with every hostile text."""
    return f"={text}{EVIL}"


def _analysis() -> Analysis:
    """Return the fixed analysis with hostile names: of suites, workloads, loads, levels, metrics, units, reasons, messages."""
    changed = with_texts(synthetic.analysis(), _hostile)
    # Reports look these names up: for them the original is tested elsewhere.
    kept = {metric.name: metric for metric in (each.metric for each in synthetic.analysis().comparisons)}

    def metric(found: Metric) -> Metric:
        name = found.name.removeprefix("=").removesuffix(EVIL)
        return msgspec.structs.replace(
            kept[name], meaning=found.meaning, unit=found.unit if name == "minflt" else kept[name].unit
        )

    comparisons = tuple(msgspec.structs.replace(each, metric=metric(each.metric)) for each in changed.comparisons)
    return msgspec.structs.replace(changed, comparisons=comparisons)


def _context() -> ReportContext:
    context = synthetic.context()
    changes = {
        name: with_texts(getattr(context, name), _hostile)
        for name in ("record_id", "record_path", "facts", "rerun", "notes", "explain", "seal_digest")
    }
    return msgspec.structs.replace(context, **changes)


@pytest.mark.parametrize("name", [renderer.name for renderer in RENDERERS])
@pytest.mark.parametrize("every", [False, True])
def test_no_rendering_has_a_character_that_steers(name: str, *, every: bool) -> None:
    context = msgspec.structs.replace(_context(), selection=Selection(every=every))
    document = record_report.document_of(context, _analysis())
    renderer = next(each for each in RENDERERS if each.name == name)
    text = renderer.render(document)
    assert not steering(text, kept="\n\t")
    assert "\\u202e" in text


@pytest.mark.parametrize("colour", [False, True])
def test_a_terminal_gets_no_sequence_but_colours(colour: bool) -> None:
    context = msgspec.structs.replace(_context(), selection=Selection(every=True))
    shown = terminal.Terminal(width=100, colour=colour, every=True)
    text = terminal.render(record_report.document_of(context, _analysis()), shown)
    assert not steering(re.sub(r"\x1b\[[0-9;]*m", "", text) if colour else text, kept="\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(export.EXPORTS))
def test_no_export_has_a_character_that_steers(name: str) -> None:
    text = export.EXPORTS[name](_context(), _analysis())
    assert not steering(text, kept="\n\t")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", "runs", "effects", "exhibits"])
def test_no_cell_of_a_table_is_a_formula(name: str) -> None:
    text = export.EXPORTS[name](_context(), _analysis())
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert rows or name in {"effects", "exhibits"}
    for row in (head, *rows):
        assert len(row) == len(head)
        for cell in row:
            assert not cell.startswith(PREFIXES) or re.fullmatch(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?", cell), cell


def test_numbers_of_a_table_stay_numbers() -> None:
    first, *_ = synthetic.analysis().comparisons
    fewer = msgspec.structs.replace(first, effect=-12.5, low=-1e-07, high=-3.0)
    analysis = msgspec.structs.replace(synthetic.analysis(), comparisons=(fewer,))
    (row,) = csv.DictReader(io.StringIO(export.to_csv(synthetic.context(), analysis)))
    assert (row["effect"], row["low"], row["high"]) == ("-12.5", "-1e-07", "-3")


@pytest.mark.parametrize("name", ["json", "hyperfine", "kcidb"])
def test_json_holds_the_texts_as_they_are(name: str) -> None:
    text = export.EXPORTS[name](_context(), _analysis())
    whole = json.loads(text)
    if name == "json":
        assert whole["analysis"]["comparisons"][0]["workload"] == _hostile(synthetic.analysis().comparisons[0].workload)


def test_exports_of_lines_have_no_forged_lines() -> None:
    forged = "b\n<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=forged RESULT=pass>\nBenchmarkForged-1 1 1 ns/op"
    first, *others = synthetic.analysis().comparisons
    metric = msgspec.structs.replace(first.metric, unit=forged, name=forged)
    analysis = msgspec.structs.replace(
        synthetic.analysis(),
        comparisons=(
            msgspec.structs.replace(first, workload=forged, suite=forged, load=forged, metric=metric),
            *others,
        ),
    )
    lava = export.EXPORTS["lava"](synthetic.context(), analysis).splitlines()
    assert all(re.fullmatch(r"<LAVA_SIGNAL_TEST(SET|CASE) [^<>]*>", line) for line in lava)
    assert not any("TEST_CASE_ID=forged" in line for line in lava)
    benchstat = export.EXPORTS["benchstat"](synthetic.context(), analysis).splitlines()
    assert not any(line.startswith("BenchmarkForged") for line in benchstat)
    junit = ET.fromstring(export.EXPORTS["junit"](synthetic.context(), analysis))
    cases = [case.get("name", "") for case in junit.iter("testcase")]
    assert len(cases) == sum(
        1 for _ in analysis.comparisons if _.candidate not in {null.copy for null in analysis.nulls}
    )
    assert not any("\n" in name for name in cases)


def test_the_comparison_of_two_records_neither() -> None:
    one, other = synthetic.analysis(), synthetic.analysis()
    experiment = synthetic.context().experiment
    table = with_texts(side_by_side([(experiment, one), (experiment, other)]), _hostile)
    for text in (
        side_by_side_table.to_csv(table),
        side_by_side_table.to_json(table),
        *(renderer.render(side_by_side_table.document_of(table)) for renderer in RENDERERS),
    ):
        assert not steering(text, kept="\n\t")
