# SPDX-License-Identifier: MIT OR Apache-2.0
"""Intervals of the ledger's lines: a difference is named only if its interval excludes 0."""

from __future__ import annotations

import random

import msgspec
import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, ProfileRun, Stack
from swapstone.parts.explain.explanation.cost_classes import load_classes
from swapstone.parts.explain.explanation.findings import explain
from swapstone.parts.explain.explanation.intervals import LEAST_RUNS
from swapstone.parts.explain.explanation.ledger import ledger
from swapstone.parts.explain.model.explanation import (
    Amount,
    ElapsedRun,
    ElapsedTime,
    InstrumentResult,
    Reference,
    RowKey,
    RowMeasurements,
)
from swapstone.parts.explain.report import row_explanation

CLASSES = load_classes()
BASE, CANDIDATE = "libc=glibc", "libc=musl"
OWN = (Frame(symbol="work", object=OWN_OBJECT),)
FREE = (*OWN, Frame(symbol="free", object="libc.so"))
READ = (*OWN, Frame(symbol="__x64_sys_read", object=KERNEL))
SLEEP = (*OWN, Frame(symbol="__x64_sys_nanosleep", object=KERNEL))
STACKS = (OWN, FREE, READ, SLEEP)
FRAMES = tuple(dict.fromkeys(frame for stack in STACKS for frame in stack))
Counts = list[dict[tuple[Frame, ...], int]]
"""Samples of each run by stack."""


def profile(runs: Counts, kind: str = "on-cpu", weight: float = 0.5e6) -> Profile:
    whole = [sum(run.get(stack, 0) for run in runs) * weight for stack in STACKS]
    return Profile(
        kind=kind,
        unit="ns",
        operations=float(len(runs)),
        frames=FRAMES,
        stacks=tuple(
            Stack(frames=tuple(map(FRAMES.index, stack)), weight=each)
            for stack, each in zip(STACKS, whole, strict=True)
        ),
        runs=tuple(
            ProfileRun(
                samples=sum(run.values()),
                weights=tuple((STACKS.index(stack), count * weight) for stack, count in run.items()),
            )
            for run in runs
        ),
    )


def result(instrument: str, variant: str, **given: object) -> InstrumentResult:
    plain = {"tool": "t", "command": "c", "operations": 1.0, "overhead": 1.0}
    return InstrumentResult(instrument=instrument, variant=variant, **{**plain, **given})  # type: ignore[arg-type]


def reference(variant: str, times: list[float], recorded: float, **metrics: float) -> Reference:
    middle = sorted(times)[len(times) // 2]
    return Reference(
        variant=variant,
        program_sha256="",
        recorded=recorded,
        time_ns=recorded,
        metrics=(("wall", middle), ("cpu", middle), *metrics.items()),
        runs=len(times),
        values=(("wall", tuple(times)), ("cpu", tuple(times))),
    )


def row(
    base: tuple[Counts, list[float]], candidate: tuple[Counts, list[float]], *, metric: str = "cpu"
) -> RowMeasurements:
    sides = [
        reference(name, times, sorted(times)[len(times) // 2])
        for name, (_, times) in ((BASE, base), (CANDIDATE, candidate))
    ]
    return RowMeasurements(
        place=RowKey(suite="", workload="w", load="idle", metric=metric, baseline=BASE, candidate=CANDIDATE),
        unit="ns",
        ledger_metric=metric,
        references=(sides[0], sides[1]),
        runs=(
            result("on-cpu", BASE, profile=profile(base[0])),
            result("on-cpu", CANDIDATE, profile=profile(candidate[0])),
        ),
        missing=(),
    )


def noisy(chance: random.Random, middle: float, runs: int = 10) -> list[float]:
    return [middle * chance.gauss(1.0, 0.02) for _ in range(runs)]


def drawn(chance: random.Random, shares: dict[tuple[Frame, ...], float], runs: int = 8, samples: int = 150) -> Counts:
    names, weights = list(shares), list(shares.values())
    found: Counts = []
    for _ in range(runs):
        of: dict[tuple[Frame, ...], int] = {}
        for stack in chance.choices(names, weights, k=samples):
            of[stack] = of.get(stack, 0) + 1
        found.append(of)
    return found


def test_a_planted_cause_has_an_interval_with_its_difference_and_is_named() -> None:
    chance = random.Random(1)
    base = (drawn(chance, {OWN: 1.0}), noisy(chance, 1e6))
    candidate = (drawn(chance, {OWN: 0.5, FREE: 0.5}), noisy(chance, 2e6))
    found = explain(row(base, candidate), CLASSES)
    assert [finding.cause for finding in found.findings] == ["allocator"]
    (finding,) = found.findings
    assert finding.interval is not None and finding.interval[0] < 1.0 < finding.interval[1]
    assert finding.interval[0] > 0.7 and finding.interval[1] < 1.3
    assert found.ledger is not None and found.ledger.samples == (1200, 1200)
    own = next(line for line in found.ledger.lines if line.cause == "own code")
    assert own.interval is not None and own.interval[0] < 0 < own.interval[1]
    assert ", 9" in found.paragraph or ", 8" in found.paragraph  # the share's interval begins with its lower end
    head, *rows = row_explanation.summary_of(found, ()).ledger
    assert head[-2:] == ("interval", "share") and all(len(each) == len(head) for each in rows)
    assert any(each[0].startswith("sampling: half the widest interval; 1200 and 1200 samples") for each in rows)


def test_a_class_with_few_samples_is_not_named() -> None:
    chance = random.Random(2)
    # Four samples in one run of eight: a share of 13 % of the difference, of which nothing is known.
    few = drawn(chance, {OWN: 1.0}, samples=4)
    few[0] = {FREE: 4}
    found = explain(
        row((drawn(chance, {OWN: 1.0}, samples=4), noisy(chance, 1e6)), (few, noisy(chance, 1.05e6))), CLASSES
    )
    assert "allocator" not in [finding.cause for finding in found.findings]
    assert found.ledger is not None
    line = next(line for line in found.ledger.lines if line.cause == "allocator")
    assert line.difference > 0 and line.interval is not None and line.interval[0] < 0


def test_equal_counts_in_all_runs_are_no_proof_of_an_exact_share() -> None:
    chance = random.Random(3)
    alike: Counts = [{OWN: 3, FREE: 1} for _ in range(8)]
    found = explain(row(([{OWN: 4} for _ in range(8)], [1e6] * 8), (alike, [1.3e6] * 8)), CLASSES)
    assert chance is not None and found.ledger is not None
    line = next(line for line in found.ledger.lines if line.cause == "allocator")
    assert line.interval is not None
    # 8 of 32 samples: the standard error of the share is 0.077, of 1.3 ms 0.1 ms
    assert line.interval[1] - line.interval[0] > 4 * 0.0995e6


def test_where_no_class_is_named_counts_of_entries_into_the_kernel_that_differ_much_are() -> None:
    chance = random.Random(11)
    sides = [(drawn(chance, {OWN: 0.7, READ: 0.3}), noisy(chance, 1e6)) for _ in range(2)]
    seen = row(sides[0], sides[1])
    amounts = [
        tuple(Amount(group=group, name=name, value=value) for group, name, value in each)
        for each in (
            (("system calls", "getppid", 0.0), ("system calls", "read", 1.0), ("switches", "voluntary switches", 1.0)),
            (("system calls", "getppid", 42.0), ("system calls", "read", 1.4), ("switches", "voluntary switches", 9.0)),
        )
    ]
    counted = [result("syscalls", name, amounts=each) for name, each in zip((BASE, CANDIDATE), amounts, strict=True)]
    references = (seen.references[0], msgspec.structs.replace(seen.references[1], time_ns=1.4e6))  # the record's
    seen = msgspec.structs.replace(seen, runs=(*seen.runs, *counted), references=references)
    found = explain(seen, CLASSES)
    (finding,) = found.findings
    assert (finding.cause, finding.share) == ("system calls", None)
    assert "The counts are consistent with: musl has 42 getppid per operation (other variant: 0)." in found.paragraph
    assert row_explanation.sentence(found).endswith("excludes 0; counts differ in system calls.")
    assert explain(msgspec.structs.replace(seen, differs=False), CLASSES).findings == ()


@pytest.mark.parametrize("differs", [True, False])
def test_a_row_without_a_result_is_explained_by_the_runs_now(*, differs: bool) -> None:
    chance = random.Random(7)
    sides = [
        (drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)),
        (
            drawn(chance, {OWN: 0.25, FREE: 0.75}) if differs else drawn(chance, {OWN: 1.0}),
            noisy(chance, 4e6 if differs else 1e6),
        ),
    ]
    seen = row(sides[0], sides[1])
    references = tuple(msgspec.structs.replace(each, time_ns=None, recorded=0.0) for each in seen.references)
    seen = msgspec.structs.replace(seen, references=references, no_result="disturbed: others ran.")
    found = explain(seen, CLASSES)
    assert found.differs is differs and found.no_result
    assert [finding.cause for finding in found.findings] == (["allocator"] if differs else [])
    assert found.caveats[0].startswith(
        "The record has no result of this row: disturbed: others ran. The difference is that of"
    )
    answer = row_explanation.sentence(found)
    if differs:
        assert found.ledger is not None and found.ledger.drift == 0
        assert "of the difference is allocator" in answer
    else:
        assert (
            "The record has no result, and the runs without an instrument decide no difference now" in found.paragraph
        )
        assert answer.startswith("There is nothing to explain: the record has no result, and its runs now decide")


@pytest.mark.parametrize("seed", range(12))
def test_nulls_name_no_cause_and_have_no_shares(seed: int) -> None:
    chance = random.Random(100 + seed)
    shares = {OWN: 0.6, FREE: 0.3, READ: 0.1}
    sides = [(drawn(chance, shares), noisy(chance, 1e6)) for _ in range(2)]
    found = explain(row(sides[0], sides[1]), CLASSES)  # as if the record had a difference
    assert found.findings == ()
    words = "no class of cost accounts for 10 % of the difference or more with an interval that excludes 0"
    assert row_explanation.sentence(found).endswith(f"; {words}.")
    assert f" N{words[1:]}." in found.paragraph
    assert found.ledger is not None
    if found.ledger.repeated is not None and found.ledger.repeated[0] <= 0 <= found.ledger.repeated[1]:
        assert any("The reference runs alone decide no difference" in caveat for caveat in found.caveats)
        assert {each[-1] for each in row_explanation.ledger_rows(found.ledger)} == {""}


def test_a_row_without_a_difference_has_nothing_to_explain() -> None:
    chance = random.Random(4)
    sides = [(drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)) for _ in range(2)]
    found = explain(msgspec.structs.replace(row(sides[0], sides[1]), differs=False), CLASSES)
    assert row_explanation.sentence(found) == (
        "There is nothing to explain: the record decides no difference between the medians of musl and glibc on w."
    )
    assert "there is nothing to explain" in found.paragraph and found.ledger is not None
    assert {each[-1] for each in row_explanation.ledger_rows(found.ledger, differs=found.differs)} == {""}


def test_waits_have_intervals_too() -> None:
    chance = random.Random(5)
    seen = row(
        (drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)),
        (drawn(chance, {OWN: 1.0}), noisy(chance, 3e6)),
        metric="wall",
    )
    # The processor time stays 1 ms; the candidate sleeps for two thirds of its time.
    sides = []
    ran = 1e6
    slept: tuple[dict[tuple[Frame, ...], int], ...] = ({}, {SLEEP: 2})
    for side, waited in zip(seen.references, slept, strict=True):
        cpu = tuple(1e6 for _ in range(10))
        metrics = tuple((name, 1e6 if name == "cpu" else value) for name, value in side.metrics)
        sides.append(msgspec.structs.replace(side, values=(side.values[0], ("cpu", cpu)), metrics=metrics))
        waits = profile([dict(waited) for _ in range(8)], "off-cpu", 1e6)
        elapsed = ElapsedTime(
            wall_ns=8e6,
            running_ns=8 * ran,
            ready_ns=0.0,
            waits=waits,
            most_threads=1,
            cpu_ns=8 * ran,
            runs=tuple(ElapsedRun(running_ns=ran, ready_ns=0.0, cpu_ns=ran) for _ in range(8)),
        )
        seen = msgspec.structs.replace(seen, runs=(*seen.runs, result("off-cpu", side.variant, elapsed=elapsed)))
    found = explain(msgspec.structs.replace(seen, references=(sides[0], sides[1])), CLASSES)
    assert found.findings[0].cause == "waiting"
    interval = found.findings[0].interval
    assert interval is not None and 0.5 < interval[0] < 1.0 < interval[1] < 1.5


def test_too_few_runs_have_no_intervals_and_a_caveat() -> None:
    chance = random.Random(6)
    few = LEAST_RUNS - 1
    seen = row(
        (drawn(chance, {OWN: 1.0}, few), noisy(chance, 1e6)), (drawn(chance, {FREE: 1.0}, few), noisy(chance, 2e6))
    )
    split = ledger(seen, CLASSES)
    assert split is not None and split.sampling is None and split.causes == ()
    found = explain(seen, CLASSES)
    assert any("shares have no intervals" in caveat for caveat in found.caveats)
    assert found.findings[0].interval is None


def test_the_same_evidence_has_the_same_intervals() -> None:
    chance = random.Random(7)
    seen = row((drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)), (drawn(chance, {FREE: 1.0}), noisy(chance, 2e6)))
    assert explain(seen, CLASSES) == explain(seen, CLASSES)


def test_a_profile_without_samples_of_the_kernel_is_refused_where_the_kernel_counted_system_time() -> None:
    chance = random.Random(8)
    seen = row((drawn(chance, {OWN: 1.0}), noisy(chance, 1e8)), (drawn(chance, {OWN: 1.0}), noisy(chance, 1e9)))
    counted = (("user", 7e7), ("system", 9.3e8), ("counted", 1e9))
    candidate = msgspec.structs.replace(seen.references[1], metrics=(*seen.references[1].metrics, *counted))
    found = explain(msgspec.structs.replace(seen, references=(seen.references[0], candidate)), CLASSES)
    assert found.ledger is None and found.findings == ()
    assert (
        "the profile of musl has 0 % of its samples in the kernel, but by the kernel's own counters 93 % of the processor time is system "
        "time, so the time is not split"
    ) in found.paragraph
    assert any(caveat.startswith("The ledger is refused: the profile of musl") for caveat in found.caveats)


@pytest.mark.parametrize(
    "counted",
    [
        (("user", 9e7), ("system", 1e7), ("counted", 1e8)),  # a tenth, and 100 ticks
        (("user", 0.0), ("system", 1e7), ("counted", 1e7)),  # one tick in each of 10 runs decides nothing
        (("user", 0.0), ("system", 0.0), ("counted", 0.0)),
        (),
    ],
)
def test_a_profile_that_agrees_or_can_not_be_checked_is_not_refused(counted: tuple[tuple[str, float], ...]) -> None:
    chance = random.Random(9)
    seen = row(
        (drawn(chance, {OWN: 1.0}), noisy(chance, 1e8)), (drawn(chance, {OWN: 0.9, READ: 0.1}), noisy(chance, 2e8))
    )
    sides = [msgspec.structs.replace(each, metrics=(*each.metrics, *counted)) for each in seen.references]
    assert ledger(msgspec.structs.replace(seen, references=(sides[0], sides[1])), CLASSES) is not None
