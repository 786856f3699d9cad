# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of another machine on which load generators run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from swapstone.core.model import FrozenStruct


class RemoteProgram(FrozenStruct, frozen=True, kw_only=True):
    """A load generator on the other machine.

    Attributes:
        path: absolute path there.
        sha256: of its file, in hexadecimal.
    """

    path: str
    sha256: str


class LoadDriver(Protocol):
    """A connection to the machine of the load generators.

    Attributes:
        address: of this machine, on which servers listen.
    """

    address: str

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (what, text) of what was observed of the machine and of the load generators there."""
        ...

    def find(self, name: str) -> RemoteProgram:
        """Return a program of that machine.

        Args:
            name: to be found in PATH there, or an absolute path there.

        Raises:
            UnavailableError: it is not there.
            UserError: the answer is not valid.
        """
        ...

    def copy(self, path: Path) -> RemoteProgram:
        """Copy a program of this machine to that one and return it.

        Raises:
            UnavailableError: that machine has another architecture.
            UserError: it can't be copied, or arrived with another content.
        """
        ...

    def command(self, program: RemoteProgram, words: tuple[str, ...], limit_s: int) -> tuple[str, ...]:
        """Return the command of this machine that executes a load generator there, with its output and status.

        Args:
            program: there.
            words: its arguments. None has a zero byte.
            limit_s: that machine kills it after this time, even if the connection hangs.

        Raises:
            UserError: the words are too long for a command line.
        """
        ...

    def close(self) -> None:
        """End the connection; nothing that it started is left. May be called twice."""
        ...


class LoadDriverKind(NamedTuple):
    """A way to reach such a machine, which a part provides as the kind ``load-driver``.

    Attributes:
        usage: what the user types as the target.
        description: what it is for, in one line.
        name_of: checks what follows ``host:`` in a target, and returns the machine's name. Raises `UserError` for another form.
        connect: connects to the machine of such a text. Raises `UserError` if it can't be reached.
    """

    usage: str
    description: str
    name_of: Callable[[str], str]
    connect: Callable[[str], LoadDriver]
