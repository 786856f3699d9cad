# SPDX-License-Identifier: MIT OR Apache-2.0
"""The copy of the crates: it becomes equal, and files that are equal already keep their times."""

from __future__ import annotations

from pathlib import Path

from tests.rust_toolchain import synchronize


def _write(top: Path, **files: str) -> None:
    for name, text in files.items():
        path = top / "crates" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_copy_becomes_equal_and_what_is_equal_keeps_its_time(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    _write(source, same="1", edited="2", new__file="3", target__debug="of the checkout")
    _write(copy, same="1", edited="old", gone="4", target__debug="of the copy")
    before = (copy / "crates" / "same").stat()
    differing = ["crates/edited", "crates/gone", "crates/new/file"]
    assert synchronize(source, copy, write=False) == differing
    assert (copy / "crates" / "edited").read_text() == "old"
    assert synchronize(source, copy, write=True) == differing
    assert synchronize(source, copy, write=False) == []
    found = {str(path.relative_to(copy)): path.read_text() for path in copy.rglob("*") if path.is_file()}
    assert found == {
        "crates/same": "1",
        "crates/edited": "2",
        "crates/new/file": "3",
        "crates/target/debug": "of the copy",
    }
    after = (copy / "crates" / "same").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert (copy / "crates" / "edited").stat().st_mtime_ns >= before.st_mtime_ns
