# SPDX-License-Identifier: MIT OR Apache-2.0
"""The root of an image for the factor image: made once, and again if the cache lost it; and what must be installed for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from swapstone.core.model import UnavailableError, cpio
from swapstone.parts.vm.artifacts import libc_files
from swapstone.parts.vm.artifacts.image_assembly import Overlay
from swapstone.parts.vm.artifacts.image_cache import other_entries
from swapstone.parts.vm.artifacts.libc_files import image_architecture, libc_root


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[tuple[str, str, str]]:
    """What was built: architecture, C library and compiler of each call."""
    del cache
    calls: list[tuple[str, str, str]] = []

    def make(
        architecture: str, libc: str, compiler: str, names: tuple[str, ...], notify: Callable[[str], None]
    ) -> SimpleNamespace:
        notify(f"building {len(names)} programs")
        calls.append((architecture, libc, compiler))
        overlay = Overlay(part="x", entries={"bin/tool": cpio.file(libc.encode(), executable=True)})
        program = SimpleNamespace(name="tool", version="1", source_sha256="5" * 64)
        library = SimpleNamespace(name=libc, version="2", sha256="6" * 64)
        return SimpleNamespace(overlays=(overlay,), programs=(program,), library=library)

    monkeypatch.setattr(libc_files, "make_libc_files", make)
    monkeypatch.setattr(libc_files, "_roots", {})
    return calls


def test_a_root_is_made_once_and_names_its_sources(made: list[tuple[str, str, str]]) -> None:
    lines: list[str] = []
    first = libc_root("musl", "aarch64", lines.append)
    assert libc_root("musl", "aarch64", lines.append) == first
    assert made == [("arm64", "musl", "gcc")] and len(lines) == 1
    assert first.sources == (("musl 2", "6" * 64), ("tool 1", "5" * 64))
    other = libc_root("glibc", "aarch64", lines.append)
    assert other.archive != first.archive
    assert [entry.path for entry in other_entries() if entry.kind == "root of an image"] == sorted(
        (first.archive, other.archive)
    )


def test_a_root_that_the_cache_lost_is_made_again(made: list[tuple[str, str, str]]) -> None:
    first = libc_root("musl", "x86_64", lambda _: None)
    first.archive.unlink()
    assert libc_root("musl", "x86_64", lambda _: None) == first
    assert len(made) == 2 and first.archive.is_file()


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        ("x86_64", "x86_64"),
        ("aarch64", "arm64"),
        ("arm", "armhf"),
        ("armv7l", "armhf"),
        ("armv8l", "armhf"),
        ("riscv64", "riscv64"),
    ],
)
def test_an_image_is_of_the_machines_architecture(machine: str, name: str) -> None:
    assert image_architecture(machine) == name


def test_a_machine_without_images_is_named() -> None:
    with pytest.raises(UnavailableError, match="no images of one C library for ppc64le") as caught:
        image_architecture("ppc64le")
    assert "--target vm --arch x86_64" in caught.value.hint


def test_a_missing_build_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("cc", "make", "patch"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(libc_files, "check_sdk", lambda *_: None)
    libc_files.check_libc_files("x86_64", "glibc", "gcc", ("lua",))
    with pytest.raises(UnavailableError, match="tcl: building sqlite") as caught:
        libc_files.check_libc_files("x86_64", "glibc", "gcc", ("lua", "sqlite"))
    assert caught.value.hint.endswith("apt-get install tcl")
