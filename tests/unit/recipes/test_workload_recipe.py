# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/extending.md's workload, added to a copy of the source: it is built, run and compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli import environment
from tests.unit.recipes.extending import code_blocks, copy_source

LAST_OF_SUITE = "    ),\n)\n"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the source with the file and the entry of docs/extending.md."""
    source, entry, *_ = code_blocks("Add a workload")
    top = tmp_path_factory.mktemp("copy")
    suite = copy_source(top) / "swapstone" / "parts" / "published" / "suites" / "libc_extra.py"
    (top / "native" / "workloads" / "strcmp.c").write_text(source)
    text = suite.read_text()
    assert text.endswith(LAST_OF_SUITE)
    suite.write_text(text.removesuffix(LAST_OF_SUITE) + entry + LAST_OF_SUITE)
    return top


def _run(copy: Path, records: Path, *arguments: str, expect: int = 0) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "swapstone", *arguments],
        env=environment(records, PYTHONPATH=str(copy / "src")),
        cwd=records,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == expect, result.stderr
    return result.stdout


def test_the_recipe_adds_one_file_and_one_entry() -> None:
    source, entry, *_ = code_blocks("Add a workload")
    assert source.count("WORKLOAD(.name") == 1
    assert entry.startswith("        program(") and entry.endswith("),\n")


@pytest.mark.slow
def test_the_added_workload_is_listed(copy: Path, tmp_path: Path) -> None:
    listed = [line for line in _run(copy, tmp_path, "list", "workloads").splitlines() if " strcmp " in line]
    assert len(listed) == 1 and "compare two equal strings" in listed[0]


@pytest.mark.slow
def test_the_added_workload_is_compared(copy: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    only = ("--suite", "libc-extra", "--only", "strcmp", "--blocks", "3", "--out", str(out))
    assert "strcmp" in _run(copy, tmp_path, "compare", "libc=glibc,musl", *only)
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 8
    assert {(run["status"], run["check"]) for run in runs} == {("ok", f"{500_000:016x}")}
    assert {sample["metric"] for run in runs for sample in run["samples"]} >= {"wall", "cpu", "res", "minflt"}


@pytest.mark.slow
def test_a_workload_that_does_other_work_is_refused(copy: Path, tmp_path: Path) -> None:
    """The checksum is compared: here it is an address, which is another in each variant."""
    source = copy / "native" / "workloads" / "strcmp.c"
    honest = source.read_text()
    source.write_text(honest.replace("return equal;", "return (uint64_t)(uintptr_t)&strcmp + equal;"))
    out = tmp_path / "r"
    try:
        only = ("--suite", "libc-extra", "--only", "strcmp", "--blocks", "2", "--out", str(out))
        assert "invalid" in _run(copy, tmp_path, "compare", "libc=glibc,musl", *only, expect=4)
    finally:
        source.write_text(honest)
    runs = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    assert "it did other work" in " ".join(run["reason"] for run in runs)
