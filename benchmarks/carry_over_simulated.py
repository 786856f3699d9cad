# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verdicts about equal variants of which one leaves something behind that slows the next runs, by the rules of the analysis.

    benchmarks/carry-over-simulated                 both tables: about 15 minutes
    benchmarks/carry-over-simulated left-behind     one
    benchmarks/carry-over-simulated --reports 5     fewer reports

An experiment draws its runs from a model (`benchmarks/carry_over_model.py`), stops by the program's own rule and is analysed by the
program's own code. Nothing is measured, so that the results depend on the seeds alone. A verdict is wrong if it states a difference.
The exit status is 0: a share of wrong verdicts is a result.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.carry_over_model import (
    Machine,
    analysed,
    elapsed_rows,
    experiment_on,
    left_by_all,
    left_by_baseline,
    simulated,
)

from swapstone.model import Verdict
from swapstone.stats import wilson

NOISES = (0.005, 0.02, 0.05)
LEFT_BEHIND = 0.05
NO_DIFFERENCE = frozenset(
    {
        Verdict.EQUIVALENT,
        Verdict.SAME_MEDIAN,
        Verdict.INCONCLUSIVE,
        Verdict.INVALID,
        Verdict.DISTURBED,
        Verdict.UNAVAILABLE,
    }
)
"""Verdicts that state no difference."""


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
    experiment = experiment_on(machine, seed, prime=design.prime)
    runs, _ = simulated(machine, experiment)
    return [row.verdict for row in elapsed_rows(analysed(experiment, runs))]


def left_behind(reports: int) -> Iterator[str]:
    """Count reports with a wrong verdict, where the baseline slows the runs after it."""
    yield f"{100 * LEFT_BEHIND:.0f} % left behind by one of equal variants; reports of {reports} with a wrong verdict / with an invalid row"
    yield f"  {'noise of a run':52}" + "".join(f"{100 * noise:>11g} %" for noise in NOISES)
    for design in DESIGNS:
        cells = []
        for noise in NOISES:
            found = [verdicts(design, noise, seed) for seed in range(reports)]
            wrong = sum(any(each not in NO_DIFFERENCE for each in report) for report in found)
            invalid = sum(Verdict.INVALID in report for report in found)
            cells.append(f"{f'{wrong} / {invalid}':>13}")
        yield f"  {design.name:52}" + "".join(cells)


def nothing_left(reports: int) -> Iterator[str]:
    """Count reports with an invalid or wrong row, where no run changes another one, or all slow the next one alike."""
    shapes = {
        "independent noise": Machine(0.02),
        "bursts of 1 to 6 runs": Machine(0.02, bursts=0.02),
        "autocorrelated noise": Machine(0.02, autocorrelation=0.8),
        "drift": Machine(0.005, drift=1e-4),
        "each run slows one of another variant": Machine(0.01, carried=left_by_all(LEFT_BEHIND)),
    }
    yield f"No carry-over that differs; reports of {10 * reports} with an invalid row / with a wrong verdict"
    total: collections.Counter[str] = collections.Counter()
    for name, machine in shapes.items():
        counts: collections.Counter[str] = collections.Counter()
        for seed, prime in itertools.product(range(5 * reports), (0, 1)):
            experiment = experiment_on(machine, 1000 + seed, prime=prime)
            report = [row.verdict for row in elapsed_rows(analysed(experiment, simulated(machine, experiment)[0]))]
            counts["invalid"] += Verdict.INVALID in report
            counts["wrong"] += any(each not in NO_DIFFERENCE for each in report)
            counts["all"] += 1
        total += counts
        yield f"  {name:52}{counts['invalid']:>6} / {counts['wrong']}"
    low, high = wilson(total["invalid"], total["all"])
    yield f"  {'all':52}{total['invalid']:>6} / {total['wrong']} of {total['all']}; invalid {100 * low:.2f} to {100 * high:.2f} %"


TABLES = {"left-behind": left_behind, "nothing-left": nothing_left}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables that are named, or both."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/carry-over-simulated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; both by default")
    parser.add_argument("--reports", type=int, default=20, help="simulated reports of a cell (default: %(default)s)")
    given = parser.parse_args(arguments)
    if unknown := set(given.tables) - set(TABLES):
        parser.error(f"there is no table {min(unknown)!r}: {', '.join(TABLES)}")
    start = time.monotonic()
    for name in given.tables or TABLES:
        for line in TABLES[name](given.reports):
            print(line, flush=True)
            print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
