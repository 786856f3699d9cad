"""The one place that joins plan, build and target: it makes the trials of an experiment and appends their runs to its record."""

from swapstone.run.engine import WORK_NS, Engine, Look, Progress, Referee, SessionEnd
from swapstone.run.own import own_paths
from swapstone.run.prepare import Prepared, check_levels, manifest_of, prepare
from swapstone.run.program import Program

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
    "own_paths",
    "prepare",
]
