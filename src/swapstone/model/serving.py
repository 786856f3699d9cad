"""How a workload that is a server is driven."""

from __future__ import annotations

from swapstone.model.frozen_struct import FrozenStruct

PORT = "{port}"
CONNECTIONS = "{connections}"


class Drive(FrozenStruct, frozen=True, kw_only=True):
    """How a server is driven.

    Attributes:
        command: the driver and its arguments, with ``{port}`` for the port of the trial; nothing else is left open.
        reader: a name of `swapstone.workloads.drivers.READERS`, or ``regex:PATTERN`` with named groups.
        connections: how many at once; 0 where that is not known.
        warm_ms: the driver runs for so long before it is measured, and is killed then.
        ready_ms: the server must accept connections within so long.
        drain_ms: how long the server is left alone after the driver's end.
        stop_ms: how long it may take to end after SIGTERM.
    """

    command: tuple[str, ...]
    reader: str
    connections: int = 0
    warm_ms: int = 300
    ready_ms: int = 10_000
    drain_ms: int = 50
    stop_ms: int = 5_000

    def with_port(self, port: int) -> tuple[str, ...]:
        """Return the command for a port."""
        return tuple(filled(self.command, port))


def filled(words: tuple[str, ...], port: int) -> tuple[str, ...]:
    """Return a command's words with a port in the place of ``{port}``."""
    return tuple(word.replace(PORT, str(port)) for word in words)
