"""The one place that joins plan, build and target: it makes the trials of an experiment and appends their runs to its record."""

from swapstone.run.engine import WORK_NS, Engine, Look, Progress, Referee, SessionEnd
from swapstone.run.prepare import Prepared, Program, check_levels, manifest_of, prepare

__all__ = [
    "WORK_NS",
    "Engine",
    "Look",
    "Prepared",
    "Program",
    "Progress",
    "Referee",
    "SessionEnd",
    "check_levels",
    "manifest_of",
    "prepare",
]
