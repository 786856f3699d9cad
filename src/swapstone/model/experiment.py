"""What the user asks, and what it expands to: variants and trials."""

from __future__ import annotations

import enum

import msgspec

from swapstone.model.frozen_struct import FrozenStruct
from swapstone.model.load_generator import LoadGenerator
from swapstone.model.measure import Cpus, Metric


class Copy(enum.Enum):
    """Which copy of a variant this is: the first, or one of the two that a null comparison adds to the baseline."""

    FIRST = "first"
    AGAIN = "again"
    RELINKED = "relinked"


class Variant(FrozenStruct, frozen=True, kw_only=True):
    """One level per factor.

    Attributes:
        levels: pairs (factor, level) in the experiment's order of factors.
        copy: `Copy.FIRST` but for the nulls.
    """

    levels: tuple[tuple[str, str], ...]
    copy: Copy = Copy.FIRST

    @property
    def label(self) -> str:
        """Return the name that reports print, e.g. ``libc=musl`` or ``libc=glibc (again)``."""
        text = ",".join(f"{factor}={level}" for factor, level in self.levels)
        return text if self.copy is Copy.FIRST else f"{text} ({self.copy.value})"

    @property
    def short_label(self) -> str:
        """Return the label without the factors' names, e.g. ``musl`` or ``glibc, default (again)``."""
        text = ", ".join(level for _, level in self.levels)
        return text if self.copy is Copy.FIRST else f"{text} ({self.copy.value})"

    def level(self, factor: str) -> str:
        """Return the level of a factor.

        Raises:
            KeyError: this variant has no such factor.
        """
        return dict(self.levels)[factor]


class FactorLevels(FrozenStruct, frozen=True, kw_only=True):
    """A factor with the levels the user wants compared, the baseline first."""

    factor: str
    levels: tuple[str, ...]


class PrintedNumber(FrozenStruct, frozen=True, kw_only=True):
    """A number that a program of the user's prints, and how to find it.

    Attributes:
        metric: its name, unit and direction.
        pattern: regular expression with one group, which must match in the program's output once.
    """

    metric: Metric
    pattern: str


OWN_SUITE = "own"
"""The suite of a program of the user's own."""


class OwnProgram(FrozenStruct, frozen=True, kw_only=True):
    """A program of the user's own, to be measured instead of our workloads. Commands are run by ``/bin/sh -c``.

    Attributes:
        name: as reports print it; the workload's name in the suite `OWN_SUITE`.
        arguments: the program and its arguments, as typed. With `programs` the arguments alone.
        source: absolute path of the folder that is copied for each variant and built there; empty where nothing is built.
        build: command with placeholders such as ``{cc}`` that builds it in the copy; empty where nothing is built.
        programs: pairs (level of the factor ``program``, absolute path), the baseline first; empty unless that is what is varied.
        directory: absolute path of the folder in which it runs where nothing is built; else it runs in its copy.
        environment: pairs (name, value) that it finds beside the base environment.
        setup: command run once for each variant before its first trial; may be empty, like the next two.
        prepare: command run before each trial, not measured.
        conclude: command run after each trial, not measured.
        stdin: absolute path of the file that is its standard input; empty for /dev/null.
        output: absolute path of the file that its standard output goes to; empty where it is read and kept.
        ignore_failure: whether a run counts that ended with another exit status than 0.
        numbers: what it prints of itself.
        cpus: whether it is pinned to one processor.
        waits: true where elapsed time is the verdict and CPU time isn't.
        timeout_ms: a trial is stopped after so long.
        build_timeout_ms: a build is stopped after so long.
        load_generators: of a server; each makes a workload of its own. ``{port}`` in `arguments` and `environment` then stands for the
            port of the trial. With `Cpus.ONE` server and load generator are pinned to different processors.
    """

    name: str
    arguments: tuple[str, ...]
    source: str = ""
    build: str = ""
    programs: tuple[tuple[str, str], ...] = ()
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    setup: str = ""
    prepare: str = ""
    conclude: str = ""
    stdin: str = ""
    output: str = ""
    ignore_failure: bool = False
    numbers: tuple[PrintedNumber, ...] = ()
    cpus: Cpus = Cpus.ALL
    waits: bool = True
    timeout_ms: int = 600_000
    build_timeout_ms: int = 3_600_000
    load_generators: tuple[LoadGenerator, ...] = msgspec.field(default=(), name="drives")  # as records store it

    @property
    def command(self) -> tuple[str, ...]:
        """Return the program and its arguments as typed; of several programs, the baseline's."""
        return (self.programs[0][1], *self.arguments) if self.programs else self.arguments


WALL_CLOCK = "wall"
"""Time of the target, which needs statistics."""

VIRTUAL_CLOCK = "virtual"
"""The emulator counts instructions as time: equal input gives equal bytes."""


class Experiment(FrozenStruct, frozen=True, kw_only=True):
    """What the user asks, resolved: nothing in it is a pattern, a default or a path to look up.

    Attributes:
        name: a study's name, or ``compare``.
        factors: what is varied; the first level of each makes the baseline.
        workloads: pairs (suite, workload) in the order of their registry.
        loads: names of loads, at least ``idle``.
        target: e.g. ``host`` or ``fake:PATH``.
        clock: `WALL_CLOCK` or `VIRTUAL_CLOCK`.
        budget_ns: stop starting blocks when this much time has been used.
        margin: ratio of no interest, e.g. 0.02 for two per cent.
        confidence: of intervals, before correction, e.g. 0.95.
        seed: of every random order.
        null: whether the baseline takes part again and relinked.
        blocks: an exact number of blocks after the warm-up, or 0 to stop on precision and budget.
        published: name of the published study to print beside the results, or empty.
        own: the user's own program, where that is what is measured; `workloads` then holds its name alone.
        layouts: how many links of each variant take turns, with shuffled order and varied environment size; 0 for one as it comes.
        architecture: of the virtual machine, a name of `swapstone.artifacts.image_catalog.ARCHITECTURES`; empty for this machine's
            architecture, and on other targets.
        modules: pairs (path of a kernel of the user's own, folder of its modules), where that is not the one beside it.
    """

    name: str
    factors: tuple[FactorLevels, ...]
    workloads: tuple[tuple[str, str], ...]
    loads: tuple[str, ...] = ("idle",)
    target: str = "host"
    clock: str = WALL_CLOCK
    budget_ns: int
    margin: float
    confidence: float
    seed: int
    null: bool = False
    blocks: int = 0
    published: str = ""
    own: OwnProgram | None = None
    layouts: int = 0
    architecture: str = ""
    modules: tuple[tuple[str, str], ...] = ()

    @property
    def virtual(self) -> bool:
        """Return whether its clock is the virtual one: what repeats a trial there is a draw, and there is no noise."""
        return self.clock == VIRTUAL_CLOCK


def layout_of(block: int, layouts: int) -> int:
    """Return which link of its programs a block runs: they take turns, and every variant of a block is at the same turn.

    Args:
        block: its number; the warm-up runs what block 1 runs.
        layouts: how many links there are, at least 1.

    Returns:
        A number from 0.
    """
    return max(0, block - 1) % layouts


class Trial(FrozenStruct, frozen=True, kw_only=True):
    """One run to make: the unit of the experiment.

    Attributes:
        suite: the suite through which the workload was asked for.
        workload: its name.
        load: the load's name.
        variant: the variant's label.
        block: 0 is warm-up; analysis starts at 1.
        position: order inside the block, from 0, over all its trials.
    """

    suite: str
    workload: str
    load: str
    variant: str
    block: int
    position: int

    @property
    def key(self) -> str:
        """Return the trial's identity inside its record: one run per key."""
        return f"{self.block:04d}/{self.suite}/{self.workload}/{self.load}/{self.variant}"
