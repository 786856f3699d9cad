"""The report of a fixed analysis, in every format, to the letter.

A golden changes only by ``./test --update-goldens``, which sets SWAPSTONE_UPDATE_GOLDENS=1. A missing golden fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.golden import crossed, latency, servers, synthetic

from swapstone import published
from swapstone.report import export, html, markdown, pages, text
from swapstone.report.text import Selection

HERE = Path(__file__).parent / "report"
CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()
CROSSED_CONTEXT, CROSSED = crossed.context(), crossed.analysis()
LATENCY_CONTEXT, LATENCY = latency.context(), latency.analysis()
SERVERS_CONTEXT, SERVERS = servers.context(), servers.analysis()

GOLDENS: dict[str, Callable[[], str]] = {
    "text-80.txt": lambda: text.render(CONTEXT, ANALYSIS, width=80),
    "text-120.txt": lambda: text.render(CONTEXT, ANALYSIS, width=120),
    "text-120-colour.txt": lambda: text.render(CONTEXT, ANALYSIS, width=120, colour=True),
    "text-80-ascii.txt": lambda: text.render(CONTEXT, ANALYSIS, width=80, ascii_only=True),
    "text-120-all.txt": lambda: text.render(CONTEXT, ANALYSIS, width=120, selection=Selection(every=True)),
    "text-100-unpublished.txt": lambda: text.render(synthetic.context(published=""), ANALYSIS, width=100),
    "report.md": lambda: markdown.render(CONTEXT, ANALYSIS),
    "report.json": lambda: export.to_json(CONTEXT, ANALYSIS),
    "report.csv": lambda: export.to_csv(CONTEXT, ANALYSIS),
    "hyperfine.json": lambda: export.to_hyperfine(CONTEXT, ANALYSIS),
    "benchstat.txt": lambda: export.to_benchstat(CONTEXT, ANALYSIS),
    "crossed-100.txt": lambda: text.render(CROSSED_CONTEXT, CROSSED, width=100),
    "crossed-64-ascii.txt": lambda: text.render(CROSSED_CONTEXT, CROSSED, width=64, ascii_only=True),
    "crossed-120-colour.txt": lambda: text.render(CROSSED_CONTEXT, CROSSED, width=120, colour=True),
    "crossed-100-minflt.txt": lambda: text.render(
        CROSSED_CONTEXT, CROSSED, width=100, selection=Selection(metrics=("minflt",))
    ),
    "crossed.md": lambda: markdown.render(CROSSED_CONTEXT, CROSSED),
    "latency-80.txt": lambda: text.render(LATENCY_CONTEXT, LATENCY, width=80),
    "latency-120-colour.txt": lambda: text.render(LATENCY_CONTEXT, LATENCY, width=120, colour=True),
    "latency-64-ascii-unpublished.txt": lambda: text.render(
        latency.context(published=""), LATENCY, width=64, ascii_only=True
    ),
    "latency.md": lambda: markdown.render(LATENCY_CONTEXT, LATENCY),
    "latency.html": lambda: html.render(LATENCY_CONTEXT, LATENCY),
    "latency.json": lambda: export.to_json(LATENCY_CONTEXT, LATENCY),
    "latency-exhibits.csv": lambda: export.EXPORTS["exhibits"](LATENCY_CONTEXT, LATENCY),
    "servers-120.txt": lambda: text.render(SERVERS_CONTEXT, SERVERS, width=120),
    "servers-80-unpublished.txt": lambda: text.render(servers.context(published=""), SERVERS, width=80),
    "servers-exhibits.csv": lambda: export.EXPORTS["exhibits"](SERVERS_CONTEXT, SERVERS),
    "published-check-100.txt": lambda: pages.render(published.check(), width=100),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name: str) -> None:
    path = HERE / name
    made = GOLDENS[name]()
    if os.environ.get("SWAPSTONE_UPDATE_GOLDENS") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.encode())
    assert path.is_file(), f"{path.name} is missing; ./test --update-goldens writes it"
    assert made.encode() == path.read_bytes(), f"{path.name} differs; ./test --update-goldens accepts it"


def test_there_are_no_stray_goldens() -> None:
    assert {path.name for path in HERE.iterdir()} == set(GOLDENS)
