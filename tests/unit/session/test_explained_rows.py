# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stored explanations of a record's rows: damaged ones and links are left out, and named before they are measured again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import swapstone
from swapstone.core.model.profile import Stack
from swapstone.parts.explain.model.explanation import MOST_DEPTH, MOST_STACKS, RowMeasurements
from swapstone.parts.explain.report.flame_graph import page
from swapstone.parts.explain.session.explanation_files import (
    MANIFEST,
    SEEN,
    evidence_files,
    folder_of,
    read,
    store,
    stored_rows,
)
from tests.e2e.cli import fake
from tests.small_records import compared
from tests.unit.explanation.rows import OWN, row


@pytest.fixture
def record(tmp_path: Path) -> swapstone.Record:
    target = fake(tmp_path)
    return compared(libc="glibc,musl", out=tmp_path / "r", only="b_string_strlen", blocks=6, seed=1, target=target)


def test_a_stored_row_is_found_beside_damaged_ones(record: swapstone.Record) -> None:
    assert not [*stored_rows(record.view)]
    seen = row(([{OWN: 1.0}], [1.0]), ([{OWN: 2.0}], [2.0]))
    store(folder_of(record.view, seen.place), evidence_files(record.view, seen))
    for name, content in (("a", b"{}"), ("b", b"\xff")):
        (record.path / "explain" / name).mkdir()
        for file in ("seen.json", "manifest.json", "instructions.json"):
            (record.path / "explain" / name / file).write_bytes(content)
    assert [row for _, row, _ in stored_rows(record.view)] == [seen]


def test_rows_of_an_earlier_state_of_the_record_are_left_out(record: swapstone.Record) -> None:
    seen = row(([{OWN: 1.0}], [1.0]), ([{OWN: 2.0}], [2.0]))
    folder = folder_of(record.view, seen.place)
    store(folder, evidence_files(record.view, seen))
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text().replace(record.view.last_chain, "0" * len(record.view.last_chain)))
    assert not [*stored_rows(record.view)]


def test_a_link_is_not_followed(record: swapstone.Record, tmp_path: Path) -> None:
    (record.path / "explain").symlink_to(tmp_path)
    assert not [*stored_rows(record.view)]


def problem(folder: Path, record: swapstone.Record) -> str:
    reasons: list[str] = []
    read(folder, record.view, RowMeasurements, reasons.append)
    return " ".join(reasons)


def test_why_stored_evidence_is_measured_again(record: swapstone.Record) -> None:
    seen = row(([{OWN: 1.0}], [1.0]), ([{OWN: 2.0}], [2.0]))
    folder = folder_of(record.view, seen.place)
    assert problem(folder, record) == ""  # there is none
    store(folder, evidence_files(record.view, seen))
    assert (problem(folder, record), read(folder, record.view, RowMeasurements)) == ("", seen)
    whole = (folder / SEEN).read_bytes()
    for damage in (whole[:-9], b"", whole.replace(b"2.0", b"3.0")):
        (folder / SEEN).write_bytes(damage)
        assert read(folder, record.view, RowMeasurements) is None
        assert problem(folder, record) == "the stored evidence of this row is damaged, or was edited"
    (folder / SEEN).write_bytes(whole)
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text().replace(record.view.last_chain, "0" * len(record.view.last_chain)))
    assert problem(folder, record) == "the record was continued since its evidence was stored"
    (folder / SEEN).unlink()
    (folder / SEEN).symlink_to("/etc/passwd")
    assert problem(folder, record).startswith("the stored evidence of this row can't be read")


def with_stack(depth: int, number: int = 1) -> RowMeasurements:
    seen = row(([{OWN: 1.0}], [1.0]), ([{OWN: 2.0}], [2.0]))
    profile = seen.runs[0].profile
    assert profile is not None
    stacks = (Stack(frames=(0,) * depth, weight=1.0),) * number
    run = msgspec.structs.replace(seen.runs[0], profile=msgspec.structs.replace(profile, stacks=stacks))
    return msgspec.structs.replace(seen, runs=(run, *seen.runs[1:]))


def test_evidence_is_bounded() -> None:
    assert not with_stack(MOST_DEPTH).problem()
    assert with_stack(MOST_DEPTH + 1).problem()
    assert with_stack(1, MOST_STACKS + 1).problem()


def test_a_graph_of_the_deepest_stacks_is_drawn() -> None:
    seen = with_stack(MOST_DEPTH)
    (run, *_) = seen.runs
    assert run.profile is not None
    assert '"tree"' in page("title", run.profile, None)
