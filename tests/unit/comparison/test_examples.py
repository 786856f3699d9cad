# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whole analyses of synthetic experiments equal the stored ones, to seven digits: processors differ in the last ones.

What they were is stored in ``analyses``. A figure or a text changes only by ``SWAPSTONE_UPDATE_GOLDENS=1``, which
``./test --update-goldens`` sets; look at the difference before you commit it. A missing file fails.
"""

from __future__ import annotations

import enum
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swapstone.core import plan
from swapstone.core.comparison import carry_over
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.comparison.machine_noise import several_at_once
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.side_by_side import side_by_side
from swapstone.core.model import Metric, Variant
from tests.unit.comparison import examples
from tests.unit.comparison.examples import EXAMPLES, Example

STORED = Path(__file__).parent / "analyses"
MOST_NUMBERS = 8
FRACTION = re.compile(r"\d+\.\d+(?:e-?\d+)?|\d+e-\d+")


def plain(value: Any) -> Any:
    """Return a value for JSON: without empty fields, with long lists of numbers summed up."""
    if isinstance(value, Variant):
        return value.label
    if isinstance(value, Metric):
        return value.name
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: plain(each) for name, each in fields.items() if each not in (None, "", ()) and each is not False}
    if isinstance(value, Mapping):
        return {"/".join(key) if isinstance(key, tuple) else str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > MOST_NUMBERS and all(isinstance(each, (int, float)) for each in value):
            weighted = sum(number * each for number, each in enumerate(value, start=1))
            return {"count": len(value), "sum": plain(float(sum(value))), "weighted": plain(float(weighted))}
        return [plain(each) for each in value]
    return value


def text_of(found: Mapping[str, Any]) -> str:
    """Return JSON with a line for each row."""
    lines = []
    for name, each in found.items():
        rows = each if isinstance(each, list) and each and isinstance(each[0], dict) else None
        shown = [json.dumps(row, sort_keys=True) for row in rows or [each]]
        lines.append(f"{json.dumps(name)}: " + ("[\n  " + ",\n  ".join(shown) + "]" if rows else shown[0]))
    return "{" + ",\n".join(lines) + "}\n"


def compare(name: str, found: Mapping[str, Any]) -> None:
    stored, text = STORED / f"{name}.json", text_of(plain(found))
    assert json.loads(text), "it is JSON"
    if os.environ.get("SWAPSTONE_UPDATE_GOLDENS") == "1":
        stored.write_text(text)
    expected = stored.read_text()
    assert FRACTION.sub("#", text).splitlines() == FRACTION.sub("#", expected).splitlines()
    numbers, expected_numbers = (list(map(float, FRACTION.findall(each))) for each in (text, expected))
    assert numbers == pytest.approx(expected_numbers, rel=1e-7, abs=0)


def analysed(example: Example) -> Any:
    variants = plan.variants(example.experiment)
    return analyse(example.experiment, variants, example.workloads, example.runs, sizes=example.sizes)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_analysis_equals_the_stored_one(name: str) -> None:
    example = EXAMPLES[name]()
    found = plain(analysed(example))
    asked, variants = example.experiment, plan.variants(example.experiment)
    found["precision"] = list(precision(asked, variants, example.workloads, example.runs).values())
    unsettled = carry_over.unsettled(asked, variants, example.workloads, example.runs, 0.05)
    found["unsettled"] = {group: list(each) for group, each in unsettled.items()}
    compare(name, found)


@pytest.mark.slow
def test_the_agreement_of_two_records_equals_the_stored_one() -> None:
    wall, virtual = examples.suites(), examples.replicates(loads=("idle",))
    again = examples.suites()
    other = msgspec.structs.replace(again.experiment, seed=4, confidence=0.9, margin=0.05)
    slower = [
        examples.altered(
            run,
            samples=tuple(
                msgspec.structs.replace(
                    each, values=tuple(value * (1.5 if "musl" in run.trial.variant else 1.0) for value in each.values)
                )
                for each in run.samples
            ),
        )
        for run in again.runs
    ]
    second = Example(other, again.workloads, slower, again.sizes)
    found = side_by_side([(wall.experiment, analysed(wall)), (second.experiment, analysed(second))])
    compare("agreement", plain(found))
    clock = msgspec.structs.replace(virtual.experiment, clock="wall", target="host")
    on_host = Example(clock, virtual.workloads, virtual.runs)
    both = (on_host, virtual)
    at_once = [several_at_once(each.experiment, each.workloads, as_table(each.runs)) for each in both]
    found = side_by_side([(each.experiment, analysed(each)) for each in both], at_once.copy)
    compare("agreement-of-clocks", plain(found))


def test_rows_on_three_clocks_equal_the_stored_ones() -> None:
    records = []
    for scale in (4, 1, 2):
        example = examples.replicates(ns_per_instruction=scale)
        runs = [
            examples.altered(
                run,
                samples=tuple(
                    msgspec.structs.replace(
                        each,
                        values=tuple(
                            value * (scale if "new" in run.trial.variant and run.trial.load == "io" else 1)
                            for value in each.values
                        ),
                    )
                    for each in run.samples
                ),
            )
            for run in example.runs
        ]
        records.append((example.experiment, analysed(Example(example.experiment, example.workloads, runs))))
    compare("clocks", plain(side_by_side(records)))
