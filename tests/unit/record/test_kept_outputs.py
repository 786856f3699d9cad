# SPDX-License-Identifier: MIT OR Apache-2.0
"""What trials printed is in the lines of their runs, or in files, and is found by its digest alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Run
from swapstone.core.record import KeptOutputs, RecordWriter, check_raw, load, record_format, run_lines
from swapstone.core.record.writer import LONGEST_TEXT_BYTES
from tests.raw_outputs import raw_bytes
from tests.unit import builders

OUTPUTS = (b'--- stdout\n"quoted", \\ and ,"raw":["x"]}\n', "\0\x1b[2J\u2028ä\r\n".encode(), b"third")
BINARY = b"\xff\xfe"
LONG = b"x" * (LONGEST_TEXT_BYTES + 1)


def _runs() -> list[Run]:
    return list(builders.runs(builders.experiment(), 2))


def _made(path: Path, outputs: tuple[bytes, ...] = OUTPUTS) -> list[str]:
    """Write a record with such outputs; return their digests."""
    with RecordWriter.create(path, builders.experiment()) as writer:
        for run, output in zip(_runs(), outputs, strict=False):
            kept = {
                "output": writer.keep_raw(output),
                "answer": writer.keep_raw(b"answer to " + run.trial.key.encode()),
            }
            writer.append(msgspec.structs.replace(run, **kept))
    return [record_format.file_sha256(output) for output in outputs]


def _files(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "raw").iterdir())


def test_texts_are_in_the_lines_byte_for_byte_and_no_file_is_made(tmp_path: Path) -> None:
    digests = _made(tmp_path / "r")
    view = load(tmp_path / "r")
    assert _files(tmp_path / "r") == [] and view.damages == () and check_raw(view) == []
    assert [run.output for run in view.runs] == digests
    with KeptOutputs(tmp_path / "r") as outputs:
        assert [outputs.read(digest) for digest in reversed(digests)] == list(reversed(OUTPUTS))
        assert outputs.read(view.runs[1].answer) == b"answer to " + view.runs[1].trial.key.encode()


def test_an_equal_text_is_kept_once_also_across_sessions_of_many_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(tmp_path / "r", (b"same output",) * 4)
    assert (tmp_path / "r" / "runs.jsonl").read_bytes().count(b"same output") == 1
    monkeypatch.setattr("swapstone.core.record.writer.MOST_NOTED", 2)
    _made(tmp_path / "s", (b"same output",) * 4)
    assert (tmp_path / "s" / "runs.jsonl").read_bytes().count(b"same output") > 1
    assert check_raw(load(tmp_path / "s")) == []


def test_long_outputs_and_those_that_are_no_text_are_files(tmp_path: Path) -> None:
    digests = _made(tmp_path / "r", (BINARY, LONG, LONG[1:]))
    assert _files(tmp_path / "r") == sorted(f"{digest}.txt" for digest in digests[:2])
    assert [raw_bytes(tmp_path / "r", digest) for digest in digests] == [BINARY, LONG, LONG[1:]]
    assert check_raw(load(tmp_path / "r")) == []
    (tmp_path / "r" / "raw" / f"{digests[0]}.txt").unlink()
    assert [damage.problem for damage in check_raw(load(tmp_path / "r"))] == ["it is missing, and no line has it"]


def test_a_longer_output_than_wanted_is_not_returned(tmp_path: Path) -> None:
    digest = _made(tmp_path / "r")[2]
    assert raw_bytes(tmp_path / "r", digest, 5) == b"third" and raw_bytes(tmp_path / "r", digest, 4) is None


def test_nothing_is_read_where_nothing_is(tmp_path: Path) -> None:
    assert raw_bytes(tmp_path / "absent", "0" * 64) is None
    _made(tmp_path / "r")
    for digest in ("0" * 64, "x", "../record.json", ""):
        assert raw_bytes(tmp_path / "r", digest) is None


def _edited(path: Path, old: bytes, new: bytes) -> None:
    lines = (path / "runs.jsonl").read_bytes()
    assert lines.count(old) == 1
    (path / "runs.jsonl").write_bytes(lines.replace(old, new))


def test_an_edited_text_is_missing(tmp_path: Path) -> None:
    """The chain covers the run, which names the text by its digest."""
    (digest,) = _made(tmp_path / "r")[2:]
    _edited(tmp_path / "r", b"third", b"other")
    view = load(tmp_path / "r")
    assert view.damages == ()
    assert list(map(str, check_raw(view))) == [f"raw/{digest}.txt: it is missing, and no line has it"]
    assert raw_bytes(tmp_path / "r", digest) is None


@pytest.mark.parametrize(
    "texts",
    [
        b'"third',
        b"1",
        b'["third"]',
        b"null",
        b'"\\ud800"',
        b"[" * 9999,
        b'"third"],"run":[{}',
        b'"\xff"',
        b'"third"' + b',""' * 16,
    ],
)
def test_texts_that_are_no_list_of_strings_damage_their_line_alone(tmp_path: Path, texts: bytes) -> None:
    digests = _made(tmp_path / "r")
    _edited(tmp_path / "r", b'"third"', texts)
    view = load(tmp_path / "r")
    assert [damage.line for damage in view.damages] == [3] and len(view.runs) == 2
    assert [raw_bytes(tmp_path / "r", digest) is None for digest in digests] == [False, False, True]


@pytest.mark.parametrize("end", [b"", b"\n", b'"third"]\n', b'"third"}\n'])
def test_a_line_that_ends_early_or_late_is_damaged(tmp_path: Path, end: bytes) -> None:
    _made(tmp_path / "r")
    lines = (tmp_path / "r" / "runs.jsonl").read_bytes()
    (tmp_path / "r" / "runs.jsonl").write_bytes(lines[: lines.index(b'"third"')] + end)
    assert [damage.line for damage in load(tmp_path / "r").damages] == [3]


def test_a_resumed_record_has_the_texts_of_both_sessions(tmp_path: Path) -> None:
    digests = _made(tmp_path / "r")
    with (tmp_path / "r" / "runs.jsonl").open("rb+") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 30)  # a crash within the texts of the third line
    writer, view = RecordWriter.resume(tmp_path / "r")
    assert len(view.runs) == 2 and raw_bytes(tmp_path / "r", digests[2]) is None
    with writer:
        kept = writer.keep_raw(b"third")
        writer.append(msgspec.structs.replace(_runs()[2], output=kept))
    assert raw_bytes(tmp_path / "r", digests[2]) == b"third" and check_raw(load(tmp_path / "r")) == []


def test_a_text_waits_for_the_line_that_could_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        run = msgspec.structs.replace(_runs()[0], output=writer.keep_raw(b"first"))
        with monkeypatch.context() as patch, pytest.raises(Exception, match="can't be written"):
            patch.setattr(os, "fsync", _full)
            writer.append(run)
        assert (tmp_path / "r" / "runs.jsonl").read_bytes() == b""
        writer.append(run)
    assert raw_bytes(tmp_path / "r", run.output) == b"first"


def _full(descriptor: int) -> None:
    raise OSError(28, "No space left on device", descriptor)


@pytest.mark.parametrize(
    "change", [lambda line: line, lambda line: line.replace(b',"raw":[', b', "raw":['), lambda _: b""]
)
def test_the_texts_of_a_line_are_decoded_alone(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    """Of a line that another program wrote anew, with other spaces, they are not found, and `verify` names them."""
    _made(tmp_path / "r", (b"one",))
    line = change((tmp_path / "r" / "runs.jsonl").read_bytes())
    found = run_lines.kept_texts(line)
    assert found == ((b"one", b"answer to " + _runs()[0].trial.key.encode()) if b',"raw"' in line else ())
