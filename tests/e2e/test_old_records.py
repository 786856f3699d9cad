# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records that version 0.1.0 made still load, verify, and give the figures that 0.1.0 printed."""

from __future__ import annotations

import csv
import io
import json
import math
import tarfile
from pathlib import Path

import pytest

from tests.e2e.cli import swapstone

RECORDS = Path(__file__).parents[1] / "recorded"
RECORDED = RECORDS / "records-0.1"

# The digest of each record's verdicts, as 0.1.0 wrote it into seal.json.
VERDICTS = {
    "crossed": "9e822b28cd12acc50ee7ff8cf936febd8c4eee6b3d63bcc376542ff9b15e830e",
    "latency": "5f936200d27b8d822bd175000040022875f865185958e9c0f0c24ee5598ff019",
    "own-program": "3e7de2e2d13b0c9671e7cae7444dcd354180f627be5baeacf9f67ac838d19b70",
    "servers": "a490866e1e5250ccdd621ea6550391951d7728a90eb453a9f3943abf0a73f3dd",
}
WORDS = {"reason"}  # sentences may be rewritten; every other column is data


@pytest.fixture(params=sorted(VERDICTS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract with the filter for data. Python before 3.11.4, such as Debian 12's, has no filters and ignores the attribute."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)


@pytest.fixture
def record(name: str, tmp_path: Path) -> Path:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        _extract(archive, tmp_path)
    return tmp_path / name


def test_an_old_record_verifies_with_the_same_verdicts(record: Path, name: str, tmp_path: Path) -> None:
    assert json.loads((record / "seal.json").read_text())["verdicts"] == VERDICTS[name]
    assert "the same verdicts" in swapstone(tmp_path, "verify", str(record)).stdout


def test_verify_detects_a_changed_digest_of_verdicts(tmp_path: Path) -> None:
    with tarfile.open(RECORDED / "own-program.tar.xz") as archive:
        _extract(archive, tmp_path)
    seal = tmp_path / "own-program" / "seal.json"
    seal.write_text(seal.read_text().replace(VERDICTS["own-program"], VERDICTS["latency"]))
    swapstone(tmp_path, "verify", str(seal.parent), expect=2)


def test_exported_figures_equal_those_of_version_0_1(record: Path, name: str, tmp_path: Path) -> None:
    _exports(record, RECORDED / f"{name}.csv", tmp_path)


def _exports(record: Path, figures: Path, tmp_path: Path) -> None:
    then = list(csv.DictReader(figures.read_text().splitlines()))
    now = list(csv.DictReader(io.StringIO(swapstone(tmp_path, "export", str(record), "--format", "csv").stdout)))
    assert then
    assert len(now) == len(then)
    for was, row in zip(then, now, strict=True):
        for column in was.keys() - WORDS:
            assert _equal(was[column], row[column]), (column, was, row)


def _equal(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-6)
    except ValueError:
        return one == other


def test_an_old_record_renders_in_every_format(record: Path, tmp_path: Path) -> None:
    assert len(swapstone(tmp_path, "show", str(record), "--all").stdout.splitlines()) > 5
    assert len(swapstone(tmp_path, "report", str(record), "--markdown").stdout) > 1000
    swapstone(tmp_path, "report", str(record), "--html")
    assert "<html" in (record / "report.html").read_text()[:1000]


def test_a_stored_explanation_is_in_the_report(tmp_path: Path) -> None:
    with tarfile.open(RECORDED / "own-program.tar.xz") as archive:
        _extract(archive, tmp_path)
    assert "page faults" in swapstone(tmp_path, "show", str(tmp_path / "own-program"), "--all").stdout


def test_a_record_of_the_second_rules_in_which_failures_ended_a_workload_keeps_its_verdicts(tmp_path: Path) -> None:
    """Three failures ended a workload then, and rates of failures were not compared (`Experiment.failures_count`)."""
    with tarfile.open(RECORDS / "records-rules-2" / "failing-runs.tar.xz") as archive:
        _extract(archive, tmp_path)
    record = tmp_path / "failing-runs"
    digest = "6c64404bc6d6fce09564460e485ad6c0ecc172ed429bb3b8405add3b6af977a4"
    assert json.loads((record / "seal.json").read_text())["verdicts"] == digest
    printed = swapstone(tmp_path, "verify", str(record)).stdout
    assert printed.startswith("Whole and unaltered") and "the same verdicts" in printed
    shown = " ".join(swapstone(tmp_path, "show", str(record)).stdout.split())
    assert shown.startswith("musl fails in 17 % (4.3–47 %) of its runs of b_malloc_tiny1, ")  # noqa: RUF001 - a dash


@pytest.mark.parametrize("name", ["fake", "fake-lines"])
def test_a_record_that_describes_itself_keeps_its_verdicts(name: str, tmp_path: Path) -> None:
    """Made before 0.2, with the first descriptions in `record.json`, and with the first outputs in lines."""
    with tarfile.open(RECORDS / "records-described" / f"{name}.tar.xz") as archive:
        _extract(archive, tmp_path)
    record = tmp_path / name
    assert any((record / "raw").iterdir()) == (name == "fake")
    assert json.loads((record / "record.json").read_text())["description"]["metrics"]
    assert "the same verdicts" in swapstone(tmp_path, "verify", str(record)).stdout
    _exports(record, RECORDS / "records-described" / f"{name}.csv", tmp_path)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("fake", "abc847b2d671bd3c9fe37f5ec2a586956f60f0be1c23b5f50c1639f20f8af0f0"),
        ("few-outputs", "ea3f4cfd6ce3d908c1709dcffece64d684a51bb9e630c3adcf8c99af0c42c70c"),
    ],
)
def test_a_record_of_the_third_rules_keeps_its_verdicts(name: str, digest: str, tmp_path: Path) -> None:
    """Each variant of a block discarded its own number of runs, and three outputs that vary on one side were other work."""
    with tarfile.open(RECORDS / "records-rules-3" / f"{name}.tar.xz") as archive:
        _extract(archive, tmp_path)
    record = tmp_path / name
    assert json.loads((record / "experiment.json").read_text())["rules"] == 3
    assert json.loads((record / "seal.json").read_text())["verdicts"] == digest
    assert "the same verdicts" in swapstone(tmp_path, "verify", str(record)).stdout
    if name == "fake":
        _exports(record, RECORDS / "records-rules-3" / "fake.csv", tmp_path)
    else:
        shown = " ".join(swapstone(tmp_path, "show", str(record)).stdout.split())
        assert "prints other output: 3 of 3 runs differ" in shown
