# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decoding what perf, strace and callgrind print."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.profile import Frame
from swapstone.parts.explain.instruments.instructions import tally, total
from swapstone.parts.explain.instruments.perf import (
    MOST_FRAMES,
    Event,
    MeasuredWindows,
    ProfileBuilder,
    decode_events,
    demangled,
    once,
    passes,
    windows,
)
from swapstone.parts.explain.instruments.syscalls import counted_by_strace
from swapstone.parts.explain.instruments.traced_run import Region
from tests.programs import needs

SCRIPT = """\
perf-exec     0/0         0.000000000: PERF_RECORD_COMM: perf-exec:7/7
a prog 7/7     10.000000100: PERF_RECORD_COMM exec: prog:7/7
prog 7/7     10.000000200: PERF_RECORD_MMAP2 7/7: [0x55b95feee000(0x1000) @ 0x2000 fe:00 10018933 2693367313]: r-xp /a b/prog
prog 7/7     10.000000300: PERF_RECORD_FORK(7:8):(7:7)
prog 7/8     10.000000400: PERF_RECORD_SWITCH IN~
prog 7/8     10.000000500: cpu-clock:~
\tffffffff821f5f83 schedule ([kernel.kallsyms])
\t           1c5c4 operator new(unsigned long) (/usr/lib/libc (x).so)

prog 7/8     10.000000600: PERF_RECORD_SWITCH OUT preempt
prog 7/8     10.000000700: PERF_RECORD_SWITCH OUT~
 raw name 7/8 10.000000800: raw_syscalls:sys_enter: NR 202 (1, 2)
prog 7/8     10.000000850: PERF_RECORD_LOST lost 12950
no line of any form
prog 7/8     10.000000900: PERF_RECORD_EXIT(7:8):(6:6)
""".replace("~", "  ").splitlines(keepends=True)  # perf leaves blanks at the ends


def test_a_script_is_decoded() -> None:
    found = list(decode_events(SCRIPT))
    assert [(event.what, event.tid, event.time_ns - 10**10) for event in found] == [
        ("exec", 7, 100),
        ("fork", 8, 300),
        ("in", 8, 400),
        ("cpu-clock", 8, 500),
        ("taken", 8, 600),
        ("out", 8, 700),
        ("raw_syscalls:sys_enter", 8, 800),
        ("lost", 8, 850),
        ("exit", 8, 900),
    ]
    assert found[0].trace == "prog"
    assert found[3].stack == (
        (0xFFFFFFFF821F5F83, "schedule", "[kernel.kallsyms]"),
        (0x1C5C4, "operator new(unsigned long)", "/usr/lib/libc (x).so"),
    )
    assert (found[6].comm, found[6].trace) == ("raw name", "NR 202 (1, 2)")
    assert found[7].trace == "12950"


def test_names_that_look_like_records_and_huge_stacks_are_bounded() -> None:
    head = "a,\x1b[31m\\n b 7/8 10.000000500: cpu-clock: \n"
    evil = "\t 10 f(\x1b]0;x\x07, b 7/8 10.000000600: cpu-clock:) (/tmp/a,b (deleted))\n"
    (one,) = decode_events([head, evil, *["\t 20 deep (/a)\n"] * 100_000])
    assert (one.comm, one.what, len(one.stack)) == ("a,\x1b[31m\\n b", "cpu-clock", MOST_FRAMES)
    assert one.stack[0] == (16, "f(\x1b]0;x\x07, b 7/8 10.000000600: cpu-clock:)", "/tmp/a,b (deleted)")
    # A name with a line feed ends the line: what follows is no frame of this event, and no event without a head.
    (cut,) = decode_events([head, "\t 10 one\n", "two (/a)\n", "\t 20 three (/a)\n"])
    assert cut.stack == ()


def _event(what: str, time_ns: int, pid: int = 7, trace: str = "") -> Event:
    return Event(what, "prog", pid, pid, time_ns, trace)


def test_what_perf_gives_twice_is_there_once() -> None:
    call, other = _event("a", 5, trace="NR 110"), _event("a", 5, pid=8, trace="NR 110")
    later, lost = _event("a", 6, trace="NR 110"), _event("lost", 6, trace="3")
    assert once([call, other, call, other, later, lost, later, lost]) == [call, other, later, lost, lost]
    assert once([]) == []


def test_passes_are_between_the_second_and_the_third_mark_of_each_process() -> None:
    marks = [(8, 1), (8, 2), (8, 9), (8, 10), (9, 11), (9, 12), (8, 13), (8, 14), (9, 19), (9, 20), (8, 30)]
    assert passes(marks) == ((2, 9), (12, 19))  # what has no third mark is no pass


def test_windows() -> None:
    mark = "syscalls:sys_enter_getrusage"
    started = [_event("exec", 1, trace="taskset"), _event("exec", 5, trace="prog")]
    marks = [_event(mark, at, pid=8) for at in (10, 12, 20, 22)]
    assert windows([*started, *marks], Region.PASSES, "prog") == MeasuredWindows(((12, 20),), 7)
    assert windows([*started, _event("exit", 50)], Region.PROGRAM, "prog") == MeasuredWindows(((5, 50),))
    assert windows(marks, Region.PROGRAM, "prog") == MeasuredWindows(())
    two = MeasuredWindows(((12, 20), (30, 40)))
    assert [two.contains(at) for at in (11, 12, 19, 20, 35, 40)] == [False, True, True, False, True, False]
    assert (two.overlap_ns(0, 100), two.overlap_ns(15, 33), two.overlap_ns(20, 30), two.total_ns) == (18, 8, 0, 18)


STRACE = """\
10 100.000001 execve("/usr/bin/env", ["env"], 0x1) = 0
10 100.000002 getrusage(RUSAGE_SELF, {}) = 0
10 100.000010 execve("/a/prog", ["prog"], 0x1) = 0
11 100.000011 getrusage(RUSAGE_SELF, 0x1) = 0
11 100.000012 getrusage(RUSAGE_CHILDREN, 0x1) = 0
11 100.000013 mmap(NULL, 5) = 0x1
12 100.000014 futex(0x1, FUTEX_WAIT <unfinished ...>
11 100.000015 munmap(0x1) = 0
12 100.000016 <... futex resumed>) = 0
11 100.000020 getrusage(RUSAGE_SELF, 0x1) = 0
11 100.000021 getrusage(RUSAGE_CHILDREN, 0x1) = 0
11 100.000022 write(1, ""..., 5) = 5
""".splitlines()


def test_strace_is_counted_in_passes_and_in_whole_programs() -> None:
    counted, pieces, span = counted_by_strace(STRACE, Region.PASSES, "/a/prog")
    assert (dict(counted), pieces, span) == ({"mmap": 1, "futex": 1, "munmap": 1}, 1, 8000)
    counted, pieces, span = counted_by_strace(STRACE, Region.PROGRAM, "/a/prog")
    assert (dict(counted), span) == ({"getrusage": 4, "mmap": 1, "futex": 1, "munmap": 1, "write": 1}, 11_000)


CALLGRIND = """\
events: Ir

ob=(1) /lib/libc.so
fl=(1) ???
fn=(1) malloc
0 100
+3 20
cfn=(2) 0x288a0
calls=7 0
0 5000
* 1

fn=(2)
0 11
cob=(2) /a/prog
cfn=(3) main
calls=2 0
-2 9
cfn=(1)
calls=1 0
0 900

ob=(2)
fn=(3)
0 4
""".splitlines(keepends=True)


def test_callgrind_is_added_up_by_function_without_what_callees_took() -> None:
    assert tally(CALLGRIND) == {
        ("instructions", "/lib/libc.so", "malloc"): 121,
        ("instructions", "/lib/libc.so", "0x288a0"): 11,
        ("instructions", "/a/prog", "main"): 4,
        ("calls", "/lib/libc.so", "0x288a0"): 7,
        ("calls", "/a/prog", "main"): 2,
        ("calls", "/lib/libc.so", "malloc"): 1,
    }


@pytest.mark.parametrize(
    "text", ["", "\n\n", "prog 7/8 10.5: cpu-clock:\n", "\t abc [x] (y)\n", "prog 7/8 10.000000500: ?\n"]
)
def test_what_is_not_understood_is_skipped(text: str) -> None:
    assert list(decode_events(text.splitlines(keepends=True))) == []
    assert not tally(text.splitlines())


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("prog 7/8 1.000000000: PERF_RECORD_SWITCH\n", ["out"]),
        ("prog 7/8 1.000000000: PERF_RECORD_LOST lost \n", []),
        (f"prog 7/8 {'1' * 5000}.000000000: cpu-clock:\n", []),
        (f"prog {'1' * 5000}/8 1.000000000: cpu-clock:\n", []),
        (f"prog 7/8 1.000000000: PERF_RECORD_FORK({'1' * 5000}:8):(7:7)\n", []),
        ("a b/c 1/2 x 7/8 1.000000000: cpu-clock:\n", ["cpu-clock"]),
    ],
    ids=["switch", "lost", "time", "pid", "fork", "name"],
)
def test_damaged_lines_of_perf_are_skipped(line: str, what: list[str]) -> None:
    assert [event.what for event in decode_events([line])] == what


def test_a_name_before_a_process_may_contain_anything() -> None:
    (event,) = decode_events(["  a b/c 1/2 x  7/8   1.000000000: cpu-clock: \n"])
    assert (event.comm, event.pid, event.tid, event.time_ns) == ("a b/c 1/2 x", 7, 8, 10**9)


def test_damaged_lines_of_strace_are_skipped() -> None:
    lines = ['1 2.000001 execve("/a/prog", 0', f"1 {'9' * 5000}.000002 write(1", "1 2.000003 read(0"]
    assert dict(counted_by_strace(lines, Region.PROGRAM, "/a/prog")[0]) == {"read": 1}


@pytest.mark.parametrize("calls", ["calls=", "calls=x 1", f"calls={'9' * 5000} 1"])
def test_calls_without_a_number_are_an_error(calls: str) -> None:
    with pytest.raises(UserError, match="has no number of calls"):
        tally(["fn=(1) main", calls, "0 1"])


def test_simulated_events_are_summed_by_their_names() -> None:
    lines = (
        "version: 1",
        "events: Ir Dr Dw D1mr Bc Bcm",
        "fn=(1) work",
        "10 100 20 10 5 7 3",
        "+1 50 1",  # events at the end that are 0 are left out
        "cfn=(2) other",
        "calls=4 20",
        "12 9000 900 90 9 9 9",  # of the called function
        "fn=(2)",
        "20 7 1 1 1 1 1",
        "totals: 157 22 11 6 8 4",
    )
    found = tally(lines)
    events = {"Dr": 22, "Dw": 11, "D1mr": 6, "Bc": 8, "Bcm": 4}
    assert found == {
        ("instructions", "", "work"): 150,
        ("instructions", "", "other"): 7,
        ("calls", "", "other"): 4,
        **{("simulated", "", name): number for name, number in events.items()},
    }
    assert total("\n".join(lines)) == 157


@needs("c++filt")
def test_names_of_cpp_are_those_that_a_programmer_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "_Z4sortRSt6vectorIiSaIiEE",
        "_ZL10check_evenlb.cold",
        "main",
        "_Z",
        "_ZNO",
        f"_Z{'x' * 600}",
    )
    adder = ProfileBuilder()
    for number, name in enumerate(names):
        adder.add((Frame(symbol=name, object="a.so"),), len(names) - number)
    found = [frame.symbol for frame in adder.profile("on-cpu", "ns", 1.0).frames]
    assert found == [
        "std::vector<int, std::allocator<int> >::push_back",
        "sort",
        "check_even",
        *names[3:],
    ]
    strings = f"_ZN1a1fINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE{'S6_' * 20}EEvv"
    assert demangled([strings]) == {strings: "a::f<...>"}, "not the first 512 characters of 1500"
    monkeypatch.setenv("PATH", "")
    assert demangled(names) == {}
    assert [frame.symbol for frame in adder.profile("on-cpu", "ns", 1.0).frames] == list(names)
