# SPDX-License-Identifier: MIT OR Apache-2.0
"""Synthetic experiments that together have every kind of row, check and caveat; their numbers are not measured."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from swapstone.core import plan
from swapstone.core.comparison.rows import SizeValues
from swapstone.core.model import (
    ALL_PROCESSORS,
    BALANCED_ORDER,
    CONTRAST_RULES,
    CURRENT_RULES,
    KILLED,
    REPORT_CORRECTION,
    TIMED_OUT,
    UNKNOWN_THREADS,
    VIRTUAL_CLOCK,
    Cpus,
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    OwnProgram,
    Quantity,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Workload,
)
from tests.unit.comparison.conftest import METRICS
from tests.unit.comparison.processor_facts import machine_facts

Change = Callable[[Run, int], Run]
"""From a run and its number to what the record has."""

TEXT = Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")


@dataclasses.dataclass(frozen=True)
class Example:
    """What an analysis is computed from."""

    experiment: Experiment
    workloads: Mapping[str, Workload]
    runs: Sequence[Run]
    sizes: SizeValues | None = None


def workload(name: str, *metrics: str, **changes: Any) -> Workload:
    """Return a workload that this project might have."""
    return Workload(
        name=name,
        origin=Source(file="x.c"),
        description="x",
        metrics=tuple(METRICS[each] for each in metrics),
        **changes,
    )


def experiment(factors: Mapping[str, Sequence[str]], workloads: Sequence[Workload], **changes: Any) -> Experiment:
    """Return an experiment by the current rules."""
    fields: dict[str, Any] = {
        "name": "compare",
        "factors": tuple(FactorLevels(factor=name, levels=tuple(levels)) for name, levels in factors.items()),
        "workloads": tuple(("s", each.name) for each in workloads),
        "budget_ns": 10**12,
        "margin": 0.02,
        "confidence": 0.95,
        "seed": 3,
        "rules": CURRENT_RULES,
        "correction": REPORT_CORRECTION,
        "failures_count": True,
        **changes,
    }
    return Experiment(**fields)


def made(
    asked: Experiment,
    workloads: Sequence[Workload],
    blocks: int,
    *,
    change: Change = lambda run, _: run,
    ratio: float = 1.3,
    noise: float = 0.01,
    discarded: Callable[[int], int] = lambda _: 0,
    gap_ns: int = 800_000_000,
) -> list[Run]:
    """Return the runs of an experiment. Each level after the first of a factor multiplies each metric by a power of the ratio."""
    random = np.random.default_rng(17)
    variants = {each.label: each for each in plan.variants(asked)}
    by_name = {each.name: each for each in workloads}
    found: list[Run] = []
    now_ns = 10**18
    for block in range(blocks + 1):
        level = float(np.exp(random.normal(0, 0.1)))
        for trial in plan.block(
            asked, block, plan.groups(asked), {each: discarded(block) for each in plan.groups(asked)}
        ):
            steps = sum(
                factor.levels.index(dict(variants[trial.variant].levels)[factor.factor]) for factor in asked.factors
            )
            samples = []
            for number, metric in enumerate(by_name[trial.workload].metrics):
                value = 1000.0 * (number + 1) * level * ratio**steps * float(np.exp(random.normal(0, noise)))
                samples.append(Sample(metric=metric.name, values=(value, 1.01 * value)))
            run = Run(
                trial=trial,
                status=Status.OK,
                samples=tuple(samples),
                started_unix_ns=now_ns,
                elapsed_ns=100_000_000 + 1000 * len(found),
                facts=tuple(_quiet(random).items()),
            )
            found.append(change(run, len(found)))
            now_ns += gap_ns
    return found


def _quiet(random: np.random.Generator) -> dict[str, int]:
    return {
        "wall_ns": 100_000_000,
        "psi_cpu_us": int(random.integers(1000, 4000)),
        "steal_ticks": int(random.integers(0, 2)),
        "cpu_ticks": 20,
        "load1_milli": int(random.integers(200, 900)),
    }


def altered(run: Run, **changes: Any) -> Run:
    """Return a run with some fields changed. The facts are added to those that it has."""
    fields = {name: getattr(run, name) for name in run.__struct_fields__}
    if "facts" in changes:
        changes["facts"] = tuple({**dict(run.facts), **changes["facts"]}.items())
    return Run(**{**fields, **changes})


def ended(run: Run, status: Status, reason: str) -> Run:
    """Return a run without values."""
    return altered(run, status=status, reason=reason, samples=())


def suites() -> Example:
    """Three workloads, two loads, copies of the baseline, sizes; runs that fail, are refused and are not built; a busy load."""
    works = [
        workload("a", "wall", "cpu", "res", "rate", "nivcsw"),
        workload("b", "wall", "cpu", "res", waits=True),
        workload("c", "wall", "cpu"),
        workload("d", "wall"),
    ]
    asked = experiment({"libc": ("glibc", "musl", "other")}, works, loads=("idle", "cpu"), null=True)

    def change(run: Run, number: int) -> Run:
        trial = run.trial
        if trial.load == "cpu":
            run = altered(run, facts={"psi_cpu_us": 40_000 + number, "steal_ticks": 1})
        if trial.workload == "c" and trial.variant == "libc=musl" and trial.block % 3 == 1:
            return ended(run, Status.FAILED, f"{TIMED_OUT if trial.block % 2 else KILLED} x")
        if trial.workload == "d" and trial.variant == "libc=other":
            return ended(run, Status.UNAVAILABLE, "not built")
        if trial.workload == "d" and trial.variant == "libc=musl" and trial.block == 4:
            return ended(run, Status.REFUSED, "another level\n| console: x")
        if trial.workload == "b" and trial.block == 7 and trial.variant.endswith("(again)"):
            return ended(run, Status.FAILED, "it ended with status 3")
        return run

    labels = [each.label for each in plan.variants(asked)]
    sizes = {("s", "a", label): [(TEXT, 1000.0 + 7 * number)] for number, label in enumerate(labels)}
    return Example(asked, {each.name: each for each in works}, made(asked, works, 16, change=change), sizes)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def own_program(**changes: Any) -> Example:
    """An own program with a fault for each check: outputs, storage, conditions, time in which nothing ran, carry-over."""
    works = [workload(name, "wall", "cpu", "res", threads=UNKNOWN_THREADS) for name in ("p", "q")]
    own = OwnProgram(name="p", arguments=("p",), artifacts=("made",), ignore_failure=True)
    asked = experiment({"command": ("old", "new")}, works, own=own, prime_more=True, **changes)

    begun: set[tuple[str, str, int]] = set()

    def change(run: Run, number: int) -> Run:
        trial = run.trial
        new = trial.variant.endswith("new")
        place = trial.workload, trial.variant, trial.block
        slow = new and trial.prime and place not in begun
        begun.add(place)
        facts = {
            **{"user_us": 60_000, "system_us": 20_000, "run_delay_ns": 500_000, "nice": 0, "cpus_allowed": 2},
            **{"agent_cpus": 2, "agent_nice": 0, "changed_conditions": 0, "late_ns": 1000, "trial_cpu_us": 81_000},
            **{"read_bytes": 300_000 if new else 200_000, "write_bytes": 90_000 + number},
        }
        if number == 20:
            facts |= {"agent_nice": 5}
        if number in {30, 31}:
            facts |= {"wall_ns": 9_000_000_000, "late_ns": 2_000_000_000 + number}
        if new and trial.block == 9:
            facts |= {"nice": 4}
        samples = tuple(
            Sample(metric=each.metric, values=tuple(value * (1.2 if slow else 1.0) for value in each.values))
            for each in run.samples
        )
        digests = (
            ("stdout", _digest("out", trial.workload == "q" and new)),
            ("made", _digest("made", number)),
            ("shape:made", _digest("shape")),
            ("sections:made", f"{number % 3:08x}{7:08x}"),
        )
        return altered(
            run,
            samples=(*samples, Sample(metric="exit_status", values=(1.0 if new and trial.workload == "p" else 0.0,))),
            facts=facts,
            digests=digests,
            found_files=("left", "...") if number == 40 else (),
        )

    runs = made(asked, works, 24, change=change, ratio=1.001, discarded=lambda block: 0 if block < 8 else 1)
    return Example(asked, {each.name: each for each in works}, runs)


def similar_outputs() -> Example:
    """An own program whose variants differ by nothing, in outputs that vary and in many runs."""
    works = [workload("p", "wall", "res")]
    own = OwnProgram(name="p", arguments=("p",), cpus=Cpus.ONE)
    asked = experiment({"command": ("old", "new")}, works, own=own, confidence=0.99)

    def change(run: Run, number: int) -> Run:
        slow = number % 29 == 5
        samples = tuple(
            Sample(metric=each.metric, values=tuple(value * (3.0 if slow else 1.0) for value in each.values))
            for each in run.samples
        )
        return altered(run, samples=samples, digests=(("stdout", _digest(number)), ("shape:stdout", _digest("shape"))))

    return Example(asked, {"p": works[0]}, made(asked, works, 100, change=change, ratio=1.0005, noise=0.002))


def threads() -> Example:
    """Work that needs several processors, which other processes use in some blocks and in most."""
    works = [
        workload("few", "wall", "cpu", "res", cpus=Cpus.ALL, threads=2),
        workload("most", "wall", "rate", cpus=Cpus.ALL, threads=ALL_PROCESSORS),
        workload("pinned", "wall", "cpu", cpus=Cpus.ONE, threads=2),
    ]
    asked = experiment({"libc": ("glibc", "musl")}, works)
    random = np.random.default_rng(5)

    def change(run: Run, _: int) -> Run:
        trial = run.trial
        others = 0.6 if trial.workload == "most" or 5 <= trial.block <= 8 else 0.02
        return altered(run, facts=machine_facts(random, own=1.4, others=others, steal=0.1 * (trial.block == 6)))

    return Example(asked, {each.name: each for each in works}, made(asked, works, 30, change=change))


def crossed(**changes: Any) -> Example:
    """Three crossed factors and several workloads, one of which lacks a variant."""
    works = [workload(name, "wall", "nivcsw") for name in ("a", "c")]
    factors = {"libc": ("glibc", "musl"), "linking": ("dynamic", "static"), "optimization": ("2", "3", "s")}
    asked = experiment(factors, works, **changes)

    def change(run: Run, _: int) -> Run:
        trial = run.trial
        if trial.workload == "c" and "linking=static,optimization=3" in trial.variant:
            return ended(run, Status.REFUSED, "another level")
        both = "musl" in trial.variant and "static" in trial.variant
        factor = 1.25 if both else 1.0
        samples = tuple(
            Sample(
                metric=each.metric,
                values=(0.0 if each.metric == "nivcsw" and trial.block == 2 else factor * each.values[0],),
            )
            for each in run.samples
        )
        return altered(run, samples=samples)

    labels = [each.label for each in plan.variants(asked)]
    sizes = {("s", "a", label): [(TEXT, float(900 + 31 * len(label)))] for label in labels[1:] + labels[:1]}
    return Example(asked, {each.name: each for each in works}, made(asked, works, 14, change=change, ratio=1.05), sizes)


def layouts() -> Example:
    """Links that take turns."""
    works = [workload(name, "wall", "cpu") for name in ("a", "b")]
    asked = experiment({"libc": ("glibc", "musl")}, works, layouts=7, null=True)

    def change(run: Run, _: int) -> Run:
        turn = (run.trial.block - 1) % 7
        factor = 1.0 + 0.01 * turn * ("musl" in run.trial.variant)
        return altered(
            run, samples=tuple(Sample(metric=each.metric, values=(factor * each.values[0],)) for each in run.samples)
        )

    return Example(
        asked, {each.name: each for each in works}, made(asked, works, 21, change=change, ratio=1.1, noise=0.003)
    )


def replicates(**changes: Any) -> Example:
    """The virtual clock by rules 5: exact rows, rows that vary, latencies and series."""
    works = [workload("exact", "wall", "res"), workload("varies", "wall", "rate")]
    asked = experiment(
        {"kernel": ("old", "new")},
        works,
        clock=VIRTUAL_CLOCK,
        target="vm",
        null=True,
        **{"loads": ("idle", "io"), "rules": CONTRAST_RULES, **changes},
    )

    def change(run: Run, number: int) -> Run:
        trial = run.trial
        samples = run.samples
        if trial.workload == "exact":
            value = 1005.0 if trial.variant.endswith("new") else 1000.0
            samples = tuple(Sample(metric=each.metric, values=(value,)) for each in run.samples)
        extremes = (Sample(metric="max", values=(float(number % 11),)), Sample(metric="avg", values=(number % 7 / 2,)))
        histogram = ((number % 5, 100 + number), (5 + number % 3, 2))
        return altered(
            run,
            samples=(*samples, *extremes),
            histogram=histogram,
            by_processor=((1, histogram[:1]), (0, histogram[1:])),
            series=(Sample(metric="wall", values=(1.0, float(number))),),
        )

    return Example(asked, {each.name: each for each in works}, made(asked, works, 9, change=change, ratio=1.04))


def exact_replicates() -> Example:
    """The same by the current rules, with the margin of exact values."""
    return replicates(rules=CURRENT_RULES, margin=0.001)


def first_rules() -> Example:
    """An experiment by the first rules, with few blocks, correlated pairs and nulls that differ."""
    works = [workload(name, "wall", "cpu", "res") for name in ("a", "b", "c", "d", "e")]
    asked = experiment(
        {"libc": ("glibc", "musl")}, works, rules=1, correction="family", failures_count=False, null=True, margin=0.01
    )

    def change(run: Run, _: int) -> Run:
        trial = run.trial
        wave = 1.0 + 0.05 * ((trial.block // 5) % 2) * ("musl" in trial.variant)
        wave *= 1.2 if "relinked" in trial.variant and trial.workload in {"a", "b"} else 1.0
        facts = {"psi_cpu_us": 30_000, "steal_ticks": 1}
        return altered(
            run,
            facts=facts,
            samples=tuple(Sample(metric=each.metric, values=(wave * each.values[0],)) for each in run.samples),
        )

    return Example(
        asked, {each.name: each for each in works}, made(asked, works, 20, change=change, ratio=1.0, noise=0.004)
    )


def few_blocks() -> Example:
    """Blocks that are too few for intervals: sides that are far apart, and others."""
    works = [workload("far", "wall", "res"), workload("near", "wall", "nivcsw"), workload("zero", "wall")]
    asked = experiment({"libc": ("glibc", "musl", "other")}, works)

    def change(run: Run, _: int) -> Run:
        trial = run.trial
        factor = (
            30.0 if trial.workload == "far" and "musl" in trial.variant else 0.0 if trial.workload == "zero" else 1.0
        )
        return altered(
            run, samples=tuple(Sample(metric=each.metric, values=(factor * each.values[0],)) for each in run.samples)
        )

    return Example(asked, {each.name: each for each in works}, made(asked, works, 4, change=change))


def balanced() -> Example:
    """Balanced orders of three variants, in which a run depends on the one before it."""
    works = [workload("a", "wall", "cpu")]
    asked = experiment({"libc": ("glibc", "musl", "other")}, works, order=BALANCED_ORDER)
    last: list[Trial] = []

    def change(run: Run, _: int) -> Run:
        after_baseline = bool(last) and last[-1].variant == "libc=glibc"
        last.append(run.trial)
        factor = 1.15 if after_baseline else 1.0
        return altered(
            run, samples=tuple(Sample(metric=each.metric, values=(factor * each.values[0],)) for each in run.samples)
        )

    return Example(asked, {"a": works[0]}, made(asked, works, 32, change=change, ratio=1.02, noise=0.003))


EXAMPLES: dict[str, Callable[[], Example]] = {
    each.__name__: each
    for each in (
        *(
            suites,
            own_program,
            similar_outputs,
            threads,
            crossed,
            layouts,
            replicates,
            exact_replicates,
            first_rules,
            few_blocks,
            balanced,
        ),
    )
}
