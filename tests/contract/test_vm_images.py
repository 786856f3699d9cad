# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual machines of both architectures with packaged kernels: equal answers from snapshots, boots and concurrent runs; failures."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model.cpio import archive, folder
from swapstone.core.targets import TargetError
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest, encode_plan_header
from swapstone.parts.vm.machine import qemu
from swapstone.parts.vm.machine.emulator import MACHINE_MODELS, EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.guest import encode_order
from swapstone.parts.vm.machine.qemu import GuestEnd, Limits, Setup, VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.contract.poking import poked
from tests.contract.test_vm import hog
from tests.contract.vm_fixture import vm_fixture
from tests.contract.vm_images import image_parts, need_emulator, with_modules
from tests.shared import Shared
from tests.uncompared_snapshots import compared_elsewhere, leave_out_cold_starts

BUSYBOX = "/bin/busybox"
COPIES = (BUSYBOX, "dd", "if=/dev/zero", "of=/dev/null", "bs=4096", "count=200")
FILL = (
    f"{BUSYBOX} dd if=/dev/zero of=/tmp/f bs=1M count=100; exec {BUSYBOX} dd if=/dev/zero of=/dev/null bs=150M count=1"
)
HOARDS = (BUSYBOX, "sh", "-c", FILL)


@pytest.fixture(scope="module", params=["x86_64", "arm64"])
def parts(request: pytest.FixtureRequest) -> VmImage:
    return image_parts(request.param)


ONE_IN_SHORT = pytest.mark.parametrize(
    "parts", ["arm64", pytest.param("x86_64", marks=pytest.mark.exhaustive)], indirect=True
)
"""For tests of what depends on the architecture less than on the rest."""


def cache_of(parts: VmImage, shared: Shared) -> Path:
    """Return a cache with the snapshot of these machines. The first caller of all workers boots one; a test compares it with a boot."""

    def fill(folder: Path) -> None:
        with compared_elsewhere():
            run(parts, VmOptions(cache=folder), COPIES)

    return shared.folder(f"vm-{parts.machine.architecture}", fill)


def run(
    parts: VmImage, options: VmOptions, arguments: tuple[str, ...], trial: str = "0-0", **asked: int
) -> AgentAnswer:
    with VmTarget(parts, options) as target:
        return target.run(request(target, arguments, trial, **asked))


def request(target: VmTarget, arguments: tuple[str, ...], trial: str = "0-0", **asked: int) -> TrialRequest:
    whole = TrialRequest(id=trial, arguments=arguments, cwd=target.scratch(), timeout_ms=20_000)
    return msgspec.structs.replace(whole, **asked)


@pytest.mark.slow
@ONE_IN_SHORT  # test_vm_host.py compares both on x86_64
def test_a_run_from_a_snapshot_equals_a_run_from_boot(parts: VmImage, shared: Shared, tmp_path: Path) -> None:
    cold = run(parts, VmOptions(cache=tmp_path, no_cache=True, snapshots=False), COPIES)
    assert cold.outcome is ProcessOutcome.EXITED
    assert not list(tmp_path.rglob("snapshots/*"))
    cache = cache_of(parts, shared)
    assert run(parts, VmOptions(cache=cache, no_cache=True), COPIES) == cold
    assert len([path for path in (cache / "snapshots").iterdir() if not path.suffix]) == 1


@pytest.mark.slow
@pytest.mark.exhaustive
def test_runs_without_memory_and_on_a_busy_host_equal_a_run_from_boot(parts: VmImage, tmp_path: Path) -> None:
    cold = {
        acts: run(parts, VmOptions(cache=tmp_path, no_cache=True, snapshots=False), acts) for acts in (COPIES, HOARDS)
    }
    assert cold[HOARDS].outcome is ProcessOutcome.SIGNALED  # by the kernel: out of memory
    for number in range(2):
        options = VmOptions(cache=tmp_path / str(number), no_cache=True)
        with hog() if number else contextlib.nullcontext():
            assert {acts: run(parts, options, acts) for acts in cold} == cold


@pytest.mark.slow
@ONE_IN_SHORT
def test_concurrent_machines_give_the_answers_of_single_ones(
    parts: VmImage, shared: Shared, tmp_path: Path, exhaustive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads share a target and run different replicates. The first one that needs the snapshot saves it."""
    saved = cache_of(parts, shared)
    leave_out_cold_starts(monkeypatch.setattr)  # another snapshot of this machine was compared
    answers = []
    for at_once, cache in ((2, tmp_path), (1, saved)):
        options = VmOptions(cache=cache, no_cache=True, at_once=at_once)
        with VmTarget(parts, options) as target, ThreadPoolExecutor(target.at_once) as pool:
            asked = [request(target, COPIES, f"{block}-0") for block in range(4 if exhaustive else 2)]
            answers.append(list(pool.map(target.run, asked)))
    assert answers[0] == answers[1]
    assert len({dict(answer.facts)["wall_ns"] for answer in answers[0]}) > 1


@pytest.mark.slow
def test_a_busy_main_loop_of_the_emulator_does_not_change_answers(shared: Shared, exhaustive: bool) -> None:
    """The main loop advances the clock of an idle machine. This machine is idle 200 times.

    Only on x86_64: QEMU can hang on a QMP command while an arm64 machine powers off.
    """
    vm = vm_fixture(shared)
    quiet = vm.run("naps", no_cache=True)
    assert quiet.outcome is ProcessOutcome.EXITED
    assert dict(quiet.facts)["wall_ns"] > 200 * 500_000
    with poked() as counts:
        for _ in range(8 if exhaustive else 2):
            assert vm.run("naps", no_cache=True) == quiet
    assert min(counts) > 0


@pytest.mark.slow
@pytest.mark.exhaustive  # test_vm.py has the longest answers
def test_a_long_answer_arrives_whole(parts: VmImage, shared: Shared) -> None:
    """Each zero takes three bytes of the channel, of which a machine maps a small part at a time."""
    prints = (BUSYBOX, "dd", "if=/dev/zero", "bs=65536", "count=256")
    answer = run(parts, VmOptions(cache=cache_of(parts, shared)), prints, output_bytes=16 << 20)
    assert answer.outcome is ProcessOutcome.EXITED
    assert answer.stdout == bytes(16 << 20)


@pytest.mark.slow
@ONE_IN_SHORT  # that of x86_64 panics in test_vm.py
def test_a_kernel_panic_is_named(parts: VmImage, shared: Shared) -> None:
    with pytest.raises(TargetError, match="its kernel panicked: sysrq triggered crash") as caught:
        run(parts, VmOptions(cache=cache_of(parts, shared)), (BUSYBOX, "sh", "-c", "echo c >/proc/sysrq-trigger"))
    assert "Kernel Offset: disabled" in caught.value.hint


@pytest.mark.slow
@pytest.mark.exhaustive  # test_vm.py has a console that is limited, and tests/unit/targets one without a line
@pytest.mark.parametrize("architecture", ["x86_64", "arm64"])
def test_a_run_without_a_console_succeeds_and_loses_only_messages(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = image_parts(architecture)
    family = parts.machine.model
    options = tuple("console=tty0" if word.startswith("console=") else word for word in family.options)
    monkeypatch.setitem(MACHINE_MODELS, parts.machine.architecture, msgspec.structs.replace(family, options=options))
    options_cold = VmOptions(cache=tmp_path, snapshots=False)  # one run each, of machines that no other test boots
    answer = run(parts, options_cold, COPIES)
    assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
    with pytest.raises(TargetError, match="it ended without a reason") as caught:
        run(with_modules(parts, b"/lib/none.ko\n", tmp_path / "initrd"), options_cold, COPIES)
    assert caught.value.hint == "Its console is empty."


@pytest.mark.slow
@ONE_IN_SHORT
def test_a_machine_with_too_little_memory_fails_with_a_reason(parts: VmImage, tmp_path: Path) -> None:
    machine = msgspec.structs.replace(parts.machine, memory_bytes=48 << 20)
    options = VmOptions(cache=tmp_path, limits=Limits(host_s=200), snapshots=False)
    with pytest.raises(TargetError, match=r"The virtual machine failed: its? ") as caught:
        run(dataclasses.replace(parts, machine=machine), options, COPIES)
    assert "of this machine's time" not in caught.value.message  # it ends before the time limit


def elf(machine: int) -> bytes:
    """Return an ELF program for 64-bit processors that loads one page and has no notes."""
    head = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 1 << 20, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    )
    return head + struct.pack("<IIQQQQQQ", 1, 7, 0, 1 << 20, 1 << 20, 4096, 4096, 4096) + bytes(4096)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "text"),
    [(62, "without PVH ELF Note"), (183, "QEMU could not run it")],
    ids=["without-pvh", "of-another-processor"],
)
def test_a_kernel_that_qemu_cannot_start_is_reported(tmp_path: Path, machine: int, text: str) -> None:
    need_emulator()
    (tmp_path / "kernel").write_bytes(elf(machine))
    (tmp_path / "initrd").write_bytes(archive({"etc": folder()}))
    order = encode_order(encode_plan_header() + b"quit\n", replicate=0, limit_ms=1000)
    x86 = EmulatedMachine()
    made = qemu.boot(Setup(find_emulator(x86), x86, tmp_path / "kernel", tmp_path / "initrd", order), Limits(host_s=30))
    assert made.end is GuestEnd.EMULATOR
    assert text in made.reason
