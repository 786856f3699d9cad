# SPDX-License-Identifier: MIT OR Apache-2.0
"""Dividing time among threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model.profile import KERNEL, Frame
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments.offcpu import Timeline, contends, stacks_of
from swapstone.parts.explain.instruments.perf import Event, MeasuredWindows, Recording, Symbolizer
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, TracedRun, Tracee, with_long_timeout
from swapstone.parts.explain.model.explanation import NO_PROCESSOR_FRAME, ElapsedTime


def stack(*names: str) -> tuple[Frame, ...]:
    """Make a stack, the outermost frame first; names that end with [k] are the kernel's."""
    return tuple(
        Frame(symbol=name.removesuffix("[k]"), object=KERNEL if name.endswith("[k]") else "libc.so.6") for name in names
    )


FUTEX = ("do_syscall_64[k]", "__x64_sys_futex[k]", "schedule[k]")


@pytest.mark.parametrize(
    ("frames", "main", "expected"),
    [
        (("pthread_mutex_lock", *FUTEX), False, True),
        (("pthread_mutex_lock", *FUTEX), True, True),
        (("pthread_join", *FUTEX), True, False),
        (("__pthread_clockjoin_ex", *FUTEX), False, False),
        (("pthread_cond_wait", *FUTEX), False, False),
        # without the callers' names: glibc's innermost function of a lock, and of conditions, joins and semaphores
        (("__lll_lock_wait", *FUTEX), True, True),
        (("__futex_abstimed_wait_common", *FUTEX), False, False),
        (("pthread_rwlock_wrlock", "__futex_abstimed_wait_common", *FUTEX), True, True),
        (FUTEX, True, False),  # a main thread that has others, and code without a name: it waits for them
        (FUTEX, False, True),
        # musl's innermost functions: of what can be cancelled (a pool that waits for work), and of a mutex
        (("__syscall_cp_asm", *FUTEX), False, False),
        (("__syscall_cp_c", *FUTEX), False, True),
        (("__lock", *FUTEX), True, True),
        (("munmap", "__x64_sys_munmap[k]", "rwsem_down_write_slowpath[k]"), True, True),
        (("nanosleep", "__x64_sys_clock_nanosleep[k]", "schedule[k]"), False, False),
    ],
)
def test_which_waits_are_for_locks(frames: tuple[str, ...], main: bool, expected: bool) -> None:
    assert contends(stack(*frames), main_of_several=main) is expected


REQUEST = TrialRequest(id="x", arguments=("/nowhere/prog",), cwd="/", timeout_ms=1)


def _timeline(*events: Event, parts: int = 1) -> Timeline:
    timeline = Timeline(Symbolizer(Tracee("v", REQUEST, Region.PROGRAM)))
    recording = Recording(list(events), MeasuredWindows(((0, 1000),)), TracedRun("", 0, 1), 0, "")
    timeline.follow(recording, parts=parts)
    return timeline


def _passing(*events: Event) -> ElapsedTime:
    return _timeline(*events).elapsed(1.0, ())


def _at(time_ns: int, what: str, tid: int = 1, *names: str) -> Event:
    frames = tuple(
        (number, name.removesuffix("[k]"), "[kernel.kallsyms]") for number, name in enumerate(reversed(names))
    )
    return Event(what, "prog", 1, tid, time_ns, stack=frames)


def test_one_thread_runs_and_sleeps() -> None:
    found = _passing(
        _at(1, "exec"),
        _at(301, "context-switches", 1, "__x64_sys_clock_nanosleep[k]", "schedule[k]"),
        _at(301, "out"),
        _at(801, "in"),
        _at(901, "taken"),
        _at(951, "in"),
        _at(1000, "exit"),
    )
    assert (found.running_ns, found.ready_ns, found.most_threads) == (300 + 100 + 49, 50, 1)
    (waits,) = found.waits.stacks
    assert waits.weight == 500
    assert [found.waits.frames[number].symbol for number in waits.frames] == ["__x64_sys_clock_nanosleep", "schedule"]


def test_the_parts_of_a_run_are_kept_apart() -> None:
    events = (
        _at(1, "exec"),
        _at(201, "context-switches", 1, "__x64_sys_clock_nanosleep[k]", "schedule[k]"),
        _at(201, "out"),
        _at(601, "in"),
        _at(1000, "exit"),
    )
    found = _timeline(*events, parts=4).elapsed(1.0, (), 4)
    assert [run.running_ns for run in found.runs] == [200, 0, 399, 0]
    assert [[weight for _, weight in run.weights] for run in found.waits.runs] == [[], [], [400], []]
    assert (found.running_ns, found.cpu_ns, found.ready_ns) == (599, 599, 0)


def test_a_contended_lock_takes_its_share_though_another_thread_runs() -> None:
    found = _passing(
        _at(1, "exec"),
        _at(1, "fork", 2),
        _at(1, "in", 2),
        _at(101, "context-switches", 2, "__x64_sys_futex[k]", "schedule[k]"),
        _at(101, "out", 2),
        _at(301, "in", 2),
        _at(401, "exit", 2),
        _at(1000, "exit"),
    )
    # 100 ns both run, 200 ns one runs and one waits, 100 ns both run, the rest alone
    assert found.waits.stacks[0].weight == 100
    assert found.running_ns == 100 + 100 + 100 + 599
    assert found.most_threads == 2
    assert found.cpu_ns == 999 + 200  # both threads', whether they share a moment or not


def test_a_thread_that_only_waits_for_others_takes_no_share() -> None:
    found = _passing(
        _at(1, "exec"),
        _at(1, "fork", 2),
        _at(1, "in", 2),
        _at(11, "context-switches", 1, "__x64_sys_futex[k]", "schedule[k]"),
        _at(11, "out", 1),
        _at(901, "exit", 2),
        _at(951, "in", 1),
        _at(1000, "exit"),
    )
    assert (found.running_ns, found.waits.stacks[0].weight) == (10 + 890 + 49, 50)


def test_idle_time_is_attributed_to_the_wait_that_ends_it_and_not_to_a_sleeping_pool() -> None:
    found = _passing(
        _at(1, "exec"),
        _at(1, "fork", 2),
        _at(1, "in", 2),
        _at(11, "context-switches", 2, "__x64_sys_clock_nanosleep[k]", "schedule[k]"),
        _at(11, "out", 2),
        _at(101, "context-switches", 1, "__x64_sys_epoll_wait[k]", "schedule[k]"),
        _at(101, "out", 1),
        _at(501, "in", 1),
        _at(801, "context-switches", 1, "__x64_sys_read[k]", "schedule[k]"),
        _at(801, "out", 1),
        _at(1000, "exit", 3),  # the recording ends while both wait: alike to both
    )
    weights = {found.waits.frames[one.frames[-2]].symbol: one.weight for one in found.waits.stacks}
    assert weights == {"__x64_sys_epoll_wait": 400, "__x64_sys_read": 99.5, "__x64_sys_clock_nanosleep": 99.5}


def test_the_graph_shows_what_a_thread_was_at_when_its_processor_was_taken() -> None:
    timeline = _timeline(
        _at(1, "exec"),
        _at(101, "context-switches", 1, "handle", "asm_exc_page_fault[k]", "schedule[k]"),
        _at(101, "taken"),
        _at(401, "in"),
        _at(1000, "exit"),
    )
    elapsed = timeline.elapsed(1.0, ())
    assert (elapsed.ready_ns, elapsed.waits.stacks) == (300, ())  # it waited for nothing
    profile = timeline.off.profile("off-cpu", "ns", 1.0)
    (stack_,) = profile.stacks
    assert stack_.weight == 300
    names = [profile.frames[number].symbol for number in stack_.frames]
    assert names == ["handle", "asm_exc_page_fault", "schedule", NO_PROCESSOR_FRAME.symbol]


@pytest.mark.parametrize(
    ("region", "metrics", "expected"),
    [
        (Region.DRIVEN, {"wall": 1e5, "nvcsw": 0.2, "nivcsw": 0.2}, "call-graph=dwarf"),  # 4000 a second
        (Region.DRIVEN, {"wall": 1e5, "nvcsw": 0.2, "nivcsw": 0.4}, "call-graph=fp"),  # 6000 a second
        (Region.DRIVEN, {"wall": 1e5}, "call-graph=fp"),  # a thread for each connection: the rate is unknown
        (Region.PASSES, {"wall": 1e5, "nvcsw": 9.0, "nivcsw": 9.0}, "call-graph=dwarf"),
    ],
)
def test_a_server_that_switches_often_is_looked_at_without_unwinding(
    region: Region, metrics: dict[str, float], expected: str
) -> None:
    terms, notes = stacks_of(Tracee("v", REQUEST, region), ReferenceRuns(metrics, (), Path()))
    assert terms.startswith(expected)
    assert any("not its callers" in note for note in notes) == (expected == "call-graph=fp")


def test_drivers_wait_for_answers_as_long_as_an_instrument_may_hold_them_up() -> None:
    assert with_long_timeout(("/usr/bin/wrk", "-c", "1", "http://x/")) == (
        "/usr/bin/wrk",
        "--timeout",
        "600s",
        "-c",
        "1",
        "http://x/",
    )
    assert with_long_timeout(("ab", "-n", "5", "http://x/")) == ("ab", "-s", "600", "-n", "5", "http://x/")
    assert with_long_timeout(("./mine", "x")) == ("./mine", "x")
