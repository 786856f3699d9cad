# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a target permits real-time priorities: what programs print if it does not, and the program that is built for each variant."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors import PRIORITY_SEEN
from swapstone.core.model import UnavailableError, WireError
from swapstone.core.model.experiment import FEWEST_WAKEUPS, MOST_WAKEUPS
from swapstone.core.run.machine_config import probe_request, require_real_time
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.wire.output_reading import reader_of
from swapstone.core.workloads import find_workload
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from swapstone.parts.vm.suites.latency import WAKEUP, timeout_ms, with_cycles

root = pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority and locked memory need root")


@pytest.fixture(scope="module")
def program() -> Path:
    return build_workload(WAKEUP, resolve_recipe(BASE_RECIPE)).path


def without_permission(program: Path, *arguments: str) -> tuple[str, ...]:
    return ("/usr/bin/setpriv", "--bounding-set=-sys_nice,-ipc_lock,-sys_resource", str(program), *arguments)


@root
def test_a_histogram_has_every_wake_up(program: Path) -> None:
    printed = subprocess.run([program, "100", "500"], capture_output=True, check=True).stdout
    measured = reader_of(WAKEUP).read(answer(printed))
    assert sum(count for _, count in measured.histogram) == 500
    assert {sample.metric for sample in measured.samples} == {metric.name for metric in WAKEUP.metrics}
    assert json.loads(printed)["thread"]["0"]["cycles"] == 500


@pytest.mark.parametrize(
    "arguments", [(), ("100",), ("0", "1"), ("100", "10000001"), ("x", "1"), ("100", "1", "2"), ("100", "1x")]
)
def test_wrong_arguments_measure_nothing(program: Path, arguments: tuple[str, ...]) -> None:
    found = subprocess.run([program, *arguments], capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (1, b"")
    assert b"Invalid argument" in found.stderr


@root
@pytest.mark.parametrize("text", ["fifo:0", "fifo:100", "other:1", "rr:5", ""])
def test_an_unknown_priority_measures_nothing(program: Path, text: str) -> None:
    environment = {"SWAPSTONE_PRIORITY": text}
    found = subprocess.run([program, "100", "5"], capture_output=True, check=False, env=environment)
    assert (found.returncode, found.stdout) == (1, b"")


@root
def test_without_permission_it_is_unavailable_and_the_message_has_the_reason(program: Path) -> None:
    with HostTarget() as target:
        require_real_time("wakeup", target, probe_request((str(program), "100", "1"), target.scratch()))
        with pytest.raises(UnavailableError) as caught:
            require_real_time(
                "wakeup", target, probe_request(without_permission(program, "100", "1"), target.scratch())
            )
    assert caught.value.message.startswith(
        "wakeup is unavailable on host: it needs a real-time priority, locked memory"
    )
    assert "needs root or RLIMIT" in caught.value.message
    assert caught.value.hint.startswith("Run as root")


def test_deep_sleep_states_that_can_not_be_forbidden_make_it_unavailable() -> None:
    words = "WARN: open /dev/cpu_dma_latency: Permission denied"
    missing = "WARN: stat /dev/cpu_dma_latency failed: No such file or directory"
    with HostTarget() as target:
        for text in (missing, "# /dev/cpu_dma_latency set to 0us"):
            require_real_time("x", target, probe_request(("/bin/echo", text), target.scratch()))
        with pytest.raises(UnavailableError, match="Permission denied"):
            require_real_time("x", target, probe_request(("/bin/echo", words), target.scratch()))


def answer(stdout: bytes, stderr: bytes = b"") -> AgentAnswer:
    return AgentAnswer(id="1", stdout=stdout, stderr=stderr, outcome=ProcessOutcome.EXITED, code=0)


def stat(policy: int, priority: int) -> bytes:
    return b"7 (ld-linux) S " + b"1 " * 36 + f"{priority} {policy} 0\n".encode()


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([], ()),
        ([stat(0, 0)], ()),
        ([stat(0, 0), stat(1, 99), stat(1, 99)], ((PRIORITY_SEEN, "fifo99"),)),
        ([stat(0, 0), stat(1, 99), stat(1, 98)], ((PRIORITY_SEEN, "several"),)),
        ([stat(0, 0), b"8 (x) S 1\n"], ((PRIORITY_SEEN, "unknown"),)),
    ],
)
def test_the_priority_is_that_of_the_threads_after_the_first(lines: list[bytes], seen: tuple[object, ...]) -> None:
    output = (Path(__file__).parents[2] / "recorded" / "cyclictest-io-generic.json").read_bytes()
    cyclictest = find_workload("latency", "cyclictest")
    assert reader_of(cyclictest).read(answer(output, b"WARN: x\n" + b"".join(lines))).seen == seen


def test_unreadable_output_fails() -> None:
    with pytest.raises(WireError, match="its output is unreadable"):
        reader_of(WAKEUP).read(answer(b"{"))


@pytest.mark.parametrize("cycles", [FEWEST_WAKEUPS, MOST_WAKEUPS])
def test_a_number_of_wake_ups_reaches_both_programs_and_their_time_limit(cycles: int) -> None:
    wakeup, cyclictest = (with_cycles(find_workload("latency", name), cycles) for name in ("wakeup", "cyclictest"))
    assert wakeup.arguments == ("100", str(cycles))
    assert f"--loops={cycles} " in cyclictest.arguments[1]
    assert wakeup.timeout_ms == cyclictest.timeout_ms == timeout_ms(cycles) > 2 * cycles * 100 // 1000
    other = find_workload("libc", "b_malloc_tiny1")
    assert with_cycles(other, cycles) is other
