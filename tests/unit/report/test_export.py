# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports hold what the analysis holds, in the shape that other programs read."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from typing import Any

import msgspec
import pytest
from tests.golden import synthetic
from tests.json_schema import check_printed
from tests.unit import builders

from swapstone.core.model import Analysis, Variant, Verdict
from swapstone.core.report import export
from swapstone.core.report.context import ReportContext

CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()


def _hyperfine(analysis: Analysis = ANALYSIS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(export.to_hyperfine(CONTEXT, analysis))["results"]
    return found


def _with_variants(value: Any) -> Any:
    """Return decoded JSON in which each variant's label is the variant itself again."""
    if isinstance(value, dict):
        return {
            key: msgspec.to_builtins(builders.variant(each))
            if key in {"baseline", "candidate", "copy", "variant"} and isinstance(each, str) and "=" in each
            else _with_variants(each)
            for key, each in value.items()
        }
    return list(map(_with_variants, value)) if isinstance(value, list) else value


def test_json_decodes_to_the_same_analysis_and_context() -> None:
    whole = json.loads(export.to_json(CONTEXT, ANALYSIS))
    assert check_printed(export.to_json(CONTEXT, ANALYSIS)) == "swapstone-analysis"
    assert msgspec.convert(_with_variants(whole["analysis"]), Analysis) == ANALYSIS
    assert msgspec.convert(whole["context"], ReportContext) == CONTEXT


def test_csv_has_a_row_per_comparison_and_loses_no_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(export.to_csv(CONTEXT, ANALYSIS))))
    assert len(rows) == len(ANALYSIS.comparisons)
    for row, c in zip(rows, ANALYSIS.comparisons, strict=True):
        assert (row["workload"], row["metric"], row["verdict"]) == (c.workload, c.metric.name, c.verdict.value)
        assert float(row["effect"]) == c.effect
        assert (float(row["low"]) if row["low"] else None) == c.low
        assert float(row["baseline_median"]) == statistics.median(c.baseline_values)


def test_runs_csv_has_a_row_per_value() -> None:
    rows = list(csv.DictReader(io.StringIO(export.to_runs_csv(CONTEXT, ANALYSIS))))
    assert len(rows) == sum(len(c.baseline_values) + len(c.candidate_values) for c in ANALYSIS.comparisons)
    first = ANALYSIS.comparisons[0]
    mine = [r for r in rows if r["workload"] == first.workload and r["metric"] == "wall" and r["side"] == "candidate"]
    assert tuple(float(r["value"]) for r in mine) == first.candidate_values
    assert [r["pair"] for r in mine] == [str(i) for i in range(1, 21)]


def test_hyperfine_results_are_consistent_in_themselves() -> None:
    results = _hyperfine()
    assert len(results) == 2 * 11
    for r in results:
        times = r["times"]
        assert r["mean"] == statistics.mean(times)
        assert r["stddev"] == statistics.stdev(times)
        assert r["median"] == statistics.median(times)
        assert (r["min"], r["max"]) == (min(times), max(times))
        assert len(r["exit_codes"]) == len(times) == len(r["memory_usage_byte"])
        assert set(r["exit_codes"]) == {0}
        assert all(isinstance(v, int) for v in r["memory_usage_byte"])
        assert all(isinstance(v, str) for v in r["parameters"].values())
    assert list(results[0]) == [
        "command",
        "mean",
        "stddev",
        "median",
        "user",
        "system",
        "min",
        "max",
        "times",
        "memory_usage_byte",
        "exit_codes",
        "parameters",
    ]
    assert results[0]["times"][0] == ANALYSIS.comparisons[0].baseline_values[0] / 1e9


def test_hyperfine_has_null_where_nothing_was_measured_and_means_where_it_was() -> None:
    assert {r["user"] for r in _hyperfine()} == {None}
    wall = ANALYSIS.comparisons[0]
    single = msgspec.structs.replace(wall, baseline_values=(2e9,), candidate_values=(3e9,))
    user = msgspec.structs.replace(
        single,
        metric=msgspec.structs.replace(wall.metric, name="user"),
        baseline_values=(1e9,),
        candidate_values=(1.5e9,),
    )
    base, other = _hyperfine(msgspec.structs.replace(ANALYSIS, comparisons=(single, user)))
    assert (base["mean"], base["stddev"], base["user"], base["system"]) == (2.0, None, 1.0, None)
    assert (other["mean"], other["user"]) == (3.0, 1.5)
    assert "memory_usage_byte" not in base


def test_invalid_comparisons_do_not_reach_programs_that_know_no_verdicts() -> None:
    invalid = {c.workload for c in ANALYSIS.comparisons if c.verdict is Verdict.INVALID}
    assert invalid == {"b_pthread_createjoin_minimal2"}
    assert not [r for r in _hyperfine() if "createjoin_minimal2" in r["command"]]
    assert "minimal2/libc=musl-1 1 " in export.to_benchstat(CONTEXT, ANALYSIS)  # its memory is valid
    assert not re.search(r"minimal2/.* (ns|cpu-sec)/op", export.to_benchstat(CONTEXT, ANALYSIS))
    assert "createjoin_minimal2" in export.to_csv(CONTEXT, ANALYSIS)


def test_benchstat_lines_are_well_formed() -> None:
    line = re.compile(r"Benchmark[^a-z\s/]\S*-1 1 [0-9.e+]+ \S+")
    lines = export.to_benchstat(CONTEXT, ANALYSIS).splitlines()
    marks = [text for text in lines if text.startswith("Benchmark")]
    assert all(line.fullmatch(text) for text in marks)
    assert len(marks) == sum(
        len(c.baseline_values) + len(c.candidate_values)
        for c in ANALYSIS.comparisons
        if c.verdict is not Verdict.INVALID
    )
    assert all(
        re.fullmatch(r"|[a-z]+: \S.*|Unit \S+( \w+=\w+)+", text) for text in lines if not text.startswith("Benchmark")
    )
    assert "Unit virt-bytes better=lower assume=exact" in lines
    assert "Unit ns/op better=lower" in lines


@pytest.mark.parametrize("name", ["two words", "a/b=c", "x-12", "<script>", "é\x1b[31m", ""])
def test_benchstat_names_are_made_safe(name: str) -> None:
    c = msgspec.structs.replace(ANALYSIS.comparisons[0], workload=name, candidate=builders.variant("libc=rt-2 x/y"))
    lines = export.to_benchstat(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=(c,))).splitlines()
    marks = [text for text in lines if text.startswith("Benchmark")]
    assert len(marks) == 40
    for text in marks:
        assert text.isascii()
        assert re.fullmatch(
            r"Benchmark[^a-z/\s][^/\s=]*/libc=(glibc|rt-2%20x%2Fy)-1 1 \d+ ns/op",
            text,
        )


def test_benchstat_keeps_different_levels_apart_and_crossed_ones_as_keys() -> None:
    wall = ANALYSIS.comparisons[0]
    base = Variant(levels=(("program", "./a (1)"), ("libc", "x")))
    paths = ("program=./a b,libc=x-2", "program=./a_b,libc=x_2", "program=./a b (again)")
    found = tuple(msgspec.structs.replace(wall, baseline=base, candidate=builders.variant(path)) for path in paths)
    text = export.to_benchstat(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=found))
    names = {line.split()[0].partition("/")[2] for line in text.splitlines() if line.startswith("Benchmark")}
    assert names == {
        "program=.%2Fa%20(1)/libc=x-1",
        "program=.%2Fa%20b/libc=x-2-1",
        "program=.%2Fa_b/libc=x_2-1",
        "program=.%2Fa%20b-1",
    }
    main, copies = text.split("\ncopy: again\n")
    assert "program=.%2Fa%20b-1" in copies and "program=.%2Fa%20b-1" not in main


def test_benchstat_takes_zeros_and_other_times_for_one_metric() -> None:
    """It reads nanoseconds as seconds, but zero nanoseconds as another unit; so we write seconds."""
    wall = ANALYSIS.comparisons[0]
    delay = msgspec.structs.replace(
        wall, metric=msgspec.structs.replace(wall.metric, name="run_delay"), baseline_values=(0.0, 2e9)
    )
    lines = export.to_benchstat(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=(delay,))).splitlines()
    assert [line.split()[2:] for line in lines if "glibc-1 " in line] == [
        ["0", "run_delay-sec/op"],
        ["2", "run_delay-sec/op"],
    ]
    assert "Unit run_delay-sec/op better=lower" in lines


def test_a_baseline_of_two_candidates_is_exported_once() -> None:
    wall = ANALYSIS.comparisons[0]
    second = msgspec.structs.replace(
        wall,
        candidate=builders.variant("libc=other"),
        baseline_values=wall.baseline_values[:5],
        candidate_values=(1e9,) * 5,
    )
    results = _hyperfine(msgspec.structs.replace(ANALYSIS, comparisons=(second, wall)))
    assert [r["parameters"]["libc"] for r in results] == ["glibc", "other", "musl"]
    assert len(results[0]["times"]) == 20
