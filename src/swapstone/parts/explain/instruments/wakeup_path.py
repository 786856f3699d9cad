# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the replicate with the worst wake-up again, and derive its path: from the timer's expiry to the thread's reading of the clock.

The program reports how late it was, so the expiry is that many instructions before the reading of the clock. Calls are followed by
their instructions and by the addresses that they return to.

A program that counts latencies in a histogram increments one bin for each. The address of that write shows the latency, exactly. So the
instruction that writes to the bins is recognised by the addresses that it wrote to, and the machine's blocks are kept up to the write
with the highest address: the maximum (native/plugin/wakeups.c). The plugin runs twice: first to find that instruction, then to keep what
precedes the maximum.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from swapstone.core.factors.elf_file import DamagedElfError, open_elf
from swapstone.core.model import Run, UnavailableError
from swapstone.core.model.profile import KERNEL, NAMELESS, Frame, Profile
from swapstone.core.targets import MachineConfig
from swapstone.core.targets.observed_target import ObservedTarget
from swapstone.core.wire.cyclictest import decode_cyclictest
from swapstone.parts.explain.instruments.counted_runs import (
    KERNEL_START,
    CountContext,
    ObservedTrial,
)
from swapstone.parts.explain.instruments.instruction_kinds import PROCESSORS, Kind, Processor, kinds_of
from swapstone.parts.explain.instruments.plugin_file import (
    Block,
    KernelSymbols,
    check,
    decode_blocks,
    decode_numbers,
    decode_table,
    read_code,
    read_output,
    require_end,
)
from swapstone.parts.explain.model.explanation import MOST_FOLLOWED, DisabledSection, WakeupPath

HEADER = b"swapstone-wakeups 2"
MOST_BYTES = 96 << 20
"""The plugin writes less: 4 Mi steps of 8 bytes, and the blocks that they execute."""

_NAMES = ("base", "marks", "cycle", "maximum", "writes", "cut", "blocks", "steps")
_WRITE, _STEP = struct.Struct("<5Qq"), struct.Struct("<2I")
_WIDTHS = (8, 4)
"""Sizes of a bin: an `unsigned long` of a processor with 64 or 32 bits."""

Histogram = Sequence[tuple[int, int]]
"""Pairs (value, how many), ascending."""


@dataclasses.dataclass(frozen=True)
class MemoryWrite:
    """An instruction of the program that writes to memory.

    Attributes:
        instruction: its address in the ELF file.
        executions: how often it wrote.
        first, lowest, highest: addresses that it wrote to.
        distances: sum of the differences of all addresses from the first.
    """

    instruction: int
    executions: int
    first: int
    lowest: int
    highest: int
    distances: int


@dataclasses.dataclass(frozen=True)
class WakeupTrace:
    """What the plugin observed.

    Attributes:
        marks: how often the watched instruction wrote.
        cycle: the number of its write that was the maximum, from 1.
        writes: instructions that write to memory; only if no instruction is watched.
        blocks: what was executed.
        steps: pairs (index in `blocks`, instructions that began), in the order of execution, up to the maximum. The index is -1 for a block
            that found no room.
    """

    marks: int
    cycle: int
    writes: tuple[MemoryWrite, ...]
    blocks: tuple[Block, ...]
    steps: tuple[tuple[int, int], ...]


def decode_wakeups(data: bytes) -> WakeupTrace:
    """Decode the plugin's file.

    Raises:
        UserError: it is damaged; the text names where.
    """
    values, at = decode_numbers(data, HEADER, _NAMES, most_bytes=MOST_BYTES, bits=64)
    writes, at = decode_table(data, at, values["writes"], _WRITE)
    blocks, at = decode_blocks(data, at, values["blocks"])
    steps, at = decode_table(data, at, values["steps"], _STEP)
    require_end(data, at, f"{len(steps)} steps")
    sizes = [1 << 32, *(len(block.sizes) for block in blocks)]  # a block that found no room may have any number
    for number, executed in (each for each in steps if each[0] >= len(sizes) or each[1] > sizes[each[0]]):
        check(False, f"a step has {executed} instructions of block {number} of {len(blocks)}")
    return WakeupTrace(
        marks=values["marks"],
        cycle=values["cycle"],
        writes=tuple(MemoryWrite(*numbers) for numbers in writes),
        blocks=blocks,
        steps=tuple((number - 1, executed) for number, executed in steps),
    )


def find_mark(writes: Sequence[MemoryWrite], histogram: Histogram) -> int | None:
    """Return the instruction that increments the bins of a histogram, by the addresses that it wrote to; None if there is none.

    It wrote once for each value; the lowest and the highest address, and the sum of all, fit to the values.

    Args:
        writes: the program's instructions that write to memory.
        histogram: that the program printed.
    """
    total = sum(count for _, count in histogram)
    (low, _), (high, _) = histogram[0], histogram[-1]
    distance = sum((value - low) * count for value, count in histogram)
    found = [
        write.instruction
        for write in writes
        for width in _WIDTHS
        if write.executions == total
        and write.highest - write.lowest == width * (high - low) > 0
        and write.distances + (write.first - write.lowest) * total == width * distance
    ]
    return found[0] if found else None


Name = tuple[str, str]
"""A function and its module; the module is empty for the kernel itself."""

USER: Name = ("user code", "")
_NO_NAME: Name = ("", "")
_VECTORS: Name = ("vectors", "")
_WAKES, _QUEUES, _SCHEDULES = "hrtimer_wakeup", "enqueue_task_rt", "__schedule"
_MOVES = frozenset({Kind.CALL, Kind.RETURN, Kind.LEAVE})
_SWITCHES = frozenset({"__switch_to_asm", "__switch_to", "cpu_switch_to"})
_SCHEDULERS = re.compile(
    r"_*(schedule\w*|preempt_schedule\w*|(dynamic_|might_)?cond_resched\w*|(raw_|dynamic_)?irqentry_exit_cond_resched|rt_mutex_schedule"
    r"|thunk_preempt_schedule\w*)(\.\w+)*"
)
_LOCKS = re.compile(
    r"_raw_(spin|read|write)_(try)?(un)?lock\w*|rt_(spin|read|write)_(try)?(un)?lock\w*|mutex_(try)?(un)?lock\w*|(up|down)_(read|write)\w*"
    r"|__local_bh_(dis|en)able_ip|migrate_(dis|en)able"
)
_SLACK, _SLACK_SHARE = 300, 1000
"""Tolerance of the position of the expiry, in instructions, plus a part of the latency: the kernel calibrates its clocks."""
_SLACK_WITHOUT_CLOCK = 5000
_FAR = 5000
"""The clock is read at most so many instructions before the program counts the latency."""


@dataclasses.dataclass(frozen=True)
class _Code:
    """What is known about a block."""

    address: int
    after: int
    name: Name
    is_user: bool
    is_start: bool
    is_entry: bool
    kinds: tuple[Kind, ...]
    last: Kind = Kind.OTHER
    switches_interrupts: bool = False


def _codes(trace: WakeupTrace, kernel: KernelSymbols, kernel_start: int, processor: Processor) -> list[_Code]:
    """Return the blocks of a trace, and one more for those that found no room."""
    found = []
    for block in trace.blocks:
        is_user = block.address < kernel_start
        function = None if is_user else kernel.name_at(block.address)
        is_vector = not is_user and block.address >= processor.vectors
        is_start = function is not None and function[2] == block.address
        name = USER if is_user else _VECTORS if is_vector else function[:2] if function else _NO_NAME
        kinds = tuple(kinds_of(processor, block.code, block.sizes))
        found.append(
            _Code(
                address=block.address,
                after=block.address + len(block.code),
                name=name,
                is_user=is_user,
                is_start=is_start,
                is_entry=is_vector
                or (is_start and name[0].startswith(processor.entries))
                or name[0] in processor.tables,
                kinds=kinds,
                last=kinds[-1],
                switches_interrupts=Kind.DISABLE in kinds or Kind.ENABLE in kinds,
            )
        )
    return [*found, _Code(0, 0, _NO_NAME, is_user=False, is_start=False, is_entry=False, kinds=())]


class _Events:
    """Where the steps of a trace are, and what happens in them.

    Positions count instructions backwards from the reading of the clock: that of a step is the number of instructions from its first
    one to that reading.

    Args:
        codes: by the index of a block; -1 is the one without a name.
        steps: pairs (index, instructions).
    """

    def __init__(self, codes: Sequence[_Code], steps: Sequence[tuple[int, int]]) -> None:
        self.codes, self.steps = codes, steps
        self.to_mark = list(itertools.accumulate(executed for _, executed in reversed(steps)))[::-1]
        self.clock_found, after_clock = self._clock()
        self.positions = [position - after_clock for position in self.to_mark]

    def _clock(self) -> tuple[bool, int]:
        """Return whether the reading of the clock is known, and the number of instructions after it."""
        for at in range(len(self.steps) - 1, -1, -1):
            if self.to_mark[at] > _FAR:
                break
            index, executed = self.steps[at]
            kinds = self.codes[index].kinds[:executed]
            if Kind.CLOCK in kinds:
                last = len(kinds) - 1 - kinds[::-1].index(Kind.CLOCK)
                return True, self.to_mark[at] - last - 1
        return False, 0

    def code(self, at: int) -> _Code:
        """Return the block of a step."""
        return self.codes[self.steps[at][0]]

    def starts(self, name: str, first: int = 0) -> list[int]:
        """Return the steps where a function of the kernel begins."""
        wanted = {index for index, code in enumerate(self.codes) if code.is_start and code.name[0] == name}
        return [at for at in range(first, len(self.steps)) if self.steps[at][0] in wanted]

    def is_entry(self, at: int) -> bool:
        """Return whether an exception or an interrupt begins in a step."""
        return self.code(at).is_entry and at > 0 and not self.code(at - 1).is_entry


@dataclasses.dataclass(frozen=True)
class _Milestones:
    """Positions and steps of what separates the phases."""

    expiry: int
    entry: int
    wakes: int
    schedules: int
    switches: int
    is_delayed: bool


def _milestones(events: _Events, latency_us: int, ns_per_instruction: int) -> _Milestones:
    """Find what separates the phases.

    Raises:
        UnavailableError: the trace does not fit to the latency; the text has the reason.
    """
    least = latency_us * 1000 // ns_per_instruction
    most = (latency_us * 1000 + 999) // ns_per_instruction
    slack = (_SLACK if events.clock_found else _SLACK_WITHOUT_CLOCK) + most // _SLACK_SHARE
    wakes = _waking(events, most + slack)
    if wakes is None:
        raise UnavailableError(
            f"The timer's function {_WAKES} was not executed in the {most} instructions before the maximum.",
            "The kernel may not list it in /proc/kallsyms, or the program does not sleep by a timer.",
        )
    schedules = events.starts(_SCHEDULES, wakes)
    entry = next((at for at in range(wakes, -1, -1) if events.is_entry(at)), None)
    if not schedules or entry is None or events.positions[entry] > most + slack:
        raise UnavailableError(
            f"The executed instructions do not fit to the latency of {latency_us} us: the thread was woken "
            f"{events.positions[wakes]} instructions before it read the clock, and "
            + (
                "no interrupt precedes that."
                if entry is None
                else f"the interrupt began {events.positions[entry]} before."
            )
        )
    before_entry = (at for at in range(entry - 1, -1, -1) if events.positions[at] <= least + slack)
    is_delayed = least - events.positions[entry] > slack and not any(
        Kind.WAIT in events.code(at).kinds for at in before_entry
    )
    expiry = least if is_delayed else events.positions[entry]
    if is_delayed and events.positions[0] < expiry:
        raise UnavailableError(
            f"The timer expired {expiry} instructions before the thread read the clock, and {events.positions[0]} are kept."
        )
    return _Milestones(expiry, entry, wakes, schedules[-1], len(schedules) - 1, is_delayed)


def _waking(events: _Events, most: int) -> int | None:
    """Return the first step after the expiry that wakes a thread of a real-time class by a timer; of any class if there is none."""
    wakings = [at for at in events.starts(_WAKES) if events.positions[at] <= most]
    queues = events.starts(_QUEUES)
    ends = [*wakings[1:], len(events.steps)]
    for number, at in enumerate(wakings):
        if any(at < queue < ends[number] for queue in queues):
            return at
    return wakings[-1] if wakings else None


class _Frame(NamedTuple):
    """A function that was called.

    Attributes:
        name: of the function.
        returns_to: an address; -1 for a handler of an interrupt, and where it is not known.
        interrupted: of a handler: the last block before it, and whether all of that was executed.
    """

    name: Name
    returns_to: int
    interrupted: tuple[_Code, bool] | None = None


class _Stack:
    """The functions that are executed, as far as their calls were seen."""

    def __init__(self) -> None:
        self.frames: list[_Frame] = []

    def path(self) -> tuple[Name, ...]:
        """Return the functions from the last handler of an interrupt on, which nothing called."""
        first = next((at for at, one in reversed([*enumerate(self.frames)]) if one.interrupted is not None), 0)
        return tuple(one.name for one in self.frames[first:])

    def restart(self, name: Name) -> None:
        """Forget all callers."""
        self.frames = []
        self.enter(name, -1)

    def enter(self, name: Name, returns_to: int, interrupted: tuple[_Code, bool] | None = None) -> None:
        """Enter a function that was called, or a handler of an interrupt."""
        if len(self.frames) >= MOST_FOLLOWED:
            self.frames = []
        self.frames.append(_Frame(name, returns_to, interrupted))

    def leave(self, fits: Callable[[_Frame], bool]) -> _Frame | None:
        """Return from the innermost function that fits, but the outermost one; return it, or None if none fits."""
        at = next((at for at in range(len(self.frames) - 1, 0, -1) if fits(self.frames[at])), 0)
        if not at:
            return None
        left = self.frames[at]
        del self.frames[at:]
        return left


def _step(stack: _Stack, before: _Code | None, code: _Code, *, is_entry: bool, was_whole: bool) -> None:
    """Follow the execution from a block to the next one."""
    name = code.name

    def returned(frame: _Frame) -> bool:
        return frame.returns_to == code.address

    if before is None or before.is_user != code.is_user:
        stack.restart(name)
    elif is_entry:
        stack.enter(name, -1, (before, was_whole))
    elif not was_whole:  # the block was left by an access to a device, and continues
        if stack.frames[-1].name != name:
            stack.restart(name)
    elif before.last is Kind.CALL and (code.address != before.after or code.is_start):  # else it was not executed
        stack.enter(name, before.after)
    elif before.last is Kind.LEAVE:
        left = stack.leave(lambda frame: frame.interrupted is not None)
        if left is None or left.interrupted is None:  # the interruption was not seen
            stack.restart(name)
        else:
            _step(stack, left.interrupted[0], code, is_entry=False, was_whole=left.interrupted[1])
    elif before.last is Kind.RETURN:
        if before.name[0] in _SWITCHES or not stack.leave(returned):  # another thread's stack, or an unknown caller
            stack.restart(name)
    elif name != before.name:
        stack.leave(returned)
    if stack.frames[-1].name != name:  # as after a tail call
        stack.frames[-1] = stack.frames[-1]._replace(name=name)


class _Interrupts:
    """The last section with interrupts disabled that is known from the instructions that begin and end it."""

    def __init__(self) -> None:
        self.since: tuple[Name, int] | None = (
            None  # none where an exception begins or ends: the processor changes the state there
        )
        self.last: tuple[Name, Name, int] | None = None

    def step(self, code: _Code, executed: int, position: int) -> None:
        """Read a step's instructions."""
        for number, kind in enumerate(code.kinds[:executed]):
            if kind is Kind.DISABLE and self.since is None:
                self.since = code.name, position - number
            elif kind is Kind.ENABLE and self.since is not None:
                self.last = self.since[0], code.name, self.since[1] - (position - number)
                self.since = None


def find_path(
    trace: WakeupTrace,
    kernel: KernelSymbols,
    processor: Processor,
    side: Mapping[str, Any],
    *,
    kernel_start: int,
    latency_us: int,
    ns_per_instruction: int = 1,
) -> WakeupPath:
    """Return the path of the wake-up that a trace ends with.

    Args:
        trace: the blocks that the machine executed.
        kernel: functions of the kernel.
        processor: of the machine.
        side: the path's other fields, which are not of the trace.
        kernel_start: the lowest address of the kernel.
        latency_us: as the program reported it.
        ns_per_instruction: of the machine's clock.

    Raises:
        UnavailableError: the trace does not fit to the latency.
    """
    events = _Events(_codes(trace, kernel, kernel_start, processor), trace.steps)
    milestones = _milestones(events, latency_us, ns_per_instruction)
    stack, interrupts = _Stack(), _Interrupts()
    executions = collections.Counter[tuple[Name, ...]]()
    ended_by, disabled = ("", ""), None
    locks: collections.Counter[str] = collections.Counter()
    before, was_whole = None, True
    entry, wakes, schedules = (
        events.positions[at] for at in (milestones.entry, milestones.wakes, milestones.schedules)
    )
    for at, (index, executed) in enumerate(events.steps):
        code, position = events.codes[index], events.positions[at]
        if position <= 0:
            break
        is_entry = code.is_entry and events.is_entry(at)
        if at == milestones.entry and milestones.is_delayed:
            disabled = _section(interrupts.last, milestones, events)
        if is_entry or code.is_user or (before is not None and before.last is Kind.LEAVE):
            interrupts.since = None
        if before is None or is_entry or not was_whole or before.last in _MOVES or before.name != code.name:
            _step(stack, before, code, is_entry=is_entry, was_whole=was_whole)
        if code.switches_interrupts:
            interrupts.step(code, executed, position)
        if at == milestones.schedules:
            ended_by = _ended_by([frame.name[0] for frame in stack.frames])
        counted = min(position, milestones.expiry) - max(position - executed, 0)
        if counted > 0:
            executions[stack.path()] += counted
            if code.is_start and _LOCKS.fullmatch(code.name[0]):
                locks[code.name[0]] += 1
        before, was_whole = code, executed >= len(code.kinds)
    weights = {
        tuple(Frame(symbol=name or NAMELESS, object=module or KERNEL) for name, module in path): float(count)
        for path, count in executions.items()
    }
    return WakeupPath(
        **side,
        profile=Profile.of(weights, kind="instructions", unit="1", operations=1.0),
        latency_ns=latency_us * 1000,
        cycle=trace.cycle,
        cycles=trace.marks,
        instructions=milestones.expiry,
        phases=(milestones.expiry - entry, entry - wakes, wakes - schedules, schedules),
        ended_by=ended_by,
        switches=milestones.switches,
        disabled=disabled,
        locks=tuple(sorted(locks.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


def _section(last: tuple[Name, Name, int] | None, milestones: _Milestones, events: _Events) -> DisabledSection | None:
    """Return the section that ended where the interrupt was delivered; None if it is not known."""
    if last is None or last[2] < milestones.expiry - events.positions[milestones.entry] - _SLACK:
        return None
    begins, ends, instructions = last
    return DisabledSection(begins=begins[0], ends=ends[0], modules=(begins[1], ends[1]), instructions=instructions)


def _ended_by(names: Sequence[str]) -> tuple[str, str]:
    """Return the outermost function of the scheduler, and its caller; the caller is empty if it is not known."""
    last = len(names) - 1
    at = next((at for at in range(last, 0, -1) if not _SCHEDULERS.fullmatch(names[at - 1])), 0)
    return names[at], names[at - 1] if at else ""


_PROGRAM = "/usr/bin/cyclictest"
_BEFORE = 1_000_000
"""So many instructions before the path are kept too: they show by which calls its functions were entered."""


def watched_program(target: ObservedTarget, config: MachineConfig, folder: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return the file of a machine's program that counts latencies, and the plugin's arguments that name its code.

    Args:
        target: runs the machine.
        config: of the machine.
        folder: for a copy of the program's code.

    Raises:
        UnavailableError: it has another structure.
    """
    entry = target.files(config).get(target.real_path(_PROGRAM).lstrip("/"))
    code = read_code(entry.content) if entry is not None else None
    if entry is None or code is None or len(code[1]) != 1:
        raise UnavailableError(f"{_PROGRAM} of the machine's image is no program with one executable segment.")
    ((low, text),) = code[1]
    try:
        with open_elf(entry.content) as elf:
            start = int(elf["e_entry"]) & (~1 if elf["e_machine"] == "EM_ARM" else ~0)  # bit 0 marks Thumb code
    except DamagedElfError as error:
        raise UnavailableError(f"{_PROGRAM} of the machine's image can't be read: {error}.") from error
    place = folder / "text"
    place.write_bytes(text)
    return entry.content, ("mode=wakeups", f"text={place}", f"low={low:#x}", f"entry={start:#x}")


def tracing(mark: int, latency_us: int, ns_per_instruction: int) -> tuple[str, str]:
    """Return the plugin's further arguments to keep what precedes a maximum that the instruction `mark` counts."""
    keep = (latency_us + 1) * 1000 // ns_per_instruction + _BEFORE
    return f"mark={mark:#x}", f"keep={keep}"


def trace_wakeup(context: CountContext, marks: dict[bytes, int], ns_per_instruction: int, run: Run) -> WakeupPath:
    """Return the path of the worst wake-up of a run.

    Args:
        context: what all runs of the record share.
        marks: the instruction that counts latencies, by the content of the program's file; those that are found are added.
        ns_per_instruction: of the machines' clock.
        run: of the record.

    Raises:
        UnavailableError: its program is missing, or the instructions do not fit to what the program reported.
        UserError: under the plugin it is another run than in the record; the text names the first difference.
    """
    target, trial = context.target, ObservedTrial(context, run)
    histogram = decode_cyclictest(trial.answer.stdout).histogram
    latency_us, equal = histogram[-1]
    content, words = watched_program(target, trial.config, trial.folder)
    if content not in marks:
        written = read_output(trial.observe("writes", *words), MOST_BYTES, decode_wakeups)
        found = find_mark(written.writes, histogram)
        if found is None:
            raise UnavailableError(
                f"No instruction of {_PROGRAM} wrote to memory as the program's histogram requires: the wake-up with the maximum "
                "can't be found."
            )
        marks[content] = found
    keep = tracing(marks[content], latency_us, ns_per_instruction)
    trace = read_output(trial.observe("trace", *words, *keep), MOST_BYTES, decode_wakeups)
    if trace.marks != sum(count for _, count in histogram) or not trace.steps:
        raise UnavailableError(
            f"The latencies that {_PROGRAM} counted under the plugin are not those that it printed: the wake-up with the maximum "
            "can't be found."
        )
    side = {"variant": run.trial.variant, "trial": run.trial.key, "run": run.name, "output": run.output}
    return find_path(
        trace,
        trial.kernel,
        PROCESSORS[target.architecture],
        {**side, "equal": equal},
        kernel_start=KERNEL_START[target.architecture],
        latency_us=latency_us,
        ns_per_instruction=ns_per_instruction,
    )
