# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recorded outputs of cyclictest are read completely or refused; tests/recorded/README.md has their sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swapstone.core.model import Quantity, WireError, percentile
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.core.wire.output_reading import OUTPUT_BYTES, Measured, reader_of
from swapstone.core.workloads import find_suite, find_workload
from swapstone.parts.vm.suites.latency import BINS, CYCLES, ImageTool

RECORDED = Path(__file__).parents[2] / "recorded"
OUTPUT = (RECORDED / "cyclictest-io-generic.json").read_bytes()
BEYOND = (RECORDED / "cyclictest-beyond-its-histogram.json").read_bytes()
CYCLICTEST = find_workload("latency", "cyclictest")


def changed(change: Callable[[Any], object]) -> bytes:
    """Return the recorded output after a change to its JSON document."""
    document = json.loads(OUTPUT)
    change(document)
    return json.dumps(document, indent=2).encode() + b"\n"


def thread(**values: object) -> Callable[[Any], object]:
    return lambda document: document["thread"]["0"].update(values)


def measured(output: bytes) -> Measured:
    return reader_of(CYCLICTEST).read(AgentAnswer(id="t", stdout=output, outcome=ProcessOutcome.EXITED, code=0))


def test_a_recorded_output_is_read_with_every_cycle() -> None:
    printed = json.loads(OUTPUT)["thread"]["0"]
    figures = measured(OUTPUT)
    values = {sample.metric: sample.values for sample in figures.samples}
    every = sorted(int(edge) for edge, count in printed["histogram"].items() for _ in range(count))
    assert len(every) == CYCLES == sum(count for _, count in figures.histogram)
    assert values == {
        "max": (printed["max"] * 1000.0,),
        "avg": (pytest.approx(sum(every) / len(every) * 1000),),
        "min": (printed["min"] * 1000.0,),
        "p99": (every[9899] * 1000.0,),
        "p99.9": (every[9989] * 1000.0,),
        "p99.99": (every[9998] * 1000.0,),
    }
    assert list(values) == [metric.name for metric in CYCLICTEST.metrics]
    assert values["min"] < values["p99"] < values["p99.9"] < values["p99.99"] <= values["max"]


def test_truncated_output_is_refused() -> None:
    for size in range(len(OUTPUT)):
        with pytest.raises(WireError):
            decode_cyclictest(OUTPUT[:size])


def test_output_with_missing_lines_is_refused() -> None:
    lines = OUTPUT.splitlines(keepends=True)
    decode_cyclictest(b"".join(lines))
    for at in range(1, len(lines)):
        with pytest.raises(WireError):
            decode_cyclictest(b"".join(lines[at:]))
    start = next(number for number, line in enumerate(lines) if b'"histogram"' in line)
    end = next(number for number, line in enumerate(lines) if b'"cycles"' in line)
    for at in range(start, end + 4):  # a line lost in the histogram, or one of cycles, min, max, avg
        with pytest.raises(WireError):
            decode_cyclictest(b"".join(lines[:at] + lines[at + 1 :]))


def test_latencies_beyond_the_histogram_are_an_error() -> None:
    with pytest.raises(
        WireError, match=r"\d+ of cyclictest's 1000 latencies are outside its histogram; the largest is \d+ us"
    ):
        decode_cyclictest(BEYOND)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (thread(cycles=CYCLES - 1), "does not agree with its count"),
        (thread(cycles=CYCLES + 1), "1 of cyclictest's 10001 latencies are outside"),
        (thread(max=1), "does not agree with its count, minimum and maximum"),
        (thread(min=0), "does not agree with its count, minimum and maximum"),
        (thread(avg=3.0), "does not agree with its average"),
        (thread(histogram={}), "10000 of cyclictest's 10000 latencies are outside"),
        (thread(histogram={}, cycles=0), "measured nothing"),
        (thread(cycles=-1), "does not agree with its count"),
        (thread(histogram={"3": CYCLES, "4": 0}), "has another format"),
        (thread(histogram={"4": 1, "3": CYCLES - 1}), "not in order"),
        (thread(histogram={"3": 1, "03": CYCLES - 1}), "has another format"),
        (thread(histogram={"-3": CYCLES}), "has another format"),
        (thread(histogram={"3.5": CYCLES}), "has another format"),
        (thread(histogram={"3": "9"}), "has another format"),
        (thread(more=1), "has another format"),
        (lambda d: d["thread"].update({"1": d["thread"]["0"]}), "did not measure [12] threads"),
        (lambda d: d.update(num_threads=2), "did not measure [12] threads"),
        (lambda d: d.update(thread={"1": d["thread"]["0"]}), "did not measure [12] threads"),
        (lambda d: d.update(thread={}), "did not measure [12] threads"),
        (lambda d: d.update(resolution_in_ns=1), "has another format"),
        (lambda d: d.update(file_version=2), "has another format"),
        (lambda d: d.update(return_code=1), "ended with 1"),
        (lambda d: d.pop("thread"), "has another format"),
    ],
)
def test_contradicting_values_are_refused(change: Callable[[Any], object], text: str) -> None:
    decode_cyclictest(changed(lambda _: None))
    with pytest.raises(WireError, match=text):
        decode_cyclictest(changed(change))


@pytest.mark.parametrize("output", [b"", b"[" * 100_000 + b"}\n", b"{}\n", b"\xff}\n", OUTPUT + OUTPUT])
def test_other_output_is_refused(output: bytes) -> None:
    with pytest.raises(WireError):
        decode_cyclictest(output)


def test_percentiles_use_the_nearest_rank() -> None:
    histogram = ((3, 98), (4, 1), (900, 1))
    assert [percentile(histogram, percent) for percent in (1, 98, 98.01, 99, 99.01, 100)] == [3, 3, 4, 4, 900, 900]


def test_the_suite_passes_the_options_that_the_reader_needs() -> None:
    assert [workload.name for workload in find_suite("latency").workloads] == ["cyclictest", "wakeup"]
    command = CYCLICTEST.arguments[1]
    for option in ("--mlockall", "--priority=99", "--threads=1", f"--loops={CYCLES}", f"--histogram={BINS}"):
        assert option in command
    assert f"--loops={json.loads(OUTPUT)['thread']['0']['cycles']}" in json.loads(OUTPUT)["cmdline:"]
    assert [metric.name for metric in CYCLICTEST.metrics if metric.leads] == ["max"]
    assert {(metric.unit, metric.quantity) for metric in CYCLICTEST.metrics} == {("ns", Quantity.TIME)}
    assert isinstance(CYCLICTEST.origin, ImageTool)
    assert reader_of(CYCLICTEST).output_bytes == OUTPUT_BYTES
    several = CYCLICTEST.origin.several[1]
    assert several.replace("{processors} --affinity={list} --distance=0", "1") == command


def _two_threads(document: Any) -> None:
    """Add a thread on processor 1, whose latencies are 2 us longer."""
    first = document["thread"]["0"]
    second = {
        **first,
        "histogram": {str(int(edge) + 2): count for edge, count in first["histogram"].items()},
        **{name: first[name] + 2 for name in ("min", "max", "avg")},
        "cpu": 1,
    }
    document["thread"]["1"] = second
    document["num_threads"] = 2


def test_each_processor_has_a_histogram_and_the_figures_are_of_all() -> None:
    one, two = decode_cyclictest(OUTPUT), decode_cyclictest(changed(_two_threads))
    assert one.by_processor == ()
    assert two.by_processor == ((0, one.histogram), (1, tuple((edge + 2, count) for edge, count in one.histogram)))
    assert sum(count for _, count in two.histogram) == 2 * CYCLES
    before, now = dict(one.values), dict(two.values)
    assert (now["max"], now["min"]) == (before["max"] + 2, before["min"])
    assert now["avg"] == pytest.approx(before["avg"] + 1)
    assert measured(changed(_two_threads)).by_processor == two.by_processor


def test_two_threads_on_one_processor_are_refused() -> None:
    def same(document: Any) -> None:
        _two_threads(document)
        document["thread"]["1"]["cpu"] = 0

    with pytest.raises(WireError, match="did not measure one thread on each processor"):
        decode_cyclictest(changed(same))


@pytest.mark.parametrize("count", [2**53 + 1, 10**400, -(10**30)])
def test_a_count_that_no_run_has_is_refused(count: int) -> None:
    with pytest.raises(WireError, match="another format"):
        decode_cyclictest(changed(lambda document: document["thread"]["0"]["histogram"].update({"5": count})))


def test_output_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(WireError, match="another format"):
        decode_cyclictest(OUTPUT.replace(b'"file_version"', b'"file_\xff"'))
