# SPDX-License-Identifier: MIT OR Apache-2.0
"""Error rates and power of the rules by which rows are judged, on simulated runs.

Each table applies the code of the analysis (`swapstone.core.comparison`) to runs drawn from a known distribution. Nothing is measured. For
carry-over, whole experiments of equal variants are drawn from a model (`Machine`), in which a run's time depends on the variants that ran
before it, and stop by the program's own rule; there is one for 15 of --reports.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import scipy  # whose stats are imported when a test uses them, not when tests are collected
from benchmarks.shared import parser_of, share
from benchmarks.verdict_truth import DIRECTED

from swapstone.core import plan
from swapstone.core.comparison import failures
from swapstone.core.comparison.analyse_runs import analyse, error_rates
from swapstone.core.comparison.rows import ErrorRates, Row
from swapstone.core.comparison.run_table import as_table
from swapstone.core.comparison.verdicts import bounds, comparison
from swapstone.core.model import (
    CURRENT_RULES,
    FAMILY_CORRECTION,
    REPORT_CORRECTION,
    TAIL_RULES,
    TIMED_OUT,
    Analysis,
    Comparison,
    Direction,
    Experiment,
    FactorLevels,
    Metric,
    Quantity,
    Run,
    Sample,
    Source,
    Status,
    Trial,
    Verdict,
    Workload,
)
from swapstone.core.session.precision_stop import PrecisionStop
from swapstone.core.stats import Floats, SignedRank, mean_ratio
from swapstone.core.workloads import workloads_by_name

LEVELS = ("glibc", "musl", "a", "b", "c")
RUN_NS = 100_000_000
BUDGET_NS = 60 * 10**9


@dataclasses.dataclass(frozen=True)
class Machine:
    """What determines the time of a run, all as logarithms.

    Attributes:
        noise: standard deviation, independent from run to run.
        effects: of each variant, the baseline first.
        carried: `carried(mine, earlier)`: what the earlier runs leave for a run of a variant; variants are numbers, the latest run first.
        drift: growth from run to run.
        bursts: probability that a disturbance of 10 standard deviations begins, which lasts 1 to 6 runs.
        autocorrelation: of a second disturbance as large as the noise, from run to run.
        position: added for each place before the last in a block, for all variants.
    """

    noise: float
    effects: tuple[float, ...] = (0.0, 0.0)
    carried: Callable[[int, Sequence[int]], float] = lambda _mine, _earlier: 0.0
    drift: float = 0.0
    bursts: float = 0.0
    autocorrelation: float = 0.0
    position: float = 0.0


def left_by_baseline(size: float, runs: int = 1) -> Callable[[int, Sequence[int]], float]:
    """Return a carry-over: the baseline slows the next `runs` runs of the other variants."""
    return lambda mine, earlier: size if mine and 0 in earlier[:runs] else 0.0


def left_by_all(size: float) -> Callable[[int, Sequence[int]], float]:
    """Return a symmetric carry-over: each run slows the next one, if that is of another variant."""
    return lambda mine, earlier: size if earlier and earlier[0] != mine else 0.0


def experiment_on(machine: Machine, seed: int, **changes: object) -> Experiment:
    """Return an experiment with one workload and as many variants as the machine has effects."""
    factors = (FactorLevels(factor="libc", levels=LEVELS[: len(machine.effects)]),)
    fields: dict[str, object] = {
        "name": "compare",
        "factors": factors,
        "workloads": (("libc", "b_malloc_tiny1"),),
        "seed": seed,
        "rules": CURRENT_RULES,
        "correction": REPORT_CORRECTION,
        "margin": MARGIN,
        "confidence": 0.99,
        "budget_ns": BUDGET_NS,
        "prime_more": True,
        **changes,
    }
    return Experiment(**fields)  # type: ignore[arg-type] # the analysis rejects a wrong field


def simulated(machine: Machine, experiment: Experiment) -> tuple[list[Run], list[str]]:
    """Run an experiment to its end under its own stopping rule; return the runs, and the notes."""
    random = np.random.default_rng(experiment.seed)
    notes: list[str] = []
    stop = PrecisionStop(experiment, notes.append)
    labels = [variant.label for variant in plan.variants(experiment)]
    runs: list[Run] = []
    earlier: list[int] = []
    slow, burst, used_ns, block = 0.0, 0, 0, 0
    still_open = plan.groups(experiment)
    discarded: Mapping[tuple[str, str, str], int] = {}
    while True:
        block_ns = 0
        for trial in plan.block(experiment, block, still_open, discarded):
            mine = labels.index(trial.variant)
            slow = machine.autocorrelation * slow + random.normal(0, machine.noise)
            burst = burst - 1 if burst > 0 else int(random.integers(1, 7)) * int(random.random() < machine.bursts)
            logarithm = (
                machine.effects[mine]
                + random.normal(0, machine.noise)
                + (slow if machine.autocorrelation else 0.0)
                + (10 * machine.noise if burst else 0.0)
                + machine.drift * len(runs)
                + machine.carried(mine, earlier)
                + machine.position * (len(labels) * (1 + discarded.get(still_open[0], 0)) - 1 - trial.position)
            )
            value = 1e6 * float(np.exp(logarithm))
            samples = (Sample(metric="wall", values=(value,)), Sample(metric="cpu", values=(value,)))
            runs.append(Run(trial=trial, status=Status.OK, samples=samples, elapsed_ns=RUN_NS))
            block_ns += RUN_NS
            earlier.insert(0, mine)
        used_ns += block_ns
        decision = stop(runs, still_open, block, used_ns, block_ns)
        if decision.stop or not decision.still_open:
            return runs, notes
        still_open, discarded, block = decision.still_open, decision.discarded, block + 1


def analysed(experiment: Experiment, runs: Sequence[Run]) -> Analysis:
    """Return the analysis of an experiment's runs."""
    return analyse(experiment, plan.variants(experiment), workloads_by_name(experiment), runs)


def elapsed_rows(found: Analysis) -> list[Comparison]:
    """Return the comparisons of elapsed time."""
    return [each for each in found.comparisons if each.metric.name == "wall"]


Noise = Callable[[np.random.Generator, int], Floats]
"""Random generator and number of runs n to the factors by which both sides' runs differ from their level, shape (2, n)."""

MARGIN = 0.02

EXPERIMENT = Experiment(
    name="compare",
    factors=(FactorLevels(factor="libc", levels=("glibc", "musl")),),
    workloads=(("s", "w"),),
    budget_ns=1,
    margin=MARGIN,
    confidence=0.99,
    seed=1,
    rules=CURRENT_RULES,
    correction=REPORT_CORRECTION,
    failures_count=True,
)
BASELINE, CANDIDATE = plan.variants(EXPERIMENT)
QUANTITIES = (Quantity.TIME, Quantity.MEMORY, Quantity.EVENTS, Quantity.RATE)


def _normal(random: np.random.Generator, runs: int) -> Floats:
    return np.exp(random.normal(0, 0.02, (2, runs)))


def _slow(share: float, times: float) -> Noise:
    """Return the noise in which a share of all runs takes so many times as long."""
    return lambda random, runs: _normal(random, runs) * np.where(random.random((2, runs)) < share, times, 1.0)


NOISES: dict[str, Noise] = {
    "normal, 2 %": _normal,
    "lognormal delays": lambda random, runs: np.exp(random.lognormal(-4, 1, (2, runs))),
    "Student's t, 1.5 d.f.": lambda random, runs: 1 + np.minimum(np.abs(0.01 * random.standard_t(1.5, (2, runs))), 20),
    "5 % of the runs x 3": _slow(0.05, 3.0),
    "20 % of the runs x 10": _slow(0.2, 10.0),
}


def row(before: Floats, after: Floats, number: int = 0, *, rules: int = CURRENT_RULES) -> Row:
    """Return a row of paired runs; its number gives its quantity."""
    metric = Metric(
        name="wall",
        unit="ns",
        quantity=QUANTITIES[number % len(QUANTITIES)],
        better=Direction.LOWER,
        meaning="",
        leads=True,
    )
    workload = Workload(name=f"w{number}", origin=Source(file="x.c"), description="", metrics=(metric,))
    return Row(
        group=("s", workload.name, "idle"),
        workload=workload,
        metric=metric,
        baseline=BASELINE,
        candidate=CANDIDATE,
        null=False,
        blocks=np.arange(1, before.size + 1),
        before=before,
        after=after,
        constant=False,
        exclusion=None,
        rules=rules,
        runs=(before, after) if rules >= TAIL_RULES else None,
        means=(before, after) if rules >= TAIL_RULES else None,
    )


def rates_of(rows: Sequence[Row], correction: str) -> ErrorRates:
    """Return the levels of a report, at the default confidence of the correction."""
    confidence = 0.99 if correction == REPORT_CORRECTION else 0.95
    experiment = msgspec.structs.replace(EXPERIMENT, correction=correction, confidence=confidence)
    return error_rates(experiment, rows, (), ())


def marked(each: Row, rates: ErrorRates) -> bool:
    """Return whether the median or the tail of a row differs significantly."""
    assert isinstance(each.inference, SignedRank)
    tail = each.tail is not None and each.tail[0] <= rates.level(each.tail_family)
    return each.inference.p_value <= rates.level(each.family) or tail


def drawn(random: np.random.Generator, noise: Noise, runs: int, ratio: float = 1.0) -> tuple[Floats, Floats]:
    """Return both sides of a row, with a level that drifts from block to block."""
    level = 1000 * np.exp(random.normal(0, 0.1, runs))
    before, after = level * noise(random, runs)
    return before, after * ratio


def with_mode(random: np.random.Generator, runs: int, share: float, times: float) -> tuple[Floats, Floats]:
    """Return both sides of a row whose candidate takes so many times as long in a share of its runs."""
    before, after = drawn(random, _normal, runs)
    return before, after * np.where(random.random(runs) < share, times, 1.0)


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many repetitions each table has."""

    rows: int
    reports: int


def null_reports(effort: Effort) -> Iterator[str]:
    """Count reports without any difference that contain a mark."""
    yield f"Null reports with any mark, {effort.reports} each: 20 rows of 4 quantities, 20 pairs"
    for name, noise in NOISES.items():
        hits = {REPORT_CORRECTION: 0, FAMILY_CORRECTION: 0}
        for seed in range(effort.reports):
            random = np.random.default_rng((1, seed))
            rows = [row(*drawn(random, noise, 20), number) for number in range(20)]
            for correction in hits:
                rates = rates_of(rows, correction)
                hits[correction] += any(marked(each, rates) for each in rows)
        yield f"  {name:24}" + ", ".join(f"{c}: {share(n, effort.reports, 2)}" for c, n in hits.items())


def power(effort: Effort) -> Iterator[str]:
    """Compare how many true differences each correction finds."""
    yield "Share of rows with a true difference of 5 % that are marked, noise 2 %; one such row, and half of the rows"
    for count in (5, 20, 200):
        for pairs in (15, 40, 100):
            reports = max(5, effort.reports // (count * pairs // 40 + 4))
            for true in (1, count // 2):
                found = {REPORT_CORRECTION: 0, FAMILY_CORRECTION: 0}
                for seed in range(reports):
                    random = np.random.default_rng((2, seed))
                    rows = [
                        row(*drawn(random, _normal, pairs, 1.05 if number < true else 1.0), number)
                        for number in range(count)
                    ]
                    for correction in found:
                        rates = rates_of(rows, correction)
                        found[correction] += sum(marked(each, rates) for each in rows[:true])
                shares = ", ".join(f"{c} {100 * n / (reports * true):.0f} %" for c, n in found.items())
                yield f"  {count:3} rows, {pairs:3} pairs, {true:3} true: {shares}"


def means(effort: Effort) -> Iterator[str]:
    """Count intervals of the ratio of means that miss it."""
    yield f"Intervals of the ratio of means at 99 % that miss 1.1, {effort.rows} each (no interval: not counted)"
    for name, noise in NOISES.items():
        parts = []
        for pairs in (15, 40, 90):
            random = np.random.default_rng((3, pairs))
            made = [mean_ratio(*drawn(random, noise, pairs, 1.1), 0.01).interval for _ in range(effort.rows)]
            known = [each for each in made if each is not None]
            parts.append(f"{pairs} pairs: {share(sum(each.excludes(1.1) for each in known), len(known), 2)}")
        yield f"  {name:24}" + ", ".join(parts)


def equivalence(effort: Effort) -> Iterator[str]:
    """Count rows with a slow mode that are called equivalent, and those that have a worse tail."""
    yield f"Verdicts on a candidate with a slow mode at level 0.01 and 0.001, noise 2 %, {effort.rows} each"
    for slow, times in ((0.0, 1.0), (0.05, 10.0), (0.05, 2.0), (0.05, 1.5), (0.1, 10.0), (0.1, 2.0)):
        for runs in (90, 200):
            for alpha in (0.01, 0.001):
                random = np.random.default_rng((4, runs))
                found = [_verdict(*with_mode(random, runs, slow, times), alpha) for _ in range(effort.rows)]
                equivalent = sum(each is Verdict.EQUIVALENT for each in found)
                tail = sum(each in {Verdict.WORSE_TAIL, Verdict.WORSE} for each in found)
                yield (
                    f"  {100 * slow:2.0f} % x {times:4}, {runs:3} runs, {alpha}: equivalent "
                    f"{share(equivalent, effort.rows, 2)}, worse tail {share(tail, effort.rows, 2)}"
                )


def _verdict(before: Floats, after: Floats, alpha: float) -> Verdict:
    made = row(before, after)
    assert made.inference is not None
    interval, limit = made.inference.interval(alpha), made.limit(MARGIN)
    # The smallest visible effect of an undecided row is costly, and not needed here.
    if interval is not None and interval.low <= 0 <= interval.high and (interval.low < -limit or interval.high > limit):
        tail = made.tail is not None and made.tail[0] <= alpha and made.tail[1]
        return Verdict.WORSE_TAIL if tail else Verdict.INCONCLUSIVE
    return comparison(made, alpha=alpha, margin=MARGIN, preferred=True).verdict


def few_pairs(effort: Effort) -> Iterator[str]:
    """Count bounds without rank statistics where nothing differs."""
    yield f"Bounds of few pairs without a difference, 20 % of the runs x 10 on both sides, {20 * effort.rows} each"
    for pairs in (3, 4, 5, 6):
        random = np.random.default_rng((6, pairs))
        made = (bounds(row(*drawn(random, _slow(0.2, 10.0), pairs)), MARGIN) for _ in range(20 * effort.rows))
        yield f"  {pairs} pairs: {share(sum(each is not None for each in made), 20 * effort.rows, 2)}"


def failing(effort: Effort) -> Iterator[str]:
    """Count reports that state that a side fails more often, and intervals that miss the rate, with Fisher's exact test beside."""
    yield f"Failure rates, {effort.reports} reports each at 99 %: one side fails significantly more often; Fisher's exact test of all runs"
    cases = ((0.05, 0.05, 1), (0.05, 0.05, 2), (0.0, 0.12, 1), (0.0, 0.12, 2), (0.05, 0.12, 2))
    for before, after, together in cases:
        for blocks in (30, 60, 120):
            more = unfit = missed = fisher = 0
            for seed in range(effort.reports):
                random = np.random.default_rng((8, blocks, together, seed))
                runs = list(_failing_runs(random, blocks, before, after, together))
                (found,) = failures.rates(EXPERIMENT, (BASELINE, CANDIDATE), as_table(runs))
                sides = (found.baseline_runs, found.candidate_runs)
                table = np.array([[each.failed, each.runs - each.failed] for each in sides])
                more += bool(found.fails_more)
                unfit += bool(found.unfit)
                missed += not found.candidate_runs.low <= after <= found.candidate_runs.high
                fisher += bool(scipy.stats.fisher_exact(table).pvalue <= 1 - EXPERIMENT.confidence)
            how = "runs of a side in a block fail together" if together > 1 else "independent"
            yield (
                f"  {100 * before:.0f} % and {100 * after:.0f} %, {blocks} blocks of {together} runs a side, {how}: more often "
                f"{share(more, effort.reports, 2)}, not judged {share(unfit, effort.reports, 2)}, interval misses "
                f"{share(missed, effort.reports, 2)}, Fisher {share(fisher, effort.reports, 2)}"
            )


def _failing_runs(
    random: np.random.Generator, blocks: int, before: float, after: float, together: int
) -> Iterator[Run]:
    """Yield runs of which shares fail; the runs of a side in a block all fail or all succeed."""
    for variant, rate in ((BASELINE, before), (CANDIDATE, after)):
        fails = random.random(blocks) < rate
        for block, failed in enumerate(fails.tolist(), start=1):
            for prime in range(together):
                trial = Trial(
                    suite="s", workload="w", load="idle", variant=variant.label, block=block, position=0, prime=prime
                )
                yield Run(trial=trial, status=Status.FAILED if failed else Status.OK, reason=TIMED_OUT * failed)


CARRY_OVER_NOISES = (0.005, 0.02, 0.05)
LEFT_BEHIND = 0.05


@dataclasses.dataclass(frozen=True)
class Design:
    """How an experiment begins, and on what machine.

    Attributes:
        name: of the line.
        prime: discarded runs before each measured one, at first.
        variants: their number; all are equal.
        lasts: how many later runs the baseline slows; 0 for none.
    """

    name: str
    prime: int
    variants: int = 2
    lasts: int = 1


DESIGNS = (
    Design("one discarded run (own programs)", prime=1),
    Design("none at first (bundled workloads), 2 variants", prime=0),
    Design("none at first, 3 variants", prime=0, variants=3),
    Design("lasting 2 runs, one discarded", prime=1, lasts=2),
    Design("lasting 2 runs, none discarded at first, 2 variants", prime=0, lasts=2),
)


def verdicts(design: Design, noise: float, seed: int, left_behind: float = LEFT_BEHIND) -> list[Verdict]:
    """Return the verdicts of one simulated report on elapsed time.

    Args:
        design: of the experiment.
        noise: standard deviation of the logarithm of a run's time.
        seed: of the experiment and of the noise.
        left_behind: by which share the baseline slows the runs after it.
    """
    carried = left_by_baseline(left_behind, design.lasts) if design.lasts else Machine(noise).carried
    machine = Machine(noise, (0.0,) * design.variants, carried)
    return _reported(machine, seed, design.prime)


def _reported(machine: Machine, seed: int, prime: int) -> list[Verdict]:
    experiment = experiment_on(machine, seed, prime=prime)
    return [row.verdict for row in elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))]


def _wrong(report: Sequence[Verdict]) -> bool:
    return any(each.value in DIRECTED for each in report)


def left_behind(effort: Effort) -> Iterator[str]:
    """Count reports with a wrong verdict, where the baseline slows the runs after it."""
    reports = math.ceil(effort.reports / 15)  # each is a whole experiment, which takes longer than its rows alone
    yield f"{100 * LEFT_BEHIND:.0f} % left behind by one of equal variants; reports of {reports} with a wrong verdict / with an invalid row"
    yield f"  {'noise of a run':52}" + "".join(f"{100 * noise:>11g} %" for noise in CARRY_OVER_NOISES)
    for design in DESIGNS:
        cells = []
        for noise in CARRY_OVER_NOISES:
            found = [verdicts(design, noise, seed) for seed in range(reports)]
            cells.append(f"{sum(map(_wrong, found))} / {sum(Verdict.INVALID in report for report in found)}")
        yield f"  {design.name:52}" + "".join(f"{cell:>13}" for cell in cells)


def nothing_left(effort: Effort) -> Iterator[str]:
    """Count reports with an invalid or wrong row, where no run changes another one, or all slow the next one alike."""
    shapes = {
        "independent noise": Machine(0.02),
        "bursts of 1 to 6 runs": Machine(0.02, bursts=0.02),
        "autocorrelated noise": Machine(0.02, autocorrelation=0.8),
        "drift": Machine(0.005, drift=1e-4),
        "each run slows one of another variant": Machine(0.01, carried=left_by_all(LEFT_BEHIND)),
    }
    each = 10 * math.ceil(effort.reports / 15)
    yield f"No carry-over that differs; of {each} reports: with an invalid row / with a wrong verdict"
    for name, machine in shapes.items():
        invalid = wrong = 0
        for number in range(each):
            report = _reported(machine, 1000 + number // 2, number % 2)
            invalid += Verdict.INVALID in report
            wrong += _wrong(report)
        yield f"  {name:52}{share(invalid, each, 2)} / {share(wrong, each, 2)}"


TABLES = {
    "nulls": null_reports,
    "power": power,
    "means": means,
    "equivalence": equivalence,
    "few-pairs": few_pairs,
    "failures": failing,
    "carry-over": left_behind,
    "no-carry-over": nothing_left,
}


def main(arguments: Sequence[str]) -> int:
    """Print the tables that are named, or all."""
    parser = parser_of("rules-simulated", __doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; all by default")
    parser.add_argument("--reports", type=int, default=300, help="simulated reports of a line (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=500, help="simulated rows of a line (default: %(default)s)")
    given = parser.parse_args(arguments)
    if unknown := set(given.tables) - set(TABLES):
        parser.error(f"there is no table {min(unknown)!r}: {', '.join(TABLES)}")
    for name in given.tables or TABLES:
        for line in TABLES[name](Effort(given.rows, given.reports)):
            print(line, flush=True)
    return 0
