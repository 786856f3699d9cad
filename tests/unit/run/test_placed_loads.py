# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads on machines that are not booted: which programs are carried there, and what their commands are then."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.core.model import IDLE, UnavailableError
from swapstone.core.workloads import find_load, shared_machine_load
from swapstone.parts.vm.run.placed_loads import placed_loads
from tests.unit import builders

module: Any = importlib.import_module("swapstone.parts.vm.run.placed_loads")


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """What programs were carried, and to a machine of which architecture."""
    asked: list[tuple[list[str], str]] = []

    def carry(programs: list[str], place: Any, notify: Any) -> Any:
        notify("a download")
        asked.append((programs, place.architecture))
        return {each: f"/there/start {each}" for each in programs}, (("stress-ng", "0.15"), ("rt-tests", "2.5"))

    monkeypatch.setattr(module, "carried_programs", carry)
    return asked


def target(cpus: int = 2, **changes: Any) -> Any:
    """Return a target that is not booted."""
    fields = {
        "offers": frozenset({"runs_loads"}),
        "architecture": "aarch64",
        "describe": lambda: SimpleNamespace(cpus=tuple(range(cpus))),
        "load_folder": lambda: "/there/load",
        "scratch": lambda: "/scratch",
        "name": "ssh:board",
    }
    return SimpleNamespace(**{**fields, **changes})


@pytest.mark.parametrize("offers", [{"boots", "runs_loads"}, set(), {"boots"}])
def test_a_machine_that_is_booted_has_the_loads_of_its_image(
    carried: list[tuple[list[str], str]], offers: set[str]
) -> None:
    place = target(offers=offers)
    found = placed_loads(builders.experiment(loads=("idle", "cpu")), place, lambda _: None)
    assert found == {"idle": find_load("idle"), "cpu": find_load("cpu")}
    assert carried == []


def test_without_loads_nothing_is_carried(carried: list[tuple[list[str], str]]) -> None:
    place = target()
    found = placed_loads(builders.experiment(loads=("idle",)), place, lambda _: None)
    assert found == {"idle": shared_machine_load("idle")} and found["idle"].indicators == ()
    assert carried == []


@pytest.mark.parametrize(("cpus", "processes"), [(2, 4), (16, 16)])
def test_the_programs_of_all_loads_are_carried_once_and_their_commands_have_no_placeholders(
    carried: list[tuple[list[str], str]], cpus: int, processes: int
) -> None:
    place = target(cpus)
    lines: list[str] = []
    found = placed_loads(builders.experiment(loads=("cpu", "memory", "network")), place, lines.append)
    assert carried == [(["iperf3", "memtester", "stress-ng"], "aarch64")]
    assert lines == ["a download", "stress-ng 0.15, rt-tests 2.5: programs of Debian for loads"]
    assert set(found) == {"idle", "cpu", "memory", "network"} and found["idle"] is IDLE
    assert found["cpu"].beside == (
        f"exec /there/start stress-ng --quiet --temp-path /there/load --cpu {processes} --cpu-method all",
    )
    assert found["memory"].beside[1] == "exec /there/start memtester 8M"
    assert found["network"].indicators == (shared_machine_load("network") or IDLE).indicators
    assert not [command for load in found.values() for command in load.beside if "{" in command]


def test_a_load_that_is_idle_keeps_its_place_beside_others(carried: list[tuple[list[str], str]]) -> None:
    place = target()
    found = placed_loads(builders.experiment(loads=("idle", "io")), place, lambda _: None)
    assert found["idle"] == shared_machine_load("idle") and found["idle"].beside == ()
    assert [programs for programs, _ in carried] == [["stress-ng"]]


def test_a_load_that_needs_a_machine_of_its_own_is_left_out(carried: list[tuple[list[str], str]]) -> None:
    """Such an experiment was refused before."""
    place = target()
    assert set(placed_loads(builders.experiment(loads=("idle", "none")), place, lambda _: None)) == {"idle"}
    assert carried == []


@pytest.mark.parametrize(("loads", "probed"), [(("cyclictest",), True), (("cpu",), False)])
def test_a_load_of_the_highest_priority_is_tried_before_anything_is_measured(
    carried: list[tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch, loads: tuple[str, ...], *, probed: bool
) -> None:
    asked: list[tuple[str, str, tuple[str, ...], str]] = []

    def require(name: str, place: Any, request: Any) -> None:
        asked.append((name, place.name, request.arguments, request.cwd))
        raise UnavailableError("no real-time priority.")

    monkeypatch.setattr(module, "require_real_time", require)
    place = target()
    if not probed:
        placed_loads(builders.experiment(loads=loads), place, lambda _: None)
        assert asked == []
        return
    with pytest.raises(UnavailableError, match="no real-time priority"):
        placed_loads(builders.experiment(loads=loads), place, lambda _: None)
    words = "/there/start cyclictest --quiet --mlockall --priority=99 --threads=1 --interval=100 --loops=1"
    assert asked == [("The load cyclictest", "ssh:board", ("/bin/sh", "-c", words), "/scratch")]
    assert carried[0][0] == ["cyclictest"]
