# SPDX-License-Identifier: MIT OR Apache-2.0
"""What runs under an instrument: a command with its process tree, and which part of it is the work."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.model import LoadGenerator
from swapstone.core.wire import TrialRequest


class Region(enum.Enum):
    """What delimits the work."""

    PASSES = "passes"  # each pass: the harness calls getrusage before and after it
    PROGRAM = "program"  # the whole run of the program
    DRIVEN = "driven"  # of a server: while its load generator runs


@dataclasses.dataclass(frozen=True)
class Tracee:
    """A command that runs under an instrument.

    Attributes:
        variant: label of its variant.
        request: arguments, environment, folder, processors and limits.
        region: what delimits the work.
        operations: operations per pass, or in the whole run.
        symbols: an unstripped build of the program with the same addresses; None if the program has symbols.
        renew: makes a new request for each run, if the request names a port; else None.
        load_generator: sends the requests, for `Region.DRIVEN`.
    """

    variant: str
    request: TrialRequest
    region: Region
    operations: float = 1.0
    symbols: Path | None = None
    renew: Callable[[], TrialRequest] | None = None
    load_generator: LoadGenerator | None = None

    @property
    def program(self) -> str:
        """Return the path of the program."""
        return self.request.arguments[0]

    @property
    def passes(self) -> int:
        """Return the number of passes of a run; 1 for a program without passes."""
        return int(self.request.arguments[1]) if self.region is Region.PASSES else 1

    def with_passes(self, passes: int) -> Tracee:
        """Return the same with another number of passes; unchanged for a program without passes."""
        if self.region is not Region.PASSES:
            return self
        arguments = (self.request.arguments[0], str(passes), *self.request.arguments[2:])
        return dataclasses.replace(self, request=msgspec.structs.replace(self.request, arguments=arguments))
