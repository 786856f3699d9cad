# SPDX-License-Identifier: MIT OR Apache-2.0
"""The suites `netstack` and `netstack-*`: a server, or a client, on a network stack. docs/netstack.md has definitions.

Each trial is one program, ``swapstone-net-bench trial`` (crates/swapstone-net-bench/src/trial). It makes its own network namespaces and
fixes the amount of work. The amounts below are for the reader; a test compares them with the program's.
"""

from __future__ import annotations

import msgspec

from swapstone.core.model import Cpus, Direction, Metric, Quantity, Suite, Workload
from swapstone.parts.net.model.crate import Crate

PACKAGE = "swapstone-net-bench"
FEATURE_COUNT = "count"
"""The cargo feature that counts copies and allocations."""

_TIMEOUT_MS = 60_000  # longer than the 40 s that a trial waits for its client


def _metric(
    name: str, unit: str, quantity: Quantity, better: Direction, meaning: str, *, leads: bool = False
) -> Metric:
    return Metric(name=name, unit=unit, quantity=quantity, better=better, meaning=meaning, leads=leads)


def _rate(unit: str, meaning: str) -> Metric:
    return _metric("rate", unit, Quantity.RATE, Direction.HIGHER, meaning, leads=True)


def _latency(name: str, meaning: str) -> Metric:
    return _metric(name, "ns", Quantity.TIME, Direction.LOWER, meaning)


def _processor(each: str) -> tuple[Metric, ...]:
    return (
        _metric("cpu", "ns", Quantity.TIME, Direction.LOWER, f"processor time of the server's process for {each}"),
        _metric(
            "user_cpu",
            "ns",
            Quantity.TIME,
            Direction.LOWER,
            "of that, in user mode: program and, but for the kernel's, stack",
        ),
        _metric(
            "system_cpu",
            "ns",
            Quantity.TIME,
            Direction.LOWER,
            "of that, in the kernel; a write to a TAP runs the client's receive path there",
        ),
    )


_P50 = _latency("p50", "half of all requests took at most so long, seen by the client")
_P99 = _latency("p99", "99 % of all requests took at most so long")
_MAX = _latency("max", "the longest request")
_REQUESTS = _rate("1/s", "requests a second, seen by the client")
_ANSWERED: tuple[Metric, ...] = (
    _REQUESTS,
    _P50,
    _P99,
    _latency("p99_9", "99.9 % of all requests took at most so long"),
    _latency("p99_99", "99.99 % of all requests took at most so long"),
    _MAX,
    *_processor("each request"),
)
_OF_AB: tuple[Metric, ...] = (_REQUESTS, _P50, _P99, _MAX, *_processor("each request"))
_BULK: tuple[Metric, ...] = (
    _rate("B/s", "bytes that the application received a second, headers left out"),
    *_processor("10^6 bytes"),
)
_DATAGRAMS: tuple[Metric, ...] = (
    _rate("1/s", "datagrams a second that the server received"),
    _metric("lost", "1", Quantity.EVENTS, Direction.LOWER, "datagrams of the trial that were sent and never received"),
    *_processor("each datagram received"),
)


def _count(name: str, unit: str, meaning: str, *, leads: bool = False) -> Metric:
    return msgspec.structs.replace(
        _metric(name, unit, Quantity.EVENTS, Direction.LOWER, f"{meaning}, for each request", leads=leads), exact=True
    )


def _counts(process: str) -> tuple[Metric, ...]:
    return (
        _count("copies", "1", f"calls of memcpy and memmove in the {process}'s process", leads=True),
        _count("copied", "B", "bytes that those copied"),
        _count("heap_calls", "1", "allocations from the heap by Rust code"),
        _count("heap_bytes", "B", "bytes of those"),
        _count("store_calls", "1", "allocations by lwIP, from its own store; 0 for others"),
        _count("store_bytes", "B", "bytes of those"),
    )


_OF_SERVER, _OF_CLIENT = _counts("server"), _counts("client")
"""Of the process that is on the stack under test."""


def _work(
    name: str,
    description: str,
    metrics: tuple[Metric, ...],
    *,
    feature: str = "",
    commands: tuple[str, ...] = (),
    bare: bool = False,
) -> Workload:
    return Workload(
        name=name,
        origin=Crate(package=PACKAGE, feature=feature, commands=commands),
        bare=bare,
        arguments=("trial", "--work", name),
        description=description,
        metrics=metrics,
        cpus=Cpus.ALL,  # it pins server and client to one processor each
        threads=1 if feature == FEATURE_COUNT else 2,  # counts are the same on any number of processors
        waits=True,
        timeout_ms=_TIMEOUT_MS,
    )


SUITE = Suite(
    name="netstack",
    description="a server on a network stack: requests, bulk data, datagrams, round trips, and what they cost it",
    factors=("netstack",),
    workloads=(
        _work("http-keepalive", "40000 HTTP requests on 100 connections that are kept", _ANSWERED),
        _work(
            "http-churn", "10000 HTTP requests, 100 at once, a connection for each, which the server closes", _ANSWERED
        ),
        _work(
            "ab",
            "10000 HTTP requests by ab, 100 at once, a connection for each",
            _OF_AB,
            commands=("ab",),
        ),
        _work("bulk-in", "500 MB on one connection into the server", _BULK),
        _work("bulk-out", "500 MB on one connection out of the server", _BULK),
        _work("udp-in", "200000 datagrams of 64 bytes into the server, as fast as they can be sent", _DATAGRAMS),
        _work("round-trip", "64 bytes there and back on one connection, 20000 times", _ANSWERED),
    ),
)

COUNTS = Suite(
    name="netstack-counts",
    description="copies and allocations of an HTTP server, and of an HTTP client, on a network stack, counted",
    workloads=(
        _work(
            "counts-plain",
            "2000 HTTP requests one after another, a connection for each; bytes are copied in and out, nothing is offloaded",
            _OF_SERVER,
            feature=FEATURE_COUNT,
        ),
        _work(
            "counts-tuned",
            "the same with borrowed receive, shared send and offload, as in suite netstack",
            _OF_SERVER,
            feature=FEATURE_COUNT,
        ),
        _work(
            "counts-client-plain",
            "the client of 2000 HTTP requests is on the stack, as counts-plain; bytes are copied in and out, nothing is offloaded",
            _OF_CLIENT,
            feature=FEATURE_COUNT,
        ),
        _work(
            "counts-client-tuned",
            "the same with borrowed receive, shared send and offload",
            _OF_CLIENT,
            feature=FEATURE_COUNT,
        ),
    ),
)

FIXES = Suite(
    name="netstack-fixes",
    description="what the fixes of a network stack cost and save: short workloads in which each segment passes them",
    workloads=(
        _work("fixes-churn", "5000 HTTP requests, 100 at once, a connection for each", _ANSWERED),
        _work("fixes-bulk-in", "200 MB on one connection into the server", _BULK),
        _work("fixes-bulk-out", "200 MB on one connection out of the server", _BULK),
        _work("fixes-round-trip", "64 bytes there and back on one connection, 5000 times", _ANSWERED),
    ),
)

CLIENTS = Suite(
    name="netstack-clients",
    description="an HTTP server with the number of clients of the factor clients, by default 100",
    factors=("clients",),
    replaces=("netstack", "netstack-link"),
    workloads=(
        _work("clients-keepalive", "20000 HTTP requests on connections that are kept", _ANSWERED),
        _work("clients-churn", "5000 HTTP requests, a connection for each, which the server closes", _ANSWERED),
    ),
)

_GOODPUT: tuple[Metric, ...] = (
    _rate("B/s", "bytes that the application received a second, headers left out; pauses count"),
    *_processor("10^6 bytes"),
)

LINK = Suite(
    name="netstack-link",
    description="goodput over an emulated link with loss, reordering or delay: how a stack recovers",
    factors=("link",),
    replaces=("netstack",),
    workloads=(
        _work("link-out", "as many bytes on one connection out of the server as arrive within 2 s", _GOODPUT),
        _work("link-in", "as many bytes on one connection into the server as arrive within 2 s", _GOODPUT),
    ),
)

_INSTRUCTIONS = _metric(
    "instructions",
    "1",
    Quantity.EVENTS,
    Direction.LOWER,
    "instructions that the whole machine executed for each request, without waits",
    leads=True,
)


def _emulated(metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
    """Return the client's metrics of an emulated server, none of which leads, and its instructions first."""
    own = {metric.name for metric in _processor("each request")}
    client = (
        msgspec.structs.replace(each, leads=False, meaning=f"{each.meaning}; the server is emulated")
        for each in metrics
        if each.name not in own
    )
    return (_INSTRUCTIONS, *client)


BARE = Suite(
    name="netstack-bare",
    description="an HTTP server on a machine without an operating system: the target bare-riscv64",
    workloads=(
        _work(
            "bare-keepalive",
            "5000 HTTP requests on 50 connections that are kept, on a machine without an operating system",
            _emulated(_ANSWERED),
            bare=True,
        ),
        _work(
            "bare-churn",
            "2000 HTTP requests, 50 at once, a connection for each, on such a machine",
            _emulated(_ANSWERED),
            bare=True,
        ),
        _work(
            "bare-ab",
            "2000 HTTP requests by ab, 50 at once, a connection for each, on such a machine",
            _emulated(_OF_AB),
            commands=("ab",),
            bare=True,
        ),
    ),
)
