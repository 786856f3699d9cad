# SPDX-License-Identifier: MIT OR Apache-2.0
"""The path of a wake-up, from a small trace of an x86_64 machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.profile import Frame
from swapstone.parts.explain.instruments.instruction_kinds import PROCESSORS
from swapstone.parts.explain.instruments.plugin_file import Block, KernelSymbols
from swapstone.parts.explain.instruments.wakeup_path import WakeupTrace, _codes, find_path
from swapstone.parts.explain.model.explanation import DisabledSection, WakeupPath

KERNEL = 1 << 63
SIDE = {"variant": "v", "trial": "t", "run": "r", "output": "o", "equal": 1}
NAMES = (
    "entry_SYSCALL_64",
    "free_pages",
    "lock",
    "asm_sysvec_apic_timer_interrupt",
    "hrtimer_interrupt",
    "hrtimer_wakeup",
    "enqueue_task_rt",
    "enqueue_task_fair",
    "__cond_resched",
    "__schedule",
    "__switch_to_asm",
    "do_nanosleep",
    "_raw_spin_lock",
    "default_idle",
)
PLACES = {name: KERNEL + 0x1000 * (number + 1) for number, name in enumerate(NAMES)}
SYMBOLS = KernelSymbols([(place, name, "mod" if name == "lock" else "") for name, place in PLACES.items()])
NOP, CALL, RET, IRET, CLI, STI, HLT, RDTSC, SYSRET = (
    b"\x90", b"\xe8\0\0\0\0", b"\xc3", b"\x48\xcf", b"\xfa", b"\xfb", b"\xf4", b"\x0f\x31", b"\x48\x0f\x07",
)  # fmt: skip


class Trace:
    """Builds a trace: blocks in the order of execution."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._steps: list[tuple[int, int]] = []
        self._returns: list[int] = []

    def run(self, name: str, count: int, last: bytes = NOP, *, at: int = 0, executed: int = 0) -> Trace:
        """Execute a block: `count` instructions, of which `last` is the last one, `at` bytes after the function's begin."""
        address = (PLACES[name] if name else 0x401000) + at
        block = Block(address, NOP * (count - 1) + last, b"\1" * (count - 1) + bytes([len(last)]))
        self._blocks.append(block)
        self._steps.append((len(self._blocks) - 1, executed or count))
        if last == CALL:
            self._returns.append(address + len(block.code))
        return self

    def back(self, name: str, count: int, last: bytes = NOP) -> Trace:
        """Execute a block where the last call returns to."""
        address = self._returns.pop()
        return self.run(name, count, last, at=address - PLACES[name])

    def end(self) -> WakeupTrace:
        """Return the trace."""
        return WakeupTrace(1, 1, (), tuple(self._blocks), tuple(self._steps))


def _interrupt(trace: Trace) -> Trace:
    """The timer's interrupt, which wakes the thread: 10 + 20 + 5 instructions before, 30 after."""
    trace.run("asm_sysvec_apic_timer_interrupt", 10, CALL).run("hrtimer_interrupt", 20, CALL)
    trace.run("hrtimer_wakeup", 5, CALL).run("enqueue_task_rt", 10, RET).back("hrtimer_wakeup", 5, RET)
    return trace.back("hrtimer_interrupt", 5, RET).back("asm_sysvec_apic_timer_interrupt", 5, IRET)


def _switch(trace: Trace) -> Trace:
    """The switch to the thread, and the thread up to its reading of the clock: 100 instructions. 7 more follow."""
    trace.run("__cond_resched", 3, CALL).run("__schedule", 50, CALL).run("__switch_to_asm", 10, RET)
    trace.back("__schedule", 20, RET).run("do_nanosleep", 10, SYSRET, at=64).run("", 10, RDTSC)
    return trace.run("", 7, at=512)


def _path(trace: Trace, latency_us: int = 1, scale: int = 1) -> WakeupPath:
    return find_path(
        trace.end(),
        SYMBOLS,
        PROCESSORS["x86_64"],
        SIDE,
        kernel_start=KERNEL,
        latency_us=latency_us,
        ns_per_instruction=scale,
    )


def _busy(count: int = 900) -> Trace:
    """A system call that frees pages and is interrupted; the thread runs when it ends."""
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 100)
    _interrupt(trace)
    trace.run("free_pages", count, CALL, at=100).run("_raw_spin_lock", 15, RET).back("free_pages", 200, CALL)
    return _switch(trace)


def _stacks(found: WakeupPath) -> dict[str, float]:
    """Return the instructions of each stack."""
    assert found.profile is not None
    return {";".join(frame.symbol for frame in frames): weight for frames, weight in found.profile.weighted()}


def test_the_functions_are_below_their_callers() -> None:
    found = _path(_busy())
    inside = 900 + 15 + 200
    assert found.phases == (0, 30, 5 + 10 + 5 + 5 + 5 + inside + 3, 50 + 10 + 20 + 10 + 10)
    assert found.instructions == sum(found.phases) == 60 + inside + 3 + 100
    assert _stacks(found) == {
        "asm_sysvec_apic_timer_interrupt": 15,
        "asm_sysvec_apic_timer_interrupt;hrtimer_interrupt": 25,
        "asm_sysvec_apic_timer_interrupt;hrtimer_interrupt;hrtimer_wakeup": 10,
        "asm_sysvec_apic_timer_interrupt;hrtimer_interrupt;hrtimer_wakeup;enqueue_task_rt": 10,
        "entry_SYSCALL_64;free_pages": 1100,
        "entry_SYSCALL_64;free_pages;_raw_spin_lock": 15,
        "entry_SYSCALL_64;free_pages;__cond_resched": 3,
        "entry_SYSCALL_64;free_pages;__cond_resched;__schedule": 50,
        "entry_SYSCALL_64;free_pages;__cond_resched;__schedule;__switch_to_asm": 10,
        "__schedule": 20,
        "do_nanosleep": 10,
        "user code": 10,
    }
    assert found.problem() == ""
    assert found.switches == 0
    assert (found.ended_by, found.locks, found.disabled) == (
        ("__cond_resched", "free_pages"),
        (("_raw_spin_lock", 1),),
        None,
    )


def test_interrupts_that_were_disabled_delay_the_interrupt() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("lock", 1, CLI).run("lock", 3000, at=1)
    trace.run("lock", 2, STI, at=3001)
    found = _path(_switch(_interrupt(trace)), latency_us=2)
    assert found.phases == (2000 - 60 - 103, 30, 33, 100)
    assert found.disabled == DisabledSection(begins="lock", ends="lock", modules=("mod", "mod"), instructions=3002)
    assert _stacks(found)["entry_SYSCALL_64;lock"] == 2000 - 60 - 103
    assert found.profile is not None and Frame(symbol="lock", object="mod") in found.profile.frames
    half = _path(_switch(_interrupt(trace)), latency_us=2, scale=2)
    assert half.instructions == 1000


def test_the_end_of_the_section_must_be_where_the_interrupt_came() -> None:
    trace = (
        Trace().run("entry_SYSCALL_64", 20, CALL).run("lock", 1, CLI).run("lock", 2, STI, at=1).run("lock", 3000, at=64)
    )
    found = _path(_switch(_interrupt(trace)), latency_us=2)
    assert found.phases[0] and found.disabled is None


def test_a_machine_that_waited_was_not_delayed() -> None:
    trace = Trace().run("entry_SYSCALL_64", 3000, CALL).run("default_idle", 1, HLT)
    found = _path(_switch(_interrupt(trace)), latency_us=2)
    assert found.phases[0] == 0 and found.instructions == 60 + 103


def test_an_interrupt_before_a_call_returns_into_the_function() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 500, CALL)
    _interrupt(trace).run("lock", 700, RET).run("free_pages", 300, CALL, at=504)
    stacks = _stacks(_path(_switch(trace)))
    assert stacks["entry_SYSCALL_64;free_pages;lock"] == 700


def test_other_switches_before_the_last_one_are_counted() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 700)
    _interrupt(trace).run("free_pages", 400, CALL, at=100).run("__schedule", 30, RET).back("free_pages", 300, CALL)
    found = _path(_switch(trace))
    assert found.switches == 1 and found.ended_by == ("__cond_resched", "free_pages")


def test_a_wake_up_of_another_thread_is_passed_over() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 100)
    trace.run("hrtimer_wakeup", 5, CALL).run("enqueue_task_fair", 10, RET).back("hrtimer_wakeup", 5, RET)
    found = _path(_switch(_interrupt(trace.run("free_pages", 1400, at=200))), latency_us=0)
    assert found.phases[:2] == (0, 30)


def test_a_block_that_a_device_interrupted_continues() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 100)
    _interrupt(trace).run("free_pages", 900, CALL, at=100, executed=450).run("free_pages", 450, CALL, at=550)
    found = _path(_switch(trace))
    assert _stacks(found)["entry_SYSCALL_64;free_pages"] == 900


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"latency_us": 5}, "are kept"),
        ({"latency_us": 0}, "was not executed|do not fit"),
    ],
)
def test_a_trace_that_does_not_fit_is_refused(change: dict[str, int], words: str) -> None:
    with pytest.raises(UnavailableError, match=words):
        _path(_busy(3000), **change)


def test_a_kernel_without_the_timers_function_is_refused() -> None:
    others = KernelSymbols([(place, name, "") for name, place in PLACES.items() if name != "hrtimer_wakeup"])
    with pytest.raises(UnavailableError, match="hrtimer_wakeup was not executed"):
        find_path(_busy().end(), others, PROCESSORS["x86_64"], SIDE, kernel_start=KERNEL, latency_us=1)


@pytest.mark.parametrize("steps", [[], [(-1, 5)], [(0, 5), (-1, 3)]])
def test_a_trace_of_nothing_is_refused(steps: Sequence[tuple[int, int]]) -> None:
    trace = dataclasses.replace(_busy().end(), steps=tuple(steps))
    with pytest.raises(UnavailableError):
        find_path(trace, SYMBOLS, PROCESSORS["x86_64"], SIDE, kernel_start=KERNEL, latency_us=1)


def test_a_conditional_call_that_is_not_executed_enters_nothing() -> None:
    trace = Trace().run("", 9).run("entry_SYSCALL_64", 20, CALL).run("free_pages", 700, CALL)
    trace.run("free_pages", 300, at=704)
    stacks = _stacks(_path(_switch(_interrupt(trace).run("free_pages", 400, CALL, at=1200))))
    assert max(stack.count("free_pages") for stack in stacks) == 1


def test_the_page_of_vectors_of_arm_is_an_entry() -> None:
    block = Block(0xFFFF0018, b"\x00\x00\x00\xea", b"\4")  # b
    trace = WakeupTrace(1, 1, (), (block, dataclasses.replace(block, address=0xC0000018)), ())
    names = KernelSymbols([(0xC0000000, "first", "")])
    codes = _codes(trace, names, 0xBF000000, PROCESSORS["arm"])
    assert [(code.name[0], code.is_entry) for code in codes[:2]] == [("vectors", True), ("first", False)]
