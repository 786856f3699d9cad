# SPDX-License-Identifier: MIT OR Apache-2.0
"""The roots of images of one C library: which are requested, what they contain, and which programs use their C library."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import ProgramFacts
from swapstone.core.model import Experiment, FactorLevels, OwnProgram, UnavailableError, UserError
from swapstone.core.model.architectures import machine_of
from swapstone.core.targets.host import HostTarget
from swapstone.parts.boards.targets.ssh_target import SshTarget
from swapstone.parts.build.factors.build_facts import BuildFacts
from swapstone.parts.vm.artifacts.libc_files import LibcRoot, image_architecture
from swapstone.parts.vm.artifacts.root_file_systems import RootFileSystem
from swapstone.parts.vm.subjects import own_program_root
from swapstone.parts.vm.subjects.own_program_root import (
    RootLevel,
    check_library,
    check_rooted,
    contents_of,
    level_of_recipe,
    root_levels,
    root_of,
)
from tests.unit.builders import experiment

IMAGES = FactorLevels(factor="image", levels=("glibc", "musl"))


def _experiment(*factors: FactorLevels, held: tuple[tuple[str, str], ...] = ()) -> Experiment:
    return msgspec.structs.replace(experiment(), factors=factors, held=held)


def test_levels_of_compared_and_of_held_images() -> None:
    assert root_levels(_experiment(IMAGES)) == (RootLevel("image", "glibc"), RootLevel("image", "musl"))
    kernels = FactorLevels(factor="kernel", levels=("generic", "rt"))
    assert root_levels(_experiment(kernels, held=(("image", "musl"),))) == (RootLevel("image", "musl"),)
    assert root_levels(_experiment(kernels)) == ()
    assert [level_of_recipe(root).is_image for root in ("musl", "/home/a.tar")] == [True, False]


def test_two_factors_that_name_the_root_are_refused() -> None:
    roots = FactorLevels(factor="rootfs", levels=("/a.tar", "/b.tar"))
    with pytest.raises(UserError, match="The factors image and rootfs both name the root"):
        root_levels(_experiment(IMAGES, roots))


def test_nothing_is_built_before_the_target_is_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = OwnProgram(name="p", arguments=("sh",), directory=str(tmp_path))
    checked: list[tuple[str, str, str]] = []
    monkeypatch.setattr(own_program_root, "check_libc_files", lambda *call: checked.append(call))
    monkeypatch.setattr(own_program_root, "root_of", lambda *_: pytest.fail("an image is built"))
    architecture = image_architecture(machine_of(_experiment(IMAGES).architecture))
    check_rooted(own, [own], _experiment(IMAGES), HostTarget)
    assert checked == [(architecture, "glibc", "gcc"), (architecture, "musl", "gcc")]


@pytest.mark.parametrize("factor", ["image", "rootfs"])
def test_a_board_takes_no_root(tmp_path: Path, factor: str) -> None:
    own = OwnProgram(name="p", arguments=("sh",), directory=str(tmp_path))
    roots = FactorLevels(factor=factor, levels=("glibc", "musl"))
    with pytest.raises(UnavailableError, match=f"The factor {factor} is unavailable on the target ssh") as caught:
        check_rooted(own, [own], _experiment(roots), SshTarget)
    assert "--target vm" in caught.value.hint


def test_options_that_name_files_of_this_machine_are_refused(tmp_path: Path) -> None:
    own = OwnProgram(name="p", arguments=("x",), directory=str(tmp_path), programs=(("a", "/x"), ("b", "/y")))
    with pytest.raises(UnavailableError, match="--program is unavailable with the factor image") as caught:
        check_rooted(own, [own], _experiment(IMAGES), HostTarget)
    assert "compare image=glibc,musl" in caught.value.hint


def test_a_root_of_an_image_names_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    made = LibcRoot(Path("/c/x.tar"), (("musl 1", "7" * 64),))
    root = _root("/c/x.tar")
    monkeypatch.setattr(own_program_root, "libc_root", lambda *_: made)
    monkeypatch.setattr(own_program_root, "unpack_root", lambda source, _: root if source == "/c/x.tar" else None)
    found, sources = root_of(RootLevel("image", "musl"), "x86_64")
    assert found.source == "image=musl" and found.sha256 == root.sha256
    assert sources == (("image musl", root.sha256), ("musl 1", "7" * 64))


def _root(source: str, folder: str = "/c/root") -> RootFileSystem:
    return RootFileSystem(
        source=source,
        sha256="a" * 64,
        folder=folder,
        layer="",
        size_bytes=0,
        gzip_bytes=0,
        entries=0,
        memory_bytes=0,
    )


def test_the_programs_of_an_image_are_listed(tmp_path: Path) -> None:
    for name in ("bin/busybox", "bin/sqlite3", "bin/readme"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o644 if name == "bin/readme" else 0o755)
    (tmp_path / "sbin").mkdir()
    for name, target in (("bin/sh", "busybox"), ("bin/awk", "busybox"), ("sbin/init", "../bin/busybox")):
        (tmp_path / name).symlink_to(target)
    assert contents_of(_root("image=musl", str(tmp_path))) == (
        "The image has busybox, sqlite3, and 3 commands of busybox, such as awk, sh."
    )


def test_a_program_of_another_c_library_is_refused() -> None:
    level = RootLevel("image", "musl")
    check_library(level, "sh", ProgramFacts(path="/bin/sh", interp="/lib/ld-musl-x86_64.so.1", needed=("libc.so",)))
    check_library(level, "./unknown", ProgramFacts(path="/swapstone/unknown"))
    with pytest.raises(UserError, match=r"\./p is of glibc, and the image is of musl"):
        check_library(
            level, "./p", ProgramFacts(path="/swapstone/p", pieces=(BuildFacts(sections=(".note.ABI-tag",)),))
        )
