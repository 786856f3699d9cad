"""What came of a trial: runs and their samples."""

from __future__ import annotations

import enum

from swapstone.model.experiment import Trial
from swapstone.model.frozen_struct import FrozenStruct


class Status(enum.Enum):
    """How a trial ended. Only `OK` carries numbers into an analysis.

    `REFUSED` means that it ran, but not as asked: another level was in force, or other work was done.
    """

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class Sample(FrozenStruct, frozen=True, kw_only=True):
    """The values of one metric in one run, in the metric's unit, in order of measurement.

    They are not independent of each other: `swapstone.stats.run_value` reduces them to one number before anything is compared.
    """

    metric: str
    values: tuple[float, ...]


class Run(FrozenStruct, frozen=True, kw_only=True):
    """The outcome of one trial.

    Attributes:
        trial: which.
        status: how it ended.
        reason: why, when it is not ok; empty otherwise.
        samples: what was measured; empty unless ok.
        observed: pairs (factor, level) seen in force in the process that was measured.
        facts: named integers that the agent saw around the trial (``psi_cpu_us``, ``steal_ticks``, ``load1_milli``...).
        passes: how many passes the workload was asked for.
        check: the workload's own checksum of its work, equal for equal work; empty where it has none.
        started_unix_ns: wall-clock time of the start.
        elapsed_ns: from asking the target to having its answer.
        output: SHA-256 of the raw output kept beside the record, or empty when there was none.
        histogram: of latencies, pairs (lower edge in microseconds, how many) of bins 1 us wide, ascending; empty where there is none.
        name: on the virtual clock, the digest of all that the run is a function of: equal names are equal runs. Empty elsewhere.
        series: what was read again and again in the run, for showing: not compared. All of a run are equally long.
    """

    trial: Trial
    status: Status
    reason: str = ""
    samples: tuple[Sample, ...] = ()
    observed: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, int], ...] = ()
    passes: int = 1
    check: str = ""
    started_unix_ns: int = 0
    elapsed_ns: int = 0
    output: str = ""
    histogram: tuple[tuple[int, int], ...] = ()
    series: tuple[Sample, ...] = ()
    name: str = ""
