# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of a target whose machines run again under a plugin of their emulator, which observes each instruction."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from swapstone.core.model.cpio import Entry
from swapstone.core.targets.target import DEFAULT_MACHINE, MachineConfig, Target
from swapstone.core.wire import AgentAnswer, TrialRequest


class MachineRun(Protocol):
    """The result of a machine's run: how it ended, what it wrote to its channel, and the last lines of its console."""

    @property
    def end(self) -> enum.Enum:
        """How it ended."""

    @property
    def output(self) -> bytes:
        """All of it."""

    @property
    def console(self) -> str:
        """Its last lines."""


class ObservedTarget(Target):
    """A target that boots a machine for each trial. A trial that is run again is the same run, with or without a plugin."""

    @abc.abstractmethod
    def run_observed(
        self, request: TrialRequest, config: MachineConfig, plugin: tuple[str, ...] = ()
    ) -> tuple[AgentAnswer, MachineRun]:
        """Run one trial as `run`, and return the machine's whole output too.

        Args:
            request: the trial.
            config: of the machine.
            plugin: the emulator's arguments that load a plugin; the run is made anew. Without them it may come from a cache.
        """

    @abc.abstractmethod
    def files(self, config: MachineConfig = DEFAULT_MACHINE) -> Mapping[str, Entry]:
        """Return the files of the machines of a configuration, by their paths without the first slash."""

    @abc.abstractmethod
    def real_path(self, path: str) -> str:
        """Return a path in the machine without links."""

    @abc.abstractmethod
    def debug_file(self, name: str, folder: Path, notify: Callable[[str], None]) -> tuple[str, bytes | None]:
        """Return a file with the symbols of the machine's C library, which no image contains.

        Args:
            name: path below the folder of debug files.
            folder: for temporary files.
            notify: called before a download.

        Returns:
            The name and version of the package, and the file's content; None if the package does not have it.

        Raises:
            UserError: there is no such package, or it can't be fetched.
        """
