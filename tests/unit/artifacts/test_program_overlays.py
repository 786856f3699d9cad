# SPDX-License-Identifier: MIT OR Apache-2.0
"""Patches of programs for one C library: each has a reason and a test that exists, and applies exactly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts.upstream_sources import fetch, read_lock, unpack
from swapstone.parts.vm.artifacts import image_programs
from swapstone.parts.vm.artifacts.image_programs import PROGRAMS, apply_patches, config_of, patches_of
from tests.programs import require

TOP = Path(__file__).parents[3]
PATCH = """Reason: to see that it is applied.
Test: this one

--- a/x.c
+++ b/x.c
@@ -1,0 +2 @@
+int added;
"""


@pytest.fixture
def overlays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The overlays of a program of the test's own, for musl."""
    monkeypatch.setattr(image_programs, "share_dir", lambda: tmp_path)
    folder = tmp_path / "native" / "overlays" / "prog" / "musl"
    folder.mkdir(parents=True)
    (folder / "first.patch").write_text(PATCH)
    return folder


def test_each_folder_is_of_a_program_and_a_c_library() -> None:
    folders = [path for path in (share_dir() / "native" / "overlays").iterdir() if path.is_dir()]
    assert folders
    for folder in folders:
        assert folder.name in PROGRAMS
        assert {path.name for path in folder.iterdir()} <= {"config", "glibc", "musl"}


def test_each_patch_has_a_reason_and_a_test_that_exists() -> None:
    found = [patch for name in PROGRAMS for libc in ("glibc", "musl") for patch in patches_of(name, libc)]
    assert found
    for patch in found:
        assert len(patch.reason.split()) > 5
        named = re.fullmatch(r"(test_\w+) in (tests/\S+\.py)", patch.test)
        assert named is not None, patch.test
        assert f"def {named[1]}(" in (TOP / named[2]).read_text()


def test_settings_are_comments_or_assignments() -> None:
    for name in PROGRAMS:
        for line in config_of(name).splitlines():
            comment = re.match(r"# |/\* .* \*/$", line)
            assert not line or comment or re.fullmatch(r"CONFIG_[A-Z0-9_]+=\S+|#define [A-Z_]+ \S+", line), line


def test_a_patch_of_one_c_library_changes_its_sources_alone(tmp_path: Path, overlays: Path) -> None:
    require("patch")
    for libc, text in (("glibc", "int x;\n"), ("musl", "int x;\nint added;\n")):
        tree = tmp_path / libc
        tree.mkdir()
        (tree / "x.c").write_text("int x;\n")
        apply_patches("prog", libc, tree)
        assert (tree / "x.c").read_text() == text
        assert [path.name for path in tree.iterdir()] == ["x.c"]
    assert [patch.name for patch in patches_of("prog", "musl")] == ["first.patch"] and not patches_of("prog", "glibc")


def test_a_patch_that_does_not_apply_is_an_error(tmp_path: Path, overlays: Path) -> None:
    require("patch")
    (overlays / "second.patch").write_text(PATCH.replace("@@ -1,0 +2 @@\n", "@@ -1 +1 @@\n-int other;\n"))
    (tmp_path / "x.c").write_text("int x;\n")
    with pytest.raises(UserError, match=r"Applying second.patch to the sources of prog failed"):
        apply_patches("prog", "musl", tmp_path)


@pytest.mark.parametrize("left_out", ["Reason: to see that it is applied.\n", "Test: this one\n"])
def test_a_patch_without_reason_or_test_is_an_error(overlays: Path, left_out: str) -> None:
    (overlays / "first.patch").write_text(PATCH.replace(left_out, ""))
    with pytest.raises(UserError, match="does not begin with a reason and a test"):
        patches_of("prog", "musl")


def test_without_the_command_it_names_the_package(
    tmp_path: Path, overlays: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnavailableError, match="needs the command 'patch', which is not installed") as error:
        apply_patches("prog", "musl", tmp_path)
    assert "install patch" in str(error.value.hint)


@pytest.mark.slow
def test_each_patch_applies_to_the_pinned_sources(tmp_path: Path) -> None:
    patched = [(name, libc) for name in PROGRAMS for libc in ("glibc", "musl") if patches_of(name, libc)]
    assert patched
    for name, libc in patched:
        lock, entry = PROGRAMS[name].lock
        try:
            archive = fetch(read_lock(share_dir() / lock)[entry], lock)
        except UnavailableError as error:
            pytest.skip(error.message)
        work = tmp_path / f"{name}-{libc}"
        work.mkdir()
        apply_patches(name, libc, unpack(archive, work) / PROGRAMS[name].folder)
