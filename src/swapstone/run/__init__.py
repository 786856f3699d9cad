"""The one place that joins plan, build and target: it makes the trials of an experiment and appends their runs to its record."""

from swapstone.run.engine import Ending, Engine, Look, Progress, Referee
from swapstone.run.prepare import Prepared, Program, prepare

__all__ = ["Ending", "Engine", "Look", "Prepared", "Program", "Progress", "Referee", "prepare"]
