# SPDX-License-Identifier: MIT OR Apache-2.0
"""The result of a trial: a run with its samples."""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterable, Sequence

from swapstone.core.model.experiment import Trial
from swapstone.core.model.frozen_struct import FrozenStruct, Integer, Name, NonNegative, Number, Passes, Text


class Status(enum.Enum):
    """How a trial ended. Only runs with `OK` have samples and enter an analysis.

    `REFUSED`: it ran, but another level was in force, other work was done than requested, or the conditions of trials changed.
    """

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


TIMED_OUT = "it did not end within its time"
"""How the reason of a failed run begins that was stopped at its time limit."""

CONSOLE = " The last lines of its console: "
"""What stands between the reason of a failed run of a machine and its last console lines, which `` | `` separates."""

KILLED = "it was killed by"
"""How the reason of a failed run begins that a signal ended."""

DID_OTHER_WORK = "it did other work"
"""How the reason of a refused run begins whose checksum is not that of the baseline's work."""

OTHER_WORK = (DID_OTHER_WORK, "prints ", "writes another file", "exits with ")
"""How reasons begin which state that a candidate did not do the baseline's work."""

NOT_BUILT = "it does not build: "
"""How the reason of an unavailable run begins whose build failed; another one could not be tried on this machine."""

NO_CANDIDATE_BUILDS = "no candidate can be built: "
"""How the reason begins why the baseline is not run either."""


class Sample(FrozenStruct, frozen=True, kw_only=True):
    """The values of one metric in one run, in the metric's unit, in order of measurement.

    They are not independent: `swapstone.core.stats.run_value` reduces them to one value before variants are compared.
    """

    metric: Name
    values: tuple[Number, ...]


class Run(FrozenStruct, frozen=True, kw_only=True):
    """The result of a trial.

    Attributes:
        trial: the trial.
        status: how it ended.
        reason: why it is not ok; else empty.
        samples: measured values; empty unless ok.
        observed: pairs (factor, level) that were in force in the measured process.
        facts: integers that the agent measured around the trial, by name (``psi_cpu_us``, ``steal_ticks``, ``load1_milli``...).
        passes: number of passes requested from the workload.
        check: checksum of the workload's output, equal for equal work; empty for workloads without one.
        started_unix_ns: wall-clock time of the start.
        elapsed_ns: from the request to the target's answer.
        output: SHA-256 of the raw output stored with the record; empty without output.
        histogram: of latencies: pairs (lower edge in us, count) of bins 1 us wide, ascending; empty without latencies.
        by_processor: of latencies on several processors: pairs (number of the processor, its histogram), ascending; else empty. Their sum
            is `histogram`.
        name: on the virtual clock, digest of all inputs of the run: equal names are equal runs. Empty on other clocks.
        series: values sampled during the run, which are shown but not compared. All series of a run have the same length.
        digests: of an own program, pairs (``stdout``, ``stderr`` or the name of a file that it writes, SHA-256 of the content); with
            ``shape:`` before the name, of the content with its numbers masked; with ``columns:``, of its numbers, and in earlier records
            with ``sections:``, of successive parts of the content (`swapstone.core.wire.own_program_output`).
        answer: SHA-256 of the agent's answer, stored beside the raw output: what it measured, observed and noted, and how the program
            ended. Empty if there was no answer, and in records before 0.2.
        found_files: of an own program, files in its working folder that earlier runs left and this run found, by their paths in it, and
            files that grew in `/dev/shm`, `/tmp` and `/var/tmp`, by their whole paths: at most three of each, and ``...`` if there are
            more. Examined in the first runs only.
        seen: pairs (name, text) that the workload's program reports of what it measured, such as the congestion control in force
            (docs/wire.md, section 4).
    """

    trial: Trial
    status: Status
    reason: Text = ""
    samples: tuple[Sample, ...] = ()
    observed: tuple[tuple[Name, Text], ...] = ()
    facts: tuple[tuple[Name, Integer], ...] = ()
    passes: Passes = 1
    check: Text = ""
    started_unix_ns: NonNegative = 0
    elapsed_ns: NonNegative = 0
    output: Name = ""
    histogram: tuple[tuple[NonNegative, NonNegative], ...] = ()
    series: tuple[Sample, ...] = ()
    name: Name = ""
    digests: tuple[tuple[Text, Name], ...] = ()
    answer: Name = ""
    found_files: tuple[Text, ...] = ()
    by_processor: tuple[tuple[NonNegative, tuple[tuple[NonNegative, NonNegative], ...]], ...] = ()
    seen: tuple[tuple[Name, Text], ...] = ()


def percentile(histogram: Sequence[tuple[int, int]], percent: float) -> int:
    """Return the lower edge of the bin that contains a percentile, by the nearest-rank definition.

    Args:
        histogram: pairs (edge, count), ascending, with at least one count above 0.
        percent: above 0, at most 100.
    """
    needed = sum(count for _, count in histogram) * percent / 100
    total = 0
    for edge, count in histogram:
        total += count
        if total >= needed - 1e-9:
            return edge
    return histogram[-1][0]


def merged(histograms: Iterable[Iterable[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Return the sum of histograms, each of pairs (edge, count): ascending pairs."""
    counts: collections.Counter[int] = collections.Counter()
    for each in histograms:
        counts.update(dict(each))
    return tuple(sorted(counts.items()))


Group = tuple[str, str, str]
"""(suite, workload, load)"""


def discarded_by_block(trials: Iterable[Trial]) -> dict[tuple[int, Group], int]:
    """Return how many runs of the same variant were discarded directly before each measured run, by block and group.

    The first run of a group in a block has the largest number, so a block that was interrupted after its first run is known too.

    Args:
        trials: of the runs of a record, in any order.
    """
    found: dict[tuple[int, Group], int] = {}
    for trial in trials:
        place = (trial.block, trial.group)
        found[place] = max(found.get(place, 0), trial.prime)
    return found
