# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is on the disk of users already, and must be read and recognised by later versions: names, digests, limits, permissions."""

from __future__ import annotations

import datetime
import os
import re
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from swapstone.core.record import files, origin, record_format, record_paths, writer
from swapstone.core.record.files import limit_of
from swapstone.core.record.replace_file import replace_file
from swapstone.core.record.writer import RecordWriter
from tests.unit import builders

MIB = 1 << 20
KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("record.json", 16 * MIB),
        ("experiment.json", 16 * MIB),
        ("manifest.json", 128 * MIB),
        ("seal.json", MIB),
        ("runs.jsonl", 16 * 1024 * MIB),
        ("origin.json", MIB),
        ("seal.json.sig", MIB),
        ("study.json", 16 * MIB),
        ("raw/x.txt", 128 * MIB),
        ("builds/x.log", 128 * MIB),
        ("explain/a/b.json", 256 * MIB),
    ],
)
def test_each_file_has_the_documented_limit(name: str, most: int) -> None:
    assert limit_of(name) == most


def test_limits_of_lines_and_folders() -> None:
    assert (files.LONGEST_LINE_BYTES, files.MOST_ENTRIES, files.RAW_BYTES) == (15 * MIB, 10_000, 128 * MIB)
    assert writer._LONGEST_RUN_BYTES == 14 * MIB
    with pytest.raises(KeyError):
        limit_of("other.json")


def test_the_chain_of_earlier_records_is_the_same() -> None:
    assert record_format.chain_value(1, "", b'{"a":1}') == "8933d173a0d68227804f2aefdae304b9"
    assert record_format.chain_value(12, "ab" * 16, b"{}") == "c69a1c800d2c7fb5f2d0f821a24207dd"


def test_marks_of_earlier_versions_are_recognised() -> None:
    assert origin._name_of(KEY) == "2cd045bed0a39034"
    mark = "db1fbb1617c526f76c6e4fbc80a228172a649181150b06190588cfe5863fdff7"
    assert origin._mark_of(KEY, "20260101-000000-abcdef", "experiment.json", b"{}\n") == mark


def test_the_files_of_a_record_have_their_names() -> None:
    names = ("META", "EXPERIMENT", "MANIFEST", "RUNS", "RAW", "BUILDS", "SEAL", "LOCK", "FORMAT", "SCHEMA")
    assert [getattr(record_format, name) for name in names] == [
        *("record.json", "experiment.json", "manifest.json", "runs.jsonl", "raw", "builds", "seal.json", "lock"),
        *("swapstone-record", 1),
    ]
    assert (origin.ORIGIN, origin.KEY_BYTES) == ("origin.json", 32)
    empty = origin.Origin(key="k", marks=())
    assert origin.file_bytes(empty) == (
        b'{\n "format": "swapstone-origin",\n "key": "k",\n "marks": [],\n "schema": 1\n}\n'
    )


def test_a_damage_names_its_line_if_it_has_one() -> None:
    assert str(record_format.Damage(file="a", line=0, problem="x")) == "a: x"
    assert str(record_format.Damage(file="a", line=1, problem="x")) == "a, line 1: x"


def test_the_identity_of_a_new_record_is_the_time_and_a_random_number(tmp_path: Path) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()):
        text = (tmp_path / "r" / "record.json").read_text()
    assert re.search(r'"id": "[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"', text)
    assert re.search(r'"created": "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00"', text)


def test_names_of_build_logs(tmp_path: Path) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as made:
        names = [
            Path(made.keep_log(label, b"")).name
            for label in ("libc=musl,cpu=a.b_c-d", "libc=a (again)", "-x.", "y" * 81)
        ]
    assert names[0] == "libc=musl,cpu=a.b_c-d.log"
    assert re.fullmatch(r"libc=a-again-[0-9a-f]{6}\.log", names[1])
    assert re.fullmatch(r"x-[0-9a-f]{6}\.log", names[2])
    assert re.fullmatch(r"y{80}-[0-9a-f]{6}\.log", names[3])


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("libc=glibc,musl", "libc=glibc,musl"),
        ("a / b", "a-b"),
        ("--", "experiment"),
        ("x" * 61, "x" * 60),
        ("ä", "experiment"),
    ],
)
def test_a_new_folder_is_named_by_time_and_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, slug: str
) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    found = record_paths.new_record_path(name)
    assert found.parent == tmp_path
    assert re.fullmatch(rf"[0-9]{{8}}-[0-9]{{6}}-{re.escape(slug)}", found.name)


def test_a_folder_of_the_same_second_has_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(datetime.datetime):
        def astimezone(self, _: object = None) -> Fixed:
            return Fixed(2026, 1, 2, 3, 4, 5)

    monkeypatch.setattr(record_paths, "datetime", SimpleNamespace(datetime=Fixed))
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    for expected in ("20260102-030405-x", "20260102-030405-x-2", "20260102-030405-x-3"):
        found = record_paths.new_record_path("x")
        assert found.name == expected
        found.mkdir()


def test_records_are_in_a_folder_of_the_current_one_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, ""):
        monkeypatch.delenv("SWAPSTONE_RECORDS", raising=False)
        if value is not None:
            monkeypatch.setenv("SWAPSTONE_RECORDS", value)
        assert record_paths.default_root() == Path("records")


def test_the_umask_alone_restricts_the_files_of_a_record(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with RecordWriter.create(tmp_path / "r", builders.experiment()) as made:
            made.keep_raw(b"\xff")
            made.seal("complete", "", "")
        replace_file(tmp_path / "r" / "report.html", b"x")
    finally:
        os.umask(before)
    modes = {
        path.name if path.parent.name == "r" else "raw file": stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "r").rglob("*")
        if path.is_file()
    }
    assert set(modes) == {
        *("record.json", "experiment.json", "runs.jsonl", "lock", "seal.json", "origin.json", "report.html", "raw file")
    }
    assert set(modes.values()) == {0o666}


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (".runs.json.123", True),
        (".a.0123456789abcdef", True),
        (".a.0123456789abcde", False),
        (".a.0123456789abcdef0", False),
        ("a.123", False),
        (".a", False),
        (".a.0123456789abcdeg", False),
    ],
)
def test_names_of_temporary_files_of_killed_writers(name: str, left: bool) -> None:
    assert bool(writer._LEFT.fullmatch(name)) == left


@pytest.mark.parametrize("length", [99, 100, 101, 200])
def test_a_temporary_file_has_a_bounded_name_that_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    path = tmp_path / ("n" * length)
    monkeypatch.setattr(os, "replace", _fail)
    monkeypatch.setattr(os, "unlink", _fail)
    with pytest.raises(OSError, match="stopped"):
        replace_file(path, b"x")
    (left,) = tmp_path.iterdir()
    assert re.fullmatch(rf"\.n{{{min(length, 100)}}}\.[0-9a-f]{{16}}", left.name)
    monkeypatch.undo()
    replace_file(path, b"y")
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def _fail(*_: object, **__: object) -> None:
    raise OSError("stopped")
