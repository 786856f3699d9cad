"""What is measured: metrics, workloads, suites and loads."""

from __future__ import annotations

import enum

import msgspec

from swapstone.model.frozen_struct import FrozenStruct
from swapstone.model.load_generator import LoadGenerator


class Direction(enum.Enum):
    """Which way a metric improves. There is no default: each metric says."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


class Quantity(enum.Enum):
    """What kind of thing a metric counts. Metrics of one quantity form one family for the correction of error rates."""

    TIME = "time"
    MEMORY = "memory"
    EVENTS = "events"
    SIZE = "size"
    RATE = "rate"


class Metric(FrozenStruct, frozen=True, kw_only=True):
    """One measured number of a run.

    Attributes:
        name: the field's usual short name (``wall``, ``cpu``, ``maxrss``).
        unit: ``ns``, ``B`` (bytes), ``1`` (a count), ``1/s`` or ``B/s``.
        quantity: what it counts; decides its family and how it is printed.
        better: which direction is better.
        meaning: one line for ``list`` and the report.
        leads: whether verdicts on it decide when a run is precise enough.
    """

    name: str
    unit: str
    quantity: Quantity
    better: Direction
    meaning: str
    leads: bool = False


class Cpus(enum.Enum):
    """How many processors a workload may use: pinned to one, or free on all that the target offers."""

    ONE = "one"
    ALL = "all"


class Reading(enum.Enum):
    """How a program says what it measured."""

    REPORT = "report"  # our own workloads' (docs/wire.md, section 3)
    CYCLICTEST = "cyclictest"  # rt-tests' JSON
    DRIVEN = "driven"  # a server's: what its driver says, and what the agent saw of it meanwhile
    FIGURES = "figures"  # named figures and series, one a line (docs/wire.md, section 4)


USUAL_MEMORY_BYTES = 256 << 20
"""Of a virtual machine that needs no more than another."""


class MachineNeeds(FrozenStruct, frozen=True, kw_only=True):
    """What a virtual machine must have for a workload or a load.

    Attributes:
        parts: of its image, names of `swapstone.artifacts.image_catalog.PARTS`.
        modules: names of kernel modules, loaded at its start.
        own_modules: names of `swapstone.artifacts.bundled_modules.OWN_MODULES`: built for its kernel and put into its image, not loaded.
        memory_bytes: whole MiB; 0 for `USUAL_MEMORY_BYTES`. Of a workload only. What holds the content of a device that is swapped to
            comes on top.
        prepare: shell commands that the machine runs before the measurement, one after another; each must succeed.
    """

    parts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    own_modules: tuple[str, ...] = ()
    memory_bytes: int = 0
    prepare: tuple[str, ...] = ()


class Workload(FrozenStruct, frozen=True, kw_only=True):
    """Fixed work with parameters and metrics.

    Attributes:
        name: as reports print it, e.g. ``b_string_strstr(abcd)``.
        source: file under ``native/workloads/`` that holds it, e.g. ``b_string_strstr.c``.
        arguments: parameters passed to the program after the number of passes.
        description: one line: what one pass does.
        parameters: pairs (parameter, value) by which it differs from its siblings, e.g. ``("block_bytes", "1024")``: reports group by them.
        metrics: what each run of it gives.
        cpus: whether it is pinned to one processor.
        waits: true where the work sleeps, blocks or crosses processes, so that wall time is the verdict and CPU time isn't.
        libraries: linker flags that it needs, e.g. ``-lm``.
        companions: further sources, each built as a shared object, named after its stem, in the program's own directory
            (``companions/object.c`` becomes ``object.so``): work that loads objects while it runs.
        timeout_ms: a trial of it is stopped after so long.
        max_passes: the most passes that calibration may choose (1 for work that can't be repeated).
        tool: path, in a virtual machine's image, of a program that is measured as it comes; `source` is empty then, and it is not
            told a number of passes. Empty for work of ours.
        reading: how it says what it measured.
        machine: what a virtual machine must have for it; None where it runs anywhere.
        parts: of a virtual machine's image, names of `swapstone.artifacts.image_catalog.PARTS`: what it uses that other machines have by
            themselves, such as a shell. Unlike `machine`, they don't keep it from running elsewhere.
        package: of a server that others wrote, its name in `native/servers.toml`; `source` is empty then.
        load_generator: what sends it requests, for a server; ``{port}`` in `arguments` then stands for the port of the trial.
        crate: name of a crate under ``crates/`` whose program is measured, with a feature after a colon; `source` is empty then. It is
            built by cargo, for this machine only, and makes network namespaces, so it needs root.
        commands: pairs (command, Debian package that brings it) that the program starts.
    """

    name: str
    source: str = ""
    arguments: tuple[str, ...] = ()
    description: str
    parameters: tuple[tuple[str, str], ...] = ()
    metrics: tuple[Metric, ...]
    cpus: Cpus = Cpus.ONE
    waits: bool = False
    libraries: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    timeout_ms: int = 60_000
    max_passes: int = 100_000
    tool: str = ""
    reading: Reading = Reading.REPORT
    machine: MachineNeeds | None = None
    parts: tuple[str, ...] = ()
    package: str = ""
    load_generator: LoadGenerator | None = None
    crate: str = ""
    commands: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str | None:
        """Return the value of a parameter, or None if the workload does not have it."""
        return dict(self.parameters).get(name)


class Suite(FrozenStruct, frozen=True, kw_only=True):
    """A named list of workloads that share one index."""

    name: str
    description: str
    workloads: tuple[Workload, ...]


class LoadIndicator(FrozenStruct, frozen=True, kw_only=True):
    """What a machine's counters show while a load is in force: one number of a file that is read before and after a measurement.

    Attributes:
        what: what is counted, e.g. ``bytes through lo``.
        file: path of the counters.
        line: a word of the line that holds the number, without a colon; empty for the first line, all of it numbers.
        field: which number of that line, from 0 after the word.
        least, most: bounds of its growth in a second of the machine's time; of what it is, where it is a level. None for none.
        level: whether it is no counter: what it is counts, before and after.
        scale: what one of the counter's steps is worth.
        less: names of the agent's facts whose sum is taken off: the trial's own share. Those in ``us`` count as seconds.
        idle: which numbers of the same line count idle time, for a count of processor time. Times of programs are sampled at ticks, and a
            trial that wakes in step with them is hit by each of them, or by none; idle time is not sampled. So what of the time is neither
            idle nor the trial's own is a second measure, and a load is refused only where neither is within bounds.
    """

    what: str
    file: str
    line: str
    field: int
    least: float | None = None
    most: float | None = None
    level: bool = False
    scale: float = 1.0
    less: tuple[str, ...] = ()
    idle: tuple[int, ...] = ()


OTHERS_CPU_SECONDS = LoadIndicator(
    what="s of other programs' processor time",
    file="/proc/stat",
    line="cpu",
    field=0,
    scale=0.01,  # a tick of these files is 10 ms: USER_HZ, include/asm-generic/param.h
    less=("user_us",),
    idle=(3, 4),  # idle, and waiting for a device
)
"""The time in programs, in seconds, less the trial's own. It leaves out the kernel's, which a trial may set to work behind its back."""


class Load(FrozenStruct, frozen=True, kw_only=True):
    """What else the machine does during a measurement.

    Attributes:
        name: as users type it.
        description: one line.
        beside: shell commands that run in the machine meanwhile; one that ends before the measurement does spoils the run.
        settle_ms: how long they run before it begins.
        machine: what they need, and what is done before they start.
        indicators: what the machine's counters must show; a run for which one of them fails is refused.
    """

    name: str
    description: str
    beside: tuple[str, ...] = ()
    settle_ms: int = 0
    machine: MachineNeeds = MachineNeeds()
    indicators: tuple[LoadIndicator, ...] = ()


IDLE = Load(
    name="idle",
    description="nothing but the trial",
    indicators=(msgspec.structs.replace(OTHERS_CPU_SECONDS, most=0.1),),
)
