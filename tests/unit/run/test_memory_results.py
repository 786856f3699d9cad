# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each figure of a search for the smallest memory, the words for what differs, and the sizes that are tried."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from swapstone.core.model import IDLE, MemorySeries, PhaseMemory, Status
from swapstone.core.run.prepare import Key, Prepared
from swapstone.core.run.subject import Judgement, Outcome
from swapstone.core.targets import Target, TargetError
from swapstone.parts.vm.run.memory_fit import (
    MIB,
    MOST_SIZES,
    Expected,
    MemoryRule,
    MemoryRun,
    MemorySearch,
    Resolution,
    expected_of,
    memory_trials,
    next_size,
    one_line,
    run_of_outcome,
    search_all,
    sizes_left,
    threshold,
)
from tests.unit.run.test_memory_trials import KILLED, outcome

KEY: Key = ("own", "prog", "libc=glibc")
HUGE = 1 << 40
RULE = MemoryRule(
    unlimited=(HUGE,) * 3,
    tries_unlimited=False,
    repeats=2,
    most_bytes=64 * MIB,
    resolution=Resolution(),
    timeout_ms=70_000,
)


def ok(**changes: object) -> MemoryRun:
    return MemoryRun(**{"digests": (("stdout", "a"),), "rss_bytes": 8 * MIB, **changes})  # type: ignore[arg-type]


def searched(
    runs: Iterable[MemoryRun], then: Callable[[int], MemoryRun], **rule: Any
) -> tuple[MemorySearch, list[int]]:
    """Search to the end: with these runs without a limit, and then others. Return the time-outs too."""
    first, timeouts = iter(runs), []

    def run(_: Key, size: int, timeout_ms: int) -> MemoryRun:
        timeouts.append(timeout_ms)
        found = next(first, None)
        return found or then(size)

    search = MemorySearch(KEY, dataclasses.replace(RULE, **rule), run)
    while not search.done:
        search.step()
    return search, timeouts


def test_each_figure_of_a_result() -> None:
    runs = [
        ok(rss_bytes=rss * MIB, peak_bytes=peak, wall_ns=wall) for rss, peak, wall in ((7, 5, 1), (9, 3, 2), (8, 4, 3))
    ]
    found = searched(runs, lambda size: ok() if size >= 5 * MIB else ok(failure="killed"))[0].result()
    assert (found.workload, found.variant) == ("prog", "libc=glibc")
    assert (found.least_rss_bytes, found.peak_rss_bytes, found.peak_cgroup_bytes) == (7 * MIB, 9 * MIB, 5)
    assert (found.smallest_bytes, found.failed_bytes, found.how_failed) == (5 * MIB, 4 * MIB, "killed")
    assert found.runs == 3 + sum(2 if each.survived else 1 for each in found.sizes)
    assert all(each.how == ("" if each.survived else "killed") for each in found.sizes)
    assert (found.complete, found.unavailable, found.survived_below, found.varies_from_bytes) == (True, "", (), 0)
    assert (found.compared, found.phases, found.phases_note, found.series) == (
        "exit status and standard output",
        (),
        "",
        None,
    )


def test_a_search_that_has_not_begun_knows_nothing() -> None:
    search = MemorySearch(KEY, RULE, lambda *_: ok())
    found = search.result()
    assert (found.least_rss_bytes, found.peak_rss_bytes, found.peak_cgroup_bytes, found.runs) == (0, 0, 0, 0)
    assert (found.complete, found.compared, found.unavailable, found.how_failed) == (False, "", "", "")
    assert (search.left, search.done) == (10, False)
    search.step()
    assert search.result().runs == 3 and not search.done
    assert search.left == sizes_left({}, first_bytes=8 * MIB, most_bytes=64 * MIB, resolution=Resolution())


@pytest.mark.parametrize(
    ("wall_ms", "timeout_ms"), [(0, 10_000), (500, 10_000), (501, 10_020), (3499, 69_980), (3501, 70_000)]
)
def test_a_run_may_take_twenty_times_as_long_as_without_a_limit(wall_ms: int, timeout_ms: int) -> None:
    walls = (wall_ms * 1_000_000, 0, wall_ms * 500_000)
    _, timeouts = searched([ok(wall_ns=wall) for wall in walls], lambda _: ok())
    assert timeouts[:3] == [0, 0, 0] and set(timeouts[3:]) == {timeout_ms}


def test_the_first_failure_without_a_limit_ends_the_search() -> None:
    search, timeouts = searched([ok(), ok(failure="crashed")], lambda _: ok())
    found = search.result()
    assert (len(timeouts), found.unavailable, found.compared, found.complete) == (2, "crashed", "", True)
    assert (found.smallest_bytes, found.failed_bytes, found.sizes) == (0, 0, ())


@pytest.mark.parametrize("tries", [True, False])
def test_in_a_virtual_machine_the_runs_without_a_limit_are_tried_sizes(*, tries: bool) -> None:
    search, _ = searched(
        [],
        lambda size: ok() if size > 20 * MIB else ok(failure="killed"),
        unlimited=(128 * MIB,),
        tries_unlimited=tries,
    )
    found = search.result()
    assert (found.smallest_bytes, found.failed_bytes) == (21 * MIB, 20 * MIB)
    assert found.sizes[0].memory_bytes == (64 if tries else 8) * MIB  # half of it, or what the program used
    note = "unavailable in a virtual machine, whose processes are not sampled"
    assert found.phases_note == (note if tries else "")


@pytest.mark.parametrize("ended", [True, False])
def test_a_machine_that_broke_is_told_from_a_program_that_failed(*, ended: bool) -> None:
    found = searched([], lambda size: ok() if size > 9 * MIB else ok(failure="x", ended=ended))[0].result()
    assert {each.by_machine for each in found.sizes if not each.survived} == {not ended}
    assert {each.by_machine for each in found.sizes if each.survived} == {False}


IN_TURN: Any = SimpleNamespace(at_once=1)


def test_progress_names_each_part_with_what_is_left() -> None:
    other: Key = ("own", "prog", "libc=musl")
    searches = [MemorySearch(key, RULE, lambda *_: ok()) for key in (KEY, other)]
    seen: list[tuple[Key, int]] = []
    assert search_all(searches, IN_TURN, lambda search, left, _: seen.append((search.key, left)))
    assert [key for key, _ in seen[:4]] == [KEY, other] * 2
    assert seen[0][1] == sizes_left({}, first_bytes=8 * MIB, most_bytes=64 * MIB, resolution=Resolution()) + 10
    assert seen[-1][1] == 0
    assert all(search.done for search in searches)


# What differs


def test_what_runs_have_in_common_is_compared() -> None:
    def compared(*digests: dict[str, str], differ: bool = False) -> tuple[str, str]:
        found = expected_of([ok(digests=tuple(each.items())) for each in digests], output_may_differ=differ)
        return found.compared, found.why_none

    same = {"stdout": "1", "shape:stdout": "2", "columns:stdout": "3", "out.txt": "4"}
    assert compared(same, same) == ("exit status and standard output and out.txt", "")
    other = {**same, "stdout": "9"}
    assert compared(same, other) == (
        "exit status and standard output (its lines sorted, without numbers) and out.txt",
        "",
    )
    assert compared(same, {**other, "shape:stdout": "9"}) == (
        "exit status",
        "its output (stdout) varies from run to run: add --output-may-differ",
    )
    assert compared(same, {**other, "shape:stdout": "9"}, differ=True) == ("exit status and out.txt", "")
    assert compared(same, {"stdout": "1"}) == (
        "exit status",
        "its output (out.txt) varies from run to run: add --output-may-differ",
    )
    assert compared({}, {}) == ("exit status", "")


def test_why_runs_without_a_limit_can_not_be_compared() -> None:
    assert expected_of([ok(code=1), ok(code=2), ok(code=1)], output_may_differ=True) == Expected(
        why_none="its exit status varies: 1, 2, 1"
    )
    assert expected_of([ok(), ok(failure="a"), ok(failure="b")], output_may_differ=True) == Expected(why_none="a")
    assert expected_of([ok(code=3), ok(code=3)], output_may_differ=True).code == 3


def test_the_first_difference_is_named() -> None:
    expected = Expected(code=3, digests=(("shape:stdout", "1"), ("out", "2")))
    run = ok(code=3, digests=(("out", "2"), ("shape:stdout", "1"), ("more", "9")))
    assert expected.difference(run) == ""
    change = dataclasses.replace
    assert expected.difference(change(run, failure="killed", code=1)) == "killed"
    assert expected.difference(change(run, code=0, digests=())) == "exit status 0, and 3 without a limit"
    assert expected.difference(change(run, digests=())) == "other output (stdout) than without a limit"
    assert expected.difference(change(run, digests=run.digests[1:])) == "other output (out) than without a limit"


# One run


def test_a_run_is_asked_for_with_its_memory_and_its_time() -> None:
    asked: list[Any] = []

    def run(spec: object, target: object) -> Outcome:
        asked.append((spec, target))
        return outcome(facts=(("wall_ns", 5),))

    target = SimpleNamespace(describe=lambda: SimpleNamespace(cpus=(2, 3)), scratch=lambda: "/scratch")
    prepared = SimpleNamespace(
        variants={KEY[2]: "variant"}, programs={KEY: "program"}, subjects={KEY[:2]: SimpleNamespace(run=run)}
    )
    run_once = memory_trials(cast("Prepared", prepared), cast("Target", target))
    assert run_once(KEY, 4096, 70).wall_ns == 5
    run_once(KEY, 8192, 0)
    (first, where), (second, _) = asked
    assert where is target
    assert (first.identity, second.identity) == ("memory-1", "memory-2")
    assert (first.variant, first.program, first.scratch, first.cpus) == ("variant", "program", "/scratch", (2, 3))
    assert (first.memory_bytes, first.timeout_ms, first.load) == (4096, 70, IDLE)
    assert (second.memory_bytes, second.timeout_ms) == (8192, 0)


def test_what_a_run_without_figures_shows() -> None:
    assert run_of_outcome(outcome(machine=())) == MemoryRun()
    assert run_of_outcome(Outcome(Judgement(Status.FAILED), None, b"")).failure == "it did not run"
    assert run_of_outcome(outcome(Judgement(Status.REFUSED))).failure == "refused"
    assert run_of_outcome(outcome(Judgement(Status.OK, digests=(("a", "b"),)))).digests == (("a", "b"),)
    marked = MemorySeries(phases=(PhaseMemory(name="load"), PhaseMemory(name="spike")))
    run = run_of_outcome(outcome(KILLED, machine=(("cgroup_oom_kills", "1"),), memory=marked))
    assert run.failure == "OOM kill: it was killed by SIGKILL (signal 9), in the phase spike"
    assert run.memory is marked and run.ended


def test_a_machine_that_ended_is_one_line() -> None:
    def text(message: str, hint: str = "") -> str:
        return one_line(TargetError(message, hint))

    assert text("It ended.") == "It ended"
    assert text("It\nended..", "PANIC a\nOut of memory: b\n  kernel Panic: c \nend") == "It ended: kernel Panic: c"
    assert text("It ended", "out of memory") == "It ended"
    assert len(text("x" * 2000)) == len(text("x" * 1000, "panic" * 1000)) < 1000


# Sizes


@pytest.mark.parametrize(
    ("size", "step", "down", "up"),
    [
        (0, 4, 0, 4),
        (1, 4, 0, 4),
        (4, 4, 4, 4),
        (5, 4, 4, 8),
        (60, 4, 60, 60),
        (160, 16, 160, 160),
        (194, 16, 192, 196),
        (199, 20, 196, 200),
    ],
)
def test_sizes_are_multiples_of_the_grid(size: int, step: int, down: int, up: int) -> None:
    resolution = Resolution(least_bytes=6, share=0.1, grid_bytes=4)
    assert (resolution.step(size), resolution.down(size), resolution.up(size)) == (step, down, up)
    assert Resolution() == Resolution(least_bytes=MIB, share=0.02, grid_bytes=MIB)


def test_the_sizes_of_a_search() -> None:
    def tried(need: int, first: int, most: int = 100, **lucky: bool) -> list[int]:
        found: dict[int, bool] = {}
        resolution = Resolution(least_bytes=1, share=0.0, grid_bytes=1)
        while (size := next_size(found, first_bytes=first, most_bytes=most, resolution=resolution)) is not None:
            found[size] = lucky.get(f"s{size}", size >= need)
        return list(found)

    assert tried(7, 3) == [3, 6, 12, 9, 7, 8, 10], "at the end it checks one and three steps above"
    assert tried(7, 3, s8=False)[:6] == [3, 6, 12, 9, 7, 8] and tried(7, 3, s8=False)[6:] == [10]
    assert tried(200, 30) == [30, 60, 100]
    assert tried(200, 300) == [100]
    assert tried(0, 8) == [8, 4, 2, 1]
    assert tried(100, 100)[:4] == [100, 50, 75, 87]


def test_a_search_has_a_largest_number_of_sizes() -> None:
    resolution = Resolution(least_bytes=1, share=0.0, grid_bytes=1)
    for count, ended in ((MOST_SIZES, True), (MOST_SIZES - 1, False)):
        tried = dict.fromkeys(range(1, count + 1), False)
        found = next_size(tried, first_bytes=1, most_bytes=10**6, resolution=resolution)
        assert found == (None if ended else 2 * count)


def test_what_sizes_show() -> None:
    found = threshold({9: True, 8: False, 7: True, 5: True, 6: False, 12: True})
    assert (found.smallest_bytes, found.failed_bytes, found.survived_below) == (9, 8, (5, 7))
    found = threshold({5: False, 4: True})
    assert (found.smallest_bytes, found.failed_bytes, found.survived_below) == (0, 5, (4,))
    assert threshold({}) == threshold({}) and threshold({}).smallest_bytes == threshold({}).failed_bytes == 0
