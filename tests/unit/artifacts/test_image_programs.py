# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of images: built once for their inputs, without paths, and with an error that keeps the log."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts.sdk import BuiltSdk, Sdk
from swapstone.parts.build.artifacts.upstream_sources import Source, read_lock
from swapstone.parts.vm.artifacts import image_programs
from swapstone.parts.vm.artifacts.image_programs import PROGRAMS, ImageProgram, build_program
from tests.programs import require

MAIN = "#include <stdio.h>\nint main(void) { puts(__FILE__); return 0; }\n"
COMPILE = "mkdir -p {out}/bin {out}/include\n{cc} {cflags} -o {out}/bin/tiny $PWD/main.c\necho 1 >{out}/include/tiny.h"
TINY = ImageProgram(name="tiny", lock=("lock", "tiny"), command=COMPILE)
USER = ImageProgram(name="user", lock=("lock", "tiny"), command="cp {needs}/include/tiny.h {out}", needs=("tiny",))


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> BuiltSdk:
    """An SDK whose commands are those of this machine, and the sources of the programs above."""
    for tool in ("gcc", "strip"):
        require(tool)
        (tmp_path / "sdk" / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / "sdk" / "bin" / f"x-{tool}").symlink_to(str(shutil.which(tool)))
    archive = tmp_path / "tiny.tar"
    with tarfile.open(archive, "w") as written:
        member = tarfile.TarInfo("tiny-1/main.c")
        member.size = len(MAIN)
        written.addfile(member, io.BytesIO(MAIN.encode()))
    source = Source(version="1", kind="debian", package="tiny", file=archive.name, sha256="0" * 64)
    monkeypatch.setattr(image_programs, "read_lock", lambda _: {"tiny": source})
    monkeypatch.setattr(image_programs, "fetch", lambda *_: archive)
    monkeypatch.setitem(PROGRAMS, "tiny", TINY)
    monkeypatch.setitem(PROGRAMS, "user", USER)
    described = Sdk(
        format=1, architecture="x86_64", libc="musl", triple="x", compiler="", needs=(), packages=(), content=""
    )
    return BuiltSdk(sdk=described, folder=tmp_path / "sdk")


def test_a_program_is_built_once_and_has_the_same_bytes_in_another_cache(
    sdk: BuiltSdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    first = build_program("tiny", sdk, "gcc", lines.append)
    assert build_program("tiny", sdk, "gcc", lines.append) == first
    assert lines == ["building tiny 1 for musl of x86_64 with gcc"]
    content = (first.root / "bin" / "tiny").read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-longer-name-of-the-cache"))
    second = build_program("tiny", sdk, "gcc", lines.append)
    assert len(lines) == 2 and second == first and "a-longer-name" in str(second.root)
    assert (second.root / "bin" / "tiny").read_bytes() == content
    assert str(tmp_path).encode() not in content and b"./main.c" in content
    assert b".symtab" not in content and b".note.gnu.build-id" not in content and b".comment" in content


def test_a_cache_whose_path_has_a_blank_is_an_error(
    sdk: BuiltSdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    with pytest.raises(UserError, match="has a blank") as error:
        build_program("tiny", sdk, "gcc", lambda _: None)
    assert "XDG_CACHE_HOME" in str(error.value.hint)


def test_the_key_changes_with_what_is_built(sdk: BuiltSdk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_program("tiny", sdk, "gcc", lambda _: None)
    monkeypatch.setitem(PROGRAMS, "tiny", ImageProgram(name="tiny", lock=TINY.lock, command=f"{COMPILE}\ntrue"))
    assert build_program("tiny", sdk, "gcc", lambda _: None).key != first.key


def test_needed_programs_are_built_before(sdk: BuiltSdk) -> None:
    lines: list[str] = []
    found = build_program("user", sdk, "gcc", lines.append)
    assert [line.split()[1] for line in lines] == ["tiny", "user"]
    assert (found.root / "tiny.h").read_text() == "1\n"


def test_a_failed_build_keeps_its_log_and_leaves_nothing_else(
    sdk: BuiltSdk, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    command = "echo the first line\necho the last line\nfalse"
    monkeypatch.setitem(PROGRAMS, "tiny", ImageProgram(name="tiny", lock=TINY.lock, command=command))
    with pytest.raises(UserError, match="The build of tiny failed:\nthe first line\nthe last line\nThe log: ") as error:
        build_program("tiny", sdk, "gcc", lambda _: None)
    log = Path(error.value.message.rpartition("The log: ")[2])
    assert log.read_text() == f"$ {command}\nthe first line\nthe last line\n"
    assert sorted(path.name for path in (cache / "image-programs").iterdir()) == [".locks", log.name]


def test_each_program_is_in_its_lock_and_comes_after_what_it_needs() -> None:
    names = list(PROGRAMS)
    for number, (name, program) in enumerate(PROGRAMS.items()):
        assert program.name == name
        assert program.lock[1] in read_lock(share_dir() / program.lock[0])
        assert all(names.index(need) < number for need in program.needs)
