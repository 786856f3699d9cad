# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exports are read by third-party programs: benchstat, hyperfine's scripts and DuckDB."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from swapstone.core.model import Analysis, Comparison, Metric, Variant, Verdict
from swapstone.core.report import export
from swapstone.core.session.record_handle import open_record
from tests.e2e.cli import fake, swapstone
from tests.e2e.export_readers import Table, benchstat, hyperfine_scripts
from tests.golden import synthetic

NO_GEOMEAN = "summaries must be >0 to compute geomean"
ALL_EQUAL = "all samples are equal"
"""benchstat's warning about a memory figure that is equal in every run. Other runs can differ."""
BLOCKS = "6"  # with fewer samples benchstat prints a warning instead of an interval

PYPLOT = '''
"""Replaces the drawing library, which is not a dependency: records the calls."""
import atexit, json
from unittest.mock import MagicMock
calls = []
def note(name):
    def called(*arguments, **named):
        calls.append([name, [list(a) if hasattr(a, "__iter__") and not isinstance(a, str) else a for a in arguments], {**named}])
        return MagicMock()
    return called
boxplot, hist, scatter, plot, legend, errorbar = map(note, ("boxplot", "hist", "scatter", "plot", "legend", "errorbar"))
cm, title, ylabel, xlabel, ylim, xlim, savefig, show, xscale, yscale = (MagicMock() for _ in range(10))
atexit.register(lambda: print(json.dumps(calls, default=lambda o: list(o) if hasattr(o, "__iter__") else repr(o))))
'''


def _unit(metric: Metric) -> tuple[str, float]:
    """Return benchstat's name of a metric's unit, and the factor from exported values to that unit."""
    if metric.name == "wall":
        return "sec/op", 1e-9
    suffix, scale = {"ns": ("sec/op", 1e-9), "B": ("bytes", 1.0), "1": ("count", 1.0)}[metric.unit]
    return f"{metric.name}-{suffix}", scale


def _sides(analysis: Analysis) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Return (median, number of samples) of all measurements, by (unit, workload, variant)."""
    found = {}
    for c in analysis.comparisons:
        unit, scale = _unit(c.metric)
        for variant, values in ((c.baseline, c.baseline_values), (c.candidate, c.candidate_values)):
            if values:
                found[unit, c.workload, variant.label] = statistics.median(values) * scale, len(values)
    return found


def _check(tables: list[Table], warnings: list[str], sides: dict[tuple[str, str, str], tuple[float, int]]) -> None:
    """Check that medians, sample counts and units are those of the record, that all are there, and that there is no unexpected warning.

    Args:
        tables: row and column names together are a variant's label.
        warnings: of a geometric mean of zeros, and of equal samples, are expected.
        sides: the expected values.
    """
    seen = set()
    for table in tables:
        for row, medians in table.rows.items():
            title, *levels = row.replace("/compiler=", " ").removesuffix("-1").split()
            for column, median in zip(table.columns, medians, strict=True):
                assert median is not None
                label = ",".join(
                    f"{key}={level}" for key, level in zip(("libc", "compiler"), (column, *levels), strict=False)
                )
                key = (table.unit, title[0].lower() + title[1:], label)
                assert math.isclose(median, sides[key][0], rel_tol=1e-9, abs_tol=0), key
                assert table.counts[row] == str(sides[key][1]), key
                seen.add(key)
    assert seen == sides.keys()
    assert set(warnings) <= {NO_GEOMEAN, ALL_EQUAL}
    assert (NO_GEOMEAN in warnings) == any(0 in row for table in tables for row in table.rows.values())


def _analysis(record: Path) -> Analysis:
    return open_record(str(record)).analysis()


def _text(record: Path, where: Path) -> Path:
    path = where / "bench.txt"
    path.write_text(swapstone(where, "export", str(record), "--format", "benchstat").stdout)
    return path


ONLY = ("--only", "b_string_strlen", "--only", "b_malloc_tiny1", "--blocks", BLOCKS)


@pytest.mark.slow
def test_benchstat_reads_medians_units_and_sample_counts(tmp_path: Path) -> None:
    out = tmp_path / "r"
    swapstone(tmp_path, "compare", "libc=glibc,musl", *ONLY, "--out", str(out))
    sides = _sides(_analysis(out))
    assert {unit for unit, _, _ in sides} > {"sec/op", "cpu-sec/op", "maxrss-bytes", "minflt-count", "file-bytes"}
    # The sizes of the two empty programs are in the suite size.
    tables, warnings = benchstat(_text(out, tmp_path), "-col", "/libc", "-filter", "suite:libc")
    assert all(table.columns == ("glibc", "musl") for table in tables)
    _check(tables, warnings, {key: side for key, side in sides.items() if not key[1].startswith("empty")})
    tables, warnings = benchstat(_text(out, tmp_path), "-col", "/libc", "-filter", "suite:size")
    assert not warnings
    assert {row for table in tables for row in table.rows} == {"Empty%20(dynamic)-1", "Empty%20(static)-1"}
    assert {table.place["suite"] for table in tables} == {"size"}


@pytest.mark.slow
def test_benchstat_pivots_crossed_variants_and_separates_null_copies(tmp_path: Path) -> None:
    out = tmp_path / "r"
    crossed = ("libc=glibc,musl", "compiler=gcc,clang")
    swapstone(tmp_path, "compare", *crossed, *ONLY, "--null", "--out", str(out))
    everything = {key: side for key, side in _sides(_analysis(out)).items() if not key[1].startswith("empty")}
    sides = {key: side for key, side in everything.items() if "(" not in key[2]}
    assert len({label for _, _, label in sides}) == 4
    text = _text(out, tmp_path)
    only = ("-filter", "suite:libc")
    for rows in (".fullname", ".name /compiler"):
        tables, warnings = benchstat(text, "-col", "/libc", "-row", rows, *only)
        first = [table for table in tables if not table.place.get("copy")]
        copies = [table for table in tables if table.place.get("copy")]
        assert {table.place["copy"] for table in copies} == {"again", "relinked"}
        assert {table.columns for table in copies} == {("glibc",)}
        _check(first, warnings, sides)
    nulls, _ = benchstat(text, "-col", "copy", *only, "-filter", "/libc:glibc /compiler:gcc suite:libc")
    (times,) = [table for table in nulls if table.unit == "sec/op"]
    assert times.columns == ("", "again", "relinked")
    baseline = "libc=glibc,compiler=gcc"
    for row, medians in times.rows.items():
        workload = "b" + row.partition("/")[0][1:]
        labels = (baseline, f"{baseline} (again)", f"{baseline} (relinked)")
        assert medians == pytest.approx([everything["sec/op", workload, label][0] for label in labels], rel=1e-9)


@pytest.mark.slow
def test_benchstat_distinguishes_levels_with_special_characters(tmp_path: Path) -> None:
    context, analysis = synthetic.context(), synthetic.analysis()
    wall = analysis.comparisons[0]
    odd = ("./a b", "./a_b", "/opt/x=1/lib.so.2-4", "a-2", "a_2", "100%", "é", '"', "#x")
    found = tuple(
        msgspec.structs.replace(
            wall,
            baseline=Variant(levels=(("program", "base"),)),
            candidate=Variant(levels=(("program", name),)),
            candidate_values=tuple([1e9 * (n + 1)] * 20),
        )
        for n, name in enumerate(odd)
    )
    path = tmp_path / "bench.txt"
    path.write_text(export.to_benchstat(context, msgspec.structs.replace(analysis, comparisons=found)))
    ((table,), warnings) = benchstat(path, "-col", "/program")
    assert not warnings
    (medians,) = table.rows.values()
    assert table.columns[0] == "base"
    assert list(medians[1:]) == pytest.approx([n + 1 for n in range(len(odd))])
    assert table.columns[3] == "%2Fopt%2Fx%3D1%2Flib.so.2-4"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hyperfine_scripts(tmp_path_factory.mktemp("hyperfine"))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a record with times of seconds, since hyperfine's scripts round to milliseconds, and its hyperfine export."""
    where = tmp_path_factory.mktemp("record")
    seconds = '[[behaviour]]\nwall_ns = 2_345_000_000\n[[behaviour]]\nvariant = "libc=musl*"\nwall_ns = 2_600_000_000\n'
    target = fake(where, seconds)
    only = ("--only", "b_string_strlen", "--blocks", "12", "--target", target, "--out", str(where / "r"))
    swapstone(where, "compare", "libc=glibc,musl", *only)
    path = where / "hyperfine.json"
    path.write_text(swapstone(where, "export", str(where / "r"), "--format", "hyperfine").stdout)
    return where / "r", path


def _script(scripts: Path, name: str, *arguments: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, str(scripts / name), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def _wall(record: Path) -> Comparison:
    (wall,) = [c for c in _analysis(record).comparisons if c.metric.name == "wall"]
    assert wall.verdict is Verdict.WORSE
    return wall


@pytest.mark.slow
def test_hyperfine_statistics_equal_those_of_the_record(
    scripts: Path, record: tuple[Path, Path], tmp_path: Path
) -> None:
    wall = _wall(record[0])
    stdout = _script(scripts, "advanced_statistics.py", str(record[1]))
    parts = stdout.split("Command ")[1:]
    assert len(parts) == 2
    for part, values, name in zip(
        parts, (wall.baseline_values, wall.candidate_values), ("libc=glibc", "libc=musl"), strict=True
    ):
        assert part.startswith(f"'b_string_strlen [{name}]'")
        times = [value / 1e9 for value in values]
        assert re.search(rf"runs: +{len(times)}\n", part)
        middle, spread = statistics.mean(times), statistics.stdev(times)
        expected = [middle, spread, statistics.median(times), min(times), max(times)]
        printed = re.findall(r"(?:mean|stddev|median|min|max): +(\S+) s\n", part)
        assert printed == [f"{number:.3f}" for number in expected]


@pytest.mark.slow
def test_hyperfine_welch_test_reads_the_times(scripts: Path, record: tuple[Path, Path], tmp_path: Path) -> None:
    wall = _wall(record[0])
    stdout = _script(scripts, "welch_ttest.py", str(record[1]))
    from scipy import stats  # not above: every worker would import it, a fourteenth of what collecting all tests takes

    result = stats.ttest_ind(wall.baseline_values, wall.candidate_values, equal_var=False)
    assert f"t = {result.statistic:.3}, p = {result.pvalue:.3}" in stdout
    assert "Command 1: b_string_strlen [libc=glibc]\nCommand 2: b_string_strlen [libc=musl]" in stdout
    assert "There is a difference between the two benchmarks" in stdout


@pytest.mark.slow
def test_hyperfine_plots_draw_the_times(scripts: Path, record: tuple[Path, Path], tmp_path: Path) -> None:
    """A module that records the calls replaces the drawing library, which is not a dependency."""
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "__init__.py").touch()
    (tmp_path / "matplotlib" / "pyplot.py").write_text(PYPLOT)
    wall = _wall(record[0])
    both = [[value / 1e9 for value in values] for values in (wall.baseline_values, wall.candidate_values)]
    labels = ["b_string_strlen [libc=glibc]", "b_string_strlen [libc=musl]"]

    def drawn(name: str) -> dict[str, Any]:
        stdout = _script(scripts, name, str(record[1]), PYTHONPATH=str(tmp_path))
        return {call: (arguments, named) for call, arguments, named in json.loads(stdout)}

    whisker = drawn("plot_whisker.py")
    assert whisker["boxplot"][0] == [both]
    assert whisker["legend"][1]["labels"] == labels
    histogram = drawn("plot_histogram.py")
    assert histogram["hist"][0] == [both]
    assert histogram["hist"][1]["label"] == labels
    assert histogram["hist"][1]["range"] == [min(map(min, both)), max(map(max, both))]
    assert drawn("plot_progression.py")["scatter"][1]["y"] == both[0]


def test_duckdb_reads_the_csv_exports(tmp_path: Path) -> None:
    """Numbers have numeric types, missing values are null, all rows are there, and names can hold any character."""
    context, analysis = synthetic.context(), synthetic.analysis()
    odd = msgspec.structs.replace(analysis.comparisons[0], workload='a,"b"\nc; é')
    analysis = msgspec.structs.replace(analysis, comparisons=(*analysis.comparisons, odd))
    for name, make in (("comparisons", export.to_csv), ("runs", export.to_runs_csv)):
        text = make(context, analysis)
        path = tmp_path / f"{name}.csv"
        path.write_text(text)
        found = duckdb.sql(f"SELECT * FROM read_csv('{path}', header = true)")
        assert found is not None
        kinds = dict(zip(found.columns, map(str, found.types), strict=True))
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
        plain = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == len(plain)
        assert [row["workload"] for row in rows] == [row["workload"] for row in plain]
        numbers = ("effect", "low", "high", "p_value", "baseline_median") if name == "comparisons" else ("value",)
        for column in numbers:
            assert kinds[column] in {"DOUBLE", "BIGINT"}  # BIGINT if all values are whole numbers
            assert [row[column] for row in rows] == [float(row[column]) if row[column] else None for row in plain]
        assert kinds["pairs" if name == "comparisons" else "pair"] == "BIGINT"
