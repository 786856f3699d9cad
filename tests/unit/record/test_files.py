# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of a record are opened as regular files of bounded size, and through no link."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.record import files
from swapstone.core.record.files import FileProblemError, RecordFolder, is_record, limit_of, open_runs, read_regular

NAME = "seal.json"


def _fifo(place: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(os.path.relpath(place))  # a path of a socket has at most 107 bytes


def _too_large(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(limit_of(NAME) + 1)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (_fifo, "it is a FIFO, not a regular file"),
        (_socket, "it is a socket, not a regular file"),
        (Path.mkdir, "it is a folder, not a regular file"),
        (lambda place: place.symlink_to("/dev/zero"), "it is a symbolic link, not a regular file"),
        (lambda place: place.symlink_to("other"), "it is a symbolic link, not a regular file"),
        (_too_large, "it has 1048577 bytes, more than the 1048576 that are read"),
    ],
)
def test_only_regular_files_of_bounded_size_are_read(
    make: Callable[[Path], object], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").write_bytes(b"secret")
    make(tmp_path / NAME)
    with RecordFolder(tmp_path) as folder:
        for use in (folder.read, folder.status, lambda name: list(folder.lines(name))):
            with pytest.raises(FileProblemError, match=problem):
                use(NAME)
        assert not folder.is_regular(NAME)


def test_a_file_that_takes_the_place_of_a_regular_one_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of its name and its opening, a file may be replaced."""
    (tmp_path / NAME).write_bytes(b"{}")
    true_open = os.open

    def swapping(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if path == NAME:
            (tmp_path / NAME).unlink()
            os.mkfifo(tmp_path / NAME)
        return true_open(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    with RecordFolder(tmp_path) as folder, pytest.raises(FileProblemError, match="a FIFO"):
        folder.read(NAME)


def test_a_link_that_takes_its_place_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b"secret")
    true_open = os.open

    def swapping(path: str, flags: int, *arguments: int, dir_fd: int | None = None) -> int:
        if path == NAME:
            (tmp_path / NAME).unlink()
            (tmp_path / NAME).symlink_to("secret")
        return true_open(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swapping)
    with RecordFolder(tmp_path) as folder, pytest.raises(FileProblemError, match="symbolic links"):
        folder.read(NAME)


def test_a_file_is_read_in_a_folder_and_not_through_a_link_to_one(tmp_path: Path) -> None:
    record, elsewhere = tmp_path / "record", tmp_path / "elsewhere"
    for folder in (record / "raw", elsewhere):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_bytes(b"content")
    (record / "builds").symlink_to(elsewhere)
    (record / "explain").write_bytes(b"")
    (tmp_path / "link").symlink_to(record)  # the user names the record by a link
    with RecordFolder(tmp_path / "link") as opened:
        assert opened.read("raw/a.txt") == b"content"
        assert opened.read("raw/b.txt") is None
        with pytest.raises(FileProblemError, match="builds is a symbolic link, not a folder"):
            opened.read("builds/a.log")
        with pytest.raises(FileProblemError, match="explain is a file, not a folder"):
            opened.subfolders("explain")
        for name in ("raw/../seal.json", "raw/.", "../a", "raw//a.txt", "raw/a\0.txt"):
            with pytest.raises((FileProblemError, KeyError)):
                opened.read(name)


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    with RecordFolder(tmp_path) as folder:
        assert folder.read("raw/a.txt") is None
        assert folder.subfolders("explain") == ()
        assert folder.status("runs.jsonl") is None
        assert list(folder.lines("runs.jsonl")) == []
    for path in (tmp_path / "none", tmp_path / "a\0b", Path("x" * 5000)):
        with pytest.raises(FileProblemError):
            RecordFolder(path)
        assert not is_record(path) and open_runs(path) is None


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_bytes(b"x")
    os.mkfifo(tmp_path / "raw" / "b.txt")
    before = _descriptors()
    with RecordFolder(tmp_path) as folder:
        folder.read("raw/a.txt")
        folder.subfolders("raw")
        with pytest.raises(FileProblemError):
            folder.read("raw/b.txt")
        next(folder.lines("raw/a.txt"))
    assert _descriptors() <= before


def test_subfolders_are_listed_without_links_and_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = tmp_path / "explain"
    for name in ("b", "a"):
        (explain / name).mkdir(parents=True)
    (explain / "c").symlink_to(explain / "a")
    (explain / "d").write_bytes(b"")
    with RecordFolder(tmp_path) as folder:
        assert folder.subfolders("explain") == ("a", "b")
        monkeypatch.setattr(files, "MOST_ENTRIES", 3)
        with pytest.raises(FileProblemError, match="more than 3 entries"):
            folder.subfolders("explain")


def test_lines_end_at_one_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE_BYTES", 10)
    (tmp_path / "runs.jsonl").write_bytes(b"a\n" + b"b" * 10 + b"\n" + b"c\n")
    with RecordFolder(tmp_path) as folder:
        assert list(folder.lines("runs.jsonl")) == [b"a\n", b"b" * 10 + b"\n"]


def test_irregular_files_are_named_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "runs.jsonl")
    (tmp_path / "raw").symlink_to("/")
    with RecordFolder(tmp_path) as folder:
        assert {damage.file for damage in folder.irregular()} == {"lock", "runs.jsonl", "raw"}


def test_a_regular_file_of_limited_size_is_read_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "fifo")
    assert read_regular(tmp_path / "f", 5) == b"12345"
    for name, problem in (("link", "symbolic link"), ("fifo", "a FIFO"), ("f", "more than the 4"), ("a\0", "no name")):
        with pytest.raises(FileProblemError, match=problem):
            read_regular(tmp_path / name, 4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", 4)
    true_open = os.open

    def swapping(path: Path, flags: int) -> int:
        path.unlink()
        os.mkfifo(path)
        return true_open(path, flags)

    monkeypatch.setattr(os, "open", swapping)
    before = _descriptors()
    with pytest.raises(FileProblemError, match="a FIFO"):
        read_regular(tmp_path / "f", 5)
    assert _descriptors() <= before


def test_an_error_of_the_device_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).write_bytes(b"{}")

    def failing(*_: object, **__: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(OSError, match="Input/output"):
        read_regular(tmp_path / NAME, 5)


def test_runs_are_opened_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    runs.write_bytes(b"{}\n")
    opened = open_runs(tmp_path)
    assert opened is not None
    runs.unlink()
    runs.symlink_to("/etc/passwd")
    assert Path(f"/proc/self/fd/{opened}").read_bytes() == b"{}\n"
    os.close(opened)
    before = _descriptors()
    assert open_runs(tmp_path) is None
    runs.unlink()
    runs.touch()
    assert open_runs(tmp_path) is None
    assert _descriptors() <= before


def test_the_largest_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"12345")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_bytes(b"123456")
    with RecordFolder(tmp_path) as folder:
        assert folder.read(NAME, 5) == b"12345" and folder.is_regular(NAME)
        with pytest.raises(FileProblemError, match="it has 5 bytes, more than the 4 that are read"):
            folder.read(NAME, 4)
        assert folder.read("raw/a.txt", 6) == b"123456"
        assert not folder.is_regular("record.json")
    with (tmp_path / NAME).open("wb") as file:
        file.truncate(limit_of(NAME))
    with RecordFolder(tmp_path) as folder:
        status = folder.status(NAME)
        assert status is not None and status.st_size == limit_of(NAME)


def test_a_file_that_grows_while_it_is_read_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / NAME).write_bytes(b"12345")
    true_fdopen = os.fdopen

    def growing(descriptor: int, mode: str) -> object:
        found = os.fstat(descriptor)
        monkeypatch.setattr(os, "fstat", lambda _: found)  # its size before it grew
        with (tmp_path / NAME).open("ab") as file:
            file.write(b"6")
        return true_fdopen(descriptor, mode)

    with RecordFolder(tmp_path) as folder:
        monkeypatch.setattr(os, "fdopen", growing)
        with pytest.raises(FileProblemError, match="it grew while it was read"):
            folder.read(NAME)


@pytest.mark.parametrize(
    ("content", "read", "short"),
    [
        (b"", [], False),
        (b"a\n" * 30, [b"a\n"] * 30, True),
        (b"1234\n" * 3, [b"1234\n"] * 3, True),
        (b"123456789\n" * 2, [b"123456789\n"] * 2, False),  # half of the limit without a newline: left out of queries
        (b"1234567890\n1\n", [b"1234567890\n"], False),
        (b"1\n" + b"x" * 20, [b"1\n", b"x" * 11], False),
        (b"x", [b"x"], True),
        (b"x" * 4, [b"x" * 4], True),  # a line that was not written whole
        (b"x" * 5 + b"\n", [b"x" * 5 + b"\n"], True),  # the whole file is shorter than the limit
    ],
)
def test_long_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, read: list[bytes], short: bool
) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE_BYTES", 10)
    (tmp_path / "runs.jsonl").write_bytes(content)
    with RecordFolder(tmp_path) as folder:
        assert list(folder.lines("runs.jsonl")) == read
    opened = open_runs(tmp_path)
    assert (opened is not None) == short
    if opened is not None:
        os.close(opened)


def test_as_many_entries_as_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / "explain" / name).mkdir(parents=True)
    monkeypatch.setattr(files, "MOST_ENTRIES", 3)
    with RecordFolder(tmp_path) as folder:
        assert folder.subfolders("explain") == ("a", "b", "c")


def test_a_record_has_a_file_of_its_identity_of_whatever_kind(tmp_path: Path) -> None:
    assert not is_record(tmp_path)
    (tmp_path / "record.json").symlink_to("nowhere")
    assert is_record(tmp_path)
    with RecordFolder(tmp_path) as folder:
        assert [damage.line for damage in folder.irregular()] == [0]


def test_a_closed_folder_can_be_closed_again(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path)
    folder.close()
    folder.close()


def test_files_are_opened_without_following_waiting_or_passing_them_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_bytes(b"x")
    flags: dict[str, int] = {}
    true_open = os.open

    def opened(path: str | Path, flag: int, *arguments: int, dir_fd: int | None = None) -> int:
        flags[str(path)] = flag
        return true_open(path, flag, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", opened)
    with RecordFolder(tmp_path) as folder:
        assert folder.read("raw/a.txt") == b"x"
    every = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    assert flags["a.txt"] == os.O_RDONLY | every
    assert flags["raw"] == os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    assert flags[str(tmp_path)] == os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_errors_of_the_process_or_the_device_are_raised(number: int) -> None:
    error = OSError(number, "x")
    with pytest.raises(OSError, match="x") as caught:
        files.reason_of(error)
    assert caught.value is error
    assert files.reason_of(OSError(errno.EACCES, "Permission denied")) == "Permission denied"


def test_hard_links_of_the_runs_are_irregular(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(b"")
    (tmp_path / "lock").write_bytes(b"")
    os.link(tmp_path / "lock", tmp_path / "other")  # of the lock nothing is written
    with RecordFolder(tmp_path) as folder:
        assert folder.irregular() == ()
        os.link(tmp_path / "runs.jsonl", tmp_path / "another")
        (damage,) = folder.irregular()
    assert (damage.file, damage.line) == ("runs.jsonl", 0)
    assert damage.problem == "it has 2 names (hard links): writing would change all of them"
