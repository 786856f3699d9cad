# SPDX-License-Identifier: MIT OR Apache-2.0
"""The search for all variants, with a runner that makes up its runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from swapstone.core.model import MemorySeries, PhaseMemory
from swapstone.core.run.prepare import Key
from swapstone.parts.vm.model.memory_fit import TriedMemory
from swapstone.parts.vm.run.memory_fit import (
    MIB,
    MemoryRule,
    MemoryRun,
    MemorySearch,
    Resolution,
    expected_of,
    search_all,
    summary,
    varies_from,
)

RULE = MemoryRule(
    unlimited=(1 << 62,) * 3,
    tries_unlimited=False,
    repeats=3,
    most_bytes=1024 * MIB,
    resolution=Resolution(),
    timeout_ms=600_000,
)
SAME = (("stdout", "a" * 64), ("shape:stdout", "b" * 64))
ONE: Key = ("own", "prog", "libc=glibc")
OTHER: Key = ("own", "prog", "libc=musl")


def ok(**changes: object) -> MemoryRun:
    """Return a run that ended well."""
    return MemoryRun(**{"digests": SAME, "rss_bytes": 60 * MIB, "wall_ns": 5_000_000, **changes})  # type: ignore[arg-type]


IN_TURN: Any = SimpleNamespace(at_once=1)


def searched(run: Callable[[Key, int, int], MemoryRun], rule: MemoryRule = RULE, *keys: Key) -> list[MemorySearch]:
    """Search to the end."""
    searches = [MemorySearch(key, rule, run) for key in keys or (ONE,)]
    assert search_all(searches, IN_TURN, lambda search, left, seconds: None)
    return searches


def needs(size: int) -> Callable[[Key, int, int], MemoryRun]:
    """Return a runner of a program that needs so many MiB."""
    return lambda key, memory, timeout: ok() if memory >= size * MIB else ok(failure="OOM kill: it was killed")


def test_each_variant_has_its_own_threshold() -> None:
    sizes = {ONE: 51, OTHER: 37}
    one, other = searched(lambda key, memory, timeout: needs(sizes[key])(key, memory, timeout), RULE, ONE, OTHER)
    assert (one.result().smallest_bytes, one.result().failed_bytes) == (51 * MIB, 50 * MIB)
    assert (other.result().smallest_bytes, other.result().failed_bytes) == (37 * MIB, 36 * MIB)
    assert one.result().how_failed == "OOM kill: it was killed"
    assert one.result().peak_rss_bytes == 60 * MIB
    assert one.result().complete
    assert one.result().compared == "exit status and standard output"


def test_a_size_survives_only_if_each_run_does() -> None:
    calls: dict[int, int] = {}

    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        calls[memory] = calls.get(memory, 0) + 1
        if memory < 40 * MIB and calls[memory] == 3:
            return ok(failure="it was killed")
        return ok()

    result = searched(run)[0].result()
    assert (result.smallest_bytes, result.failed_bytes) == (40 * MIB, 39 * MIB)
    runs = {each.memory_bytes: each.runs for each in result.sizes}
    assert set(runs.values()) == {3}
    assert result.runs == 3 + sum(runs.values())


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({"code": 7}, "exit status 7, and 0 without a limit"),
        ({"digests": (("stdout", "c" * 64),)}, "other output (stdout) than without a limit"),
        ({"digests": ()}, "other output (stdout) than without a limit"),
        ({"failure": "OOM kill of 1 of its processes"}, "OOM kill of 1 of its processes"),
    ],
)
def test_a_run_that_differs_from_those_without_a_limit_failed(changes: dict[str, object], how: str) -> None:
    result = searched(lambda key, memory, timeout: ok() if memory >= 30 * MIB else ok(**changes))[0].result()
    assert (result.failed_bytes, result.how_failed) == (29 * MIB, how)


def test_what_fails_without_a_limit_is_unavailable_and_the_others_go_on() -> None:
    one, other = searched(
        lambda key, memory, timeout: (
            MemoryRun(failure="it ended with status 2") if key == ONE else needs(9)(key, memory, timeout)
        ),
        RULE,
        ONE,
        OTHER,
    )
    assert one.result().unavailable == "it ended with status 2"
    assert one.result().runs == 1
    assert other.result().smallest_bytes == 9 * MIB


def test_the_time_limit_follows_the_time_without_a_limit() -> None:
    seen: dict[bool, set[int]] = {True: set(), False: set()}

    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        seen[memory == 1 << 62].add(timeout)
        return ok(wall_ns=3_000_000_000)

    searched(run)
    assert seen == {True: {0}, False: {60_000}}
    short: set[int] = set()

    def run_shortly(key: Key, memory: int, timeout: int) -> MemoryRun:
        short.add(timeout)
        return ok()

    searched(run_shortly)
    assert short == {0, 10_000}


def test_the_time_limit_of_the_program_is_never_exceeded() -> None:
    seen: set[int] = set()

    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        seen.add(timeout)
        return ok()

    searched(run, dataclasses.replace(RULE, timeout_ms=4000))
    assert seen == {0, 4000}


def test_what_is_known_before_the_first_run() -> None:
    search = MemorySearch(ONE, RULE, lambda key, memory, timeout: ok())
    found = search.result()
    assert (search.done, search.left) == (False, 10)
    assert (found.workload, found.variant, found.complete, found.unavailable, found.compared) == (
        *("prog", "libc=glibc", False, "", ""),
    )
    assert (found.smallest_bytes, found.failed_bytes, found.runs, found.sizes, found.series) == (0, 0, 0, (), None)
    assert (found.peak_rss_bytes, found.least_rss_bytes, found.peak_cgroup_bytes) == (0, 0, 0)


@pytest.mark.parametrize("tries", [False, True])
def test_of_what_fails_without_a_limit_no_size_survived(tries: bool) -> None:
    rule = dataclasses.replace(RULE, unlimited=(256 * MIB, 320 * MIB), tries_unlimited=tries)
    found = searched(lambda key, memory, timeout: MemoryRun(failure="it ended with status 2"), rule)[0].result()
    assert (found.smallest_bytes, found.failed_bytes, found.runs, found.compared) == (0, 0, 1, "")
    assert (found.unavailable, found.complete) == ("it ended with status 2", True)


def test_progress_counts_the_parts_and_states_their_mean_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(100.0, 2.0)
    monkeypatch.setattr("swapstone.parts.vm.run.memory_fit.time", SimpleNamespace(monotonic=lambda: next(clock)))
    shown: list[tuple[Key, int, float]] = []
    searches = [MemorySearch(key, RULE, needs(size)) for key, size in ((ONE, 9), (OTHER, 51))]
    assert search_all(searches, IN_TURN, lambda search, left, seconds: shown.append((search.key, left, seconds)))
    assert {seconds for _, _, seconds in shown} == {2.0}  # the clock moves by 2 s for each part
    parts = [1 + len(search.result().sizes) for search in searches]
    assert [sum(key == each for key, _, _ in shown) for each in (ONE, OTHER)] == parts
    assert [key for key, _, _ in shown[:4]] == [ONE, OTHER, ONE, OTHER]
    left = [number for _, number, _ in shown]
    assert left[0] == searches_left(9) + 10 and left[-1] == 0  # of the other one nothing is known then


def searches_left(size: int) -> int:
    """Return the estimate after the runs without a limit."""
    search = MemorySearch(ONE, RULE, needs(size))
    search.step()
    return search.left


def test_on_the_virtual_clock_the_usual_memory_is_the_first_size_that_survived() -> None:
    asked: list[int] = []
    rule = MemoryRule(
        unlimited=(256 * MIB, 320 * MIB),
        tries_unlimited=True,
        repeats=1,
        most_bytes=256 * MIB,
        resolution=Resolution(),
        timeout_ms=1000,
    )

    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        asked.append(memory)
        return needs(97)(key, memory, timeout)

    result = searched(run, rule)[0].result()
    assert asked[:3] == [256 * MIB, 320 * MIB, 128 * MIB]
    assert len(asked) == len(set(asked)) <= 12
    assert (result.smallest_bytes, result.failed_bytes) == (97 * MIB, 96 * MIB)
    assert (result.phases, result.series) == ((), None)
    assert result.phases_note == "unavailable in a virtual machine, whose processes are not sampled"


def test_sigint_keeps_what_is_known() -> None:
    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        if memory < 20 * MIB:
            raise KeyboardInterrupt
        return ok()

    search = MemorySearch(ONE, RULE, run)
    assert not search_all([search], IN_TURN, lambda search, left, seconds: None)
    assert (search.result().smallest_bytes, search.result().complete) == (30 * MIB, False)


def test_an_output_that_varies_in_numbers_alone_is_compared_without_them() -> None:
    runs = [ok(digests=(("stdout", letter * 64), SAME[1])) for letter in "xyz"]
    expected = expected_of(runs, output_may_differ=False)
    assert expected.digests == (SAME[1],)
    assert expected.compared == "exit status and standard output (its lines sorted, without numbers)"
    assert expected.difference(runs[0]) == ""
    assert "other output" in expected.difference(ok(digests=(("stdout", "x" * 64), ("shape:stdout", "q" * 64))))


def test_an_output_that_varies_otherwise_can_not_be_compared() -> None:
    runs = [ok(digests=(("stdout", letter * 64), ("shape:stdout", letter * 64))) for letter in "xyz"]
    assert "varies from run to run" in expected_of(runs, output_may_differ=False).why_none
    assert expected_of(runs, output_may_differ=True).why_none == ""
    assert expected_of([ok(), ok(code=1)], output_may_differ=True).why_none == "its exit status varies: 0, 1"


def test_the_search_begins_with_the_highest_use_of_the_cgroup_or_of_the_program() -> None:
    asked: list[int] = []

    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        asked.append(memory)
        return ok(peak_bytes=(100 + len(asked)) * MIB, rss_bytes=(63 - len(asked)) * MIB)

    result = searched(run)[0].result()
    assert asked[3] == 103 * MIB
    assert (result.peak_cgroup_bytes, result.peak_rss_bytes) == (103 * MIB, 62 * MIB)
    assert result.least_rss_bytes == 60 * MIB


def test_a_machine_that_does_not_run_is_no_failure_of_the_program() -> None:
    def run(key: Key, memory: int, timeout: int) -> MemoryRun:
        if memory < 38 * MIB:
            return MemoryRun(failure="its kernel panicked", ended=False)
        return ok() if memory >= 40 * MIB else ok(failure="killed")

    by_machine = {each.memory_bytes: each.by_machine for each in searched(run)[0].result().sizes if not each.survived}
    assert by_machine
    assert all(found == (size < 38 * MIB) for size, found in by_machine.items())
    assert set(by_machine.values()) == {True, False}


def tried(size: int, *, survived: bool, runs: int = 3) -> TriedMemory:
    """Return a size in MiB."""
    return TriedMemory(memory_bytes=size * MIB, survived=survived, runs=runs)


@pytest.mark.parametrize(
    ("sizes", "varies"),
    [
        ((), 0),
        ((tried(9, survived=True), tried(8, survived=False, runs=1)), 0),
        ((tried(9, survived=True), tried(8, survived=False, runs=2), tried(7, survived=False, runs=1)), 8),
        ((tried(9, survived=False, runs=1), tried(7, survived=True), tried(6, survived=False, runs=3)), 6),
        ((tried(9, survived=True), tried(8, survived=False, runs=1), tried(7, survived=True)), 7),
    ],
)
def test_the_range_in_which_the_result_varies_begins_with_the_smallest_survivor(
    sizes: tuple[TriedMemory, ...], varies: int
) -> None:
    assert varies_from(sizes) == varies * MIB


def phased(*sizes: int, names: tuple[str, ...] = ("spike", "quiet"), **fields: object) -> MemorySeries:
    """Return a run whose phases have these sizes."""
    phases = [
        PhaseMemory(
            name=name,
            began_ns=number * size,
            ended_ns=(number + 1) * size,
            samples=1,
            peak_bytes=size,
            retained_bytes=size + 1,
            live_bytes=size + 2,
        )
        for number, (name, size) in enumerate(zip(names, sizes, strict=True))
    ]
    return MemorySeries(phases=tuple(phases), **fields)  # type: ignore[arg-type]


def test_phases_are_the_medians_of_the_runs_without_a_limit_and_the_series_is_that_of_the_first() -> None:
    runs = [phased(10, 500), phased(30, 400), phased(20, 600)]
    made = iter(runs)
    result = searched(
        lambda key, memory, timeout: ok(memory=next(made) if memory == 1 << 62 else phased(1, 2, names=("x", "y")))
    )[0].result()
    spike, quiet = result.phases
    assert (spike.name, spike.peak_bytes, spike.retained_bytes, spike.live_bytes) == ("spike", 20, 21, 22)
    assert (quiet.peak_bytes, quiet.ended_ns - quiet.began_ns, quiet.samples) == (500, 500, 3)
    assert result.series == runs[0]
    assert result.phases_note == ""


def test_what_limits_the_phases_is_named() -> None:
    one, other = phased(10, 20), phased(10, 20, names=("spike", "other"), ignored=2)
    assert summary([one, other]) == (
        one.phases,
        "2 lines are no marks; the phases differ from run to run: those of the first run are stated",
    )
    assert summary([one, phased(1, 2, unavailable="no rollup")]) == ((), "no rollup")
    assert summary([]) == ((), "")
    start = PhaseMemory(name="start")
    begun = msgspec.structs.replace(start, samples=1, peak_bytes=7)
    empty, sampled = (MemorySeries(phases=(first, *one.phases)) for first in (start, begun))
    assert [phase.name for phase in summary([empty, empty])[0]] == ["spike", "quiet"]
    assert next((phase.name, phase.peak_bytes) for phase in summary([empty, sampled])[0]) == ("start", 7)
    assert summary([MemorySeries(phases=(start,))])[0] == (start,)
    without = msgspec.structs.replace(one.phases[0], live_bytes=None, samples=0, peak_bytes=0)
    first = summary([one, one, MemorySeries(phases=(without, one.phases[1]))])[0][0]
    assert (first.live_bytes, first.peak_bytes) == (None, 10)
