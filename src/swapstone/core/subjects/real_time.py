# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that measure how late a thread wakes: whether a target permits them."""

from __future__ import annotations

from swapstone.core.answers import MOST_TOOL_BYTES, trouble_of
from swapstone.core.model import UnavailableError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets import Target
from swapstone.core.wire import TrialRequest

_PROBE_MS = 20_000
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
