# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `server`: an HTTP server of this project under the load of a published comparison, and redis. docs/servers.md."""

from __future__ import annotations

from swapstone.core.model import ALL_PROCESSORS, Cpus, LoadGenerator, PartOrigin, Source, Suite, Workload
from swapstone.core.workloads.load_generators import PACE
from swapstone.core.workloads.server_metrics import server_metrics

SMALL_OBJECTS = 20
LARGE_BYTES = 256 << 10
"""Size of the buffer of each request: above 128 KiB, musl maps and unmaps each allocation (mallocng's MMAP_THRESHOLD)."""

CONNECTIONS = (1, 10, 100, 250)
RATE = 1000
"""Requests per second of the constant-rate load generator: the slowest variant can serve them, so all do the same work."""

TIMEOUT_MS = 60_000

_PARTS = ("busybox",)
"""Of a virtual machine: it has the ip that configures the loopback device."""


class Package(PartOrigin, frozen=True, kw_only=True):
    """A server that others wrote, built from its pinned sources for each variant.

    Attributes:
        name: its name in ``native/servers.toml``.
    """

    part: str = "own"
    subject: str = "swapstone.parts.own.subjects.packaged:Packaged"
    name: str


def _http(connections: int, *, cores: bool) -> Workload:
    generator = LoadGenerator(
        command=("wrk", "-c", str(connections), "-t", "1", "-d", "1s", "--latency", "http://{address}:{port}/"),
        reader="wrk",
        connections=connections,
        warm_ms=200,
    )
    return _server(f"http(c={connections},t={'cores' if cores else '1'})", generator, cores=cores)


def _server(name: str, generator: LoadGenerator, *, cores: bool) -> Workload:
    threads = "a thread for each processor" if cores else "one thread"
    load = f"wrk with {generator.connections} connections" if generator.reader == "wrk" else f"{RATE} requests a second"
    return Workload(
        name=name,
        origin=Source(file="server.c", harness=False),
        arguments=("{port}", "0" if cores else "1", str(SMALL_OBJECTS), str(LARGE_BYTES), "{address}"),
        description=f"an HTTP server, {threads}, {SMALL_OBJECTS} small objects and one of 256 KiB a request; {load}",
        parameters=(
            ("connections", str(generator.connections)),
            ("threads", "cores" if cores else "1"),
            *((("requests_per_s", str(RATE)),) if generator is _PACED else ()),
        ),
        metrics=server_metrics(generator),
        cpus=Cpus.ALL if cores else Cpus.ONE,
        threads=ALL_PROCESSORS if cores else 2,  # with the load generator
        waits=True,
        parts=_PARTS,
        timeout_ms=TIMEOUT_MS,
        load_generator=generator,
    )


_PACED = LoadGenerator(
    command=(
        *(PACE, "--address", "{address}", "--port", "{port}"),
        *("--rate", str(RATE), "--seconds", "1", "--connections", "32"),
    ),
    reader=PACE,
    connections=32,
    warm_ms=200,
)

_REDIS_BENCHMARK = LoadGenerator(
    command=(
        *("redis-benchmark", "-h", "{address}", "-p", "{port}"),
        *("-t", "set", "-d", "200000", "-n", "2000", "-c", "10", "-r", "50"),
    ),
    reader="redis-benchmark",
    connections=10,
    warm_ms=200,
)

REDIS = Workload(
    name="redis_set(200kB)",
    origin=Package(name="redis"),
    arguments=(
        *("--port", "{port}", "--bind", "{address}", "--save", "", "--appendonly", "no"),
        *("--daemonize", "no", "--protected-mode", "no"),
    ),
    description="redis, built with the C library's malloc; redis-benchmark sets values of 200 kB over 10 connections",
    parameters=(("connections", str(_REDIS_BENCHMARK.connections)), ("value_bytes", "200000")),
    metrics=server_metrics(_REDIS_BENCHMARK),
    cpus=Cpus.ONE,
    threads=2,
    waits=True,
    parts=_PARTS,
    timeout_ms=TIMEOUT_MS,
    load_generator=_REDIS_BENCHMARK,
)

SUITE = Suite(
    name="server",
    description="HTTP requests to a server that allocates for each, with 1 to 250 connections; and redis with large values",
    workloads=(
        *(_http(connections, cores=False) for connections in CONNECTIONS),
        *(_http(connections, cores=True) for connections in CONNECTIONS),
        _server("http(paced)", _PACED, cores=False),
        REDIS,
    ),
)
