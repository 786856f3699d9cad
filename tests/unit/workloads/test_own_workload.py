# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics of own programs: parsing of --metric, numbers in the output, and samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import Direction, OwnProgram, Quantity, UserError
from swapstone.core.model.executed_counts import COUNT_FACTS
from swapstone.core.workloads import own_samples, own_workload, parse_metric, undirected
from swapstone.core.workloads.printed_numbers import printed_value
from tests.unit.builders import experiment

FACTS = {
    "tree_cpu_us": 5000,
    "tree_memory_bytes": 1 << 20,
    "wall_ns": 5_000,
    "user_us": 3,
    "system_us": 1,
    "maxrss_bytes": 4096,
    "minflt": 7,
    "majflt": 0,
    "nvcsw": 1,
    "nivcsw": 2,
    "run_delay_ns": 9,
    "pid": 12,
}


def own(**changed: object) -> OwnProgram:
    fields: dict[str, object] = {"name": "prog", "arguments": ("/bin/prog", "a b"), **changed}
    return OwnProgram(**fields)  # type: ignore[arg-type] # one of its fields at a time


def test_a_metric_of_name_and_pattern_is_parsed() -> None:
    number = parse_metric("req/s=regex:Requests/sec: +([0-9.]+)")
    assert number.pattern == "Requests/sec: +([0-9.]+)"
    metric = number.metric
    assert (metric.name, metric.unit, metric.better, metric.leads) == ("req/s", "1", Direction.NEITHER, False)


@pytest.mark.parametrize(
    ("text", "name", "unit", "better", "quantity"),
    [
        ("req/s[1/s,higher]=regex:(1)", "req/s", "1/s", Direction.HIGHER, Quantity.RATE),
        ("p99 [ms, lower]=regex:(1)", "p99", "ms", Direction.LOWER, Quantity.TIME),
        ("heap[lower,KiB]=regex:(1)", "heap", "KiB", Direction.LOWER, Quantity.MEMORY),
        ("hits[higher]=regex:(1)", "hits", "1", Direction.HIGHER, Quantity.EVENTS),
        ("x[neither]=regex:=(1)", "x", "1", Direction.NEITHER, Quantity.EVENTS),
        ("MB out[MB/s]=regex:(1)", "MB out", "MB/s", Direction.NEITHER, Quantity.RATE),
        ("x[]=regex:(1)", "x", "1", Direction.NEITHER, Quantity.EVENTS),
    ],
)
def test_unit_and_direction_are_parsed(text: str, name: str, unit: str, better: Direction, quantity: Quantity) -> None:
    metric = parse_metric(text).metric
    assert (metric.name, metric.unit, metric.better, metric.quantity) == (name, unit, better, quantity)
    assert metric.leads == (better is not Direction.NEITHER)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x=1",
        "=regex:(1)",
        "[ms]=regex:(1)",
        "a=b=regex:(1)",
        "a[ms=regex:(1)",
        "a\x1b=regex:(1)",
        "a[b]c=regex:(1)",
    ],
)
def test_an_invalid_metric_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(UserError, match=r"is not NAME\[UNIT,DIRECTION\]=regex:PATTERN") as caught:
        parse_metric(text)
    assert "--metric 'req/s[1/s,higher]=regex:" in caught.value.hint


@given(st.text(max_size=30))
def test_any_text_is_a_metric_or_a_user_error(text: str) -> None:
    try:
        assert parse_metric(text + "=regex:([0-9]+)").metric.name
    except UserError as error:
        assert error.hint


@pytest.mark.parametrize("name", ["wall", "user", "maxrss", "exit_status", "text", "file"])
def test_names_of_built_in_metrics_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"can't be named '{name}'"):
        parse_metric(f"{name}=regex:(1)")


def value(pattern: str, stdout: str, stderr: str = "") -> float:
    return printed_value(parse_metric(f"n=regex:{pattern}"), stdout, stderr)


@pytest.mark.parametrize(
    ("pattern", "text", "number"),
    [
        ("rate: ([0-9.]+)", "a\nrate: 12.50\nb", 12.5),
        ("rate: (.+)$", "rate: -1.5e3\nb", -1500.0),
        ("^([0-9]+)$", "x1\n7\n1y", 7.0),
        ("([0-9.]+)ms", "took 12ms.", 12.0),
        ("took ([0-9.]*[0-9])", "it took 3.5. Done", 3.5),
        ("share ([0-9]+)", "share 12%", 12.0),
        ("n=([0-9]+)", "n=3, m=4", 3.0),
        ("(?:a|b): (.5)", "b: .5", 0.5),
    ],
)
def test_a_matching_number_is_read(pattern: str, text: str, number: float) -> None:
    assert value(pattern, text) == number
    assert value(pattern, "nothing of it", text) == number  # standard error, where standard output has none


def test_standard_output_is_searched_before_standard_error() -> None:
    assert value("n ([0-9]+)", "n 1", "n 2") == 1.0


@pytest.mark.parametrize(
    ("pattern", "text", "words"),
    [
        ("rate: ([0-9.]+)", "rate = 5", "matches nothing that it printed"),
        ("rate: ([0-9.]+)", "", "matches nothing that it printed"),
        ("([0-9]+)", "1 2", "matches 2 times in its standard output, first in lines 1, 1"),
        ("rate: ([0-9]+)", "rate: 12.5", "finds '12', which is only a part of '12.5'"),
        ("rate: ([0-9.]+)", "rate: 12.3k", "finds '12.3', which is only a part of '12.3k'"),
        ("rate: ([0-9]+)", "rate: 1,234.5", "finds '1', which is only a part of '1,234.5'"),
        ("rate: ([0-9.,]+)", "rate: 1,234.5", "finds '1,234.5', which is no number"),
        ("([0-9]+) req", "1,234 req", "finds '234', which is only a part of '1,234'"),
        ("([0-9]+) C", "-5 C", "finds '5', which is only a part of '-5'"),
        ("([0-9.]+) s", "12.3.4 s", "finds '12.3.4', which is no number"),
        ("t: (.*)", "t: nan", "finds 'nan', which is no number"),
        ("t: (.*)", "t: inf", "finds 'inf', which is no number"),
        ("t: (.*)", "t: 1_000", "finds '1_000', which is no number"),
        ("t: (.*)", "t: \u0661\u0662", "which is no number"),
        ("t: (.*)", "t: 1e999", "out of range"),
        ("t: (.*)", "t: ", "finds '', which is no number"),
        ("t(: [0-9]+)?", "t", "finds '', which is no number"),
        ("t: (0x[0-9a-f]+)", "t: 0x1f", "finds '0x1f', which is no number"),
    ],
)
def test_a_missing_repeated_or_partial_number_is_an_error(pattern: str, text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        value(pattern, text)
    assert words in caught.value.message


def test_every_fact_is_a_sample_and_a_missing_fact_is_omitted() -> None:
    found = {sample.metric: sample.values for sample in own_samples(own(), FACTS, 0, b"", b"")}
    assert found == {
        "wall": (5000.0,),
        "cpu": (4000.0,),
        "user": (3000.0,),
        "system": (1000.0,),
        "maxrss": (4096.0,),
        "minflt": (7.0,),
        "majflt": (0.0,),
        "nvcsw": (1.0,),
        "nivcsw": (2.0,),
        "run_delay": (9.0,),
        "tree_cpu": (5_000_000.0,),
        "tree_memory": (1048576.0,),
    }
    less = {name: fact for name, fact in FACTS.items() if name != "system_us"}
    assert {"cpu", "system"}.isdisjoint(sample.metric for sample in own_samples(own(), less, 0, b"", b""))


COUNTS = {
    **dict.fromkeys(COUNT_FACTS, 7),
    "user_instructions": 40,
    "user_faults": 2,
    "kernel_faults": 1,
    "calls.read": 3,
}


def test_counts_take_the_place_of_user_and_system_time() -> None:
    found = {sample.metric: sample.values for sample in own_samples(own(), {**FACTS, **COUNTS}, 0, b"", b"")}
    assert (found["instructions"], found["page_faults"], found["cpu"]) == ((40.0,), (3.0,), (4000.0,))
    assert {"user", "system", "calls.read"}.isdisjoint(found)
    part = {**FACTS, "user_instructions": 40}
    assert "instructions" not in {sample.metric for sample in own_samples(own(), part, 0, b"", b"")}


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_counts_are_declared_on_the_virtual_clock(clock: str) -> None:
    declared = own_workload(experiment(own=own(), workloads=(("own", "prog"),), target="vm", clock=clock)).metrics
    names = {metric.name for metric in declared}
    assert ("instructions" in names, "user" in names) == (clock == "virtual", True)


def test_a_printed_number_can_not_have_the_name_of_a_count() -> None:
    program = own(numbers=(parse_metric("tasks=regex:n ([0-9]+)"),))
    own_workload(experiment(own=program, workloads=(("own", "prog"),)))
    with pytest.raises(UserError, match="On the virtual clock tasks is counted"):
        own_workload(experiment(own=program, workloads=(("own", "prog"),), target="vm", clock="virtual"))


def test_printed_numbers_and_accepted_statuses_are_samples() -> None:
    program = own(numbers=(parse_metric("n=regex:n ([0-9]+)"),), ignore_failure=True)
    found = {sample.metric: sample.values for sample in own_samples(program, FACTS, 3, b"n 5\xff", b"")}
    assert (found["n"], found["exit_status"]) == ((5.0,), (3.0,))
    subject = own_workload(experiment(own=program, workloads=(("own", "prog"),)))
    assert set(found) == {metric.name for metric in subject.metrics}
    assert undirected(program) == ("n",)


@pytest.mark.parametrize(("waits", "leading"), [(True, ["wall"]), (False, ["cpu"])])
def test_the_leading_metrics_depend_on_waiting_and_direction(waits: bool, leading: list[str]) -> None:
    subject = own_workload(
        experiment(own=own(waits=waits, numbers=(parse_metric("n=regex:(1)"), parse_metric("r[higher]=regex:(1)"))))
    )
    assert [metric.name for metric in subject.metrics if metric.leads] == [*leading, "r"]
    assert subject.waits == waits
    assert "/bin/prog 'a b'" in subject.description


def test_an_experiment_without_its_program_is_an_error() -> None:
    with pytest.raises(UserError, match="no own program"):
        own_workload(experiment())
