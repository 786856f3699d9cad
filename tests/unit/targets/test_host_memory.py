# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials on this machine with a given memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.targets import MachineConfig, TargetError
from swapstone.core.targets.host import HostTarget
from swapstone.core.targets.memory_cgroup import OOM_KILLS, usable_place
from swapstone.core.targets.memory_phases import sampling_trouble
from swapstone.core.targets.target import NO_LIMIT_BYTES
from swapstone.core.wire import ProcessOutcome, TrialRequest

MIB = 1 << 20
UNLIMITED = MachineConfig(memory_bytes=NO_LIMIT_BYTES)
LIMITED = MachineConfig(memory_bytes=16 * MIB)


@pytest.fixture(scope="module")
def target() -> Iterator[HostTarget]:
    """This machine, if memory can be limited here."""
    try:
        usable_place()
    except UnavailableError as error:
        pytest.skip(error.message)
    with HostTarget() as opened:
        yield opened


def shell(script: str) -> TrialRequest:
    """Return a request for a script."""
    environment = (("PATH", "/usr/bin:/bin"),)
    return TrialRequest(
        id="a", arguments=("/bin/sh", "-c", script), cwd="/", timeout_ms=60_000, environment=environment
    )


@pytest.mark.slow
def test_phases_are_sampled_without_a_limit_and_read_with_one(target: HostTarget) -> None:
    script = 'echo spike >"$SWAPSTONE_PHASES"; sleep 0.4; echo quiet live=5 >>"$SWAPSTONE_PHASES"; sleep 0.4'
    answer = target.run(shell(script), UNLIMITED)
    assert answer.memory is not None
    assert [phase.name for phase in answer.memory.phases][-2:] == ["spike", "quiet"]
    if not sampling_trouble():
        assert all(phase.samples and phase.retained_bytes > 0 for phase in answer.memory.phases[-2:])
    limited = target.run(shell(script), LIMITED)
    assert limited.memory is not None
    assert [phase.name for phase in limited.memory.phases] == ["start", "spike", "quiet"]
    assert limited.memory.samples == ()
    assert "only runs without a limit" in limited.memory.unavailable


@pytest.mark.slow
@pytest.mark.skipif(bool(sampling_trouble()), reason=sampling_trouble())
def test_the_samples_are_of_the_program_and_its_children_and_not_of_the_agent(target: HostTarget) -> None:
    answer = target.run(shell("sleep 1 & sleep 0.1; cat /proc/$$/smaps_rollup /proc/$!/smaps_rollup; wait"), UNLIMITED)
    shown = sum(int(kib) for kib in re.findall(rb"^Pss_(?:Anon|Shmem): +([0-9]+) kB", answer.stdout, re.MULTILINE))
    assert shown > 0
    assert answer.memory is not None
    assert shown << 10 in {size for _, size in answer.memory.samples}


def test_an_agent_of_a_group_is_not_used_again(target: HostTarget) -> None:
    for config in (LIMITED, MachineConfig(), UNLIMITED, MachineConfig()):
        answer = target.run(shell("cat /proc/self/cgroup"), config)
        assert (answer.outcome, answer.code) == (ProcessOutcome.EXITED, 0)
        assert (b"swapstone-memory-" in answer.stdout) == bool(config.memory_bytes)


def test_no_limit_is_more_than_any_machine_has(target: HostTarget) -> None:
    assert dict(target.run(shell("exit 0"), UNLIMITED).machine)[OOM_KILLS] == "0"


def test_an_agent_that_is_killed_is_named(target: HostTarget) -> None:
    with pytest.raises(TargetError, match="OOM kill of the agent"):
        target.run(shell("exit 0"), MachineConfig(memory_bytes=65536))
    assert target.run(shell("exit 0"), LIMITED).code == 0


def test_a_program_that_leaves_its_group_is_found(target: HostTarget) -> None:
    place = usable_place().path
    if not (place / "cgroup.procs").exists():
        pytest.skip("the place of the groups takes no processes")
    with pytest.raises(TargetError, match="left the memory cgroup"):
        target.run(shell(f"echo $$ >{place}/cgroup.procs; exit 0"), LIMITED)


def test_no_fifo_and_no_folder_is_left() -> None:
    with HostTarget() as opened:
        try:
            opened.run(shell("exit 0"), LIMITED)
        except UnavailableError as error:
            pytest.skip(error.message)
        folder = Path(opened._phases.path)
        assert list(folder.iterdir()) == []
    assert not folder.exists()
