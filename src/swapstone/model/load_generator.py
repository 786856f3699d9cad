# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program that sends requests to a server while the server is measured."""

from __future__ import annotations

from swapstone.model.frozen_struct import FrozenStruct

PORT = "{port}"
CONNECTIONS = "{connections}"


class LoadGenerator(FrozenStruct, frozen=True, kw_only=True):
    """A load generator and its timing.

    Attributes:
        command: program and arguments; ``{port}`` stands for the port of the trial. There is no other placeholder.
        reader: a name of `swapstone.workloads.load_generators.READERS`, or ``regex:PATTERN`` with named groups.
        connections: number of concurrent connections; 0 if unknown.
        warm_ms: the load generator runs this long before the measurement and is then killed.
        ready_ms: time limit for the server to accept its first connection.
        drain_ms: pause after each run of the load generator.
        stop_ms: time limit for the server to exit after SIGTERM.
    """

    command: tuple[str, ...]
    reader: str
    connections: int = 0
    warm_ms: int = 300
    ready_ms: int = 10_000
    drain_ms: int = 50
    stop_ms: int = 5_000

    def with_port(self, port: int) -> tuple[str, ...]:
        """Return the command with the port filled in."""
        return tuple(filled(self.command, port))


def filled(words: tuple[str, ...], port: int) -> tuple[str, ...]:
    """Return the words with ``{port}`` replaced by a port."""
    return tuple(word.replace(PORT, str(port)) for word in words)
