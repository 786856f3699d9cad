# SPDX-License-Identifier: MIT OR Apache-2.0
"""Equal work of two C libraries is at one place of the graph of their difference."""

from __future__ import annotations

import json
import re

import pytest

from swapstone.core.comparison.profile_difference import Weights, difference
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, Stack
from swapstone.parts.explain.explanation.profile_formats import aligned, aligned_label, canonical
from swapstone.parts.explain.model.explanation import TimeByFunction
from swapstone.parts.explain.report import flame_graph

GLIBC, MUSL = "libc.so.6", "ld-musl-x86_64.so.1"
ENTRY = ("entry_SYSCALL_64_after_hwframe[k]", "do_syscall_64[k]", "x64_sys_call[k]")


def stack(*names: str, library: str = GLIBC) -> tuple[Frame, ...]:
    """Make a stack; names that end with [k] are the kernel's, with [p] the program's."""
    objects = {"[k]": KERNEL, "[p]": OWN_OBJECT}
    return tuple(Frame(symbol=re.sub(r"\[[kp]\]$", "", name), object=objects.get(name[-3:], library)) for name in names)


def profile(weights: dict[tuple[Frame, ...], float]) -> Profile:
    frames = list(dict.fromkeys(frame for one in weights for frame in one))
    stacks = tuple(Stack(frames=tuple(map(frames.index, one)), weight=weight) for one, weight in weights.items())
    return Profile(kind="on-cpu", unit="ns", operations=1.0, frames=tuple(frames), stacks=stacks)


WRITE, OPEN = (*ENTRY, "__x64_sys_write[k]", "vfs_write[k]"), (*ENTRY, "__x64_sys_openat[k]")
FAULT = ("asm_exc_page_fault[k]", "exc_page_fault[k]", "handle_mm_fault[k]")


@pytest.mark.parametrize(
    ("glibc", "musl", "expected"),
    [
        (("__GI___libc_write", *WRITE), ("__syscall_cp_asm", *WRITE), "syscall:write;vfs_write_[k]"),
        (("__libc_malloc",), ("__libc_malloc_impl",), "malloc"),
        (("__memcpy_avx_unaligned_erms",), ("memcpy",), "memcpy"),
        (("__strstr_sse2_unaligned",), ("twoway_strstr",), "strstr"),
        (("__GI___libc_open64", *OPEN), ("open", *OPEN), "syscall:open"),
        (("__clone3", *ENTRY, "__x64_sys_clone3[k]"), ("clone", *ENTRY, "__x64_sys_clone[k]"), "syscall:clone"),
        (
            ("__GI___fstatat64", *ENTRY, "__x64_sys_newfstatat[k]"),
            ("stat", *ENTRY, "__x64_sys_newstat[k]"),
            "syscall:stat",
        ),
        (("__GI___libc_read", *ENTRY), ("read", "__syscall_cp_c", "__syscall_cp_asm", *ENTRY), "read"),
        (("read", *ENTRY, "__x64_sys_read[k]", "ksys_read[k]"), ("read", *ENTRY, "ksys_read[k]"), "syscall:read"),
        (
            ("epoll_wait", *ENTRY, "__x64_sys_epoll_pwait[k]"),
            ("epoll_pwait", *ENTRY, "do_epoll_wait[k]"),
            "syscall:epoll_wait",
        ),
        (("free", *FAULT), ("free", FAULT[0], FAULT[2]), "free;page fault;handle_mm_fault_[k]"),
    ],
)
def test_equal_work_has_equal_stacks(glibc: tuple[str, ...], musl: tuple[str, ...], expected: str) -> None:
    found = [canonical(stack(*names, library=of), cut=False) for names, of in ((glibc, GLIBC), (musl, MUSL))]
    assert found[0] == found[1]
    assert ";".join(map(aligned_label, found[0])) == expected


def test_a_function_that_does_more_than_the_call_stays() -> None:
    frames = canonical(stack("main[p]", "__libc_malloc", "sysmalloc", "brk", *ENTRY, "__x64_sys_brk[k]"), cut=False)
    assert [aligned_label(frame) for frame in frames] == ["main", "malloc", "sysmalloc", "syscall:brk"]


def test_start_up_code_is_left_out_above_the_program_only() -> None:
    frames = stack("_start[p]", "__libc_start_main_impl", "__libc_start_call_main", "main[p]", "work[p]")
    assert [frame.symbol for frame in canonical(frames, cut=False)] == ["main", "work"]
    assert canonical(stack("_start[p]"), cut=False) == stack("_start[p]")
    nameless = stack("[unknown][p]", "libc_start_main_stage2", "main[p]", "[unknown][p]", "start[p]")
    assert [frame.symbol for frame in canonical(nameless, cut=False)] == ["main", "[unknown]", "start"]
    go = stack("runtime.goexit.abi0[p]", "runtime.main[p]", "main.main[p]", "words.Normalize[p]")
    assert [frame.symbol for frame in canonical(go, cut=False)] == ["main.main", "words.Normalize"]


BEFORE = profile({stack("main[p]", "__GI___libc_write", *WRITE): 60.0, stack("main[p]", "work[p]"): 40.0})
AFTER = profile(
    {stack("__syscall_cp_asm", *WRITE, library=MUSL): 136.0, stack("main[p]", "work[p]", library=MUSL): 64.0}
)


def test_without_unwind_tables_both_sides_are_drawn_from_the_library_on() -> None:
    *sides, notes = aligned(BEFORE, AFTER)
    for side in sides:
        assert isinstance(side, Profile)
        names = {";".join(aligned_label(side.frames[number]) for number in one.frames) for one in side.stacks}
        assert names == {"[C library];syscall:write;vfs_write_[k]", "main;work"}
    assert "0 % and 68 % of the two sides" in notes[-1]


def test_faults_of_different_functions_of_the_library_are_at_one_place() -> None:
    faults = (
        canonical(stack("main[p]", "malloc", "_int_malloc", *FAULT), cut=True),
        canonical(stack("__libc_malloc_impl", *FAULT, library=MUSL), cut=True),
    )
    assert [";".join(map(aligned_label, each)) for each in faults] == ["[C library];page fault;handle_mm_fault_[k]"] * 2
    assert aligned_label(canonical(stack("main[p]", "malloc", "_int_malloc"), cut=True)[-1]) == "_int_malloc"


def test_with_unwind_tables_callers_stay() -> None:
    before, _, notes = aligned(BEFORE, BEFORE)
    assert len(notes) == 1
    assert aligned_label(before.frames[before.stacks[0].frames[0]]) == "main"


def test_the_return_from_a_handler_of_a_signal_takes_no_callers_from_the_library() -> None:
    call, end = stack("main[p]", "raise", *WRITE), stack("__restore_rt", *ENTRY, "__x64_sys_rt_sigreturn[k]")
    sides = aligned(profile({call: 60.0}), profile({call: 60.0, end: 40.0}))
    assert len(sides[2]) == 1
    names = {";".join(aligned_label(frame) for frame in frames) for frames, _ in sides[1].weighted()}
    assert names == {"main;raise;syscall:write;vfs_write_[k]", "restore_rt;syscall:rt_sigreturn"}


def test_sums_stay_and_equal_stacks_are_added_up() -> None:
    both = profile({stack("__GI___libc_write", *WRITE): 1.0, stack("write", *WRITE): 2.0})
    _, found, _ = aligned(both, both)
    assert [one.weight for one in found.stacks] == [3.0]


def test_functions_of_two_libraries_that_do_the_same_work_are_one_in_a_difference() -> None:
    strlen, getppid = ("main[p]", "__strlen_sse2"), ("main[p]", "__GI___getppid", *ENTRY)
    before = profile({stack(*strlen): 30.0, stack(*getppid): 7.0, stack("main[p]", "[unknown]"): 4.0})
    after = profile(
        {stack("main[p]", "strlen", library=MUSL): 70.0, stack("main[p]", "getppid", *ENTRY, library=MUSL): 7.0}
    )
    first, second, _ = aligned(before, after)
    found = {one.frame.symbol: one for one in difference(first, second).frames}
    assert found.keys() == {"main", "strlen", "getppid", "below main"}
    assert found["strlen"].own == Weights(30, 70) and found["strlen"].frame.object == "C library"
    assert not found["getppid"].inclusive.difference and found["below main"].own == Weights(4, 0)


def test_a_stack_of_the_entry_into_the_kernel_alone_keeps_it() -> None:
    assert canonical(stack("do_syscall_64[k]"), cut=False) == stack("do_syscall_64[k]")


def test_the_page_states_why_its_total_is_not_that_of_the_row() -> None:
    time = TimeByFunction(
        metric="wall",
        recorded=(200.0, 300.0),
        measured=(200.0, 300.0),
        ready=(0.0, 0.0),
        interval=None,
        samples=(1, 1),
        leading=0,
        spread=0,
        functions=(),
    )
    notes = flame_graph.total_notes((BEFORE, AFTER), time)
    assert notes[0].startswith("The whole is 100 ns and 200 ns per operation: processor time of all threads, sampled")
    assert "The row is of 200 ns and 300 ns: elapsed time" in notes[0]
    assert flame_graph.total_notes((BEFORE, AFTER), None) == ()
    page = flame_graph.page("t", BEFORE, AFTER, notes)
    assert "The whole is 100 ns" in page
    text = re.search(r'id="data">(.*?)</script>', page)
    assert text is not None
    data = json.loads(text[1])
    library = next(child for child in data["tree"][5] if child[0] == "[C library]")
    assert library[5][0][:1] == ["syscall:write"] and library[5][0][2:4] == [60.0, 136.0]
    assert data["kinds"][library[5][0][1]] == "kernel"
