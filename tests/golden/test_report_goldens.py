# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reports of fixed analyses equal their goldens, in every format, byte for byte.

A golden changes only by ``./test --update-goldens``, which sets SWAPSTONE_UPDATE_GOLDENS=1. A missing golden fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.golden import alone, crossed, latency, reports, servers, synthetic, verdicts

from swapstone.core.report import export
from swapstone.core.report.context import ExplanationSummary, Selection
from swapstone.core.report.render import json as json_renderer
from swapstone.core.report.render import terminal
from swapstone.parts.published.session.published_output import check_output

HERE = Path(__file__).parent / "report"
CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()
CROSSED_CONTEXT, CROSSED = crossed.context(), crossed.analysis()
LATENCY_CONTEXT, LATENCY = latency.context(), latency.analysis()
SERVERS_CONTEXT, SERVERS = servers.context(), servers.analysis()
VERDICTS_CONTEXT, VERDICTS = verdicts.context(), verdicts.analysis()

WHY = ExplanationSummary(
    title="b_malloc_big1, wall: libc=musl against libc=glibc",
    paragraph="b_malloc_big1 takes 4.1 ms (wall) with musl instead of 1.2 ms with glibc: free (C library), called by pass, with what it "
    "calls takes 2.8 ms more, 97 % of the difference (90 to 103 %).",
    evidence=(
        (
            "Counted",
            ("2000 minor faults <b> per operation (other variant: 3)", "238 munmap per operation (other variant: 0)"),
        ),
        ("Not known", ("4 % of the difference is in code without a name.",)),
    ),
    ledger=(
        ("function, with what it calls", "difference", "interval", "share", "called by"),
        ("free (C library)", "+2.8 ms", "+2.6 ms to +3.0 ms", "97 %", "pass"),
        ("munmap (system call)", "+990 us", "+880 us to +1.1 ms", "34 %", "free (C library)"),
        ("all (wall)", "+2.9 ms", "+2.8 ms to +3.0 ms", "100 %", ""),
    ),
    pages=(
        ("explain/b_malloc_big1-1/explanation.html", "all of it"),
        ("explain/b_malloc_big1-1/on-cpu-difference.html", "flame graph on-cpu"),
    ),
)
EXPLAINED = msgspec.structs.replace(CONTEXT, reasons=(WHY,), explain="swapstone explain records/r")
UNEXPLAINED = msgspec.structs.replace(EXPLAINED, reasons=())

GOLDENS: dict[str, Callable[[], str]] = {
    "text-64.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=64),
    "crossed-80.txt": lambda: reports.as_text(CROSSED_CONTEXT, CROSSED, width=80),
    "servers-64.txt": lambda: reports.as_text(SERVERS_CONTEXT, SERVERS, width=64),
    "text-80.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=80),
    "text-120.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=120),
    "text-120-colour.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=120, colour=True),
    "text-80-ascii.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=80, ascii_only=True),
    "text-120-all.txt": lambda: reports.as_text(CONTEXT, ANALYSIS, width=120, selection=Selection(every=True)),
    "text-100-unpublished.txt": lambda: reports.as_text(synthetic.context(published=""), ANALYSIS, width=100),
    "report.md": lambda: reports.as_markdown(CONTEXT, ANALYSIS),
    "crossed-document.json": lambda: json_renderer.render(reports.document(CROSSED_CONTEXT, CROSSED)),
    "report.json": lambda: export.to_json(CONTEXT, ANALYSIS),
    "report.csv": lambda: export.to_csv(CONTEXT, ANALYSIS),
    "hyperfine.json": lambda: export.to_hyperfine(CONTEXT, ANALYSIS),
    "benchstat.txt": lambda: export.to_benchstat(CONTEXT, ANALYSIS),
    "crossed-100.txt": lambda: reports.as_text(CROSSED_CONTEXT, CROSSED, width=100),
    "crossed-64-ascii.txt": lambda: reports.as_text(CROSSED_CONTEXT, CROSSED, width=64, ascii_only=True),
    "crossed-120-colour.txt": lambda: reports.as_text(CROSSED_CONTEXT, CROSSED, width=120, colour=True),
    "crossed-100-minflt.txt": lambda: reports.as_text(
        CROSSED_CONTEXT, CROSSED, width=100, selection=Selection(metrics=("minflt",))
    ),
    "crossed.md": lambda: reports.as_markdown(CROSSED_CONTEXT, CROSSED),
    "latency-80.txt": lambda: reports.as_text(LATENCY_CONTEXT, LATENCY, width=80),
    "latency-120-colour.txt": lambda: reports.as_text(LATENCY_CONTEXT, LATENCY, width=120, colour=True),
    "latency-64-ascii-unpublished.txt": lambda: reports.as_text(
        latency.context(published=""), LATENCY, width=64, ascii_only=True
    ),
    "latency.md": lambda: reports.as_markdown(LATENCY_CONTEXT, LATENCY),
    "latency.html": lambda: reports.as_html(LATENCY_CONTEXT, LATENCY),
    "latency.json": lambda: export.to_json(LATENCY_CONTEXT, LATENCY),
    "latency-exhibits.csv": lambda: export.EXPORTS["exhibits"](LATENCY_CONTEXT, LATENCY),
    "servers-120.txt": lambda: reports.as_text(SERVERS_CONTEXT, SERVERS, width=120),
    "servers-80-unpublished.txt": lambda: reports.as_text(servers.context(published=""), SERVERS, width=80),
    "servers-exhibits.csv": lambda: export.EXPORTS["exhibits"](SERVERS_CONTEXT, SERVERS),
    "why-80.txt": lambda: reports.as_text(EXPLAINED, ANALYSIS, width=80),
    "why.md": lambda: reports.as_markdown(EXPLAINED, ANALYSIS),
    "why.html": lambda: reports.as_html(EXPLAINED, ANALYSIS),
    "why-not-yet-80.txt": lambda: reports.as_text(UNEXPLAINED, ANALYSIS, width=80),
    "why-not-yet.md": lambda: reports.as_markdown(UNEXPLAINED, ANALYSIS),
    "verdicts-80.txt": lambda: reports.as_text(VERDICTS_CONTEXT, VERDICTS, width=80),
    "verdicts-120-all.txt": lambda: reports.as_text(
        VERDICTS_CONTEXT, VERDICTS, width=120, selection=Selection(every=True)
    ),
    "verdicts.md": lambda: reports.as_markdown(VERDICTS_CONTEXT, VERDICTS),
    "verdicts.html": lambda: reports.as_html(VERDICTS_CONTEXT, VERDICTS),
    "verdicts.csv": lambda: export.to_csv(VERDICTS_CONTEXT, VERDICTS),
    "verdicts-junit.xml": lambda: export.EXPORTS["junit"](VERDICTS_CONTEXT, VERDICTS),
    "alone-80.txt": lambda: reports.as_text(alone.context(), alone.analysis(), width=80),
    "alone-100-all.txt": lambda: reports.as_text(
        alone.context(), alone.analysis(), width=100, selection=Selection(every=True)
    ),
    "alone.csv": lambda: export.to_csv(alone.context(), alone.analysis()),
    "published-check-100.txt": lambda: terminal.render(check_output(), terminal.Terminal(width=100)),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_a_report_equals_its_golden(name: str) -> None:
    path = HERE / name
    made = GOLDENS[name]()
    if os.environ.get("SWAPSTONE_UPDATE_GOLDENS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.encode())
    assert path.is_file(), f"{path.name} is missing; ./test --update-goldens writes it"
    assert made.encode() == path.read_bytes(), f"{path.name} differs; ./test --update-goldens accepts it"


def test_an_unexplained_page_names_the_explain_command_if_a_row_can_be_explained() -> None:
    assert "No row has been explained yet: swapstone explain records/r" in reports.as_html(UNEXPLAINED, ANALYSIS)
    assert "<h2>Why</h2>" not in reports.as_html(CONTEXT, ANALYSIS)


def test_every_file_in_the_folder_is_a_golden() -> None:
    assert {path.name for path in HERE.iterdir()} == set(GOLDENS)
