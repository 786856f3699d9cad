# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every command, on the fake target."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swapstone.cli.main import COMMANDS
from tests.e2e.cli import TOP, environment, fake, runs_of, swapstone
from tests.shared import Shared

COMPARE = ("compare", "libc=glibc,musl", "--only", "b_malloc_tiny*", "--seed", "5")


@pytest.fixture
def record(tmp_path: Path, shared: Shared) -> Path:
    """Return a complete record of the fake target: musl takes 1.5 times as long. It is a copy; the file of the target is beside it."""

    def fill(folder: Path) -> None:
        fake(folder)
        swapstone(folder, *COMPARE, "--blocks", "15", "--target", "fake:fake.toml", "--out", "record")

    made = shared.folder("commands", fill)
    shutil.copy(made / "fake.toml", tmp_path)
    return Path(shutil.copytree(made / "record", tmp_path / "record"))


def test_compare_detects_the_configured_slowdown(tmp_path: Path) -> None:
    result = swapstone(tmp_path, *COMPARE, "--target", fake(tmp_path), "--null")
    assert "b_malloc_tiny1" in result.stdout and "worse" in result.stdout
    assert "1.5" in result.stdout
    assert "\x1b" not in result.stdout
    (made,) = tmp_path.glob("*libc=glibc,musl")
    analysis = json.loads(swapstone(tmp_path, "show", str(made), "--json").stdout)["analysis"]
    walls = [row for row in analysis["comparisons"] if row["metric"]["name"] == "wall"]
    to_musl = [row for row in walls if row["candidate"] == "libc=musl"]
    assert [row["verdict"] for row in to_musl] == ["worse", "worse"]
    assert all(row["low"] < 1.5 < row["high"] and row["high"] - row["low"] < 0.12 for row in to_musl)
    nulls = [row for row in walls if row["candidate"] != "libc=musl"]
    assert {row["candidate"] for row in nulls} == {"libc=glibc (again)", "libc=glibc (relinked)"}
    assert all(row["verdict"] in {"same median", "inconclusive"} for row in nulls)
    assert "against itself" in result.stdout


def test_show_verify_and_report_agree_with_the_record(tmp_path: Path, record: Path) -> None:
    first = swapstone(tmp_path, "show", str(record)).stdout
    by_name = swapstone(tmp_path, "show", "record").stdout
    assert first.split("\nWhat to do next")[0] == by_name.split("\nWhat to do next")[0]
    assert (
        "Whole and unaltered, as far as a record can show: 64 runs, sealed as complete"
        in swapstone(tmp_path, "verify", "last").stdout
    )
    swapstone(tmp_path, "report", "last", "--html")
    html = (record / "report.html").read_text()
    assert "b_malloc_tiny1" in html and "<script src" not in html and "http-equiv" in html
    assert "| b_malloc_tiny1" in swapstone(tmp_path, "report", "last", "--markdown").stdout.replace("`", "")
    assert "virt" in swapstone(tmp_path, "show", "last", "--metric", "virt").stdout
    wrong = swapstone(tmp_path, "show", "last", "--metric", "vrit", expect=2)
    assert "no metric of this record named 'vrit'" in wrong.stderr and "virt" in wrong.stderr


@pytest.mark.slow
def test_each_export_format_holds_the_measured_workloads(tmp_path: Path, record: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(swapstone(tmp_path, "export", "last", "--format", "csv").stdout)))
    assert {row["workload"] for row in rows} == {"b_malloc_tiny1", "b_malloc_tiny2"}
    results = json.loads(swapstone(tmp_path, "export", "last", "--format", "hyperfine").stdout)["results"]
    assert len(results) == 4 and all(len(result["times"]) == 15 for result in results)
    assert "Benchmark" in swapstone(tmp_path, "export", "last", "--format", "benchstat").stdout
    swapstone(tmp_path, "export", "last", "--format", "runs", "--out", str(tmp_path / "runs.csv"))
    assert len((tmp_path / "runs.csv").read_text().splitlines()) > 64
    refused = swapstone(tmp_path, "export", "last", "--format", "csv", "--out", "/proc/nowhere/x", expect=2)
    assert "can't be written" in refused.stderr


def test_verify_names_an_edited_line(tmp_path: Path, record: Path) -> None:
    lines = (record / "runs.jsonl").read_text().split("\n")
    lines[9] = lines[9].replace('"passes":', '"passes":1')
    (record / "runs.jsonl").write_text("\n".join(lines))
    result = swapstone(tmp_path, "verify", "last", expect=2)
    assert "runs.jsonl, line 10: its content does not match its checksum" in result.stdout
    shown = swapstone(tmp_path, "show", "last").stdout
    assert "line 10" in shown and "b_malloc_tiny1" in shown


def test_verify_reports_changed_verdicts(tmp_path: Path, record: Path) -> None:
    seal = json.loads((record / "seal.json").read_text())
    seal["verdicts"] = "0" * 64
    (record / "seal.json").write_text(json.dumps(seal))
    assert "other verdicts" in swapstone(tmp_path, "verify", "last", expect=2).stdout


def test_rerun_repeats_the_runs_and_compares_the_results(tmp_path: Path, record: Path) -> None:
    result = swapstone(tmp_path, "rerun", "last", "--out", str(tmp_path / "again"))
    assert runs_of(tmp_path / "again") == runs_of(record)
    assert "2 of 2 rows agree in size" in " ".join(result.stdout.split())
    assert "Machine, tools and programs were the same both times" in result.stdout


def test_agree_refuses_a_record_with_itself_and_with_its_copies(tmp_path: Path, record: Path) -> None:
    copy = shutil.copytree(record, tmp_path / "copy")
    for other, why in ((record, "are one record"), (copy, "are copies of one record")):
        assert why in swapstone(tmp_path, "agree", str(record), str(other), expect=2).stderr
    # A part of it under another identity, as a copy that was interrupted and resumed.
    meta = json.loads((copy / "record.json").read_text())
    (copy / "record.json").write_text(json.dumps(meta | {"id": "20260101-000000-ffffff"}))
    lines = (copy / "runs.jsonl").read_text().splitlines(keepends=True)
    (copy / "runs.jsonl").write_text("".join(lines[:30]))
    refused = swapstone(tmp_path, "agree", str(record), str(copy), expect=2)
    assert "share 30 runs: one is a copy of the other" in refused.stderr and "swapstone rerun" in refused.stderr


def test_rerun_reports_a_changed_machine_and_resume_refuses_it(tmp_path: Path, record: Path) -> None:
    (tmp_path / "fake.toml").write_text((tmp_path / "fake.toml").read_text() + '[machine]\nkernel = "Linux 9.9"\n')
    result = swapstone(tmp_path, "rerun", "last", "--out", str(tmp_path / "again"))
    assert "Not the same both times: machine" in result.stdout
    assert "machine kernel:" in result.stdout and "'Linux 9.9' now" in result.stdout
    refused = swapstone(tmp_path, "compare", "--resume", str(record), "--budget", "2m", expect=2)
    assert "can't be resumed: machine" in refused.stderr and "swapstone rerun" in refused.stderr
    assert "Whole and unaltered" in swapstone(tmp_path, "verify", str(record)).stdout


def test_a_study_prints_published_and_measured_figures(tmp_path: Path) -> None:
    arguments = ("study", "musl-vs-glibc", "--only", "b_malloc_tiny1", "--blocks", "15", "--target", fake(tmp_path))
    result = swapstone(tmp_path, *arguments, "--out", str(tmp_path / "study"))
    assert "os: left out: none of its workloads matches --only" in result.stdout
    whole = swapstone(tmp_path, "show", str(tmp_path / "study" / "libc"), "--all").stdout
    assert "signs agree with the page in 1 of 1 rows" in whole
    assert "1.51" in whole  # 0.006242797 s / 0.004129741 s
    own = swapstone(tmp_path, "show", str(tmp_path / "study" / "size"), "--all").stdout
    assert "b_malloc_tiny1" in own and "with the page" not in own  # which took the page's figures back


def test_a_studys_page_opens_with_the_tables_of_the_published_page(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    arguments = ("--only-part", "libc", "--only", "b_malloc_tiny1", "--blocks", "15", "--target", fake(tmp_path))
    made = swapstone(tmp_path, "study", "musl-vs-glibc", *arguments, "--out", str(folder), "--html")
    assert (
        made.stderr.strip().splitlines()[-1] == f"Wrote {folder / 'index.html'}"
        and "Answers of the parts" not in made.stdout
    )
    page = (folder / "index.html").read_text()
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles[:2] == ["The published page", "libc-bench 1: execution time"]
    assert (
        titles.index("UnixBench")
        < titles.index("The parts of the study")
        < titles.index("1. Functions of the C library")
    )
    opening = json.loads((folder / "index.json").read_text())["index"]["opening"]
    measured = {row["row"]: row["verdict"] for row in opening[0]["data"] if row["column"] == "glibc / musl - 1"}
    assert [row for row, verdict in measured.items() if verdict != "not in the records"] == ["b_malloc_tiny1"]
    (folder / "index.html").unlink()
    again = swapstone(tmp_path, "study", "--resume", str(folder), "--html")
    assert again.stderr.strip().splitlines()[-1] == f"Wrote {folder / 'index.html'}"
    assert (folder / "index.html").read_text() == page


def test_query_reads_all_records(tmp_path: Path, record: Path) -> None:
    sql = "SELECT variant, count(*) AS n FROM runs WHERE block > 0 GROUP BY ALL ORDER BY 1"
    rows = json.loads(swapstone(tmp_path, "query", sql, "--json").stdout)["rows"]
    assert rows == [{"variant": "libc=glibc", "n": 30}, {"variant": "libc=musl", "n": 30}]
    sql = (
        "SELECT round(median(m.value) / median(g.value), 1) AS r FROM samples m, samples g WHERE m.metric = 'wall' AND "
    )
    sql += "g.metric = 'wall' AND m.variant = 'libc=musl' AND g.variant = 'libc=glibc' AND m.block = g.block"
    assert json.loads(swapstone(tmp_path, "query", sql, "--json").stdout)["rows"] == [{"r": 1.5}]
    sql = "SELECT workload, verdict FROM comparisons WHERE metric = 'wall' ORDER BY 1"
    assert swapstone(tmp_path, "query", sql, "--csv").stdout.splitlines()[1:] == [
        "b_malloc_tiny1,worse",
        "b_malloc_tiny2,worse",
    ]
    assert "record" in swapstone(tmp_path, "query", "SELECT * FROM records").stdout
    # In a process of their own: at its end DuckDB's binding prints what is left of it.
    whole = swapstone(tmp_path, "query", "SELECT * FROM records", PYTHONNOUSERSITE="1")
    wrong = swapstone(tmp_path, "query", "SELEC 1", expect=2, PYTHONNOUSERSITE="1").stderr
    assert not whole.stderr
    assert wrong.startswith("error: DuckDB: Parser Error") and wrong.endswith("lists the tables.\n")


def test_without_duckdb_a_query_names_the_command_that_installs_it(tmp_path: Path, record: Path) -> None:
    """A module of its name that can't be imported hides it."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "duckdb.py").write_text("raise ImportError")
    done = subprocess.run(
        [sys.executable, "-m", "swapstone", "query", "SELECT * FROM runs"],
        env={**environment(tmp_path), "PYTHONPATH": f"{tmp_path / 'hiding'}:{TOP / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Queries and tables need DuckDB, which is not installed." in done.stderr
    assert "Install it, an extra of the package: pip install 'swapstone[query]'." in done.stderr


def test_query_without_records_is_an_error(tmp_path: Path) -> None:
    assert "There are no runs" in swapstone(tmp_path, "query", "SELECT * FROM runs", expect=2).stderr


@pytest.mark.parametrize("what", ["factors", "levels", "workloads", "suites", "studies", "records", "published"])
def test_each_list_prints_its_entries_as_text_and_json(tmp_path: Path, record: Path, what: str) -> None:
    expected = {
        "factors": "libc",
        "levels": "musl-tools",
        "workloads": "b_string_strstr(aaaaac)",
        "suites": "libc-extra",
        "studies": "musl-vs-glibc",
        "records": "complete",
        "published": "Pentium T4500",
    }
    assert expected[what] in swapstone(tmp_path, "list", what).stdout
    assert json.loads(swapstone(tmp_path, "list", what, "--json").stdout)["rows"]


def test_doctor_reports_the_machine_and_exits_with_0(tmp_path: Path) -> None:
    text = swapstone(tmp_path, "doctor").stdout
    assert "libc=musl" in text and "observing a trial" in text and "governor" in text
    found = json.loads(swapstone(tmp_path, "doctor", "--json").stdout)
    assert len(found["noise"]) == 12
    assert {finding["state"] for finding in found["noise"]} <= {"good", "noisy", "missing", "unknown"}


def test_doctor_names_missing_tools_and_their_packages(tmp_path: Path) -> None:
    text = swapstone(tmp_path, "doctor", PATH="/nonexistent").stdout
    assert "libc=musl is unavailable" in text and "sudo apt-get install musl-tools" in text
    assert (
        "load generator wrk" in text
        and "sudo apt-get install wrk" in text
        and "explain has no profile of processor time" in text
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_text_has_an_example(tmp_path: Path, name: str) -> None:
    text = swapstone(tmp_path, name, "--help").stdout
    assert "Example" in text and f"swapstone {name}" in text


def test_published_check_prints_the_indices(tmp_path: Path) -> None:
    text = swapstone(tmp_path, "published", "check").stdout
    for index in ("161.6", "146.5", "773.4", "626.4", "618.5", "3406.4", "1525.8", "1494.4"):
        assert index in text
