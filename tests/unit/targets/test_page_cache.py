# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that are written back, dropped from the page cache, and read again."""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.targets import SettledFile, Target, open_target

PAGES = 40
CONTENT = b"\177ELF" + bytes(PAGES * mmap.PAGESIZE - 4)


@pytest.fixture
def host() -> Iterator[Target]:
    with open_target("host") as target:
        yield target


def settled(host: Target, path: Path) -> SettledFile:
    found = host.settle(str(path))
    assert found is not None
    return found


def test_a_file_that_is_mapped_elsewhere_keeps_its_pages(host: Target, tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(CONTENT)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert mapped[:: mmap.PAGESIZE].count(0) == PAGES - 1
        found = settled(host, file)
    assert (found.sha256, found.size) == (hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    assert found.kept == f"mincore reports {PAGES} of its {PAGES} pages after they were dropped"


def test_a_file_on_a_disk_is_read_again_and_not_changed(host: Target, tmp_path: Path) -> None:
    file = tmp_path / "prog"
    file.write_bytes(CONTENT)
    if settled(host, file).kept:
        pytest.skip("this folder is not on a disk, or the kernel keeps its pages")
    before = file.stat()
    assert settled(host, file) == SettledFile(hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (CONTENT, before.st_mtime_ns)


def test_what_can_not_be_read_is_no_error(host: Target, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    assert settled(host, tmp_path / "fifo") == SettledFile("", 0, "it is not a regular file")
    assert settled(host, tmp_path / "absent") == SettledFile("", 0, "it can't be read: No such file or directory")
    assert settled(host, tmp_path / "empty") == SettledFile(hashlib.sha256(b"").hexdigest(), 0, "")


def test_a_copy_has_the_content_the_mode_and_what_lies_beside_it(host: Target, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    (folder / "prog").write_bytes(CONTENT)
    (folder / "prog").chmod(0o750)
    (folder / "data").write_text("beside")
    copies = [Path(host.copied(str(folder / "prog"))) for _ in range(2)]
    for copy in copies:
        assert copy.read_bytes() == CONTENT and not copy.is_symlink()
        assert stat.S_IMODE(copy.stat().st_mode) == 0o750
        assert (copy.parent / "data").read_text() == "beside"
        assert len(str(copy)) == len(str(folder / "prog"))
    assert copies[0] != copies[1]
    host.close()
    assert not copies[0].exists() and (folder / "data").exists()


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", b"\177ELF $ORIGIN/../lib", b"\177ELF ${ORIGIN}/../lib", b""])
def test_a_program_that_finds_files_by_its_path_is_not_copied(host: Target, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "prog").write_bytes(content)
    assert host.copied(str(tmp_path / "prog")) == ""
    assert host.copied(str(tmp_path / "absent")) == ""
