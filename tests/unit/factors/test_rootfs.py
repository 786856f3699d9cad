# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor rootfs: the level is observed in the mounts of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.factors import Evidence, find_level, parse_choice
from swapstone.core.factors.factor import BOOTED_ROOT
from swapstone.core.factors.mounts import mounted_content
from swapstone.core.model import UserError, process_file
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.vm.factors.rootfs import ROOTFS

OVERLAY = "69 45 0:40 / / rw,relatime - overlay swapstone rw,lowerdir=/c/roots/ab/root,upperdir=/c/u,workdir=/c/w\n"
BIND = "47 1 0:2 /roots/ab / rw,relatime shared:1 - rootfs none rw,size=1k\n"
PROC = "70 69 0:21 / /proc rw,relatime - proc proc rw\n"
HOST = "24 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"


def observed(mounts: str | None, root: str) -> str | None:
    values = () if mounts is None else ((process_file("mountinfo"), mounts),)
    levels = (("rootfs", "/home/a.tar"),)
    return ROOTFS.observe(Evidence(interp=None, objects=(), observed=values, root=root, path_levels=levels))


@pytest.mark.parametrize(
    ("mounts", "root", "level"),
    [
        (PROC + OVERLAY, "/c/roots/ab/root", "/home/a.tar"),
        (HOST + OVERLAY + PROC, "/c/roots/ab/root", "/home/a.tar"),
        (OVERLAY + HOST, "/c/roots/ab/root", "the root /"),
        (OVERLAY, "/c/roots/cd/root", "the root /c/roots/ab/root"),
        (BIND + PROC, "/roots/ab", "/home/a.tar"),
        (BIND, "/roots/cd", "the root /roots/ab"),
        (HOST, "/c/roots/ab/root", "the root /"),
        (OVERLAY.replace("/c/roots/ab", r"/c\040d/roots"), "/c d/roots/root", "/home/a.tar"),
        (PROC, "/c/roots/ab/root", None),
        ("", "/c/roots/ab/root", None),
        (None, "/c/roots/ab/root", None),
        ("1 2 3 / / - x\n- - -\n", "/", None),
    ],
)
def test_the_last_mount_at_the_root_decides(mounts: str | None, root: str, level: str | None) -> None:
    assert observed(mounts, root) == level


@pytest.mark.parametrize(
    ("mounts", "sha256", "folder"),
    [
        (PROC + OVERLAY, "ab", "/c/roots/ab/root"),
        (BIND, "ab", "/roots/ab"),
        (BIND, "a", ""),
        (OVERLAY + HOST, "ab", ""),
        (OVERLAY, "", ""),
        (None, "ab", ""),
    ],
)
def test_a_mounted_root_is_recognized_by_the_digest_in_its_path(mounts: str | None, sha256: str, folder: str) -> None:
    values = () if mounts is None else ((process_file("mountinfo"), mounts),)
    assert mounted_content(Evidence(interp=None, objects=(), observed=values), sha256) == folder


def test_a_level_is_the_path_of_a_folder_or_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.tar").write_text("")
    (tmp_path / "two").mkdir()
    (tmp_path / "link").symlink_to("two")
    monkeypatch.chdir(tmp_path)
    choice = parse_choice("rootfs=one.tar,./link")
    assert choice.levels == (str(tmp_path / "one.tar"), str(tmp_path / "two"))
    assert find_level(ROOTFS, choice.levels[0]).name == choice.levels[0]
    assert ROOTFS.apply(choice.levels[0], BASE_RECIPE).root == choice.levels[0]


@pytest.mark.parametrize("name", ["a b.tar", "a:b.tar", "a=b.tar", "a\nb", "a*"])
def test_a_path_that_cannot_be_part_of_a_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(UserError, match="can't be part of a variant's name") as caught:
        find_level(ROOTFS, str(tmp_path / name))
    assert "Rename it" in caught.value.hint


def test_a_name_is_that_of_an_image_unless_there_is_such_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "musl").mkdir()
    assert parse_choice("rootfs=glibc,root_2-b").levels == ("glibc", "root_2-b")
    assert find_level(ROOTFS, "musl").name == str(tmp_path / "musl")


def test_a_machine_that_boots_roots_reports_its_level() -> None:
    machine = ((BOOTED_ROOT, "musl"),)
    assert ROOTFS.observe(Evidence(interp=None, objects=(), machine=machine, root="/c")) == "musl"


@pytest.mark.parametrize("text", ["missing.tar", "./missing", "/nonexistent/x"])
def test_a_missing_root_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="There is no folder or archive") as caught:
        find_level(ROOTFS, text)
    assert "swapstone compare rootfs=./alpine.tar" in caught.value.hint
