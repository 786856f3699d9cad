"""Makes the trials of an experiment and appends their runs to its record: the place that joins plan, subjects and target."""

from swapstone.run.engine import WORK_NS, Engine, Look, Progress, Referee, SessionEnd
from swapstone.run.manifest import manifest_of
from swapstone.run.prepare import Prepared, check_levels, prepare

__all__ = [
    "WORK_NS",
    "Engine",
    "Look",
    "Prepared",
    "Progress",
    "Referee",
    "SessionEnd",
    "check_levels",
    "manifest_of",
    "prepare",
]
