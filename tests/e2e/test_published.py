# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone published differences` and `claims` of records of the fake target."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.cli import fake, swapstone
from tests.shared import Shared

MALLOC = ("compare", "libc=glibc,musl", "--only", "b_malloc*", "--seed", "5", "--blocks", "25")


@pytest.fixture
def record(tmp_path: Path, shared: Shared) -> Path:
    """Return a record of the fake target, where musl takes 1.5 times as long."""

    def fill(folder: Path) -> None:
        fake(folder)
        swapstone(folder, *MALLOC, "--target", "fake:fake.toml", "--out", "record")

    return Path(shutil.copytree(shared.folder("published", fill) / "record", tmp_path / "record"))


def test_differences_of_a_record_are_printed(tmp_path: Path, record: Path) -> None:
    arguments = ("published", "differences", str(record))
    whole = json.loads(swapstone(tmp_path, *arguments, "--json").stdout)
    rows = {(row["workload"], row["metric"]): row for row in whole["rows"]}
    # The page's ratio is 2.828; here it is about 1.5.
    assert rows["b_malloc_big1", "wall"]["differs"] == "other size"
    assert rows["b_malloc_tiny1", "wall"]["differs"] is None
    assert whole["records"] == ["record (simulated)"]
    text = " ".join(swapstone(tmp_path, *arguments).stdout.split())
    assert re.search(r"Of \d+ published ratios beside the records', \d+ differs? in sign and \d+ by more than", text)


def test_claims_are_listed_and_judged(tmp_path: Path, record: Path) -> None:
    text = swapstone(tmp_path, "published", "claims").stdout
    assert re.match(r"Records can test \d+ of \d+ claims of the pages; \d+ can't be tested here\.", text)
    whole = json.loads(swapstone(tmp_path, "published", "claims", str(record), "--json").stdout)
    verdicts = {each["id"]: each["verdict"] for each in whole["claims"]}
    assert verdicts["musl-malloc-slower"] == "holds"
    assert verdicts["rt-bounded"] == "not in the records"
    assert verdicts["musl-munmap"] == "not in the records"
    assert verdicts["lwip-sending-hotspot"] == "not tested here"
    judged = swapstone(tmp_path, "published", "claims", str(record)).stdout
    assert "record (simulated): b_malloc_sparse, wall, musl / glibc: " in " ".join(judged.split())


def test_the_folder_of_a_study_stands_for_its_records(tmp_path: Path, record: Path) -> None:
    shutil.copytree(record, tmp_path / "study" / "one")
    alone, whole, twice = (
        swapstone(tmp_path, "published", "differences", *names, "--json").stdout
        for names in (("study/one",), ("study",), ("study", "study/one"))
    )
    assert whole == alone == twice
    assert json.loads(whole)["records"] == ["one (simulated)"]


def test_a_record_that_does_not_exist_is_named(tmp_path: Path) -> None:
    for command in ("differences", "claims"):
        assert "error: " in swapstone(tmp_path, "published", command, "absent", expect=2).stderr


def test_a_record_under_several_names_counts_once(tmp_path: Path, record: Path) -> None:
    (tmp_path / "link").symlink_to("record")
    names = ("record", str(record), "link", "../" + tmp_path.name + "/record")
    whole = json.loads(swapstone(tmp_path, "published", "claims", *names, "--json").stdout)
    assert whole["records"] == ["record (simulated)"]


def test_records_of_one_name_are_told_apart_by_their_paths(tmp_path: Path, record: Path) -> None:
    for study in ("host", "vm"):
        shutil.copytree(record, tmp_path / study / "libc")
    whole = json.loads(swapstone(tmp_path, "published", "claims", "host", "vm", "--json").stdout)
    assert whole["records"] == ["host/libc (simulated)", "vm/libc (simulated)"]
    (claim,) = (each for each in whole["claims"] if each["id"] == "musl-malloc-slower")
    assert {found["record"] for found in claim["evidence"]} == set(whole["records"])


def test_a_record_that_was_edited_is_named_before_its_numbers(tmp_path: Path, record: Path) -> None:
    lines = (record / "runs.jsonl").read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace('"status":"ok"', '"status":"OK"').replace('"wall"', '"wal2"')
    (record / "runs.jsonl").write_text("".join(lines))
    said = "record (simulated) is damaged or was edited (runs.jsonl, line 4: "
    for command in ("differences", "claims"):
        arguments = ("published", command, str(record))
        text = " ".join(swapstone(tmp_path, *arguments).stdout.split())
        assert text.index(said) < text.index("Raspberry Pi" if command == "differences" else "openeuler-musl")
        whole = json.loads(swapstone(tmp_path, *arguments, "--json").stdout)
        (sentence,) = whole["damaged"]
        assert sentence.startswith(said)
    intact = swapstone(tmp_path, "published", "claims", "--json").stdout
    assert json.loads(intact)["damaged"] == []


def test_an_empty_name_is_no_record(tmp_path: Path, record: Path) -> None:
    del record
    for command in (("published", "claims"), ("published", "differences"), ("show",)):
        assert swapstone(tmp_path, *command, "", expect=2).stderr.startswith("error: The name of a record is empty.")
