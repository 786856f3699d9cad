# SPDX-License-Identifier: MIT OR Apache-2.0
"""KVM and the wall clock, with a script in place of QEMU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from swapstone.parts.vm.machine import kvm
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.kvm import by_kvm, kvm_device_trouble, kvm_trouble
from swapstone.parts.vm.machine.qemu import Limits
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.unit.targets.fake_emulator import emulator
from tests.unit.targets.test_vm import Bench, bench, pytestmark

__all__ = ["bench", "pytestmark"]

GOOD = 'echo "$*" >{room}/arguments; cat {room}/q/channel >"$channel"; exit 65'


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "kvm-device"
    path.touch()
    return path


def trouble(bench: Bench, device: Path, acts: str = GOOD, boot_id: Path = kvm.BOOT_ID, **limits: float) -> str:
    name = emulator(bench.room / "q", acts.replace("{room}", str(bench.room)))
    parts = dataclasses.replace(bench.parts, banner="Linux version 6.1.0 (builder) #1 SMP")
    options = VmOptions(cache=bench.room / "cache", emulator=name, limits=Limits(host_s=0.001))
    return kvm_trouble(parts, options, device=device, boot_id=boot_id, **limits)


def test_a_kernel_that_starts_shows_that_kvm_works(bench: Bench, device: Path) -> None:
    assert trouble(bench, device) == ""
    words = (bench.room / "arguments").read_text().split()
    assert words[words.index("-accel") + 1] == "kvm"
    assert words[words.index("-cpu") + 1] == "host"
    assert "-icount" not in words
    assert "mitigations=off" not in words
    assert "nokaslr" in words


def test_kvm_is_tried_once_per_kernel_emulator_and_host_boot(bench: Bench, device: Path, tmp_path: Path) -> None:
    boot = tmp_path / "boot_id"
    boot.write_text("first")
    assert [trouble(bench, device, boot_id=boot), trouble(bench, device, boot_id=boot), bench.runs] == ["", "", 1]
    bench.parts.kernel.write_bytes(b"another")
    assert [trouble(bench, device, boot_id=boot), bench.runs] == ["", 2]
    boot.write_text("second")
    assert [trouble(bench, device, boot_id=boot), bench.runs] == ["", 3]
    bench.parts.initrd.write_bytes(2 * bench.parts.initrd.read_bytes())  # another image of the same kernel
    assert [trouble(bench, device, boot_id=boot), bench.runs] == ["", 4]
    bad = "exit 1"
    assert "did not start under it: QEMU could not run it: status 1" in trouble(bench, device, bad, boot_id=boot)
    assert bench.runs == 5
    assert "status 1" in trouble(bench, device, bad, boot_id=boot)
    assert bench.runs == 5


@pytest.mark.parametrize(
    ("acts", "text"),
    [
        ("exec sleep 100", "opens, but the kernel 6.1.0 did not start under it within 0.4 s"),
        (
            'echo "Kernel panic - not syncing: no clock" >"$console"; exit 0',
            "did not start under it: its kernel panicked: no clock",
        ),
        ("echo no kvm here >&2; exit 1", "did not start under it: QEMU could not run it: no kvm here"),
        (
            'echo nonsense >"$channel"; exit 65',
            "does not run well under it: The output of the virtual machine is invalid",
        ),
    ],
)
def test_the_reason_why_kvm_does_not_work_is_reported(bench: Bench, device: Path, acts: str, text: str) -> None:
    reason = trouble(bench, device, acts, limit_s=0.4)
    assert text in reason
    assert reason.startswith(str(device))


def test_without_the_device_no_machine_is_started(bench: Bench, tmp_path: Path) -> None:
    assert trouble(bench, tmp_path / "none") == f"{tmp_path}/none can't be opened: No such file or directory"
    assert bench.runs == 0


def test_kvm_refuses_another_architecture(device: Path) -> None:
    assert "runs machines of this host's architecture, x86_64, and this one is aarch64" in kvm_device_trouble(
        "aarch64", device
    )
    assert kvm_device_trouble("x86_64", device) == ""


def test_a_wall_clock_run_uses_no_cache_snapshot_or_concurrency(bench: Bench) -> None:
    exact = bench.name()
    bench.parts = by_kvm(bench.parts)
    assert bench.parts.machine == EmulatedMachine(wall=True)
    assert bench.name() != exact
    with bench.target(snapshots=True, at_once=4) as target:
        assert isinstance(target, VmTarget)
        assert target.at_once == 1
        for _ in range(3):
            target.run(bench.ask(target))
        assert bench.runs == 3
        assert "by KVM on the wall clock, one processor" in target.describe().virtualization
    assert not (bench.room / "cache").exists()
