# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks of the runs at their documented limits: processors, failures, conditions, caveats, missing pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison import conditions
from swapstone.core.comparison.analyse_runs import missing_for_direction, workload_precision
from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.contrast_estimates import Measured
from swapstone.core.comparison.factorial import without_excluded
from swapstone.core.comparison.failures import decided
from swapstone.core.comparison.failures import rates as rates_of
from swapstone.core.comparison.layout_spread import spreads
from swapstone.core.comparison.processors import Disturbance, ProcessorUse, disturbances, lacks_processors, neighbours
from swapstone.core.comparison.row_judgements import sizes
from swapstone.core.comparison.rows import ErrorRates, Family, Row
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.suite_index import index_estimates
from swapstone.core.model import (
    ALL_PROCESSORS,
    CURRENT_RULES,
    REPORT_CORRECTION,
    UNKNOWN_THREADS,
    Caveat,
    CaveatKind,
    Comparison,
    Cpus,
    FailureCounts,
    FailureRates,
    Noise,
    OwnProgram,
    Scale,
    Status,
    Verdict,
)
from swapstone.core.stats import KnownCentre, sign_flip_p_value
from tests.unit import builders
from tests.unit.comparison.conftest import METRICS, Bench, caveats
from tests.unit.comparison.test_limits import row

# Processors

TICK_ERROR_S = 0.01 / math.sqrt(6)


def use(usable: float, *, runs: int = 1, window_s: float = 10.0) -> ProcessorUse:
    return ProcessorUse(runs, window_s, usable * window_s, 0.0)


def test_work_lacks_processors_above_5_percent_of_what_it_needs() -> None:
    assert not lacks_processors(use(1.9001), 2, known=True) and lacks_processors(use(1.8999), 2, known=True)
    assert not lacks_processors(use(3.8001), 4, known=True) and lacks_processors(use(3.7999), 4, known=True)


@pytest.mark.parametrize("runs", [1, 4, 9])
def test_five_standard_deviations_of_the_ticks_are_allowed(runs: int) -> None:
    """Alone, a run must exceed the limit by them; of runs that are judged together they count only if they exceed the limit."""
    window_s = 0.05 * runs
    error = 5 * math.sqrt(runs) * TICK_ERROR_S / window_s
    for known, limit in ((False, 0.1 + error), (True, max(0.1, error))):
        assert not lacks_processors(use(2 - limit + 1e-6, runs=runs, window_s=window_s), 2, known=known)
        assert lacks_processors(use(2 - limit - 1e-6, runs=runs, window_s=window_s), 2, known=known)


def test_neighbouring_blocks_are_judged_together_until_their_error_is_a_fifth_of_the_limit() -> None:
    # 5 standard deviations of m runs of w seconds each are 0.0204 / (w m ** 0.5); the limit is 0.1.
    needed = math.ceil((5 * TICK_ERROR_S / 0.05 / 0.1) ** 2)
    used = {block: use(2.0, window_s=0.05) for block in range(2 * needed + 3, 0, -1)}
    groups = neighbours(used, 2)
    assert [len(members) for members in groups] == [needed, needed + 3]
    assert [block for members in groups for block in members] == list(range(1, 2 * needed + 4))
    assert neighbours({3: use(2.0, window_s=0.05), 1: use(2.0, window_s=0.05)}, 2) == [[1, 3]]
    assert neighbours({3: use(2.0), 1: use(2.0)}, 2) == [[1], [3]]
    assert neighbours({}, 2) == []


QUIET = {
    "cpu_ticks": 200,
    "idle_ticks": 0,
    "trial_cpu_us": 2_000_000,
    "ticks_ns": 10**9,
    "wall_ns": 10**9,
    "cpus_allowed": 2,
}


def disturbance_of(*runs: dict[str, int], threads: int, cpus: Cpus = Cpus.ALL) -> Disturbance | None:
    """Return the disturbance of a workload with one run in each block, from block 1 on."""
    bench = Bench(rules=CURRENT_RULES)
    bench.workload("w", "wall", cpus=cpus)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], threads=threads)
    for block, facts in enumerate(runs, 1):
        bench.run("w", "libc=glibc", block, wall=1e9)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple({**QUIET, **facts}.items()))
    return disturbances(bench.experiment, bench.workloads, as_table(bench.runs)).get(("s", "w", "idle"))


@pytest.mark.parametrize(("allowed", "ticks", "processors"), [(2, 300, 2), (2, 301, 3), (1, 400, 4), (4, 400, 4)])
def test_more_processors_than_allowed_are_counted_from_one_and_a_half_times(
    allowed: int, ticks: int, processors: int
) -> None:
    facts = {"cpu_ticks": ticks, "cpus_allowed": allowed}
    found = disturbance_of(facts, threads=ALL_PROCESSORS, cpus=Cpus.ONE if allowed == 1 else Cpus.ALL)
    assert found is not None and found.processors == processors


def needed_by(*runs: dict[str, int], threads: int = UNKNOWN_THREADS, processors: int = 4) -> int:
    """Return how many processors a workload needs; work that needs one is not disturbed."""
    facts = {"cpus_allowed": processors, "cpu_ticks": 100 * processors, "wall_ns": 10**9}
    found = disturbance_of(*({**facts, **each} for each in runs), threads=threads)
    return 1 if found is None else found.needed


@pytest.mark.parametrize(
    ("user_us", "system_us", "needed"),
    [
        (1_105_000, 0, 1),  # 1.1 processors, less 5 ms for start and end
        (1_105_001, 0, 2),
        (1_000_000, 105_001, 2),
        (2_105_000, 0, 2),
        (2_105_001, 0, 3),
        (3_105_001, 0, 4),
        (9_000_000, 0, 4),  # never more than the machine has
        (1_000, 0, 1),
    ],
)
def test_an_own_program_needs_as_many_processors_as_it_used_at_once(user_us: int, system_us: int, needed: int) -> None:
    one = {"wall_ns": 10**9, "user_us": user_us, "system_us": system_us}
    idle = {"wall_ns": 10**9, "user_us": 1000}
    assert needed_by(idle, one, idle) == needed


@pytest.mark.parametrize(
    ("used_us", "waited_us", "needed"),
    [(905_001, 500_001, 2), (905_000, 500_001, 1), (905_001, 500_000, 1), (905_001, 0, 1)],
)
def test_an_own_program_that_always_competes_may_have_two_threads(used_us: int, waited_us: int, needed: int) -> None:
    run = {"wall_ns": 10**9, "user_us": used_us, "psi_cpu_us": waited_us}
    assert needed_by(run, run, run) == needed
    assert needed_by(run, run, run, processors=1) == 1


def test_declared_threads_are_needed_as_far_as_there_are_processors() -> None:
    assert [needed_by({}, threads=threads) for threads in (2, 4, 8, ALL_PROCESSORS)] == [2, 4, 4, 4]


def disturbance(changes: dict[int, dict[str, int]], threads: int = 2, blocks: int = 10) -> Disturbance | None:
    return disturbance_of(*(changes.get(block, {}) for block in range(1, blocks + 1)), threads=threads)


def test_what_others_used_is_the_median_of_the_disturbed_blocks() -> None:
    found = disturbance({3: {"trial_cpu_us": 1_500_000}, 4: {"trial_cpu_us": 1_000_000}, 5: {"trial_cpu_us": 900_000}})
    assert found is not None
    assert (found.blocks, found.disturbed, found.needed, found.processors) == (10, frozenset({3, 4, 5}), 2, 2)
    assert found.used == pytest.approx(1.0) and not found.stolen and not found.mostly
    assert found.reason == "in 3 of 10 blocks other processes used 1.0 of the 2 processors"
    quiet = disturbance({})
    assert quiet is not None and (quiet.disturbed, quiet.used, quiet.stolen) == (frozenset(), 0.0, False)
    assert disturbance({}, threads=1) is None
    assert disturbance({}, blocks=0) is None


@pytest.mark.parametrize(("steal_ticks", "stolen"), [(0, False), (9, False), (11, True), (90, True)])
def test_the_hypervisor_is_named_from_a_tenth_of_what_was_taken(steal_ticks: int, stolen: bool) -> None:
    found = disturbance({3: {"trial_cpu_us": 1_000_000, "steal_ticks": steal_ticks}, 4: {"steal_ticks": 90}})
    assert found is not None and found.disturbed == {3}
    assert found.stolen == stolen
    assert ("other processes and the hypervisor used" in found.reason) == stolen


def test_a_fifth_of_the_works_system_time_is_that_of_the_kernel_for_it() -> None:
    lacking = {"trial_cpu_us": 1_700_000}
    for system_us, lacks in ((0, True), (990_000, True), (1_010_000, False)):
        found = disturbance({3: {**lacking, "system_us": system_us}})
        assert found is not None and (found.disturbed == {3}) == lacks
    for ticks, lacks in ((19, True), (21, False)):
        found = disturbance({3: {**lacking, "idle_ticks": ticks}})
        assert found is not None and (found.disturbed == {3}) == lacks


def test_more_than_half_of_the_blocks_are_most() -> None:
    def mostly(disturbed: int, blocks: int) -> bool:
        return Disturbance(blocks, frozenset(range(disturbed)), 2, 2, 1.0, False).mostly

    assert [mostly(*each) for each in ((2, 4), (3, 4), (2, 5), (3, 5), (0, 0))] == [False, True, False, True, False]
    spare = Disturbance(4, frozenset({1}), 2, 4, 0.25, True).reason
    assert spare == (
        "in 1 of 4 blocks other processes and the hypervisor used 0.2 of the 4 processors, of which the work needs 2"
    )


@pytest.mark.parametrize("value", [0, 2**53 - 1, 2**53, -1])
def test_facts_that_are_no_measurements_are_absent(value: int) -> None:
    found = disturbance({block: {"cpu_ticks": value} for block in range(1, 10)})
    assert found is not None
    assert found.blocks == (10 if 0 <= value < 2**53 else 1)


# Failures


def counts(failed: int, runs: int) -> FailureCounts:
    share = failed / runs
    return FailureCounts(
        runs=runs, failed=failed, timed_out=0, crashed=0, others=failed, refused=0, share=share, low=0.0, high=1.0
    )


def rates(p_value: float, more: str, *, discordant: int = 20, failed: tuple[int, int] = (0, 1)) -> FailureRates:
    return FailureRates(
        suite="s",
        workload="w",
        load="idle",
        baseline=builders.variant("libc=glibc"),
        candidate=builders.variant("libc=musl"),
        baseline_runs=counts(failed[0], 1000),
        candidate_runs=counts(failed[1], 1000),
        confidence=0.95,
        discordant=discordant,
        p_value=p_value,
        fails_more=more,
    )


@pytest.mark.parametrize(
    ("failed", "runs", "unfit"), [(1, 10, False), (2, 199, True), (2, 200, False), (10, 1000, False), (11, 1000, True)]
)
def test_a_side_with_2_failed_runs_and_more_than_1_percent_is_unfit(failed: int, runs: int, unfit: bool) -> None:
    one = msgspec.structs.replace(rates(1.0, ""), candidate_runs=counts(failed, runs))
    (found,) = decided([one], 0.05, tested=True)
    assert found.unfit == (("candidate",) if unfit else ())


def test_the_side_that_fails_more_is_unfit_by_the_test_without_correction() -> None:
    found = decided([rates(0.05, "candidate"), rates(0.051, "candidate"), rates(0.01, "")], 0.05, tested=True)
    assert [each.unfit for each in found] == [("candidate",), (), ()]
    untested = decided([rates(0.001, "candidate")], 0.05, tested=False)
    assert (untested[0].unfit, untested[0].fails_more) == ((), "candidate")
    (both,) = decided([rates(0.001, "candidate", failed=(12, 500))], 0.05, tested=True)
    assert both.unfit == ("candidate", "baseline")
    (other,) = decided([rates(0.001, "baseline", failed=(500, 12))], 0.05, tested=True)
    assert other.unfit == ("baseline", "candidate")


def test_which_side_fails_more_is_decided_by_holms_procedure_over_the_tests_that_can_reject() -> None:
    def more(*p_values: float, discordant: int = 20) -> list[str]:
        found = decided([rates(p, "baseline", discordant=discordant) for p in p_values], 0.05, tested=False)
        return [each.fails_more for each in found]

    assert more(0.025, 0.05) == ["baseline", "baseline"]
    assert more(0.026, 0.05) == ["", ""]
    assert more(0.051, 0.025) == ["", "baseline"]
    # Five discordant blocks have a p-value of 2 / 2 ** 5 at least: they are no hypotheses, even with a smaller one.
    assert more(0.01, discordant=5) == [""] and more(0.01, discordant=6) == ["baseline"]


def test_failures_are_counted_in_blocks_with_equally_many_runs_of_both_sides() -> None:
    bench = Bench()
    bench.workload("w", "wall")
    for block, (a, b, failed_a, failed_b) in enumerate(
        [(1, 1, 1, 0), (1, 1, 0, 1), (2, 1, 2, 0), (3, 3, 0, 3), (1, 1, 1, 1)]
    ):
        for label, made, failed in (("libc=glibc", a, failed_a), ("libc=musl", b, failed_b)):
            for number in range(made):
                bench.run("w", label, block, Status.FAILED if number < failed else Status.OK)
    (found,) = rates_of(bench.experiment, plan.variants(bench.experiment), as_table(bench.runs))
    assert (found.discordant, found.p_value) == (3, sign_flip_p_value(np.array([-1.0, 1.0, 3.0])))


# Conditions


def still(idle_ns: list[int], late_ns: int = 0) -> list[str]:
    bench = Bench()
    bench.workload("w", "wall")
    for block, idle in enumerate(idle_ns, 1):
        bench.run("w", "libc=glibc", block, wall=1e9)
        facts = {"wall_ns": 10**7 + idle, "user_us": 10_000, "system_us": 0, "run_delay_ns": 0, "late_ns": late_ns}
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=tuple(facts.items()))
    return [
        each.message for each in conditions.check(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats
    ]


def test_one_second_more_than_the_median_and_ten_times_the_median_is_named() -> None:
    second = 1_000_000_000
    assert still([0] * 5 + [second]) == []
    assert len(still([0] * 5 + [second + 1])) == 1
    assert still([50_000_000] * 5 + [second + 50_000_000]) == []
    assert len(still([50_000_000] * 5 + [second + 50_000_001])) == 1
    assert still([500_000_000] * 5 + [5 * second]) == []
    assert len(still([500_000_000] * 5 + [5 * second + 1])) == 1
    # Five runs have a median.
    assert len(still([0] * 4 + [2 * second])) == 1 and still([0] * 3 + [2 * second]) == []


def test_a_timer_that_is_late_by_a_second_is_named() -> None:
    assert still([0], late_ns=999_999_999) == []
    assert still([0], late_ns=1_000_000_000) == [
        "In one run a timer woke the agent more than a second too late: in block 1 of w with libc=glibc 1 s."
    ]
    assert len(still([0], late_ns=2**53 - 1)) == 1 and still([0], late_ns=2**53) == []


@pytest.mark.parametrize(("value", "known"), [(-20, True), (-21, False), (2**53 - 1, True), (2**53, False)])
def test_values_of_facts_that_are_no_measurements_are_ignored(value: int, known: bool) -> None:
    bench = Bench()
    bench.workload("w", "wall")
    for block in (1, 2):
        bench.run("w", "libc=glibc", block, wall=1e9)
        facts = (("nice", value if block == 2 else 0), ("agent_nice", value if block == 2 else 0))
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=facts)
    found = conditions.check(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats
    assert len(found) == (2 if known else 0)


# Caveats


def noise(**changes: Any) -> Noise:
    unknown = dict.fromkeys(("cpu_pressure_percent", "cpu_pressure_max_percent", "steal_percent", "load1"))
    fields: dict[str, Any] = {**unknown, "busy": False, **changes}
    return Noise(**fields)


@pytest.mark.parametrize(("percent", "named"), [(None, False), (0.99, False), (1.0, True), (12.34, True)])
def test_stolen_time_is_named_from_1_percent(percent: float | None, named: bool) -> None:
    found = caveats(CaveatKind.STOLEN_TIME, builders.experiment(), noise=noise(steal_percent=percent))
    assert [each.message for each in found] == (
        [f"The hypervisor took {percent:.1f} % of this machine's processor time (steal)."] if named else []
    )


@pytest.mark.parametrize(
    ("names", "text"),
    [("abcd", "a, b, c, d"), ("abcde", "a, b, c, d and 1 more"), ("abcdefg", "a, b, c, d and 3 more")],
)
def test_four_names_are_printed(names: str, text: str) -> None:
    bench = Bench()
    for name in names:
        bench.workload(name, "wall")
        bench.run(name, "libc=glibc", 1, Status.FAILED)
    (found,) = caveats(CaveatKind.FAILED_TRIALS, bench.experiment, runs=bench.runs)
    assert f" trials failed ({text}). " in found.message


def compared(values: int, low: float | None = None, verdict: Verdict = Verdict.INCONCLUSIVE) -> Comparison:
    bench = Bench()
    bench.pairs("w", "wall", [1.0] * values, [2.0] * values)
    (found,) = bench.analysis().comparisons
    return msgspec.structs.replace(found, low=low, verdict=verdict)


def few_blocks(comparisons: Sequence[Comparison], needed: int) -> list[Caveat]:
    rows = [row([1.0], [1.0])] * len(comparisons)
    return caveats(CaveatKind.FEW_BLOCKS, builders.experiment(), rows, comparisons, needed=needed)


def test_few_blocks_name_the_fewest_and_what_is_needed() -> None:
    few = [compared(4), compared(3), compared(2, low=0.5), compared(1, verdict=Verdict.INVALID)]
    (found,) = few_blocks(few, 6)
    assert found.message.startswith("2 of 4 comparisons have too few pairs of runs")
    assert found.message.endswith("(the fewest: 3; 6 are needed).")
    for needed, end in ((4, "3; 4 are needed)."), (3, "the fewest: 3)."), (0, "the fewest: 3).")):
        (found,) = few_blocks(few, needed)
        assert found.message.endswith(end)
    (one,) = few_blocks(few[1:], 6)
    assert one.message.startswith("1 of 3 comparisons has too few pairs")
    assert few_blocks(few[2:], 6) == []


def test_by_the_first_rules_no_number_of_pairs_is_needed(bench: Bench) -> None:
    bench.workload("w", "wall")
    bench.run("w", "libc=glibc", 1, wall=5.0)
    (found,) = bench.analysis().caveats
    assert found.message.endswith("(the fewest: 0).")
    bench.rules = 3
    (found,) = (each for each in bench.analysis().caveats if each.kind is CaveatKind.FEW_BLOCKS)
    assert found.message.endswith("(the fewest: 0; 6 are needed).")


def neighbouring(rows: Sequence[Row]) -> list[Caveat]:
    return caveats(CaveatKind.DEPENDENT_RUNS, builders.experiment(), rows, [compared(1)] * len(rows))


def dependent(share: int, of: int) -> list[str]:
    """Return the caveat of rows of which a share has neighbours that are alike."""
    random = np.random.default_rng(1)
    base = np.linspace(100.0, 101.0, 40)
    slow = np.exp(0.01 * np.sin(np.arange(40) / 6))
    rows = [row(base, base * (slow if number < share else np.exp(random.normal(0, 0.01, 40)))) for number in range(of)]
    return [each.message for each in neighbouring(rows)]


def test_dependent_rows_are_counted() -> None:
    assert dependent(0, 5) == []
    (message,) = dependent(2, 5)
    assert message == (
        "Neighbouring pairs are correlated in 2 of 5 rows of times (w wall, w wall): their intervals may be too narrow."
    )
    assert neighbouring([row([1.0, 2.0], [1.0, 3.0], "res")]) == []


def nulls(differ: int, families: int) -> list[str]:
    experiment = builders.experiment(confidence=0.96)
    values = np.linspace(1.0, 2.0, 8)
    rows = [row(values, values, null=True, group=(f"s{number}", "w", "idle")) for number in range(families)]
    verdicts = [Verdict.WORSE if number < differ else Verdict.EQUIVALENT for number in range(families)]
    found = [compared(1, verdict=verdict) for verdict in verdicts]
    return [each.message for each in caveats(CaveatKind.NULL_DIFFERS, experiment, rows, found)]


def test_null_results_are_unusual_with_a_probability_of_5_percent() -> None:
    """Of families that differ with 4 % each, one of one does with 4 %, one of two with 7.8 %, two of 9 with 4.8 %, two of 10 with 5.8 %."""
    (message,) = nulls(1, 1)
    assert message.startswith(
        "The baseline differs from its own copies in 1 of 1 families of comparisons (1 rows); about 4 %"
    )
    assert [len(nulls(*each)) for each in ((1, 2), (2, 9), (2, 10), (0, 1))] == [0, 1, 0, 0]


# Levels


def test_hypotheses_of_a_report_are_one_family_and_those_of_each_copy_another() -> None:
    copy = builders.variant("libc=glibc (again)")
    together, apart = (ErrorRates(builders.experiment(correction=each)) for each in (REPORT_CORRECTION, "family"))
    for errors in (together, apart):
        errors.add(Family("one"), [0.001, None])
        errors.add(Family("two"), [0.9, 0.9, 0.9])
        errors.add(Family("one", copy), [0.9])
        errors.add(Family("none"), [None])
    # Benjamini and Yekutieli: R rejected of m have intervals at R / m of the level.
    assert [together.level(Family(name)) for name in ("one", "two", "none")] == pytest.approx([0.05 / 4] * 3)
    assert together.level(Family("one", copy)) == pytest.approx(0.05)
    assert [apart.level(Family(name)) for name in ("one", "two", "none")] == pytest.approx([0.05, 0.05 / 3, 0.05])
    apart.add(Family("one"), [0.9])
    assert apart.level(Family("one")) == pytest.approx(0.025)


# Pairs that are missing

OWN = OwnProgram(name="w", arguments=("w",))
LEADING = msgspec.structs.replace(METRICS["wall"], leads=True)


def missing(ratio: float, runs: int, *, mean: float = 1.0) -> int:
    """Return what a row of a constant ratio of the medians lacks; `mean` multiplies the candidate's largest value."""
    values = np.linspace(100.0, 101.0, runs)
    after = ratio * values
    after[-1] *= mean
    return missing_for_direction(row(values, after), 0.02)


@pytest.mark.parametrize(
    ("ratio", "runs", "needed"),
    [
        (1.5, 43, 1),  # a mode of a tenth of the runs shows in 44 of them with 99 %
        (1.5, 44, 0),
        (1.5, 10, 34),
        (1.999, 10, 34),
        (2.001, 10, 0),  # a mode of ten times the time would not turn it
        (1 / 2.001, 10, 0),
        (1 / 1.999, 10, 34),
        (1.019, 10, 80),  # the mean is inside the margin: 90 runs
        (1.019, 95, 1),
    ],
)
def test_a_direction_needs_44_runs_and_an_equivalence_90(ratio: float, runs: int, needed: int) -> None:
    assert missing(ratio, runs) == needed


def test_a_mean_on_the_other_side_needs_as_many_runs_as_an_equivalence() -> None:
    assert missing(1 / 1.5, 10, mean=100.0) == 80
    assert missing(1.5, 50, mean=0.0001) == 0


def test_differences_have_no_ratio_that_a_mode_cannot_turn() -> None:
    before = np.arange(10.0)
    assert missing_for_direction(row(before, before + 100.0), 0.02) == 34
    assert missing_for_direction(row(before, before + 0.01), 0.02) == 80
    assert missing_for_direction(row([], []), 0.02) == 0


def test_only_own_programs_on_the_wall_clock_miss_runs() -> None:
    values = np.linspace(100.0, 101.0, 10)
    one = msgspec.structs.replace(row(values, 1.5 * values), metric=LEADING)
    levels = ErrorRates(builders.experiment())

    def missed(**changes: Any) -> int:
        return workload_precision(builders.experiment(**changes), one.group, [one], levels, False).missing_runs

    assert missed(own=OWN, rules=3) == 34
    assert missed(rules=3) == missed(own=OWN, rules=1) == missed(own=OWN, rules=3, clock="virtual") == 0


def test_half_of_a_width_is_a_ratio_less_1_or_a_share_of_the_baseline() -> None:
    experiment = builders.experiment()

    def half_width(before: Any, after: Any, **changes: Any) -> float | None:
        one = msgspec.structs.replace(row(before, after, **changes), metric=LEADING)
        return workload_precision(experiment, one.group, [one], ErrorRates(experiment), False).half_width

    values = np.linspace(100.0, 101.0, 6)
    steps = np.exp(np.array([-0.05, -0.03, -0.01, 0.01, 0.03, 0.05]))
    # The interval of 6 pairs at 95 % is their range.
    assert half_width(values, values * steps) == pytest.approx(math.expm1(0.05))
    baseline = np.array([0.0, 10.0, 10.0, 10.0, 10.0, 20.0])
    assert half_width(baseline, baseline + np.arange(6.0)) == pytest.approx(2.5 / 10)
    assert half_width(np.zeros(6), np.arange(6.0)) is None
    assert half_width(values[:5], values[:5]) is None
    assert half_width(values, values, constant=True) == 0.0


# Rows and the index of a suite


def test_an_excluded_row_has_no_mean_and_no_inference() -> None:
    values = np.linspace(100.0, 101.0, 6)
    excluded = row(values, values, exclusion=(Verdict.INVALID, "why"))
    assert excluded.mean_effect(0.05) is None and excluded.inference is None
    assert row([], []).mean_effect(0.05) is None and row([], []).inference is None
    assert row(values, values, means=None).mean_effect(0.05) is None
    constant = row([2.0] * 6, [3.0] * 6, constant=True)
    assert constant.inference == KnownCentre(math.log(3) - math.log(2))
    mean = constant.mean_effect(0.05)
    assert mean is not None and mean.interval is not None
    assert (mean.effect, mean.interval.low, mean.interval.high) == (1.5, 1.5, 1.5)
    zero = row([0.0] * 6, [3.0] * 6, constant=True)
    assert zero.inference == KnownCentre(3.0)
    mean = zero.mean_effect(0.05)
    assert mean is not None and mean.effect == 3.0


def test_an_index_is_the_geometric_mean_in_blocks_that_all_rows_have() -> None:
    one = row([1.0, 1.0, 1.0], [2.0, 4.0, 8.0], blocks=np.array([1, 2, 3]))
    other = row([1.0, 1.0, 1.0], [32.0, 2.0, 4.0], blocks=np.array([0, 1, 3]), group=("s", "v", "idle"))
    (found,) = index_estimates([one, other], fewest=2)
    assert found.inference.n == 2
    assert found.inference.estimate() == pytest.approx((math.log(2 * 2) + math.log(8 * 4)) / 4)
    assert index_estimates([one], fewest=2) == [] and len(index_estimates([one])) == 1
    assert index_estimates([row([1.0], [2.0], "res")]) == []
    assert index_estimates([row([1.0], [2.0], exclusion=(Verdict.INVALID, ""), constant=True)]) == []
    assert index_estimates([row([0.0], [2.0])]) == []


# What is left out, and why


def test_a_disturbed_variant_is_named_where_its_values_left_with_the_blocks() -> None:
    metric, reasons = METRICS["wall"], {"lost": (Verdict.UNAVAILABLE, "x"), "unfinished": (Verdict.INCONCLUSIVE, "y")}
    series = {"a": (np.array([1]), np.array([1.0])), "b": (np.array([1]), np.array([2.0]))}
    one = Measured("s", "w", "idle", metric, series, reasons, certain=False, preferred=True)

    def left(verdict: Verdict) -> tuple[dict[str, tuple[Verdict, str]], set[str]]:
        labels = ("a", "lost", "unfinished")
        found = without_excluded(one, {(("s", "w", "idle"), label, "wall"): (verdict, "why") for label in labels})
        return dict(found.lost), set(found.series)

    disturbed = Verdict.DISTURBED
    assert left(disturbed) == (
        {"a": (disturbed, "a: why"), "lost": (disturbed, "lost: why"), "unfinished": reasons["unfinished"]},
        {"b"},
    )
    assert left(Verdict.INVALID) == ({**reasons, "a": (Verdict.INVALID, "a why")}, {"b"})


@pytest.mark.parametrize("verdict", [Verdict.INVALID, Verdict.UNAVAILABLE, Verdict.DISTURBED])
def test_effects_without_a_verdict_on_them_have_no_ratio(verdict: Verdict) -> None:
    good = compared(6, verdict=Verdict.WORSE)

    def obstacle(*pair: Comparison) -> str:
        first, second = pair
        place = (first.suite, first.workload, first.load, first.candidate)
        return sizes({place: (first, second)}, ("first", "second"), 0.02, 0.05)[place].reason

    assert obstacle(good, good) == ""
    for changes in ({"verdict": verdict}, {"baseline_values": ()}, {"effect": None}):
        silent = msgspec.structs.replace(good, **changes)
        assert obstacle(good, silent) == f"second: {silent.verdict.value}"
        assert obstacle(silent, good) == f"first: {silent.verdict.value}"
    other = msgspec.structs.replace(good, scale=Scale.DIFFERENCE)
    assert obstacle(good, other) == "an effect is a difference, not a ratio"


@pytest.mark.parametrize(
    ("names", "metric"), [(("wall", "cpu"), "cpu"), (("wall", "rate"), "wall"), (("wall", "cpu", "rate"), "cpu")]
)
def test_links_are_compared_by_the_leading_time(names: tuple[str, ...], metric: str) -> None:
    bench = Bench(layouts=2)
    bench.workload("w", *names)
    metrics = (msgspec.structs.replace(METRICS[name], leads=name != "wall") for name in names)
    bench.workloads["w"] = msgspec.structs.replace(bench.workloads["w"], metrics=tuple(metrics))
    for block in range(1, 9):
        for variant in ("libc=glibc", "libc=musl"):
            values = {name: 100.0 + block % 2 + place for place, name in enumerate(names)}
            bench.run("w", variant, block, Status.OK, "idle", **values)
    experiment = bench.experiment
    cells = collect(as_table(bench.runs))
    (found,) = spreads(experiment, plan.variants(experiment), bench.workloads, cells, frozenset())
    assert (found.metric, found.layouts, found.blocks) == (metric, 2, 8)


@pytest.mark.parametrize(
    ("count", "text"), [(1, "Runs of w0 ended"), (2, "w0, and 1 more workloads"), (3, "w0, and 2 more")]
)
def test_other_workloads_with_different_ends_are_counted(count: int, text: str) -> None:
    bench = Bench()
    for number in range(count):
        bench.workload(f"w{number}", "wall")
        for block in (1, 2):
            bench.run(f"w{number}", "libc=glibc", block, wall=1e9)
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=(("nice", block),))
    (found,) = conditions.check(bench.experiment, (), bench.workloads, as_table(bench.runs)).caveats
    assert text in found.message
