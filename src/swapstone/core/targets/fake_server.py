# SPDX-License-Identifier: MIT OR Apache-2.0
"""Simulates a server of the fake target: the output of its load generator, and the agent's facts."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import msgspec

from swapstone.core.model import UserError
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest

_WINDOW_NS = 1_000_000_000
_SHARES = (("50%", 1.0), ("75%", 1.25), ("90%", 1.5), ("99%", 3.0))
"""A percentile as wrk names it, and its ratio to the median."""

_MOST_SHARE = 4.0


def server_answer(answer: AgentAnswer, request: TrialRequest, behaviour: SimpleNamespace, wall_ns: int) -> AgentAnswer:
    """Turn the answer of a program into the answer of a server under one second of load from wrk.

    Args:
        answer: has loader, objects and the facts of the machine.
        request: its load generator must be wrk.
        behaviour: faults, switches and memory of a request.
        wall_ns: time of one request.

    Raises:
        UserError: the load generator is not wrk.
    """
    assert request.load_generator is not None
    words = request.load_generator.arguments
    if words[0].rsplit("/", 1)[-1] != "wrk":
        raise UserError(
            f"The fake target can't simulate the load generator {words[0].rsplit('/', 1)[-1]}.",
            "It simulates wrk: --only 'http(c=*'",
        )
    connections = next((int(after) for word, after in itertools.pairwise(words) if word == "-c"), 1)
    requests = max(1, _WINDOW_NS // wall_ns)
    cpu_ns = round(requests * wall_ns * min(1.0, behaviour.cpu_share))
    facts = {
        "ready_ns": behaviour.start_ns,
        "driven_ns": _WINDOW_NS,
        "server_cpu_ns": cpu_ns,
        "server_user_us": cpu_ns // 2000,
        "server_system_us": cpu_ns // 2000,
        "server_minflt": requests * behaviour.minflt,
        "server_majflt": 0,
        "server_nvcsw": requests * behaviour.nvcsw,
        "server_nivcsw": 0,
        "server_unseen_switches": 2,
        "server_rss_bytes": behaviour.res_bytes,
        "server_peak_bytes": behaviour.maxrss_bytes,
        "server_processes": 1,
        "server_threads": 1,
        "driver_user_us": requests,
        "driver_system_us": requests,
    }
    return msgspec.structs.replace(
        answer,
        outcome=ProcessOutcome.DRIVEN,
        stdout=b"",
        facts=(*answer.facts, *facts.items()),
        driver_stdout=_wrk_output(requests, connections, connections * wall_ns).encode(),
    )


def _wrk_output(requests: int, connections: int, median_ns: int) -> str:
    """Return the output of wrk."""
    shares = "".join(f"{name:>7} {_time(median_ns * share):>8}\n" for name, share in _SHARES)
    return (
        "Running 1s test @ http://127.0.0.1/\n"
        f"  1 threads and {connections} connections\n"
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        f"    Latency {_time(median_ns)} {_time(median_ns / 2)} {_time(median_ns * _MOST_SHARE)}   90.00%\n"
        f"    Req/Sec {requests:.2f} 1.00 {requests:.2f}   90.00%\n"
        f"  Latency Distribution\n{shares}"
        f"  {requests} requests in 1.00s, 1.00MB read\n"
        f"Requests/sec: {requests:>10.2f}\nTransfer/sec:      1.00MB\n"
    )


def _time(nanoseconds: float) -> str:
    for unit, size in (("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * size:
            return f"{nanoseconds / size:.2f}{unit}"
    return f"{nanoseconds / 1e9:.2f}s"
