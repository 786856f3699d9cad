# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emulator's plugin: refused arguments, and the mode for wake-ups against cyclictest in a machine of each architecture."""

from __future__ import annotations

import collections
import dataclasses
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.record import read_regular
from swapstone.core.targets import DEFAULT_MACHINE, MachineConfig
from swapstone.core.targets.agent_build import build_plugin, plugin_option
from swapstone.core.wire import TrialRequest
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.parts.explain.instruments.counted_runs import KERNEL_START
from swapstone.parts.explain.instruments.plugin_file import MOST_BYTES as CALL_PATH_BYTES
from swapstone.parts.explain.instruments.plugin_file import decode_paths
from swapstone.parts.explain.instruments.wakeup_path import (
    MOST_BYTES,
    WakeupTrace,
    decode_wakeups,
    find_mark,
    tracing,
    watched_program,
)
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmTarget
from tests.contract.vm_images import need_emulator
from tests.e2e import known_program
from tests.programs import require
from tests.shared import Shared
from tests.uncompared_snapshots import leave_out_cold_starts

LOOPS = 300
COMMAND = f"/usr/bin/cyclictest -q -m -p 95 -i 200 -l {LOOPS} -h 1000 --json=/tmp/c.json >/dev/null && cat /tmp/c.json"
ASKED = TrialRequest(
    id="1-0",
    arguments=("/bin/sh", "-c", f"mkdir -p /dev/shm; {COMMAND}"),
    environment=(("PATH", "/usr/bin:/bin"),),
    cwd="/scratch",
    timeout_ms=60_000,
)
MACHINES = {"x86_64": "x86_64", "arm64": "aarch64", "armhf": "arm", "riscv64": "riscv64"}


@pytest.fixture(autouse=True)
def _without_cold_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other modules compare saved machines; here runs with the plugin are compared with runs without it."""
    leave_out_cold_starts(monkeypatch.setattr)


def _target(name: str) -> VmTarget:
    built = build_image(
        ImageRequest(architecture=name, kernel="generic", modules=(), parts=("busybox", "glibc", "cyclictest"))
    )
    machine = EmulatedMachine(architecture=MACHINES[name])
    return VmTarget({"generic": VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)})


LONG = {"x86_64", "armhf", "riscv64"}
"""tests/e2e/test_explain_wakeup.py explains the worst wake-up on x86_64."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] if name in LONG else []) for name in MACHINES]
)
def test_the_blocks_before_the_latest_wake_up_are_kept(name: str, tmp_path: Path) -> None:
    need_emulator(MACHINES[name])
    with _target(name) as target:
        plain, machine = target.run_observed(ASKED, DEFAULT_MACHINE)
        histogram = decode_cyclictest(plain.stdout).histogram
        _, words = watched_program(target, DEFAULT_MACHINE, tmp_path)

        def observe(out: Path, words: tuple[str, ...]) -> WakeupTrace:
            answer, again = target.run_observed(ASKED, DEFAULT_MACHINE, plugin_option(out, *words))
            assert answer.stdout == plain.stdout and (again.output, again.console) == (machine.output, machine.console)
            return decode_wakeups(read_regular(out, MOST_BYTES))

        mark = find_mark(observe(tmp_path / "writes", words).writes, histogram)
        assert mark is not None
        found = observe(tmp_path / "trace", (*words, *tracing(mark, histogram[-1][0], 1)))
    assert found.marks == LOOPS and 1 <= found.cycle <= LOOPS
    last = found.blocks[found.steps[-1][0]]
    assert mark % 4096 in range(last.address % 4096, last.address % 4096 + len(last.code))
    kept = sum(executed for _, executed in found.steps)
    assert kept >= histogram[-1][0] * 1000
    assert any(found.blocks[index].address >= KERNEL_START[MACHINES[name]] for index, _ in found.steps if index >= 0)


@pytest.mark.slow
def test_an_instruction_that_crosses_a_page_and_the_one_before_it_are_counted(tmp_path: Path) -> None:
    need_emulator()
    program = known_program.build(tmp_path, "known", "x86_64", 1000)
    with _target("x86_64") as target:
        asked = msgspec.structs.replace(ASKED, arguments=(target.put(program),))
        target.run_observed(asked, DEFAULT_MACHINE, plugin_option(tmp_path / "paths", "mode=paths"))
    blocks = decode_paths(read_regular(tmp_path / "paths", CALL_PATH_BYTES)).blocks
    at: collections.Counter[int] = collections.Counter()
    for block in blocks:
        at.update(dict(zip(block.addresses, block.counts, strict=True)))
    assert [at[0x402FFB], at[0x402FFF]] == [known_program.TURNS] * 2
    assert {0x60, 0x61} <= {
        address >> 24 for address in at
    }  # the agent and the first process, which would be counted there


PROCESSES = "for i in 1 2 3; do /bin/sh -c 'echo 1 | cat' & done; wait"
BESIDE = "while :; do /bin/sh -c :; done"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["x86_64", pytest.param("arm64", marks=pytest.mark.exhaustive)],  # tests/e2e/test_exact_counts.py has both
)
def test_counts_are_the_same_beside_other_programs_and_do_not_change_the_run(name: str, tmp_path: Path) -> None:
    need_emulator(MACHINES[name])
    require(known_program.COMPILERS[name])
    known = known_program.build(tmp_path, "known", name, 1000)
    with _target(name) as target:
        for arguments in ((target.put(known),), ("/bin/sh", "-c", PROCESSES)):
            asked = msgspec.structs.replace(ASKED, arguments=arguments)
            alone, beside = (
                _counted(target, asked, config)
                for config in (DEFAULT_MACHINE, MachineConfig(beside=(BESIDE,), settle_ms=20))
            )
            same = [each for each in alone if each.startswith("calls.") or each == "tasks"]
            assert {each: beside[each] for each in same} == {each: alone[each] for each in same}
            if len(arguments) == 1:
                expected = known_program.instructions(name, 1000)
                assert (alone["user_instructions"], beside["user_instructions"]) == (expected, expected)
            else:
                assert (alone["tasks"], alone["calls.execve"]) == (1 + 3 + 3 * 2, 1 + 3 + 3)


def _counted(target: VmTarget, asked: TrialRequest, config: MachineConfig) -> dict[str, int]:
    """Return the counts of a run, after a check that it is equal without the plugin."""
    named = target.named_run(asked, config)
    run = target.make(named)
    plain = target.make(msgspec.structs.replace(named, setup=dataclasses.replace(named.setup, points=b"")))
    assert (run.end, run.output, run.console) == (plain.end, plain.output, plain.console)
    assert not plain.counts
    return dict(run.counts)


@pytest.mark.slow
def test_system_calls_of_32_bits_are_not_counted_and_the_reason_is_a_fact(tmp_path: Path) -> None:
    need_emulator()
    require("gcc")
    (tmp_path / "old.S").write_text(
        ".globl _start\n_start: mov $20, %eax\nint $0x80\nmov $231, %eax\nxor %edi, %edi\nsyscall\n"
    )
    program = tmp_path / "old"
    subprocess.run(["gcc", "-static", "-nostdlib", f"{program}.S", "-o", program], check=True)
    with _target("x86_64") as target:
        asked = msgspec.structs.replace(ASKED, arguments=(target.put(program),))
        assert dict(target.run(asked).facts)["uncounted.foreign"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("mode=none", "invalid argument: mode=none"),
        ("mode=wakeups,mark=x", "invalid argument: mark=x"),
        ("mode=wakeups", "wakeups: text=FILE can't be read"),
        ("mode=wakeups,text=/nonexistent", "wakeups: text=FILE can't be read"),
        ("mode=wakeups,text=/dev/null", "wakeups: text=FILE can't be read"),
        ("mode=tasks", "tasks: points=FILE can't be read"),
        ("mode=tasks,points=/dev/null", "tasks: points=FILE can't be read"),
        ("low=1", "usage: out=FILE,mode=NAME"),
    ],
)
def test_wrong_arguments_are_named(words: str, reason: str, shared: Shared, tmp_path: Path) -> None:
    need_emulator()
    compiler = os.environ.get("CC") or "cc"
    plugin = build_plugin(shared.folder("plugin", lambda folder: build_plugin(folder, compiler)), compiler)
    command = [
        "qemu-system-x86_64",
        "-nodefaults",
        "-display",
        "none",
        "-accel",
        "tcg",
        "-plugin",
        f"{plugin},out={tmp_path}/out,{words}",
    ]
    result = subprocess.run([*command, "-S"], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and reason in result.stderr
    assert not (tmp_path / "out").exists()
