# SPDX-License-Identifier: MIT OR Apache-2.0
"""Experiments, and the variants and trials that they expand to."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterator

from swapstone.core.model.errors import UserError
from swapstone.core.model.frozen_struct import BlockNumber, FrozenStruct, Name, Position
from swapstone.core.model.metric import Metric
from swapstone.core.model.substitution import placeholders_in
from swapstone.core.model.workload import OwnProgram


class Copy(enum.Enum):
    """Which copy of a variant this is: the first, or one of the two that a null comparison adds to the baseline."""

    FIRST = "first"
    AGAIN = "again"
    RELINKED = "relinked"


_PATH = re.compile(r"/[^:\s]+")
_WITH_DIGEST = re.compile(r"([^@\s]+)@sha256:([0-9a-f]{12})[0-9a-f]{52}", re.ASCII)


@functools.cache
def shown_levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels of a factor as reports print them: of paths as many last parts as distinguish them, of digests what is before.

    Args:
        levels: all of the factor, distinct.
    """
    forms = [list(_forms(level)) for level in levels]
    while True:
        names = [each[0] for each in forms]
        longer = [each for each in forms if len(each) > 1 and names.count(each[0]) > 1]
        if not longer:
            return tuple(names)
        for each in longer:
            del each[0]


def _forms(level: str) -> Iterator[str]:
    """Yield the forms of a level, the shortest first."""
    digest = _WITH_DIGEST.fullmatch(level)
    name = digest[1] if digest else level if _PATH.fullmatch(level) else ""
    parts = [part for part in name.split("/") if part]
    short = ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)]
    yield from short
    yield from (f"{each}@{digest[2]}" for each in short if digest)
    yield level


class Variant(FrozenStruct, frozen=True, kw_only=True):
    """One level per factor.

    Attributes:
        levels: pairs (factor, level) in the experiment's order of factors.
        copy: `Copy.FIRST` but for the nulls.
        shown: the levels as reports print them, in the same order; empty for no other form.
    """

    levels: tuple[tuple[str, str], ...]
    copy: Copy = Copy.FIRST
    shown: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Return the name of the variant in a record, e.g. ``libc=musl`` or ``libc=glibc (again)``."""
        return self._copied(",".join(f"{factor}={level}" for factor, level in self.levels))

    @property
    def shown_levels(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (factor, level) with the levels as reports print them."""
        return tuple(zip((factor for factor, _ in self.levels), self.shown, strict=True)) if self.shown else self.levels

    @property
    def shown_label(self) -> str:
        """Return the label as sentences print it, e.g. ``rootfs=debian.tar``."""
        return self._copied(",".join(f"{factor}={level}" for factor, level in self.shown_levels))

    @property
    def short_label(self) -> str:
        """Return the label without the factors' names as tables print it, e.g. ``musl`` or ``glibc, default (again)``."""
        return self._copied(", ".join(level for _, level in self.shown_levels))

    @property
    def applied(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (factor, level) of all levels that its program has: those of `levels`, and those that all variants share."""
        return self.levels

    @property
    def applied_label(self) -> str:
        """Return the label with all levels of `applied`, e.g. ``libc=musl,optimization=Os``."""
        return self._copied(",".join(f"{factor}={level}" for factor, level in self.applied))

    def _copied(self, text: str) -> str:
        return text if self.copy is Copy.FIRST else f"{text} ({self.copy.value})"

    def level(self, factor: str) -> str:
        """Return the level of a factor.

        Raises:
            KeyError: this variant has no such factor.
        """
        return dict(self.applied)[factor]


class HeldVariant(Variant, frozen=True, kw_only=True):
    """A variant with the levels that all share, for building and running. Reports and analyses have a plain `Variant` of the same label.

    Attributes:
        held: pairs (factor, level) that all variants of the experiment share.
    """

    held: tuple[tuple[str, str], ...] = ()

    @property
    def applied(self) -> tuple[tuple[str, str], ...]:
        """Return its own levels, then those that all variants share."""
        return (*self.levels, *self.held)


class RunGroup(FrozenStruct, frozen=True, kw_only=True):
    """The workload and the load of some runs.

    Attributes:
        suite, workload, load: their names. An empty workload stands for the suite's index, the geometric mean over its workloads.
    """

    suite: str
    workload: str
    load: str


class FactorLevels(FrozenStruct, frozen=True, kw_only=True):
    """A factor with the levels to compare, the baseline first."""

    factor: str
    levels: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the factor with its levels as reports print them, e.g. ``libc=glibc,musl``."""
        return f"{self.factor}={','.join(shown_levels(self.levels))}"


SESSION, BEFORE, NOW = "session", "before", "now"
"""The factor of an experiment that compares nothing else, and its levels: runs of an earlier session, and of this one."""

REFERENCE_SUITE = "reference"
"""Its one workload runs beside a single variant: how much it differs between two sessions bounds the effect of the session itself."""

WALL_CLOCK = "wall"
"""Time of the target, which needs statistics."""

SIMULATION = "fake"
"""The target that runs nothing."""

VIRTUAL_CLOCK = "virtual"
"""The emulator counts instructions as time: equal input gives equal bytes."""


MOST_PROCESSORS = 8
"""The largest number of processors of a virtual machine: that of QEMU's machine `virt` with its default interrupt controller."""

WAKEUP_INTERVAL_US = 100
"""A thread that `Experiment.wakeups` counts sleeps so long."""

FEWEST_WAKEUPS = 1000
"""A tenth of a second: the priority of its threads is read early in a measurement."""

MOST_WAKEUPS = 10_000_000
"""The number of wake-ups of the published page: 1000 s."""

CLOCK_SCALES = tuple(1 << shift for shift in range(11))
"""Guest time of an instruction on the virtual clock, in nanoseconds: QEMU's option ``-icount shift=N`` accepts 0 to 10, for 2^N ns."""

REPORT_CORRECTION = "report"
"""All rows of a report are one family."""

FAMILY_CORRECTION = "family"
"""Rows of one suite, load and quantity are a family: several in a report."""

RANDOM_ORDER = "random"
"""The order of a block's variants is drawn independently in each block."""

BALANCED_ORDER = "balanced"
"""Orders come in cycles in which each variant follows each other one equally often (Williams 1949), at random otherwise."""

BOOT_ORDER = "boot"
"""A block has all trials of a variant one after another, on one boot of the board. The order of the variants is drawn in each block."""

TAIL_RULES = 2
"""The first rules with means, tails, carry-over, outputs and processors."""

DIRECTION_RULES = 3
"""The first rules whose direction needs the ratio of medians, whose outputs are compared token by token, and whose discarded runs count."""

EQUAL_EXTRA_RULES = 4
"""The first rules by which all variants of a block discard equally many runs more, so that what each run leaves grows alike,
and by which a part of an output that varies on one side shows other work only in five runs of each."""

CONTRAST_RULES = 5
"""The first rules by which directions of indices and of effects of factors need the ratio of medians, as those of rows do, and by which
whether an own program waits follows from the states of its threads."""

EXACT_RULES = 6
"""The first rules by which values that are exact are compared without statistics (`swapstone.core.comparison.exact_floors`)."""

CURRENT_RULES = EXACT_RULES
"""The rules of new experiments."""


class Experiment(FrozenStruct, frozen=True, kw_only=True):
    """A resolved experiment: without patterns, defaults or names to look up.

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
        blocks: a number of blocks after the warm-up, or 0 to stop on precision. `timed` states whether the budget ends these too.
        published: name of the published study to print beside the results, or empty.
        own: the user's own program, where that is what is measured; `workloads` then holds its name alone.
        layouts: number of links of each variant that take turns, with shuffled order and varied environment size; 0 for none.
        architecture: of the virtual machine, a name of `swapstone.core.model.architectures.ARCHITECTURES`; empty for this machine's
            architecture, and on other targets.
        cpu_model: of the virtual machine, as QEMU's option ``-cpu`` names it; empty for the default.
        ns_per_instruction: guest time of an instruction on the virtual clock: one of `CLOCK_SCALES`; 1 on other clocks.
        processors: of the virtual machine; 1 on other clocks.
        modules: pairs (path of a kernel file, folder of its modules), for folders other than the one beside it.
        module_files: absolute paths of kernel modules that the virtual machine loads before the work.
        rules: version of the rules by which rows are judged. 1: records before 0.2, on medians alone. 2: means, tails, carry-over, outputs
            and processors are checked too. 3: a direction needs the ratio of medians too, outputs are compared token by token, and the
            values of discarded runs count in the tail. 4: all variants of a block discard equally many runs. 5: directions of indices and
            of effects of factors need the ratio of medians, and whether a program waits follows from the states of its threads. 6: exact
            values have floors.
        correction: `REPORT_CORRECTION` or `FAMILY_CORRECTION`: which rows share one rate of false differences.
        prime: how many runs of the same variant are made and discarded directly before each measured run. By rules 3 up to 2
            more, at random (`swapstone.core.plan.extra_runs`), so that what happens in each n-th run is not always discarded, or never.
        prime_more: whether `prime` grows for workloads with carry-over while measuring.
        order: `RANDOM_ORDER`, `BALANCED_ORDER` or `BOOT_ORDER`: how the variants of a block are ordered.
        held: pairs (factor, level): levels that all variants share, of factors that are not varied.
        budget_extends: whether the budget is a default, which is extended to the pairs that an interval needs.
        failures_count: whether failures are a result: a variant is run on as long as any of its runs succeeds, and a side that fails
            significantly more often is not judged. False in records before 0.2, where three failures ended a variant.
        wakeups: how often a thread of the suite latency wakes in each trial; 0 for the suite's number.
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
    cpu_model: str = ""
    ns_per_instruction: int = 1
    processors: int = 1
    modules: tuple[tuple[str, str], ...] = ()
    module_files: tuple[str, ...] = ()
    rules: int = 1
    correction: str = FAMILY_CORRECTION
    prime: int = 0
    prime_more: bool = False
    order: str = RANDOM_ORDER
    held: tuple[tuple[str, str], ...] = ()
    budget_extends: bool = False
    failures_count: bool = False
    wakeups: int = 0

    def levels_of(self, factor: str) -> tuple[str, ...]:
        """Return the levels of an applied factor; none if the experiment does not have it."""
        return next((choice.levels for choice in self.applied_factors if choice.factor == factor), ())

    @property
    def applied_factors(self) -> tuple[FactorLevels, ...]:
        """Return the factors that are varied, then those that are held, which have one level."""
        return (*self.factors, *(FactorLevels(factor=name, levels=(level,)) for name, level in self.held))

    @property
    def alone(self) -> bool:
        """Return whether it has one variant: its figures are values, and nothing is compared."""
        return self.factors == (FactorLevels(factor=SESSION, levels=(NOW,)),)

    @property
    def earlier(self) -> str:
        """Return the label of the variant whose runs an earlier session made; empty if there is none."""
        return f"{SESSION}={BEFORE}" if self.factors == (FactorLevels(factor=SESSION, levels=(BEFORE, NOW)),) else ""

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Return the free factors whose levels no process receives, so that they can't be observed: the build alone uses them."""
        received = (
            frozenset[str]().union(*map(placeholders_in, self.own.launch_texts)) if self.own else frozenset[str]()
        )
        free = [choice.factor for choice in self.factors if choice.factor.startswith("{")]
        return tuple(name for name in free if name.strip("{}") not in received)

    @property
    def timed(self) -> bool:
        """Return whether the budget ends it: any, but for a default one a number of blocks is exact."""
        return not (self.blocks and self.budget_extends)

    @property
    def printed_metrics(self) -> tuple[str, ...]:
        """Return the names of the numbers that the user's program prints (``--metric``)."""
        return () if self.own is None else tuple(number.metric.name for number in self.own.numbers)

    @property
    def virtual(self) -> bool:
        """Return whether its clock is the virtual one: a repeated trial is a replicate there, and there is no noise."""
        return self.clock == VIRTUAL_CLOCK

    def exact(self, metric: Metric | None = None) -> bool:
        """Return whether each pair of values of a metric, or of any, has an exact difference, by its rules.

        It has on the virtual clock, but not with several processors, whose runs are not equal to the byte; of a deterministic count on any
        clock; and not with layouts, which are a sample of all layouts.
        """
        exact = (self.virtual and self.processors == 1) or (metric is not None and metric.exact)
        return exact and self.rules >= EXACT_RULES and not self.layouts

    @property
    def simulated(self) -> bool:
        """Return whether its target runs nothing and makes up the answers."""
        return self.target.partition(":")[0] == SIMULATION


def layout_of(block: int, layouts: int) -> int:
    """Return which link of its programs a block runs: they take turns, and every variant of a block is at the same turn.

    Args:
        block: its number; the warm-up runs what block 1 runs.
        layouts: how many links there are, at least 1.

    Returns:
        A number from 0.
    """
    return max(0, block - 1) % layouts


def cycle_of(block: int, variants: int) -> tuple[int, int]:
    """Return the cycle of orders that a block belongs to, and its place in it, both from 0: see `BALANCED_ORDER`.

    Args:
        block: its number, from 1.
        variants: how many there are. A cycle has as many blocks, twice as many for an odd number.
    """
    return divmod(block - 1, variants * (1 + variants % 2))


class Trial(FrozenStruct, frozen=True, kw_only=True):
    """One run to make: the unit of the experiment.

    Attributes:
        suite: the suite through which the workload was selected.
        workload: its name.
        load: the load's name.
        variant: the variant's label.
        block: 0 is warm-up; analysis starts at 1.
        position: order inside the block, from 0, over all its trials.
        prime: 0 for a measured run. Of a discarded one, how many runs before the measured run of its variant and block it is: 1 directly
            before.
        extra: of a discarded run that is made beside the experiment's number of them, which all precede those: 1 for the last of them.
    """

    suite: Name
    workload: Name
    load: Name
    variant: Name
    block: BlockNumber
    position: Position
    prime: BlockNumber = 0
    extra: BlockNumber = 0

    @property
    def group(self) -> tuple[str, str, str]:
        """Return (suite, workload, load): what is measured on every variant within its block."""
        return self.suite, self.workload, self.load

    @property
    def identity(self) -> str:
        """Return the name of its request to the agent, unique within the experiment but for calibration."""
        return f"{self.block}-{self.position}"

    @property
    def key(self) -> str:
        """Return the trial's identity inside its record: one run per key."""
        place = f"{self.block:04d}/{self.suite}/{self.workload}/{self.load}/{self.variant}"
        if self.prime:
            place += f"/prime-{self.prime + self.extra}"
        return place


def check_scale(ns_per_instruction: int) -> int:
    """Return a guest time of an instruction that the emulator offers, in nanoseconds.

    Raises:
        UserError: it is none of `CLOCK_SCALES`.
    """
    if ns_per_instruction not in CLOCK_SCALES:
        raise UserError(
            f"The emulator's clock can't count {ns_per_instruction} ns for an instruction.",
            f"It counts one of: {', '.join(map(str, CLOCK_SCALES))}",
        )
    return ns_per_instruction
