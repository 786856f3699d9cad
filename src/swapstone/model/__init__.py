"""The nouns of Swapstone, as `ARCHITECTURE.md` defines them. Imports nothing of ours."""

from swapstone.model.analysis import (
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Failure,
    Index,
    Noise,
    NullResult,
    Scale,
    Verdict,
    WorkloadPrecision,
)
from swapstone.model.base import Noun
from swapstone.model.errors import RecordError, UnavailableError, UserError, WireError, unknown
from swapstone.model.experiment import (
    OWN_SUITE,
    Copy,
    Experiment,
    FactorLevels,
    OwnProgram,
    PrintedNumber,
    Trial,
    Variant,
)
from swapstone.model.measure import IDLE, Cpus, Direction, Load, Metric, Quantity, Suite, Workload
from swapstone.model.outcome import Run, Sample, Status

__all__ = [
    "IDLE",
    "OWN_SUITE",
    "Analysis",
    "Caveat",
    "CaveatKind",
    "Comparison",
    "Copy",
    "Cpus",
    "Direction",
    "Experiment",
    "FactorLevels",
    "Failure",
    "Index",
    "Load",
    "Metric",
    "Noise",
    "Noun",
    "NullResult",
    "OwnProgram",
    "PrintedNumber",
    "Quantity",
    "RecordError",
    "Run",
    "Sample",
    "Scale",
    "Status",
    "Suite",
    "Trial",
    "UnavailableError",
    "UserError",
    "Variant",
    "Verdict",
    "WireError",
    "Workload",
    "WorkloadPrecision",
    "unknown",
]
