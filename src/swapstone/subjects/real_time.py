# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that measure how late a thread wakes: whether a target permits them, and what they print."""

from __future__ import annotations

import re

from swapstone.factors import PRIORITY_SEEN, level_of_stat
from swapstone.model import UnavailableError, WireError, Workload
from swapstone.model.safe_text import safe_excerpt
from swapstone.subjects.answers import trouble_of
from swapstone.subjects.subject import Measured
from swapstone.targets import Target
from swapstone.wire import AgentAnswer, TrialRequest
from swapstone.workloads import TOOL_READERS

MOST_TOOL_BYTES = 4 << 20
"""Limit of their output (swapstone.workloads.suites.latency.REAL_BINS)."""

_PROBE_MS = 20_000
_MOST_STAT_BYTES = 1 << 16
_STAT = re.compile(r"^[0-9]+ \(.*\) .*$", re.MULTILINE)
_LATENCY_FILE = "/dev/cpu_dma_latency"


def probe_request(
    arguments: tuple[str, ...], folder: str, environment: tuple[tuple[str, str], ...] = ()
) -> TrialRequest:
    """Return the request for a very short measurement.

    Args:
        arguments: the program, by its absolute path on the target, and its arguments.
        folder: working directory there.
        environment: pairs (name, value).
    """
    return TrialRequest(
        id="probe",
        arguments=arguments,
        environment=environment,
        cwd=folder,
        timeout_ms=_PROBE_MS,
        output_bytes=MOST_TOOL_BYTES,
    )


def require_real_time(name: str, target: Target, request: TrialRequest) -> None:
    """Run a very short measurement, which shows whether the target permits real-time priorities and forbids deep sleep states.

    Args:
        name: of the workload or load, for the message.
        target: where it runs.
        request: of `probe_request`.

    Raises:
        UnavailableError: it does not; the message has the reason that the program printed.
        TargetError: the target failed.
    """
    answer = target.run(request)
    trouble = trouble_of(answer, MOST_TOOL_BYTES)
    if not trouble:
        lines = (answer.stderr + b"\n" + answer.stdout).decode(errors="replace").splitlines()
        about = [line for line in lines if _LATENCY_FILE in line]
        refused = [line for line in about if "set to 0us" not in line and "No such file" not in line]
        trouble = f"it printed {safe_excerpt(refused[0])!r}" if refused else ""
    if trouble:
        raise UnavailableError(
            f"{name} is unavailable on {target.name}: it needs a real-time priority, locked memory and {_LATENCY_FILE}, and {trouble}.",
            "Run as root, on a board as --target ssh:root@BOARD.",
        )


def read_tool(workload: Workload, reader: str, answer: AgentAnswer) -> Measured:
    """Read the output of a tool in its own format.

    Args:
        workload: its metrics are read.
        reader: a name of `TOOL_READERS`.
        answer: of its trial.

    Raises:
        WireError: it is cut off or of another format.
    """
    try:
        figures = TOOL_READERS[reader](workload, answer.stdout)
    except WireError as error:
        raise WireError(f"its output is unreadable: {error.message}") from error
    return Measured(
        figures.samples,
        histogram=figures.histogram,
        by_processor=figures.by_processor,
        series=figures.series,
        seen=(*figures.seen, *_threads_seen(answer.stderr)),
    )


def _threads_seen(printed: bytes) -> tuple[tuple[str, str], ...]:
    """Return the policy and priority of the measuring threads, from lines of /proc/PID/task/TID/stat: those of all but the first thread.

    Returns:
        One pair for `swapstone.factors.Evidence.seen`; its text is no level if the threads differ. Empty without such lines.
    """
    stats = _STAT.findall(printed[:_MOST_STAT_BYTES].decode(errors="replace"))
    levels = {level_of_stat(line) or "unknown" for line in stats[1:]}
    if not levels:
        return ()
    return ((PRIORITY_SEEN, levels.pop() if len(levels) == 1 else "several"),)
