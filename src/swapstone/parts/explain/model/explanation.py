# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measurements of two variants under instruments or the emulator's plugin, and their explanation: counts, profiles, functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

import msgspec

from swapstone.core.model.experiment import RunGroup, shown_levels
from swapstone.core.model.frozen_struct import LARGEST_INTEGER, FrozenStruct, NonNegative, Number, PositiveInteger
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame, Profile, Samples
from swapstone.core.model.safe_text import safe

DELAYED_ACK, TIMER, DISK, NETWORK, INTERRUPT = "delayed ACK", "timer", "disk", "network", "interrupt"
LOCK, HAND_OFF, FUTEX = "lock", "hand-off", "futex"
COMPUTING, NO_PROCESSOR, UNSEEN = "computing", "no processor", "not recorded"
OWN_THREADS, LOAD_GENERATOR, KERNEL_THREADS, IDLE = "its own threads", "the load generator", "kernel threads", "idle"

_WORDS: Mapping[str, str] = {
    DELAYED_ACK: "a delayed ACK, whose timer released data that Nagle's algorithm had held back",
    TIMER: "a timer (sleep or time-out)",
    DISK: "a disk",
    NETWORK: "data from the network",
    INTERRUPT: "another interrupt",
    LOCK: "unlocking: another thread held the lock",
    HAND_OFF: "a hand-off: a condition, a semaphore or a thread's end",
    FUTEX: "a futex, of a lock or a hand-off",
    COMPUTING: "a thread that computed meanwhile",
    NO_PROCESSOR: "a thread that had no processor meanwhile",
}


class EndedWaits(FrozenStruct, frozen=True, kw_only=True):
    """Waits with one reason, per operation. The times of several threads are added up.

    Attributes:
        reason: of the waits: the interrupt that ended them (`DELAYED_ACK`, `TIMER`, `DISK`, `NETWORK`, `INTERRUPT`), how another thread
            ended them (`LOCK`, `HAND_OFF`, `FUTEX`), or what the thread that ended them did meanwhile (`COMPUTING`, `NO_PROCESSOR`).
        whose: that thread's: `OWN_THREADS`, `LOAD_GENERATOR`, `KERNEL_THREADS` or the name of another program; empty for an interrupt.
        waits: number of those of which this is the largest part.
        total_ns: their time.
        short_ns, long_ns: quantiles 10 % and 90 % of the lengths of these waits.
    """

    reason: str
    whose: str
    waits: Number
    total_ns: Number
    short_ns: Number
    long_ns: Number

    def text(self) -> str:
        """Return what ended the waits, with the thread that did."""
        return _WORDS.get(self.reason, self.reason) + (f" ({self.whose})" if self.whose else "")


class ProcessorTaken(FrozenStruct, frozen=True, kw_only=True):
    """Time in which a thread was ready and another one had its processor.

    Attributes:
        whose: as in `EndedWaits`; `IDLE` if none had it: until an idle processor runs a thread that was woken.
        total_ns: per operation.
    """

    whose: str
    total_ns: Number


_LEVELS = re.compile(r",(?=[^,=]{1,200}=)")

MOST_RUNS = 1000
"""Evidence with more runs of a profile is not read."""
MOST_FRAMES, MOST_STACKS, MOST_DEPTH = 100_000, 200_000, 300
"""Nor evidence with more functions or stacks, or with deeper ones, of which graphs would be drawn for very long."""
MOST_CALLS = 1 << 20
"""Nor evidence with more functions on all stacks of a profile together."""


def profile_problem(profile: Profile) -> str:
    """Return why a stored profile can't be computed with; empty if it can: its stacks and runs are of its frames and stacks."""
    consistent = (
        profile.operations > 0
        and len(profile.runs) <= MOST_RUNS
        and len(profile.frames) <= MOST_FRAMES
        and len(profile.stacks) <= MOST_STACKS
        and sum(len(stack.frames) for stack in profile.stacks) <= MOST_CALLS
        and all(len(stack.frames) <= MOST_DEPTH and stack.weight >= 0 for stack in profile.stacks)
        and all(0 <= frame < len(profile.frames) for stack in profile.stacks for frame in stack.frames)
        and all(
            0 <= stack < len(profile.stacks) and weight >= 0 for run in profile.runs for stack, weight in run.weights
        )
    )
    return "" if consistent else "a profile contradicts itself, or is too large"


LISTED_FUNCTIONS = 40
"""Counts of calls and instructions have the most frequent functions of a variant; one that is not among as many was called at most as often
as the last of them."""

KERNEL_LOCKS = (
    "rwsem_down_",
    "__mutex_lock",
    "down_read",
    "down_write",
    "rt_mutex",
    "__vma_start_write",
    "__vma_enter_locked",
)
"""Prefixes of kernel functions in which a thread waits for a lock of the kernel."""

NO_PROCESSOR_FRAME = Frame(symbol="processor taken", object=KERNEL)
"""Innermost frame of a preempted thread; the frames above it are what the thread was running, as in other tools' off-CPU graphs."""


UNSAMPLED, UNSAMPLED_USER = (Frame(symbol="unsampled code", object=where) for where in (KERNEL, OWN_OBJECT))
"""Processor time that could not be sampled: in the kernel, and outside of it."""


class ElapsedRun(FrozenStruct, frozen=True, kw_only=True):
    """One of the runs of an `ElapsedTime`, or a part of one; its waits are a run of `ElapsedTime.waits`."""

    running_ns: Number
    ready_ns: Number
    cpu_ns: Number


class ElapsedTime(FrozenStruct, frozen=True, kw_only=True):
    """Division of the elapsed time of one variant's runs among the active threads.

    Attributes:
        wall_ns: elapsed time of the measured regions.
        running_ns: part of it in which threads ran.
        ready_ns: part of it in which preempted threads were runnable.
        waits: the rest, by the stack of the waiting thread.
        most_threads: maximum number of threads active at the same time.
        cpu_ns: CPU time of all threads in those regions; 0 if not recorded.
        runs: the same by run, as many as `waits` has; empty if they were not kept apart.
    """

    wall_ns: Number
    running_ns: Number
    ready_ns: Number
    waits: Profile
    most_threads: int
    cpu_ns: Number = 0.0
    runs: tuple[ElapsedRun, ...] = ()


class Amount(FrozenStruct, frozen=True, kw_only=True):
    """A count or amount per operation.

    Attributes:
        group: ``system calls``, ``faults``, ``switches``, ``instructions`` or ``calls``.
        name: what was counted.
        value: per operation.
    """

    group: str
    name: str
    value: Number


class SourceLine(FrozenStruct, frozen=True, kw_only=True):
    """Where a function has most of its samples: its own, and those of what it calls there.

    Attributes:
        symbol, object: as in `Frame`.
        line: name of the source file, and line: ``scan.c:14``.
    """

    symbol: str
    object: str
    line: str


class InstrumentResult(FrozenStruct, frozen=True, kw_only=True, rename={"elapsed": "passing"}):
    """The result of one instrument for one variant.

    Attributes:
        instrument: its name.
        tool: the command it needs, with its version.
        variant: label of the variant.
        command: as typed in a shell.
        operations: number of operations in the runs.
        overhead: time per operation under the instrument / without; None if unknown.
        amounts, profile, elapsed: what it measured. ``elapsed`` is ``passing`` on disk.
        notes: what was lost or left out.
        waits: what ended the waits of all threads, those with the longest sum first.
        taken: who had the processor for which threads were ready, in the same order.
        partial: whether the run was ended before its end, so that the amounts are lower bounds.
        limits: pairs (quantity of the surroundings, its values in all processes while they ran, each once).
        lines: of functions with debug information, those with the most samples.
    """

    instrument: str
    tool: str
    variant: str
    command: str
    operations: Number
    overhead: Number | None
    amounts: tuple[Amount, ...] = ()
    profile: Profile | None = None
    elapsed: ElapsedTime | None = None
    notes: tuple[str, ...] = ()
    waits: tuple[EndedWaits, ...] = ()
    taken: tuple[ProcessorTaken, ...] = ()
    partial: bool = False
    limits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    lines: tuple[SourceLine, ...] = ()


class MissingInstrument(FrozenStruct, frozen=True, kw_only=True, rename={"remedy": "mend"}):
    """An instrument without a result.

    Attributes:
        instrument: its name.
        reason: why it has none.
        remedy: how to enable it; may be empty. ``mend`` on disk.
    """

    instrument: str
    reason: str
    remedy: str = ""


EXCLUDED = "it was left out by --without"
"""Reason of an instrument that the user left out."""


class InstrumentCost(FrozenStruct, frozen=True, kw_only=True):
    """How long an instrument took.

    Attributes:
        instrument: its name, or ``reference`` for the runs without one.
        seconds: elapsed time of all its runs of both variants, and of reading what it recorded.
        trial_s: elapsed time of one run of both variants without an instrument, with their starts and ends.
    """

    instrument: str
    seconds: Number
    trial_s: Number


class RowKey(RunGroup, frozen=True, kw_only=True):
    """The row of a record that is explained."""

    metric: str
    baseline: str
    candidate: str

    @property
    def shown(self) -> tuple[str, str]:
        """Return both labels as sentences print them: of a path as many last parts as distinguish it."""
        old, new = ([part.partition("=") for part in _LEVELS.split(label)] for label in (self.baseline, self.candidate))
        if [factor for factor, _, _ in old] != [factor for factor, _, _ in new]:
            return self.baseline, self.candidate
        pairs = [tuple(dict.fromkeys((one, other))) for (*_, one), (*_, other) in zip(old, new, strict=True)]
        shown = [(factor, sign, shown_levels(pair)) for (factor, sign, _), pair in zip(old, pairs, strict=True)]
        baseline, candidate = (",".join(f"{factor}{sign}{of[at]}" for factor, sign, of in shown) for at in (0, -1))
        return baseline, candidate


class TracedSide(FrozenStruct, frozen=True, kw_only=True):
    """One variant's run under the emulator's plugin.

    Attributes:
        variant, trial, run: the trial that was traced, and the identity of its run.
        output: digest of its output.
        instructions: that were counted.
        lost: of these, without an address.
        profile: the others by call stack; None only where it is left out.
    """

    variant: str
    trial: str
    run: str
    output: str
    instructions: NonNegative
    lost: NonNegative = 0
    profile: Profile | None = None

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if self.profile is None:
            return f"{self.variant} has no profile"
        summed = self.profile.total + self.lost == self.instructions
        return profile_problem(self.profile) or (
            "" if summed else f"the functions of {self.variant} don't sum to its instructions"
        )


class MachineEvidence(FrozenStruct, frozen=True, kw_only=True):
    """What the emulator's plugin observed of a row on the exact clock.

    Attributes:
        record: identity of the record.
        chain: of the record's last run. If the record was resumed since, the evidence is out of date.
        swapstone, created: the version that wrote it, and the time.
        emulator: its version and digest.
        place: the row.
        sides: baseline, then candidate.
        ns_per_instruction: guest time of an instruction on the machine's clock.
        no_paths: why functions have no callers; empty if they have.
    """

    record: str
    chain: str
    swapstone: str
    created: str
    emulator: str
    place: RowKey
    sides: tuple[TracedSide, TracedSide]
    ns_per_instruction: PositiveInteger = 1
    no_paths: str = ""

    @property
    def profiles(self) -> tuple[Profile, Profile]:
        """Return the instructions of both sides by call stack."""
        none = Profile.of({}, kind="instructions", unit="1", operations=1.0)
        return self.sides[0].profile or none, self.sides[1].profile or none

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        return next(filter(None, (side.problem() for side in self.sides)), "")

    def without_profiles(self) -> Self:
        """Return the same without profiles, which are in files of their own."""
        return msgspec.structs.replace(
            self, sides=tuple(msgspec.structs.replace(each, profile=None) for each in self.sides)
        )


class Reference(FrozenStruct, frozen=True, kw_only=True):
    """The reference runs of one variant, without instruments.

    Attributes:
        variant: label of the variant.
        program_sha256: digest of the program's file.
        recorded: median of the row's metric in the record.
        time_ns: time per operation whose difference is divided by function; None if the row is of another metric.
        metrics: pairs (name, median) of the reference runs, per operation, in the record's units.
        runs: number of reference runs.
        values: pairs (name, value of each run, in the order of the runs) of some of the metrics; empty if they were not kept.
        surroundings: pairs (quantity, its values in all runs, each once): see `swapstone.parts.explain.explanation.surroundings`.
    """

    variant: str
    program_sha256: str
    recorded: Number
    time_ns: Number | None = None
    metrics: tuple[tuple[str, Number], ...]
    runs: int
    values: tuple[tuple[str, tuple[Number, ...]], ...] = ()
    surroundings: tuple[tuple[str, tuple[str, ...]], ...] = ()


SURROUNDINGS = "surroundings"
"""Group of what a process counts itself, such as bytes read, of all of a run."""

COUNTERS = {
    "minflt": "minor faults",
    "majflt": "major faults",
    "nvcsw": "voluntary switches",
    "nivcsw": "involuntary switches",
}
"""Metrics of the reference runs that are counts, and their names."""


class RemedyRuns(FrozenStruct, frozen=True, kw_only=True):
    """Runs with a remedy, in turns with its placebo and with both variants without them; all times in ns per operation.

    Attributes:
        name, text: the remedy, and what it does.
        faster, slower: of the variants without it, by round.
        placebo: of the slower variant with what carries the remedy, without its effect; empty in records of earlier versions.
        remedied: of the slower variant with the remedy, by round.
        calls: on which it acts in one run; None if they were not counted.
        problem: why it was not measured; empty if it was.
    """

    name: str
    text: str
    faster: tuple[Number, ...] = ()
    slower: tuple[Number, ...] = ()
    remedied: tuple[Number, ...] = ()
    problem: str = ""
    placebo: tuple[Number, ...] = ()
    calls: NonNegative | None = None


class RemedyShare(FrozenStruct, frozen=True, kw_only=True):
    """The share of the gap between both variants that a remedy closes: 1 closes all of it, one below 0 widens it.

    Attributes:
        name, text: of the remedy, and a sentence on what it does and closes.
        share: with the remedy, less that with its placebo; None if it was not measured, or if the gap itself is not shown.
        interval: of the share, from a bootstrap of the rounds; those of all remedies of a row hold together with 95 %.
        placebo: the share that the placebo closes.
        calls: on which the remedy acts in one run; None if they were not counted.
        confirmed: whether the interval is above 0.
    """

    name: str
    text: str
    share: Number | None = None
    interval: tuple[Number, Number] | None = None
    placebo: Number | None = None
    calls: NonNegative | None = None
    confirmed: bool = False


class RowMeasurements(FrozenStruct, frozen=True, kw_only=True):
    """All measurements of a row. `explain` stores them with the record, and computes the explanation from them.

    Attributes:
        place: the row.
        unit: of the row's metric.
        ledger_metric: the time that is divided by function, ``wall`` or ``cpu``.
        references: baseline, then candidate.
        runs: results of instruments.
        missing: instruments without a result.
        differs: whether the record's verdict is a difference that its medians have; without one nothing is named.
        no_result: why the record has no result of the row; empty if it has one. The difference is then that of the reference runs.
        medians: the record's ratio of the medians of the time that is divided, with its interval at 95 %; None without one.
        remedies: those that were tried; None without `--confirm`.
        costs: how long each instrument took, those without a result too; empty if it was not measured.
    """

    place: RowKey
    unit: str
    ledger_metric: str
    references: tuple[Reference, Reference]
    runs: tuple[InstrumentResult, ...]
    missing: tuple[MissingInstrument, ...]
    differs: bool = True
    no_result: str = ""
    medians: tuple[Number, Number, Number] | None = None
    remedies: tuple[RemedyRuns, ...] | None = None
    costs: tuple[InstrumentCost, ...] = ()

    def problem(self) -> str:
        """Return why it can't be computed with; empty if it can: it is consistent, and of no more runs than any version makes.

        Each run has operations; its parts are those of its waits, and its stacks are of its frames.
        """
        divisions = [run.elapsed for run in self.runs if run.elapsed is not None]
        profiles = [run.profile for run in self.runs if run.profile is not None] + [each.waits for each in divisions]
        consistent = (
            all(len(values) <= MOST_RUNS for reference in self.references for _, values in reference.values)
            and all(run.operations > 0 for run in self.runs)
            and all(len(each.runs) == len(each.waits.runs) for each in divisions)
        )
        problems = ("" if consistent else "its runs contradict each other", *map(profile_problem, profiles))
        return next(filter(None, problems), "")


class Count(FrozenStruct, frozen=True, kw_only=True):
    """An `Amount` of both variants; None for a variant that the instrument did not measure.

    Attributes:
        interval: of candidate / baseline at 95 %, of medians over the reference runs; None of a count of one run, and where it can't be
            computed.
        least: whether each is a lower bound, because the run was ended before its end.
    """

    group: str
    name: str
    baseline: Number | None
    candidate: Number | None
    interval: tuple[Number, Number] | None = None
    least: tuple[bool, bool] = (False, False)


class CallerTime(FrozenStruct, frozen=True, kw_only=True):
    """The part of a function's inclusive difference with one caller, in the unit of the function's."""

    symbol: str
    object: str
    difference: Number


class FunctionTime(FrozenStruct, frozen=True, kw_only=True):
    """The time of an operation in a function and what it calls, in ns or in instructions.

    Attributes:
        symbol: its name; ``below CALLER`` of one without a name.
        object: the file name of a shared object, ``C library``, ``[program]`` or ``[kernel]``.
        baseline, candidate: inclusive.
        own: difference in the function itself.
        waiting: part of the inclusive difference in which a thread waited.
        interval: of the inclusive difference; None if the runs were not kept apart, and of small differences.
        callers: the largest differences first.
        program: the program's function that is nearest by the callers with the largest differences; empty if that is it, or none is.
        entry: the same for a function of the kernel: the system call or page fault.
        mostly: of a function that leads, the innermost below it that has half of its difference or more; None if it has that itself, or
            none has.
        line: of its source, as `SourceLine` has it, in the slower variant if that has one; empty without debug information.
    """

    symbol: str
    object: str
    baseline: Number
    candidate: Number
    own: Number
    waiting: Number
    interval: tuple[Number, Number] | None = None
    callers: tuple[CallerTime, ...] = ()
    program: str = ""
    entry: str = ""
    mostly: CallerTime | None = None
    line: str = ""


class TimeByFunction(FrozenStruct, frozen=True, kw_only=True):
    """A row's difference in time by function, of an operation.

    Attributes:
        metric: ``wall`` or ``cpu``; on the exact clock ``instructions``, each of which takes the same time.
        unit: ``ns``, or ``1`` of instructions.
        recorded: baseline and candidate in the record, in ns; of instructions, as `measured`.
        measured: time on a processor and waiting in the runs without an instrument, which the functions divide.
        ready: the rest of their time, in which threads were ready and had no processor.
        interval: of the difference of `measured`; None without intervals.
        samples: of processor time, baseline and candidate; zeros if unknown.
        leading: number of the functions, from the first, that account for the difference; 0 if it is spread.
        spread: the smallest number of functions that have most of the difference themselves.
        shares: intervals of the shares of those that lead, and of the share that they have together, at 95 %; empty of exact numbers.
        functions: those that lead first, then those whose interval excludes 0, of each the largest own differences; of system calls and
            faults the inclusive ones count.
    """

    metric: str
    unit: str = "ns"
    recorded: tuple[Number, Number]
    measured: tuple[Number, Number]
    ready: tuple[Number, Number]
    interval: tuple[Number, Number] | None
    samples: tuple[Samples, Samples]
    leading: int
    spread: int
    shares: tuple[tuple[Number, Number], ...] = ()
    functions: tuple[FunctionTime, ...]


class EvidenceTable(FrozenStruct, frozen=True, kw_only=True):
    """A table of what was observed.

    Attributes:
        title, head, rows: texts.
        keys: number of the columns from the first that name a row.
        brief: whether it is on the first screen.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: int = 1
    brief: bool = False


class Explanation(FrozenStruct, frozen=True, kw_only=True):
    """The explanation of a row, whichever instruments observed it.

    Attributes:
        place: the row.
        counts: the largest ratios first; none on the exact clock.
        time: None without on-CPU profiles of both variants.
        sentence: which functions account for the difference.
        evidence: counts with a tenth of the difference or more, the largest share first.
        surroundings: how the kernel's own counts divide the difference, and what else differs and may account for it, a line each.
        unknown: limits of the explanation.
        tables: further ones, those without rows are left out.
        methods: how it was observed, as sentences.
        remedies: all that were tried, those that are confirmed first; None if none was requested.
        differs: whether the record has a difference; without one nothing leads, and shares of it mean nothing. If the record has no
            result: whether the runs without an instrument have one.
        no_result: as in `RowMeasurements`.
    """

    place: RowKey
    counts: tuple[Count, ...] = ()
    time: TimeByFunction | None
    sentence: str
    evidence: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    tables: tuple[EvidenceTable, ...] = ()
    methods: tuple[str, ...] = ()
    remedies: tuple[RemedyShare, ...] | None = None
    differs: bool = True
    no_result: str = ""
    surroundings: tuple[str, ...] = ()


HARDWARE = "hardware"
"""Their group."""

CYCLES, INSTRUCTIONS, SLOTS = "cycles", "instructions", "slots"

EVENTS: Mapping[str, str] = {
    "cycles": CYCLES,
    "instructions": INSTRUCTIONS,
    "branch-misses": "mispredicted branches",
    "L1-dcache-load-misses": "misses of the first-level data cache",
    "cache-misses": "misses of the last-level cache",
    "dTLB-load-misses": "misses of the TLB",
}
"""By perf's name: perf-list(1)."""

TOP_DOWN: Mapping[str, str] = {
    "slots": SLOTS,
    "topdown-retiring": "slots that retire",
    "topdown-bad-spec": "slots lost to bad speculation",
    "topdown-fe-bound": "slots lost at the front end",
    "topdown-be-bound": "slots lost at the back end",
}
"""Level 1 of the top-down method (Yasin, ISPASS 2014), by perf's name; a slot is an issue of one operation in one cycle."""


PROGRAM, C_LIBRARY, KERNEL_CODE, AMBIGUOUS, UNKNOWN = ("program", "C library", "kernel", "ambiguous", "unknown")
OTHER_PROGRAM = "another variant's program"
"""Kinds of code. Ambiguous: several files have the same bytes at that address. Unknown: no file has them. Other kinds are files' names.
Where the program of the trial has the bytes too, code is never that of another variant's program."""

PASSES, WHOLE_RUN = "passes", "whole run"
MOST_NOTES, MOST_EVENTS = 100, 1 << 12
"""Of one row. A kernel has about 400 system calls."""


class ArmCounts(FrozenStruct, frozen=True, kw_only=True):
    """The instructions of a 32-bit ARM machine outside its kernel, by kind.

    Attributes:
        kinds: pairs (kind, instructions), as `swapstone.core.factors.arm_code.KINDS` names kinds.
        load_runs: how often the floating-point unit loaded one number, or several with no other instruction between.
        helper_calls: direct calls of libgcc's functions that replace the unit's instructions.
    """

    kinds: tuple[tuple[str, NonNegative], ...]
    load_runs: NonNegative
    helper_calls: NonNegative

    def of(self, *names: str) -> int:
        """Return the instructions of some kinds; a name without its precision stands for both."""
        return sum(count for kind, count in self.kinds if kind in names or kind.partition(".")[0] in names)


class CountedSide(TracedSide, frozen=True, kw_only=True):
    """One variant's run whose instructions were counted by function.

    Attributes:
        program_sha256: of the program's file.
        operations: in the observed part.
        clock_ns: elapsed time by the machine's clock, as the program reports it for its passes; 0 if it reports none.
        repeated: at most so many of the instructions are counted twice, because they faulted at the end of a block and were repeated.
        arm: the instructions by kind, on 32-bit ARM.
    """

    program_sha256: str
    operations: Annotated[float, msgspec.Meta(ge=1, le=LARGEST_INTEGER)]
    clock_ns: NonNegative
    repeated: NonNegative
    arm: ArmCounts | None = None

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        kinds = self.arm.kinds if self.arm else ()
        if len({kind for kind, _ in kinds}) != len(kinds) or sum(count for _, count in kinds) > self.instructions:
            return f"the kinds of instructions sum to more than the instructions of {self.variant}"
        return super().problem()


class CountedRow(MachineEvidence, frozen=True, kw_only=True):
    """Where the instructions of both variants of a row went.

    Attributes:
        region: what was observed: `PASSES` or `WHOLE_RUN`.
        events: system calls and page faults of an operation, as their functions in the kernel were entered.
        notes: what the numbers contain, as sentences.
    """

    region: str
    sides: tuple[CountedSide, CountedSide]
    events: tuple[Count, ...] = ()
    notes: tuple[str, ...] = ()

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if len(self.notes) > MOST_NOTES or len(self.events) > MOST_EVENTS:
            return f"it has more than {MOST_NOTES} notes or {MOST_EVENTS} events"
        return super().problem()


def frame_of(name: str, file: str, kind: str) -> Frame:
    """Return a function as a frame of a stack; its file's kind tells whether it is the kernel's or the program's."""
    if kind in {UNKNOWN, AMBIGUOUS}:
        return Frame(symbol=name or NAMELESS, object=kind)
    shown = KERNEL if kind == KERNEL_CODE else OWN_OBJECT if kind == PROGRAM else safe(file)
    return Frame(symbol=safe(name) or NAMELESS, object=shown)


EXPLAINED_LATENCY = "max"
"""The metric whose rows the path of the worst wake-up explains."""

PENDING, WOKEN, SWITCH = "interrupt pending", "before the last switch", "switch and return"
PHASES = (PENDING, INTERRUPT, WOKEN, SWITCH)
"""From the timer's expiry to the entry of its interrupt; from there to the function that wakes the thread; from there to the last
run of the scheduler, which switches to it; from there until the thread reads the clock."""

MOST_FOLLOWED = 128
_MOST = 1 << 53


class DisabledSection(FrozenStruct, frozen=True, kw_only=True):
    """The part of the path with interrupts disabled at whose end the timer's interrupt was delivered.

    Attributes:
        begins, ends: the functions that disabled and enabled interrupts.
        modules: of these functions; empty for the kernel itself.
        instructions: between the two.
    """

    begins: str
    ends: str
    modules: tuple[str, str]
    instructions: int


class WakeupPath(TracedSide, frozen=True, kw_only=True):
    """The worst wake-up of one variant: that of the replicate with the largest maximum, to the reading of the clock.

    Attributes:
        latency_ns: the maximum that the program reported. It rounds down to microseconds.
        cycle, cycles: number of the wake-up, from 1, and how many there were.
        equal: how many wake-ups had this latency; `cycle` is the first of them.
        phases: instructions of each of `PHASES`.
        switches: how often the scheduler ran between the wake-up and its last run.
        ended_by: the outermost function of that last run of the scheduler, and its caller.
        disabled: the section that delayed the interrupt; None if the interrupt was not delayed, or if the section is not known.
        locks: pairs (function that takes or releases a lock, calls) on the path.
    """

    latency_ns: NonNegative
    cycle: int
    cycles: int
    equal: int
    phases: tuple[NonNegative, NonNegative, NonNegative, NonNegative]
    ended_by: tuple[str, str]
    switches: NonNegative = 0
    disabled: DisabledSection | None = None
    locks: tuple[tuple[str, NonNegative], ...] = ()

    def problem(self) -> str:
        """Return why the numbers contradict each other; empty if they don't."""
        if not 1 <= self.cycle <= self.cycles < _MOST or not 1 <= self.equal <= self.cycles:
            return f"the cycle of {self.variant} is not one of its cycles"
        if not 0 < self.instructions < _MOST or sum(self.phases) != self.instructions:
            return f"the phases of {self.variant} don't sum to its instructions"
        return super().problem()


class TracedRow(MachineEvidence, frozen=True, kw_only=True):
    """The paths of the worst wake-ups of both variants of a row; a stack begins anew with the handler of an interrupt."""

    sides: tuple[WakeupPath, WakeupPath]
