# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program that sends requests to a server while the server is measured."""

from __future__ import annotations

from swapstone.core.model.frozen_struct import FrozenStruct

PORT = "{port}"
ADDRESS = "{address}"
LOOPBACK = "127.0.0.1"
CONNECTIONS = "{connections}"
TEMPLATE, FOLDER = "{template}", "{folder}"


class LoadGenerator(FrozenStruct, frozen=True, kw_only=True):
    """A load generator and its timing, and what the server gets for it.

    Attributes:
        command: program and arguments; ``{port}`` stands for the port of the trial, ``{address}`` for the address on which the
            server listens. There is no other placeholder.
        reader: a name of `swapstone.core.workloads.load_generators.READERS`, or ``regex:PATTERN`` with named groups.
        connections: number of concurrent connections; 0 if unknown.
        warm_ms: the load generator runs this long before the measurement and is then killed.
        ready_ms: time limit for the server to accept its first connection.
        drain_ms: pause after each run of the load generator.
        stop_ms: time limit for the server to exit after SIGTERM.
        template: text of the server's configuration file with ``{port}``, ``{address}`` and ``{folder}``, a folder in which the server
            may write; ``{template}`` in its command is the path of the filled file. Empty for none.
    """

    command: tuple[str, ...]
    reader: str
    connections: int = 0
    warm_ms: int = 300
    ready_ms: int = 10_000
    drain_ms: int = 50
    stop_ms: int = 5_000
    template: str = ""

    def with_port(self, port: int, address: str = LOOPBACK) -> tuple[str, ...]:
        """Return the command with the port and the server's address filled in."""
        return filled(self.command, port, address)


def filled(words: tuple[str, ...], port: int, address: str = LOOPBACK) -> tuple[str, ...]:
    """Return the words with ``{port}`` replaced by a port, and ``{address}`` by the address on which the server listens."""
    return tuple(word.replace(PORT, str(port)).replace(ADDRESS, address) for word in words)
