# SPDX-License-Identifier: MIT OR Apache-2.0
"""The workloads of the network stack benchmarks: pairs of a server and a client, and the readers of their output."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.netstack_lab import SERVER, Lab, UnavailableError
from benchmarks.netstack_output import UnreadableError, read_ab, read_ab_percentiles, read_own, read_wrk

PORT = 80
_SLACK_S = 60.0

SETTINGS: dict[str, tuple[str, ...]] = {
    "plain": ("--receive", "copy", "--send", "copy", "--no-offload"),
    "borrowed receive": ("--send", "copy", "--no-offload"),
    "+ shared send": ("--no-offload",),
    "tuned (+ offload)": (),
    "+ buffers of 256 KiB": ("--receive-buffer", "262144", "--send-buffer", "262144"),
    "+ buffers of 1 MiB": ("--receive-buffer", "1048576", "--send-buffer", "1048576"),
    "8 TCP sockets": ("--tcp-sockets", "8"),
    "32 TCP sockets": ("--tcp-sockets", "32"),
    "128 TCP sockets": ("--tcp-sockets", "128"),
}
"""Options of the server by name. Of those with a plus each has what those before it have."""
TUNED = "tuned (+ offload)"
"""The defaults of swapstone-net-bench."""
CHAIN = ("plain", "borrowed receive", "+ shared send", TUNED, "+ buffers of 256 KiB", "+ buffers of 1 MiB")
SWEEP = ("8 TCP sockets", "32 TCP sockets", "128 TCP sockets")


@dataclasses.dataclass(frozen=True)
class Size:
    """How much work a run is.

    Attributes:
        requests: of ab and of the HTTP client in swapstone-net-bench.
        messages: of the round trip.
        seconds: of what is limited by time: wrk, bulk, datagrams.
        connections: at once, of ab and churn.
    """

    requests: int
    messages: int
    seconds: float
    connections: int


FULL = Size(requests=100_000, messages=50_000, seconds=5.0, connections=100)
QUICK = Size(requests=2_000, messages=1_000, seconds=1.0, connections=20)


@dataclasses.dataclass(frozen=True)
class Workload:
    """A server's role and a client's command.

    Attributes:
        unit: of its rate.
        description: one line for the tables.
        server: arguments of swapstone-net-bench.
        client: makes the command, from our binary, the size and a folder for files.
        read: makes the result from the client's output, whether it ended in time, the server's last line, the size and the folder.
        tool: the program that the client is, if it is not ours.
    """

    name: str
    unit: str
    description: str
    server: tuple[str, ...]
    client: Callable[[Path, Size, Path], list[str]]
    read: Callable[[str, Mapping[str, Any], Size, Path], dict[str, Any]]
    tool: str | None = None


def _own(role: str, *arguments: str) -> Callable[[Path, Size, Path], list[str]]:
    def client(binary: Path, size: Size, _: Path) -> list[str]:
        amounts = {
            "REQUESTS": str(size.requests),
            "MESSAGES": str(size.messages),
            "SECONDS": str(size.seconds),
            "CONNECTIONS": str(size.connections),
        }
        filled = [amounts.get(argument, argument) for argument in arguments]
        return [str(binary), "--stack", "kernel", "--connect", f"{SERVER}:{PORT}", role, *filled]

    return client


def _ab(_: Path, size: Size, room: Path) -> list[str]:
    amounts = ["-n", str(size.requests), "-c", str(size.connections)]
    return ["ab", "-q", *amounts, "-e", str(room / "ab.csv"), f"http://{SERVER}:{PORT}/"]


def _read_ab(text: str, server: Mapping[str, Any], size: Size, room: Path) -> dict[str, Any]:
    found = read_ab(text, size.requests)
    path = room / "ab.csv"
    latency = read_ab_percentiles(path.read_text()) if path.exists() else {}
    return {**found, "latency_us": latency, **_per_request(server, server["requests"])}


def _wrk(*more: str) -> Callable[[Path, Size, Path], list[str]]:
    def client(_: Path, size: Size, __: Path) -> list[str]:
        seconds = max(1, round(size.seconds))
        return [
            "wrk",
            "-t1",
            "-c",
            str(size.connections),
            "-d",
            f"{seconds}s",
            "--latency",
            *more,
            f"http://{SERVER}:{PORT}/",
        ]

    return client


def _read_wrk(text: str, server: Mapping[str, Any], _: Size, __: Path) -> dict[str, Any]:
    return {**read_wrk(text), **_per_request(server, server["requests"])}


def _read_requests(text: str, server: Mapping[str, Any], _: Size, __: Path) -> dict[str, Any]:
    client = read_own(text)
    return {
        "requests": client["requests"],
        "failed": client["failed"],
        "first_failure": client["first_failure"],
        "rate": _rate(client["requests"], client["active_s"]),
        "latency_us": client["latency_us"] or {},
        **_per_request(server, client["requests"]),
    }


def _bulk(receiver: str) -> Callable[[str, Mapping[str, Any], Size, Path], dict[str, Any]]:
    def read(text: str, server: Mapping[str, Any], _: Size, __: Path) -> dict[str, Any]:
        client = read_own(text)
        at = server if receiver == "server" else client
        return {
            "bytes": at["bytes_in"],
            "failed": client["failed"],
            "first_failure": client["first_failure"],
            "rate": _rate(at["bytes_in"] / 1e6, at["active_s"]),
            **_per_request(server, at["bytes_in"] / 1e6),
        }

    return read


def _read_datagrams(text: str, server: Mapping[str, Any], _: Size, __: Path) -> dict[str, Any]:
    client = read_own(text)
    return {
        "requests": server["requests"],
        "sent": client["requests"],
        "failed": client["failed"],
        "rate": _rate(server["requests"], server["active_s"]),
        "sent_rate": _rate(client["requests"], client["active_s"]),
        **_per_request(server, server["requests"]),
    }


def _rate(amount: float, seconds: float | None) -> float | None:
    return amount / seconds if seconds else None


def _per_request(server: Mapping[str, Any], amount: float) -> dict[str, Any]:
    """Return the server's CPU time per request, or per megabyte, in microseconds, the user's part apart."""
    user, system = server["user_s"], server["system_s"]
    return {
        "cpu_us": (user + system) * 1e6 / amount if amount else None,
        "user_us": user * 1e6 / amount if amount else None,
        "server": dict(server),
    }


WORKLOADS: tuple[Workload, ...] = (
    Workload("ab", "req/s", "ab, a connection for each request", ("http",), _ab, _read_ab, "ab"),
    Workload("wrk", "req/s", "wrk, connections kept", ("http",), _wrk(), _read_wrk, "wrk"),
    Workload(
        "wrk-close", "req/s", "wrk, Connection: close", ("http",), _wrk("-H", "Connection: close"), _read_wrk, "wrk"
    ),
    Workload(
        "http",
        "req/s",
        "our own closed loop, connections kept",
        ("http",),
        _own("http-client", "-c", "CONNECTIONS", "-n", "REQUESTS"),
        _read_requests,
    ),
    Workload(
        "http-close",
        "req/s",
        "our own closed loop, the server closes after each answer",
        ("http",),
        _own("http-client", "--close", "server", "-c", "CONNECTIONS", "-n", "REQUESTS"),
        _read_requests,
    ),
    Workload(
        "churn",
        "req/s",
        "our own closed loop, the client closes after each answer",
        ("http",),
        # Less than the ports that a client has: those that it closed first are in TIME_WAIT.
        _own("churn", "-c", "CONNECTIONS", "-n", "MESSAGES", "--seconds", "SECONDS"),
        _read_requests,
    ),
    Workload(
        "bulk-in", "MB/s", "bulk into the server", ("sink",), _own("source", "--seconds", "SECONDS"), _bulk("server")
    ),
    Workload(
        "bulk-out", "MB/s", "bulk out of the server", ("source",), _own("sink", "--seconds", "SECONDS"), _bulk("client")
    ),
    Workload(
        "udp",
        "packets/s",
        "datagrams of 64 bytes into the server, as fast as they can be sent",
        ("udp-sink",),
        _own("udp-blast", "--seconds", "SECONDS"),
        _read_datagrams,
    ),
    Workload(
        "ping",
        "messages/s",
        "64 bytes there and back, one connection",
        ("echo",),
        _own("ping", "-n", "MESSAGES"),
        _read_requests,
    ),
)


def measure(workload: Workload, stack: str, setting: str, binary: Path, size: Size) -> dict[str, Any]:
    """Do one run, in a place of its own.

    Returns:
        `status` is ``ok``, ``failed`` (requests were lost), ``hung`` (the client did not end), or ``unavailable``, with a `reason`; the
        rest is the workload's.
    """
    if workload.tool is not None and shutil.which(workload.tool) is None:
        return {"status": "unavailable", "reason": f"there is no {workload.tool}"}
    options = SETTINGS[setting]
    results: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        try:
            with (
                Lab(stack, offload="--no-offload" not in options) as lab,
                lab.serving(binary, [*options, "--listen", f"0.0.0.0:{PORT}", *workload.server], results),
            ):
                text, in_time = lab.run(workload.client(binary, size, room), size.seconds + _SLACK_S)
        except UnavailableError as error:
            return {"status": "unavailable", "reason": str(error)}
        try:
            found = workload.read(text, read_own(results[0]), size, room)
        except UnreadableError as error:
            status = "failed" if in_time else "hung"
            return {"status": status, "reason": str(error)}
    if not in_time or found.get("gave_up"):
        return {"status": "hung", "reason": found.get("gave_up") or "it did not end in time", **found}
    if found["failed"]:
        return {"status": "failed", "reason": found.get("first_failure") or f"{found['failed']} failed", **found}
    return {"status": "ok", "reason": None, **found}
