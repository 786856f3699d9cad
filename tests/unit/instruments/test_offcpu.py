"""Dividing time among threads."""

from __future__ import annotations

import pytest

from swapstone.instruments.namer import Namer
from swapstone.instruments.offcpu import Timeline, contends
from swapstone.instruments.perf import Recording
from swapstone.instruments.region import Windows
from swapstone.instruments.script import Event
from swapstone.instruments.start import Ended
from swapstone.instruments.subject import Region, Subject
from swapstone.model import KERNEL, Frame, Passing
from swapstone.wire import TrialRequest


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
        (FUTEX, True, False),  # a main thread that has others, and code without a name: it waits for them
        (FUTEX, False, True),
        (("munmap", "__x64_sys_munmap[k]", "rwsem_down_write_slowpath[k]"), True, True),
        (("nanosleep", "__x64_sys_clock_nanosleep[k]", "schedule[k]"), False, False),
    ],
)
def test_which_waits_are_for_locks(frames: tuple[str, ...], main: bool, expected: bool) -> None:
    assert contends(stack(*frames), main_of_several=main) is expected


def _passing(*events: Event) -> Passing:
    request = TrialRequest(id="x", arguments=("/nowhere/prog",), cwd="/", timeout_ms=1)
    subject = Subject("v", request, Region.PROGRAM)
    recording = Recording(list(events), Windows(((0, 1000),)), Ended(b"", "", 0, 1), 0, "")
    return Timeline(recording, Namer(subject)).passing(1.0, ())


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
