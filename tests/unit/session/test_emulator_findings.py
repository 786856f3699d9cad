# SPDX-License-Identifier: MIT OR Apache-2.0
"""Findings on KVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.model.cpio import archive, folder
from swapstone.core.targets.health import State
from swapstone.parts.vm.artifacts.image_cache import CacheEntry
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.images import Image
from swapstone.parts.vm.machine.emulator import EMULATORS_VARIABLE
from swapstone.parts.vm.machine.vm_target import VmOptions
from swapstone.parts.vm.session import emulator_findings
from swapstone.parts.vm.session.emulator_findings import kvm_finding
from tests.unit.targets.fake_emulator import emulator, runs

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the images that are made up here are of x86_64")


def image(architecture: str = "x86_64", kernel: str = "generic") -> Image:
    return Image(
        architecture=architecture,
        kernel=kernel,
        banner="6.1.0-50-amd64 (someone) #1 SMP",
        release="6.1.0-50-amd64",
        preempt_dynamic=True,
        kernel_sha256="",
        initrd_sha256="",
        modules=(),
        packages=(),
        files={},
    )


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "kvm"
    path.touch()
    return path


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[CacheEntry]:
    home = tmp_path / "image"
    home.mkdir()
    (home / "kernel").write_bytes(b"kernel")
    (home / "initrd").write_bytes(archive({"etc": folder()}))
    found = [
        CacheEntry("image", tmp_path, 1, 3.0, image("arm64")),
        CacheEntry("image", tmp_path, 1, 2.0, None),
        CacheEntry("image", home, 1, 1.0, image()),
    ]
    monkeypatch.setattr(emulator_findings, "cached_images", lambda: tuple(found))
    return found


def ways(tmp_path: Path, acts: str = "") -> VmOptions:
    return VmOptions(cache=tmp_path / "cache", emulator=emulator(tmp_path / "q", acts))


def test_a_kernel_that_starts_is_good(tmp_path: Path, device: Path, kept: list[CacheEntry]) -> None:
    assert len(kept) == 3
    finding = kvm_finding(ways(tmp_path), device)
    assert (finding.state, finding.found) == (State.GOOD, "6.1.0-50-amd64 starts under it")
    assert runs(tmp_path / "q") == 1
    kvm_finding(ways(tmp_path), device)
    assert runs(tmp_path / "q") == 1


def test_a_kernel_that_does_not_start_is_named(tmp_path: Path, device: Path, kept: list[CacheEntry]) -> None:
    del kept[:2]
    finding = kvm_finding(ways(tmp_path, "echo it is nested >&2; exit 1"), device)
    assert finding.state is State.MISSING
    assert finding.found == (
        f"unavailable: {device} opens, but the kernel 6.1.0-50-amd64 did not start under it: QEMU could not run it: it is nested"
    )
    assert "--clock wall is unavailable" in finding.meaning


def test_without_a_device_or_an_image_nothing_is_started(tmp_path: Path, device: Path, kept: list[CacheEntry]) -> None:
    missing = kvm_finding(ways(tmp_path), tmp_path / "none")
    assert (missing.state, missing.found) == (
        State.MISSING,
        f"unavailable: {tmp_path}/none can't be opened: No such file or directory",
    )
    kept.clear()
    unknown = kvm_finding(ways(tmp_path), device)
    assert (unknown.state, unknown.remedy) == (State.UNKNOWN, "swapstone image build")
    assert runs(tmp_path / "q") == 0


def test_an_emulator_that_is_too_old_is_the_reason(tmp_path: Path, device: Path, kept: list[CacheEntry]) -> None:
    del kept[0]
    old = VmOptions(cache=tmp_path / "cache", emulator=emulator(tmp_path / "q", version="QEMU emulator version 5.2.0"))
    assert "is too old: QEMU emulator version 5.2.0" in kvm_finding(old, device).found


@pytest.mark.parametrize(("version", "state"), [("7.2.22", State.MISSING), ("10.0.2", State.GOOD)])
def test_the_emulator_for_several_processors_is_explained(
    version: str, state: State, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(emulator(tmp_path / "q", version=f"QEMU emulator version {version}"))
    path.rename(path.with_name("qemu-system-aarch64"))
    monkeypatch.setenv(EMULATORS_VARIABLE, str(path.parent))
    (found,) = emulator_findings.several_processors(find_machine_architecture("arm64"))
    assert (found.name, found.state) == ("--smp of arm64", state)
    assert version in found.found + found.meaning
    assert ("bookworm-backports" in found.remedy) == (state is State.MISSING)
    assert emulator_findings.several_processors(find_machine_architecture("riscv64")) == []
