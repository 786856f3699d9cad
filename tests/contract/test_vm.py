# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual machines under QEMU: equal inputs give equal bytes; failures of guest, kernel and emulator."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from swapstone.core.comparison.machine_noise import TURNS_PERCENT
from swapstone.core.model.cpio import archive, file, folder
from swapstone.core.targets import TargetError
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest, encode_plan_header, encode_request
from swapstone.core.wire.agent_request import MAX_OUTPUT_BYTES
from swapstone.parts.vm.machine import guest, qemu
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.guest import encode_order
from swapstone.parts.vm.machine.qemu import GuestEnd, Limits, Setup
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.contract.vm_fixture import VmFixture, vm_fixture
from tests.contract.vm_images import image_parts, with_modules
from tests.shared import Shared

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def vm(shared: Shared) -> VmFixture:
    return vm_fixture(shared)


@contextlib.contextmanager
def hog(processors: int = 2) -> Iterator[None]:
    """Keep processors busy."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processors)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.parametrize(("name", "arguments"), [("works", ("100000",)), ("hoards", ())])
def test_equal_inputs_give_equal_bytes(vm: VmFixture, name: str, arguments: tuple[str, ...], exhaustive: bool) -> None:
    first = vm.run(name, *arguments, no_cache=True)
    if name == "works" or exhaustive:
        with hog(2 if exhaustive else 1):
            assert vm.run(name, *arguments, no_cache=True) == first
    if exhaustive:  # else test_vm_host.py and test_vm_images.py compare a snapshot with a boot
        assert vm.run(name, *arguments, no_cache=True, snapshots=False) == first
    assert dict(first.facts)["wall_ns"] > 500_000
    if name == "hoards":  # the kernel kills it: out of memory
        assert (first.outcome, first.code) == (ProcessOutcome.SIGNALED, 9)


def test_replicates_differ_and_each_is_reproducible(vm: VmFixture) -> None:
    def wall_ns(trial: str, **options: object) -> int:
        answer = vm.run("works", "100000", trial=trial, no_cache=True, **options)  # type: ignore[arg-type] # names of options
        return dict(answer.facts)["wall_ns"]

    times = [wall_ns(f"{block}-0") for block in range(2)]
    assert len(set(times)) > 1
    assert [wall_ns(f"{block}-1") for block in range(2)] == times
    assert wall_ns("7-0", replicate=1) == times[1]


def test_a_layout_changes_memory_and_processes_and_is_reproducible(
    vm: VmFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def machine(layout: int) -> dict[str, str]:
        monkeypatch.setattr(guest, "perturbation", lambda _: {"layout": layout, "idle-ns": 0, "delay-ns": 0})
        return dict(vm.run("empty", no_cache=True).machine)

    def forks_and_kept_pages(found: dict[str, str]) -> tuple[int, int]:
        counters = dict(line.split() for line in found["before /proc/vmstat"].splitlines())
        processes = next(line for line in found["before /proc/stat"].splitlines() if line.startswith("processes"))
        return int(processes.split()[1]), int(counters["nr_anon_pages"]) + int(counters["nr_shmem"])

    plain, first, again, other = machine(0), machine(1), machine(1), machine(2)
    assert first == again
    changed = [forks_and_kept_pages(found) for found in (plain, first, other)]
    assert len(set(changed)) == 3
    assert all(forks > changed[0][0] and 0 < pages - changed[0][1] < 768 for forks, pages in changed[1:])
    assert plain["clock"] == first["clock"] == other["clock"], "it happens after the order was read"


@pytest.mark.exhaustive  # tests/e2e/test_clock_scales.py compares two records whose instructions take 1 and 4 ns
def test_an_instruction_takes_the_requested_time(vm: VmFixture) -> None:
    """Twice as many rounds of a loop take a time that is as many times as long as an instruction is, from a snapshot and from a boot."""
    added = {}
    for scale in (1, 4):
        bench = dataclasses.replace(
            vm, parts=dataclasses.replace(vm.parts, machine=EmulatedMachine(ns_per_instruction=scale))
        )
        times = []
        for rounds in ("200000", "400000"):
            answer = bench.run("works", rounds, no_cache=True)
            if (scale, rounds) == (4, "400000"):
                assert bench.run("works", rounds, no_cache=True, snapshots=False) == answer
            times.append(dict(answer.facts)["wall_ns"])
        added[scale] = times[1] - times[0]
    assert added[1] > 200_000  # at least an instruction a round
    assert added[4] / added[1] == pytest.approx(4, rel=0.05)  # timer interrupts are in both


def test_each_kernel_command_line_has_its_own_run_name(vm: VmFixture) -> None:
    names = []
    machines = [EmulatedMachine(options=options) for options in ((), ("x",), ("y",))]
    for machine in (*machines, EmulatedMachine(ns_per_instruction=2)):
        parts = dataclasses.replace(vm.parts, machine=machine)
        with VmTarget(parts, vm.options) as target:
            path = target.put(vm.programs["empty-static"])
            asked = TrialRequest(id="0-0", arguments=(path,), cwd=target.scratch(), timeout_ms=1000)
            names.append(target.named_run(asked).name)
    assert len(set(names)) == 4


def test_an_endless_program_is_stopped_in_guest_time(vm: VmFixture) -> None:
    assert vm.run("spins", timeout_ms=300).outcome is ProcessOutcome.TIMEOUT
    assert vm.run("prints").outcome is ProcessOutcome.OVERFLOW


def fails(vm: VmFixture, name: str, text: str, **options: object) -> str:
    """Run a program that makes the machine fail; return the last lines of its console."""
    with pytest.raises(TargetError, match=text) as caught:
        vm.run(name, **options)  # type: ignore[arg-type] # names of options
    return caught.value.hint


def test_a_panic_is_a_failed_run_with_the_console_text(vm: VmFixture) -> None:
    assert "Kernel Offset: disabled" in fails(vm, "panics", "its kernel panicked: sysrq triggered crash")
    assert vm.run("empty").outcome is ProcessOutcome.EXITED  # the next run is not affected


def test_a_kernel_that_a_trial_taints_is_a_failed_run(vm: VmFixture) -> None:
    fails(vm, "taints", r"its kernel reports: the trial tainted it \(W, tainted-kernels.rst\)")
    assert vm.run("empty").outcome is ProcessOutcome.EXITED


EMITTED = bytes((i * 167 + i // 256) % 256 for i in range(1 << 16))


def emits(vm: VmFixture, mib: int, *both: str, **options: object) -> AgentAnswer:
    """Run a program that prints so many MiB, of which at most 16 arrive."""
    with vm.target(**options) as (target, paths):
        arguments = (paths["emits-static"], str(mib), *both)
        asked = TrialRequest(
            id="t", arguments=arguments, cwd="/scratch", timeout_ms=60_000, output_bytes=MAX_OUTPUT_BYTES
        )
        return target.run(asked)


def test_all_that_a_program_may_print_arrives(vm: VmFixture, exhaustive: bool) -> None:
    restored = emits(vm, 16, no_cache=True)
    assert restored.stdout == EMITTED * 256 and not restored.stderr
    own_us, facts = int(dict(restored.machine)["after own-cpu-us"]), dict(restored.facts)
    assert own_us > facts["trial_cpu_us"] + 100_000  # writing the answer is no load of others
    assert not exhaustive or emits(vm, 16, no_cache=True, snapshots=False) == restored
    assert not exhaustive or emits(vm, 17).outcome is ProcessOutcome.OVERFLOW  # as that of `prints` below
    with pytest.raises(TargetError, match="what it printed does not fit into the 64 MiB of its channel, where a byte"):
        emits(vm, 16, "and to standard error")


def test_whether_threads_take_turns_is_observed(vm: VmFixture) -> None:
    shares = [dict(vm.run("counts", number).facts) for number in ("1", "2")]
    one, two = (100_000 * facts["psi_cpu_us"] / facts["wall_ns"] for facts in shares)
    assert one < TURNS_PERCENT / 2 and two > 90


def test_console_output_is_limited(vm: VmFixture) -> None:
    limits = Limits(console_bytes=200_000)
    assert "yyyy" in fails(vm, "floods", "wrote more than 200000 bytes to its console", limits=limits, timeout_ms=10**9)


def test_a_machine_is_stopped_at_the_host_time_limit(vm: VmFixture) -> None:
    vm.run("empty")  # saves the snapshot
    fails(vm, "spins", "more than 4 s of this machine's time", limits=Limits(host_s=4), timeout_ms=10**9)


def test_a_machine_is_stopped_at_the_guest_time_limit_if_the_agent_does_not_end(vm: VmFixture) -> None:
    with vm.target() as (target, paths):
        asked = TrialRequest(id="t", arguments=(paths["spins-static"],), cwd="/scratch", timeout_ms=10**6)
        run = target.run_plan(
            encode_plan_header() + encode_request(asked) + b"quit\n",
            limit_ms=200,
            replicate=0,
            words=frozenset(asked.arguments),
        )
    assert (run.end, run.reason) == (
        GuestEnd.INIT_FAILED,
        "its first process reports: the agent took longer than limit-ms",
    )


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    parts = with_modules(image_parts("arm64"), b"/lib/none.ko\n", tmp_path / "initrd")  # boots in less time than x86_64
    with (
        VmTarget(parts, VmOptions(cache=tmp_path)) as target,
        pytest.raises(TargetError, match=r"load the module /lib/none\.ko: error 2"),
    ):
        target.describe()


@pytest.fixture
def setup(vm: VmFixture) -> Callable[..., Setup]:
    def with_changes(**changed: object) -> Setup:
        machine = vm.parts.machine
        order = encode_order(encode_plan_header() + b"quit\n", replicate=0, limit_ms=1000)
        whole = Setup(find_emulator(machine), machine, vm.parts.kernel, vm.parts.initrd, order)
        return dataclasses.replace(whole, **changed)  # type: ignore[arg-type] # one of its fields

    return with_changes


def test_an_initrd_of_garbage_ends_in_a_panic(setup: Callable[..., Setup], tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(bytes(range(256)) * 64)
    arm = image_parts("arm64")  # boots in less time than x86_64
    changed = setup(emulator=find_emulator(arm.machine), machine=arm.machine, kernel=arm.kernel, initrd=garbage)
    run = qemu.boot(changed, Limits())
    assert run.end is GuestEnd.PANICKED
    assert "Unable to mount root fs" in run.reason
    assert "Kernel Offset: disabled" in run.console


def test_the_emulator_reports_an_invalid_kernel(setup: Callable[..., Setup], tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"not a kernel" * 1000)
    run = qemu.boot(setup(kernel=garbage), Limits(host_s=60))
    assert run.end is GuestEnd.EMULATOR
    assert "QEMU could not run it" in run.reason


@pytest.mark.exhaustive
def test_an_init_that_exits_is_a_panic(setup: Callable[..., Setup], tmp_path: Path, vm: VmFixture) -> None:
    image = tmp_path / "image"
    image.write_bytes(
        archive({"init": file(vm.programs["empty-static"].read_bytes(), executable=True), "dev": folder()})
    )
    run = qemu.boot(setup(initrd=image), Limits())
    assert run.end is GuestEnd.PANICKED
    assert "Attempted to kill init" in run.reason
