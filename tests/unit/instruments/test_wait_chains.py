# SPDX-License-Identifier: MIT OR Apache-2.0
"""Following waits across threads: what ended each, and who had the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import KERNEL, Frame
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import perf, waits
from swapstone.parts.explain.instruments.perf import Event, MeasuredWindows, Recording, decode_events
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, TracedRun, Tracee
from swapstone.parts.explain.instruments.waits import MOST_PAST, WaitChains, futex_reason, interrupt_reason
from swapstone.parts.explain.model.explanation import (
    COMPUTING,
    DELAYED_ACK,
    DISK,
    HAND_OFF,
    IDLE,
    LOAD_GENERATOR,
    LOCK,
    NETWORK,
    NO_PROCESSOR,
    OWN_THREADS,
    TIMER,
    EndedWaits,
)

MS = 1_000_000
PROGRAM, OTHER_THREAD, DRIVER, HOG = 10, 11, 20, 30


def frames(*names: str) -> tuple[Frame, ...]:
    """Make a stack, the outermost frame first; names that end with [k] are the kernel's."""
    return tuple(
        Frame(symbol=name.removesuffix("[k]"), object=KERNEL if name.endswith("[k]") else "libc.so.6") for name in names
    )


CALL = ("do_syscall_64[k]", "__x64_sys_futex[k]", "futex_wake[k]", "try_to_wake_up[k]")
SOFTIRQ = ("asm_sysvec_apic_timer_interrupt[k]", "__irq_exit_rcu[k]", "net_rx_action[k]", "sock_def_readable[k]")
SENT = ("write", "__x64_sys_write[k]", "tcp_sendmsg[k]", "net_rx_action[k]", "sock_def_readable[k]")


def switch(at: int, leaves: int, state: str, enters: int, *, cpu: int = 0, pid: int = 0) -> Event:
    names = {PROGRAM: "prog", OTHER_THREAD: "prog", DRIVER: "wrk", HOG: "hog"}
    trace = (
        f"prev_comm={names.get(leaves, 'x')} prev_pid={leaves} prev_prio=120 prev_state={state} ==> "
        f"next_comm={names.get(enters, 'x')} next_pid={enters} next_prio=120"
    )
    return Event(waits.SWITCH, names.get(leaves, "x"), pid or leaves, leaves, at, trace, stack=((0, "", ""),), cpu=cpu)


def waking(at: int, waker: int, tid: int, kind: int, *, cpu: int = 0, pid: int = 0) -> Event:
    name = {PROGRAM: "prog", DRIVER: "wrk", HOG: "hog"}.get(waker, "x")
    trace = f"comm=any pid={tid} prio=120 target_cpu={cpu:03}"
    return Event(waits.WAKING, name, pid or waker, waker, at, trace, stack=((kind, "", ""),), cpu=cpu)


STACKS = [
    (),
    frames("__GI___lll_lock_wake", *CALL),
    frames("pthread_cond_signal", *CALL),
    frames(*SOFTIRQ),
    frames(*SENT),
    frames("asm_sysvec_apic_timer_interrupt[k]", "hrtimer_interrupt[k]", "hrtimer_wakeup[k]"),
    frames("asm_common_interrupt[k]", "blk_mq_complete_request[k]", "bio_endio[k]"),
]
UNLOCK, SIGNAL, RECEIVE, SEND, ALARM, BLOCK = range(1, 7)


def follow(*found: Event, driver: str = "", harness: int = 0) -> WaitChains:
    chains = WaitChains(
        MeasuredWindows(((0, 1000 * MS),), harness),
        PROGRAM,
        driver,
        lambda event: STACKS[event.stack[0][0]] if event.stack else (),
    )
    chains.follow(found)
    return chains


def reasons(chains: WaitChains) -> dict[tuple[str, str], tuple[float, float]]:
    return {(each.reason, each.whose): (each.waits, each.total_ns) for each in chains.ended(1.0)}


def test_waits_are_named_by_the_interrupt_that_ended_them() -> None:
    found = follow(
        switch(0, PROGRAM, "S", HOG),
        waking(5 * MS, HOG, PROGRAM, ALARM),
        switch(5 * MS, HOG, "R", PROGRAM),
        switch(6 * MS, PROGRAM, "D", HOG),
        waking(9 * MS, HOG, PROGRAM, BLOCK),
    )
    assert reasons(found) == {(TIMER, ""): (1.0, 5 * MS), (DISK, ""): (1.0, 3 * MS)}


@pytest.mark.parametrize(
    ("length", "expired", "cpu", "expected"),
    [
        (42, 41, 0, DELAYED_ACK),
        (42, None, 0, NETWORK),  # no timer expired
        (42, 41, 1, NETWORK),  # one of another processor
        (42, 20, 0, NETWORK),  # long before
        (5, 4, 0, NETWORK),  # no connection delays its ACK by so little
    ],
)
def test_nagle_needs_the_delayed_ack_timer_and_its_length(
    length: int, expired: int | None, cpu: int, expected: str
) -> None:
    timer = [Event(waits.DELAYED_ACK_TIMER, "hog", HOG, HOG, expired * MS, cpu=cpu)] if expired else []
    found = follow(switch(0, PROGRAM, "S", HOG), *timer, waking(length * MS, HOG, PROGRAM, RECEIVE))
    assert reasons(found) == {(expected, ""): (1.0, length * MS)}


def test_waits_whose_end_was_not_recorded_are_counted() -> None:
    found = follow(
        switch(0, PROGRAM, "S", 0),
        switch(40 * MS, PROGRAM, "S", 0),  # it ran again, so something woke it
        switch(50 * MS, PROGRAM, "S", HOG),
        switch(55 * MS, HOG, "S", 0),
        switch(60 * MS, HOG, "S", 0),  # not a thread of the program
        waking(70 * MS, HOG, PROGRAM, RECEIVE),
        switch(71 * MS, 0, "R", PROGRAM),
        switch(72 * MS, PROGRAM, "R", HOG),  # no end of a wait
    )
    assert found.unrecorded == 2
    (note,) = found.notes()
    assert note.startswith("the kernel recorded no event for the end of 2 of 3 waits of the program's threads")


def test_recorded_waits_have_no_note() -> None:
    found = follow(switch(0, PROGRAM, "S", HOG), waking(7 * MS, HOG, PROGRAM, RECEIVE), switch(8 * MS, PROGRAM, "S", 0))
    assert (found.unrecorded, found.notes()) == (0, ())


def test_a_wait_for_a_thread_that_waits_has_that_threads_reason() -> None:
    """The client waits for its server's thread, which waits for the delayed ACK, then computes and answers."""
    fork = Event("fork", "prog", PROGRAM, OTHER_THREAD, 0, parent=PROGRAM)
    found = follow(
        fork,
        switch(0, OTHER_THREAD, "S", PROGRAM, pid=PROGRAM),
        switch(1 * MS, PROGRAM, "S", HOG),
        Event(waits.DELAYED_ACK_TIMER, "hog", HOG, HOG, 40 * MS, cpu=0),
        waking(40 * MS, HOG, OTHER_THREAD, RECEIVE),
        switch(40 * MS, HOG, "R", OTHER_THREAD, pid=HOG),
        waking(42 * MS, OTHER_THREAD, PROGRAM, SEND, pid=PROGRAM),
    )
    assert reasons(found) == {
        (DELAYED_ACK, ""): (2.0, 40 * MS + 39 * MS),
        (COMPUTING, OWN_THREADS): (0.0, 2 * MS),
    }


@pytest.mark.parametrize(("kind", "expected"), [(UNLOCK, LOCK), (SIGNAL, HAND_OFF)])
def test_a_lock_and_a_hand_off(kind: int, expected: str) -> None:
    found = follow(switch(0, PROGRAM, "S", OTHER_THREAD), waking(7 * MS, OTHER_THREAD, PROGRAM, kind, pid=PROGRAM))
    assert reasons(found) == {(expected, OWN_THREADS): (1.0, 7 * MS)}


def test_the_load_generator_computes_or_has_no_processor() -> None:
    found = follow(
        switch(0, PROGRAM, "S", DRIVER),
        switch(3 * MS, DRIVER, "R", HOG),
        switch(7 * MS, HOG, "R", DRIVER),
        waking(8 * MS, DRIVER, PROGRAM, SEND),
        driver="wrk",
    )
    assert reasons(found) == {
        (COMPUTING, LOAD_GENERATOR): (0.0, 4 * MS),
        (NO_PROCESSOR, LOAD_GENERATOR): (1.0, 4 * MS),
    } or reasons(found) == {(COMPUTING, LOAD_GENERATOR): (1.0, 4 * MS), (NO_PROCESSOR, LOAD_GENERATOR): (0.0, 4 * MS)}


def test_who_took_the_processor() -> None:
    found = follow(
        switch(0, PROGRAM, "R", HOG),
        switch(6 * MS, HOG, "R", DRIVER),
        switch(8 * MS, DRIVER, "S", 0),
        switch(9 * MS, 0, "R", PROGRAM),
        switch(10 * MS, PROGRAM, "S", HOG),
        driver="wrk",
    )
    assert [(each.whose, each.total_ns) for each in found.taken(1.0)] == [
        ("hog", 6 * MS),
        (LOAD_GENERATOR, 2 * MS),
        (IDLE, 1 * MS),
    ]


def test_the_harness_and_other_programs_are_not_counted() -> None:
    found = follow(
        switch(0, PROGRAM, "S", HOG),
        waking(5 * MS, HOG, PROGRAM, ALARM),
        switch(6 * MS, HOG, "S", 0),
        waking(9 * MS, 0, HOG, ALARM),
        harness=PROGRAM,
    )
    assert found.ended(1.0) == () and found.taken(1.0) == ()


def test_a_thread_with_a_long_past_is_bounded() -> None:
    turns = [switch(at, DRIVER, "S", DRIVER) for at in range(3 * MOST_PAST)]
    found = follow(switch(0, PROGRAM, "S", DRIVER), *turns, waking(3 * MOST_PAST, DRIVER, PROGRAM, SEND))
    assert sum(each.total_ns for each in found.ended(1.0)) == 3 * MOST_PAST


def test_quantiles_are_of_the_waits_with_that_reason() -> None:
    turns = [
        event
        for number in range(20)
        for event in (
            switch(number * 20 * MS, PROGRAM, "S", HOG),
            waking(number * 20 * MS + number * MS + MS, HOG, PROGRAM, ALARM),
            switch(number * 20 * MS + number * MS + MS, HOG, "R", PROGRAM),
        )
    ]
    (only,) = follow(*turns).ended(10.0)
    assert only == EndedWaits(
        reason=TIMER, whose="", waits=2.0, total_ns=21.0 * MS, short_ns=3.0 * MS, long_ns=19.0 * MS
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (SENT, None),  # the softirq of a system call belongs to the sender
        (SOFTIRQ, NETWORK),
        (("write", "__x64_sys_write[k]", *SOFTIRQ), NETWORK),  # an interrupt during another's system call
        (("kthread[k]", "run_ksoftirqd[k]", "net_rx_action[k]"), NETWORK),
        (("el0t_64_irq[k]", "hrtimer_wakeup[k]"), TIMER),
        (("kthread[k]", "worker_thread[k]"), None),
    ],
)
def test_interrupts(names: tuple[str, ...], expected: str | None) -> None:
    assert interrupt_reason(frames(*names)) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("pthread_mutex_unlock", *CALL), LOCK),
        (("pthread_cond_broadcast@@GLIBC_2.3.2", *CALL), HAND_OFF),
        (("sem_post", *CALL), HAND_OFF),
        (("unlock_requeue", *CALL), HAND_OFF),  # musl's condition
        (("do_exit[k]", "mm_release[k]", "futex_wake[k]"), HAND_OFF),
        (("[unknown]", *CALL), "futex"),
        (SENT, None),
    ],
)
def test_futexes(names: tuple[str, ...], expected: str | None) -> None:
    assert futex_reason(frames(*names)) == expected


def test_threads_that_choose_their_names_forge_nothing() -> None:
    text = "prev_comm=a prev_pid=1 p prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 ne next_pid=88 next_prio=120"
    found = waits.switch(text)
    assert found is not None and (found.leaves, found.enters) == (77, 88)
    assert waits.switch("prev_comm=a ==> next_comm=b") is None
    assert waits.woken("comm=a pid=1 prio=1 target_cpu=000 pid=5 prio=120 target_cpu=001") == (5, 1)
    assert waits.woken("comm=a pid=99999999999999 prio=1 target_cpu=0") is None


RECORDED = """\
            causes 14020/14020 [001] 23480.626209889: sched:sched_switch: prev_comm=causes prev_pid=14020 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=12638 next_prio=120
	ffffffff821facd8 __schedule ([kernel.kallsyms])

            causes 14020/14020 [001] 23480.700000000: PERF_RECORD_FORK(14052:14052):(14020:14020)
"""  # noqa: E501


def test_events_have_their_processor_and_forks_their_parent() -> None:
    first, fork = decode_events(RECORDED.splitlines())
    assert (first.cpu, first.tid, first.stack[0][1]) == (1, 14020, "__schedule")
    assert (fork.what, fork.pid, fork.parent) == ("fork", 14052, 14020)
    assert perf.process_tree([first, fork], 14020) == {14020, 14052}


def test_a_program_whose_name_is_a_number_loses_no_event() -> None:
    """An event without a stack is followed by the next at once, which must not be taken for a frame of it."""
    line = "             cc1 7/7 10.000000100: raw_syscalls:sys_enter: NR 202 (1, 2)"
    found = list(decode_events([line, line.replace("100:", "200:")]))
    assert [(event.comm, event.time_ns, event.stack) for event in found] == [
        ("cc1", 10_000_000_100, ()),
        ("cc1", 10_000_000_200, ()),
    ]


def test_other_numbers_than_perfs_are_no_evidence() -> None:
    here = switch(0, PROGRAM, "S", HOG)
    elsewhere = switch(0, PROGRAM + 1, "S", HOG, pid=PROGRAM)
    for event, same in ((here, True), (Event(**{**vars(elsewhere), "tid": PROGRAM}), False)):
        recording = Recording([event], MeasuredWindows(()), TracedRun("", 0, 1), 0, "", {PROGRAM})
        if same:
            waits.require_same_numbers(recording)
        else:
            with pytest.raises(UnavailableError, match="no switch of the program by its process number"):
                waits.require_same_numbers(recording)


def test_the_timers_address_is_read_where_the_kernel_shows_it(tmp_path: Path) -> None:
    symbols = tmp_path / "kallsyms"
    symbols.write_text("ffffffff8202e460 t tcp_delack_timer_handler\nffffffff8202e400 t tcp_delack_timer\n")
    assert waits.delayed_ack_options(symbols)[-1] == "function==0xffffffff8202e400"
    symbols.write_text("0000000000000000 t tcp_delack_timer\n")
    assert waits.delayed_ack_options(symbols) == ()
    assert waits.delayed_ack_options(tmp_path / "none") == ()


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "stacks"), [((1.0,), ["dwarf"]), ((9.0, 1.0), ["dwarf", "fp"]), ((9.0, 9.0), None)])
def test_large_recordings_have_stacks_by_frame_pointers(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[float, ...], stacks: list[str] | None
) -> None:
    left, taken, given = list(sizes), list[str](), list[object]()

    def record(_tracee: object, options: tuple[str, ...], *_: object, **more: object) -> Recording:
        given.append((more["mapped"], more["most_bytes"]))
        taken.append("dwarf" if any("call-graph=dwarf" in word for word in options) else "fp")
        if (size := left.pop(0)) > 1:
            raise perf.TooLargeError(f"{size:.1f} times too large")
        ended = TracedRun("", 0, 1, pid=7)
        return Recording([], MeasuredWindows(((0, 100),)), ended, 0, "perf", frozenset())

    monkeypatch.setattr(waits, "record", record)
    monkeypatch.setattr(waits, "require_same_numbers", lambda _: None)
    request = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1)
    tracee = Tracee("v", request, Region.PROGRAM)
    reference = ReferenceRuns({"wall": 1e6}, ("/lib/musl.so",), Path())
    if stacks is None:
        with pytest.raises(UnavailableError, match=r"the recording is 9\.0 times too large"):
            waits.measure(tracee, reference)
        return
    found = waits.measure(tracee, reference)
    assert taken == stacks
    assert any("by frame pointers" in note for note in found.notes) is (len(stacks) > 1)
    # The files that the program maps are given, so that musl's get derived tables.
    assert given[0] == (("/lib/musl.so",), waits.MOST_UNWOUND_BYTES)
