"""What is seen of two variants under instruments, and what is said of it: counts, profiles, a ledger, findings."""

from __future__ import annotations

from swapstone.model.frozen_struct import FrozenStruct

KERNEL = "[kernel]"
"""The object of a frame in the kernel."""

OWN_OBJECT = "[program]"
"""The object of a frame in the program itself."""


KERNEL_LOCKS = (
    "rwsem_down_",
    "__mutex_lock",
    "down_read",
    "down_write",
    "rt_mutex",
    "__vma_start_write",
    "__vma_enter_locked",
)
"""How the names of the kernel's functions begin in which a thread waits for a lock of the kernel's own that another holds."""


class Frame(FrozenStruct, frozen=True, kw_only=True):
    """One function of a stack.

    Attributes:
        symbol: its name; ``[unknown]`` where it has none.
        object: `KERNEL`, `OWN_OBJECT`, or the file name of a shared object.
    """

    symbol: str
    object: str


class Stack(FrozenStruct, frozen=True, kw_only=True):
    """A call stack and how much was seen with it.

    Attributes:
        frames: indices into `Profile.frames`, the outermost first.
        weight: in the profile's unit, over the whole run.
    """

    frames: tuple[int, ...]
    weight: float


class Profile(FrozenStruct, frozen=True, kw_only=True):
    """Stacks of one variant with weights.

    Attributes:
        kind: ``on-cpu``, ``off-cpu``, ``allocations`` or ``syscalls``.
        unit: ``ns``, ``B`` or ``1``.
        operations: how many operations the weights are of.
        frames: each once.
        stacks: each once.
        notes: what a reader must know: what was lost, where stacks are cut.
    """

    kind: str
    unit: str
    operations: float
    frames: tuple[Frame, ...]
    stacks: tuple[Stack, ...]
    notes: tuple[str, ...] = ()


class Passing(FrozenStruct, frozen=True, kw_only=True):
    """How the time of one variant's runs passed, thread by thread: each moment is divided among the threads that had work.

    Attributes:
        wall_ns: elapsed time of the measured regions.
        running_ns: of that, the share of threads on a processor.
        ready_ns: of that, the share of threads whose processor was taken away.
        waits: the rest, by stack: what threads waited for.
        most_threads: the most threads that had work at the same time.
        cpu_ns: processor time of all threads in those regions; 0 where it was not kept.
    """

    wall_ns: float
    running_ns: float
    ready_ns: float
    waits: Profile
    most_threads: int
    cpu_ns: float = 0.0


class Amount(FrozenStruct, frozen=True, kw_only=True):
    """How often or how much of something in one operation.

    Attributes:
        group: ``system calls``, ``faults``, ``switches``, ``allocations``, ``copies``, ``instructions`` or ``calls``.
        name: what.
        value: per operation.
    """

    group: str
    name: str
    value: float


class Instrumented(FrozenStruct, frozen=True, kw_only=True):
    """Runs of one variant under one instrument.

    Attributes:
        instrument: its name.
        tool: the command that it needs, with its version.
        variant: which.
        command: what was run, as one would type it.
        operations: how many operations the runs made.
        overhead: time of an operation under it / without; None where it could not be told.
        amounts, profile, passing: what it gave.
        notes: what was lost or left out.
    """

    instrument: str
    tool: str
    variant: str
    command: str
    operations: float
    overhead: float | None
    amounts: tuple[Amount, ...] = ()
    profile: Profile | None = None
    passing: Passing | None = None
    notes: tuple[str, ...] = ()


class Missing(FrozenStruct, frozen=True, kw_only=True):
    """An instrument that gave nothing here.

    Attributes:
        instrument: its name.
        reason: why.
        mend: what would allow it; may be empty.
    """

    instrument: str
    reason: str
    mend: str = ""


class Place(FrozenStruct, frozen=True, kw_only=True):
    """Which row of a record is explained."""

    suite: str
    workload: str
    load: str
    metric: str
    baseline: str
    candidate: str


class Reference(FrozenStruct, frozen=True, kw_only=True):
    """One variant without any instrument.

    Attributes:
        variant: which.
        program_sha256: of the file that ran.
        recorded: median of the row's metric in the record.
        time_ns: of the time of an operation, whose difference the ledger splits; None where the row is of another metric.
        metrics: pairs (name, median) of the runs made now, in an operation's units, as the record has them.
        runs: how many runs were made now.
    """

    variant: str
    program_sha256: str
    recorded: float
    time_ns: float | None = None
    metrics: tuple[tuple[str, float], ...]
    runs: int


class Seen(FrozenStruct, frozen=True, kw_only=True):
    """All that was seen of a row: what `explain` keeps beside the record, and computes everything else from.

    Attributes:
        place: which row.
        unit: of the row's metric.
        ledger_metric: the time that the ledger splits, ``wall`` or ``cpu``.
        references: baseline, then candidate.
        runs: under instruments.
        missing: instruments that gave nothing.
        differs: whether the record says that the row differs; where it doesn't, there is nothing to give reasons for.
    """

    place: Place
    unit: str
    ledger_metric: str
    references: tuple[Reference, Reference]
    runs: tuple[Instrumented, ...]
    missing: tuple[Missing, ...]
    differs: bool = True


class Count(FrozenStruct, frozen=True, kw_only=True):
    """An `Amount` of both variants, side by side; None where an instrument gave nothing for one of them."""

    group: str
    name: str
    baseline: float | None
    candidate: float | None


class LedgerLine(FrozenStruct, frozen=True, kw_only=True):
    """One class's part of the time of an operation.

    Attributes:
        cause: the class.
        detail: which one of it, such as a system call's name; may be empty.
        baseline, candidate: ns in one operation.
    """

    cause: str
    detail: str
    baseline: float
    candidate: float

    @property
    def difference(self) -> float:
        """Return candidate less baseline, in ns."""
        return self.candidate - self.baseline


class Ledger(FrozenStruct, frozen=True, kw_only=True):
    """A row's difference in time, split.

    Attributes:
        metric: ``wall`` or ``cpu``.
        baseline, candidate: ns in one operation, as the record has them.
        lines: of all classes, the largest difference first.
        residual: ns of the difference that no line names: stacks without a name, and what was not repeated.
        drift: of the residual, what was not repeated: the difference that the record has, less that of the runs made now.
        notes: what limits it.
    """

    metric: str
    baseline: float
    candidate: float
    lines: tuple[LedgerLine, ...]
    residual: float
    drift: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        """Return candidate less baseline, in ns."""
        return self.candidate - self.baseline


class Finding(FrozenStruct, frozen=True, kw_only=True):
    """A reason that the evidence is consistent with.

    Attributes:
        cause: a class of the ledger.
        share: its part of the difference; above 1 where others work against it; None without a ledger.
        sentence: in plain words.
        evidence: counts and ledger lines that it rests on, in words.
    """

    cause: str
    share: float | None
    sentence: str
    evidence: tuple[str, ...]


class Explanation(FrozenStruct, frozen=True, kw_only=True):
    """All that is said of a row.

    Attributes:
        place: which row.
        counts: the largest ratios first.
        ledger: None where no on-CPU profile could be had.
        findings: the one that accounts for most of the difference first.
        paragraph: the first findings, in plain words.
        caveats: reasons for distrust.
    """

    place: Place
    counts: tuple[Count, ...]
    ledger: Ledger | None
    findings: tuple[Finding, ...]
    paragraph: str
    caveats: tuple[str, ...]
