# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports, exports and explanations write nothing through a symbolic link in a record."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import UserError
from swapstone.core.session.output_file import check_output_folder, write_output
from swapstone.parts.explain.model.explanation import RowMeasurements
from swapstone.parts.explain.session import explanation_files
from tests.e2e.cli import fake
from tests.e2e.cli import swapstone as command
from tests.small_records import compared


@pytest.fixture
def record(tmp_path: Path) -> swapstone.Record:
    target = fake(tmp_path)
    return compared(libc="glibc,musl", out=tmp_path / "r", only="b_string_strlen", blocks=6, seed=1, target=target)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--out", "r/report.html")])
def test_a_report_replaces_a_link_and_not_its_target(
    record: swapstone.Record, precious: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (record.path / "report.html").symlink_to(precious)
    command(tmp_path, "report", "r", "--html", *options)
    assert precious.read_text() == "precious"
    assert not (record.path / "report.html").is_symlink()
    assert "<html" in (record.path / "report.html").read_text()[:1000]


@pytest.mark.slow
def test_exports_replace_links_too(record: swapstone.Record, precious: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").symlink_to(precious)
    command(tmp_path, "export", "r", "--format", "csv", "--out", "table.csv")
    assert precious.read_text() == "precious"
    assert (tmp_path / "table.csv").read_text().startswith("suite,")


def test_a_device_or_a_fifo_that_the_user_named_is_written_into(tmp_path: Path) -> None:
    write_output(Path("/dev/null"), "x", named=True)
    assert Path("/dev/null").is_char_device()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_text()), daemon=True)
    reader.start()
    write_output(fifo, "through", named=True)
    reader.join(60)
    assert read == ["through"] and fifo.is_fifo()
    write_output(fifo, "instead", named=False)  # a default name in a record
    assert fifo.read_text() == "instead"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written") as caught:
        write_output(tmp_path / "file" / "x", "x", named=True)
    assert "--out" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "reason"), [("file", "is no folder"), ("file/a/b", "Not a directory"), ("dangling/a", "No such file")]
)
def test_a_folder_that_cannot_be_written_is_named_before_the_work(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match=rf"{name} (can't be written: )?{reason}"):
        check_output_folder(tmp_path / name)


def test_checking_a_folder_leaves_nothing(tmp_path: Path) -> None:
    check_output_folder(tmp_path / "a" / "b")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    check_output_folder(tmp_path / "full")
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["full", "x"]


@pytest.mark.parametrize("place", ["explain", "entry"])
def test_evidence_is_not_written_through_a_link_and_removes_nothing_there(
    record: swapstone.Record, tmp_path: Path, place: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("precious")
    entry = record.path / "explain" / "row-123456"
    if place == "explain":
        (home / "row-123456").mkdir()
        (home / "row-123456" / "thesis.tex").write_text("precious")
        (record.path / "explain").symlink_to(home)
    else:
        entry.parent.mkdir()
        entry.symlink_to(home)
    before = {path: path.read_text() for path in home.rglob("*") if path.is_file()}
    with (
        pytest.raises(UserError, match="is a symbolic link: nothing is written through it"),
        explanation_files.open_evidence_folder(entry),
    ):
        pytest.fail("it was opened")
    assert {path: path.read_text() for path in home.rglob("*") if path.is_file()} == before
    assert explanation_files.reasons_of(record.view) == ()


def test_a_link_or_a_fifo_among_the_evidence_is_not_read(record: swapstone.Record) -> None:
    folder = record.path / "explain" / "row"
    folder.mkdir(parents=True)
    os.mkfifo(folder / explanation_files.MANIFEST)
    os.mkfifo(folder / explanation_files.SEEN)
    found: list[object] = []
    reader = threading.Thread(
        target=lambda: found.append(explanation_files.read(folder, record.view, RowMeasurements)), daemon=True
    )
    reader.start()
    reader.join(60)
    assert found == [None]
