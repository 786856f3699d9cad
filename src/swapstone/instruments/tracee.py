"""What is put under an instrument: a process tree with a command, and where in it the work lies."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.model import LoadGenerator
from swapstone.wire import TrialRequest


class Region(enum.Enum):
    """Which part of a run is the work."""

    PASSES = "passes"  # between the two calls of getrusage that our harness makes around each pass
    PROGRAM = "program"  # from the program's start to its end
    DRIVEN = "driven"  # of a server: while its driver runs
    ATTACHED = "attached"  # all that happens while the instrument is attached to a process that is there already


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is put under an instrument.

    Attributes:
        variant: its label.
        request: how it is started: arguments, environment, folder, processors, limits.
        region: which part of the run is the work.
        operations: operations in a pass, or in the whole run.
        symbols: a file with the symbols that the program's own file lacks, at the same addresses; None where it has its own.
        renew: makes the request anew for each run, where it names a port; None where it stays.
        load_generator: what sends it requests, for `Region.DRIVEN`.
        pid: of the process to attach to, for `Region.ATTACHED`.
        seconds: how long to stay attached.
    """

    variant: str
    request: TrialRequest
    region: Region
    operations: float = 1.0
    symbols: Path | None = None
    renew: Callable[[], TrialRequest] | None = None
    load_generator: LoadGenerator | None = None
    pid: int = 0
    seconds: float = 0.0

    @property
    def program(self) -> str:
        """Return the path of the program."""
        return self.request.arguments[0]

    def with_passes(self, passes: int) -> Subject:
        """Return the same with another number of passes; a program that runs once a trial has none to change."""
        if self.region is not Region.PASSES:
            return self
        arguments = (self.request.arguments[0], str(passes), *self.request.arguments[2:])
        return dataclasses.replace(self, request=msgspec.structs.replace(self.request, arguments=arguments))
