# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's class of cost, added to a copy of the source: a stack belongs to it, and a finding has its wording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.recipes.extending import code_blocks, copy_source, run_python

SCRIPT = """
import json
from swapstone.parts.explain.explanation.cost_classes import load_classes
from swapstone.parts.explain.explanation.findings import explain
from swapstone.core.model import *
from swapstone.core.model.profile import *
from swapstone.parts.explain.model.explanation import *

def run(variant, amount, *stacks):
    names = sorted({name for names, _ in stacks for name in names})
    frames = tuple(Frame(symbol=name, object="libz.so.1") for name in names)
    found = tuple(Stack(frames=tuple(map(names.index, each)), weight=weight) for each, weight in stacks)
    profile = Profile(kind="on-cpu", unit="ns", operations=1.0, frames=frames, stacks=found)
    amounts = (Amount(group="instructions", name="all", value=amount),)
    return InstrumentResult(instrument="on-cpu", tool="perf", variant=variant, command="prog", operations=1.0, overhead=1.0,
                        amounts=amounts, profile=profile)

def reference(variant, cpu):
    return Reference(variant=variant, program_sha256="", recorded=cpu, time_ns=cpu, metrics=(("cpu", cpu),), runs=8)

seen = RowMeasurements(
    place=RowKey(suite="s", workload="w", load="idle", metric="cpu", baseline="libc=glibc", candidate="libc=musl"),
    unit="ns", ledger_metric="cpu", references=(reference("libc=glibc", 100.0), reference("libc=musl", 400.0)),
    runs=(run("libc=glibc", 10000.0, (("other",), 1.0)), run("libc=musl", 90000.0, (("other",), 1.0), (("crc32_z",), 3.0))),
    missing=(),
)
found = explain(seen, load_classes())
print(json.dumps([[each.cause, each.sentence, each.evidence] for each in found.findings]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_source(tmp_path)


@pytest.mark.slow
def test_the_class_of_the_recipe_is_found_and_worded(source: Path) -> None:
    table = source / "swapstone" / "parts" / "explain" / "explanation" / "classes.toml"
    before = table.read_text()
    (cause, sentence, _), *_ = json.loads(run_python(source, SCRIPT))
    assert cause == "C library, other"
    (block,) = code_blocks("Add an explain class")
    table.write_text(f"{before}\n{block}")
    (cause, sentence, evidence), *_ = json.loads(run_python(source, SCRIPT))
    assert cause == "checksums"
    assert sentence.startswith("musl computes checksums for longer (crc32_z): 9")
    assert any("instructions per operation" in each for each in evidence)


@pytest.mark.slow
def test_without_the_rule_of_the_recipe_the_stack_stays_where_it_was(source: Path) -> None:
    table = source / "swapstone" / "parts" / "explain" / "explanation" / "classes.toml"
    (block,) = code_blocks("Add an explain class")
    table.write_text(f"{table.read_text()}\n{block.partition('[[rule]]')[0]}")
    (cause, _, _), *_ = json.loads(run_python(source, SCRIPT))
    assert cause == "C library, other"
