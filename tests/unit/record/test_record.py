# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record loses nothing, hides nothing, and has one writer."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import ImageDifference, RecordError, Run
from swapstone.core.record import RecordWriter, check_raw, find_record, list_records, load, record_format, run_lines
from swapstone.core.record.record_format import SCHEMA, Manifest
from tests.raw_outputs import raw_to_files
from tests.unit import builders


def _made(path: Path, blocks: int = 3, seal: str | None = "complete") -> Path:
    subject = builders.experiment()
    with RecordWriter.create(path, subject) as writer:
        writer.write_manifest(Manifest(machine=(("kernel", "x"),), tools=(), artifacts=(), passes=(("libc", "a", 2),)))
        for run in builders.runs(subject, blocks):
            writer.append(run)
        if seal:
            writer.seal(seal, "precise", "digest")
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    view = load(path)
    assert view.runs == tuple(builders.runs(builders.experiment(), 3))
    assert view.damages == ()
    assert view.experiment == builders.experiment()
    assert view.manifest is not None and view.manifest.passes == (("libc", "a", 2),)
    assert view.seal is not None and (view.seal.state, view.seal.runs) == ("complete", 16)


def test_image_differences_are_stored_and_a_record_without_them_is_read(tmp_path: Path) -> None:
    found = ImageDifference(between=("generic", "rt"), differing=(("kernel", "kernel"),), same=3, parts=("kernel",))
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        writer.write_manifest(Manifest(machine=(), tools=(), artifacts=(), passes=(), image_differences=(found,)))
    view = load(tmp_path / "r")
    assert view.manifest is not None and view.manifest.image_differences == (found,)
    assert b'"certificates": [' in (tmp_path / "r" / "manifest.json").read_bytes()  # the name on disk
    for name, new in (("manifest.json", b"certificates"), ("experiment.json", b"modules")):
        path = tmp_path / "r" / name
        old = msgspec.json.decode(path.read_bytes())
        del old[new.decode()]
        path.write_bytes(msgspec.json.encode(old))
    view = load(tmp_path / "r")
    assert view.damages == () and view.manifest is not None and view.manifest.image_differences == ()
    assert view.experiment == builders.experiment()


def test_an_edited_line_is_named_and_the_rest_still_read(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    lines = (path / "runs.jsonl").read_bytes().split(b"\n")
    assert b"1001.0" in lines[4] or b"1000." in lines[4] or b"150" in lines[4]
    lines[4] = lines[4].replace(b'"elapsed_ns":100000000', b'"elapsed_ns":100000001')
    (path / "runs.jsonl").write_bytes(b"\n".join(lines))
    view = load(path)
    assert len(view.runs) == 15
    assert [str(damage) for damage in view.damages] == [
        "runs.jsonl, line 5: its content does not match its checksum: it was edited"
    ]


def test_a_cut_file_is_named_by_its_line(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    data = (path / "runs.jsonl").read_bytes()
    (path / "runs.jsonl").write_bytes(data[:-30])
    problems = [str(damage) for damage in load(path).damages]
    assert "runs.jsonl, line 16: the line is truncated" in problems
    assert "runs.jsonl, line 16: 16 runs were written, only 15 are left" in problems


@pytest.mark.parametrize("change", ["deleted", "doubled", "swapped"])
def test_missing_doubled_and_swapped_lines_are_found(tmp_path: Path, change: str) -> None:
    path = _made(tmp_path / "r")
    lines = (path / "runs.jsonl").read_bytes().split(b"\n")
    if change == "deleted":
        del lines[6]
    elif change == "doubled":
        lines.insert(6, lines[6])
    else:
        lines[6], lines[7] = lines[7], lines[6]
    (path / "runs.jsonl").write_bytes(b"\n".join(lines))
    view = load(path)
    assert view.damages
    assert all(damage.file == "runs.jsonl" and damage.line for damage in view.damages)
    assert len(view.runs) >= 15  # whole lines still count, and none counts twice
    assert len({run.trial.key for run in view.runs}) == len(view.runs)


def test_a_missing_first_line_is_named(tmp_path: Path) -> None:
    """No line precedes it, so only its number shows the loss; without a seal there is no count either."""
    path = _made(tmp_path / "r", seal=None)
    lines = (path / "runs.jsonl").read_bytes().split(b"\n")
    (path / "runs.jsonl").write_bytes(b"\n".join(lines[1:]))
    view = load(path)
    assert [str(damage) for damage in view.damages] == [
        "runs.jsonl, line 1: it has the number 2, expected 1: lines are missing or out of order"
    ]
    assert len(view.runs) == 15


def test_an_edited_manifest_or_experiment_is_found(tmp_path: Path) -> None:
    for name, old, new in (("manifest.json", '"x"', '"y"'), ("experiment.json", '"seed": 7', '"seed": 8')):
        path = _made(tmp_path / name)
        text = (path / name).read_text()
        assert old in text
        (path / name).write_text(text.replace(old, new))
        assert [damage.file for damage in load(path).damages] == [name]


def test_raw_output_is_kept_by_digest_and_checked(tmp_path: Path) -> None:
    subject = builders.experiment()
    path = tmp_path / "r"
    with RecordWriter.create(path, subject) as writer:
        digest = writer.keep_raw(b"its output")
        assert writer.keep_raw(b"") == ""
        writer.append(msgspec.structs.replace(next(builders.runs(subject, 0)), output=digest))
    assert check_raw(load(path)) == check_raw(load(raw_to_files(path))) == []
    (path / "raw" / f"{digest}.txt").write_bytes(b"something else")
    assert "does not match" in str(check_raw(load(path))[0])
    (path / "raw" / f"{digest}.txt").unlink()
    assert "missing" in str(check_raw(load(path))[0])


def test_missing_raw_outputs_are_listed_in_the_order_of_their_names(tmp_path: Path) -> None:
    """Two checks of a record print the same."""
    subject = builders.experiment()
    path = tmp_path / "r"
    with RecordWriter.create(path, subject) as writer:
        for number, run in enumerate(builders.runs(subject, 3)):
            writer.append(msgspec.structs.replace(run, output=record_format.file_sha256(b"%d" % number)))
    files = [damage.file for damage in check_raw(load(path))]
    assert len(files) > 10 and files == sorted(files)


def test_another_schema_version_is_refused_naming_both(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    text = (path / "record.json").read_text()
    (path / "record.json").write_text(
        text.replace(f'"schema": {SCHEMA}', '"schema": 99').replace('"id"', '"id_of_v99"')
    )
    with pytest.raises(RecordError, match=f"schema version 99; this Swapstone reads version {SCHEMA}"):
        load(path)


def test_a_torn_line_is_set_aside_on_resume_and_made_again(tmp_path: Path) -> None:
    path = _made(tmp_path / "r", seal=None)
    data = (path / "runs.jsonl").read_bytes()
    (path / "runs.jsonl").write_bytes(data[:-30])
    writer, view = RecordWriter.resume(path)
    with writer:
        assert len(view.runs) == 15
        assert (path / "runs.jsonl.torn").exists()
        writer.append(list(builders.runs(builders.experiment(), 3))[15])
        writer.seal("complete", "precise", "")
    assert load(path).damages == ()
    assert (path / "runs.jsonl").read_bytes() == data


def test_an_altered_record_is_not_resumed(tmp_path: Path) -> None:
    path = _made(tmp_path / "r")
    text = (path / "runs.jsonl").read_text()
    (path / "runs.jsonl").write_text(text.replace('"passes":1', '"passes":3', 1))
    with pytest.raises(RecordError, match="line 1: its content does not match its checksum"):
        RecordWriter.resume(path)


def _hold(path: Path, ready: multiprocessing.connection.Connection) -> None:
    with RecordWriter.resume(path)[0]:
        ready.send("locked")
        signal.pause()


@pytest.mark.slow
def test_two_processes_cannot_write_one_record(tmp_path: Path) -> None:
    path = _made(tmp_path / "r", seal=None)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(path, theirs))
    process.start()
    theirs.close()  # so that the end of the process would end `recv`, which waits as long as the machine needs
    try:
        assert mine.recv() == "locked"
        with pytest.raises(RecordError, match="Another process is writing"):
            RecordWriter.resume(path)
    finally:
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    RecordWriter.resume(path)[0].close()  # the lock went with the process


def test_a_folder_with_content_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(RecordError, match="not empty"):
        RecordWriter.create(tmp_path, builders.experiment())
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_unwritable_places_are_user_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        with pytest.raises(RecordError) as caught:
            RecordWriter.create(place, builders.experiment())
        assert "--out" in caught.value.hint


def _full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_a_user_error_and_earlier_lines_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _made(tmp_path / "r", blocks=1, seal=None)
    writer, view = RecordWriter.resume(path)
    with writer, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        with pytest.raises(RecordError, match="No space left") as caught:
            writer.append(next(builders.runs(builders.experiment(), 0)))
    assert "--resume" in caught.value.hint
    assert load(path).runs == view.runs


def test_records_are_found_by_path_name_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    with pytest.raises(RecordError, match="There are no records"):
        find_record("last")
    first, second = _made(tmp_path / "a-first"), _made(tmp_path / "b-second")
    os.utime(first / "record.json", ns=(1, 1))
    assert list_records() == (first, second)
    assert find_record("last") == second == find_record("b-second") == find_record(str(second))
    with pytest.raises(RecordError, match="no record named 'a-frist'") as caught:
        find_record("a-frist")
    assert "'a-first'" in caught.value.hint
    first.rename(tmp_path / "a\nWhole and unaltered")
    for name in ("a\nWhole and unaltered", str(tmp_path / "a\nWhole and unaltered")):
        with pytest.raises(RecordError, match=r"line break: .*a\\x0aWhole and unaltered"):
            find_record(name)


@given(st.data())
def test_any_mutation_is_damage_or_the_same_runs_never_an_exception(data: st.DataObject) -> None:
    original = _lines()
    expected, _ = _read(original)
    position = data.draw(st.integers(0, len(original) - 1))
    change = data.draw(st.sampled_from(["flip", "cut", "insert", "delete"]))
    if change == "flip":
        mutated = (
            original[:position]
            + bytes([original[position] ^ data.draw(st.integers(1, 255))])
            + original[position + 1 :]
        )
    elif change == "cut":
        mutated = original[:position]
    elif change == "insert":
        mutated = original[:position] + data.draw(st.binary(min_size=1, max_size=20)) + original[position:]
    else:
        mutated = original[:position] + original[position + data.draw(st.integers(1, 40)) :]
    runs, damages = _read(mutated)
    assert all(run in expected for run in runs)
    whole_lines_cut = change in {"cut", "delete"} and original.startswith(mutated)
    assert damages or runs == expected or whole_lines_cut


@given(st.binary(max_size=300))
def test_random_bytes_are_never_decoded_as_a_run(rubbish: bytes) -> None:
    runs, damages = _read(rubbish)
    assert runs == ()
    assert bool(damages) == bool(rubbish)


def _read(data: bytes) -> tuple[Sequence[Run], Sequence[record_format.Damage]]:
    lines, runs = re.findall(rb"[^\n]*\n|[^\n]+", data), list[Run]()
    found = run_lines.read_lines(lines, builders.experiment(), lambda run, _start, _length: runs.append(run))
    return tuple(runs), tuple(found.damages)


def _lines() -> bytes:
    if not _CACHE:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            _CACHE.append((_made(Path(folder) / "r", blocks=1) / "runs.jsonl").read_bytes())
    return _CACHE[0]


_CACHE: list[bytes] = []


def test_every_truncation_of_a_record_is_noticed_once_sealed(tmp_path: Path) -> None:
    path = _made(tmp_path / "r", blocks=1)
    data = (path / "runs.jsonl").read_bytes()
    for length in itertools.chain(range(0, len(data), 97), (len(data) - 1,)):
        (path / "runs.jsonl").write_bytes(data[:length])
        assert load(path).damages, f"cut to {length} bytes"


def test_build_logs_are_stored_under_any_label_of_a_variant(tmp_path: Path) -> None:
    with RecordWriter.create(tmp_path / "r", builders.experiment()) as writer:
        labels = ("libc=glibc", "libc=glibc (again)", "libc=glibc  again", "../../x", "a/b\n\u00fc", "x" * 300)
        paths = [Path(writer.keep_log(label, label.encode())) for label in labels]
        assert len(set(paths)) == len(labels)
        assert {path.parent for path in paths} == {tmp_path / "r" / "builds"}
        assert paths[0].name == "libc=glibc.log"
        assert [path.read_bytes() for path in paths] == [label.encode() for label in labels]
        assert writer.keep_log("libc=glibc", b"of the next session") == str(paths[0])
        assert paths[0].read_bytes() == b"of the next session"
    assert load(tmp_path / "r").damages == ()
