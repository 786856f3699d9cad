# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stored explanations of a record's rows: damaged ones and links are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

import swapstone
from swapstone.session.explained_rows import explained_rows
from swapstone.session.explanation_files import MANIFEST, folder_of, store
from tests.e2e.cli import fake
from tests.unit.explanation.test_evidence import OWN, row


@pytest.fixture
def record(tmp_path: Path) -> swapstone.Record:
    options = {"only": ["b_string_strlen"], "blocks": 6, "seed": 1, "target": fake(tmp_path)}
    return swapstone.compare(libc=["glibc", "musl"], out=tmp_path / "r", **options)  # type: ignore[arg-type] # of several types


def test_a_stored_row_is_found_beside_damaged_ones(record: swapstone.Record) -> None:
    assert explained_rows(record.view) == ((), ())
    seen = row((1.0, 2.0), ({OWN: 1.0}, {OWN: 2.0}))
    store(folder_of(record.view, seen.place), record.view, seen)
    for name, content in (("a", b"{}"), ("b", b"\xff")):
        (record.path / "explain" / name).mkdir()
        for file in ("seen.json", "manifest.json", "instructions.json"):
            (record.path / "explain" / name / file).write_bytes(content)
    assert explained_rows(record.view) == ((seen,), ())


def test_rows_of_an_earlier_state_of_the_record_are_left_out(record: swapstone.Record) -> None:
    seen = row((1.0, 2.0), ({OWN: 1.0}, {OWN: 2.0}))
    folder = folder_of(record.view, seen.place)
    store(folder, record.view, seen)
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text().replace(record.view.last_chain, "0" * len(record.view.last_chain)))
    assert explained_rows(record.view) == ((), ())


def test_a_link_is_not_followed(record: swapstone.Record, tmp_path: Path) -> None:
    (record.path / "explain").symlink_to(tmp_path)
    assert explained_rows(record.view) == ((), ())
