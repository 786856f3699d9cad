# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the instruments need of this machine, and how to provide it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.model import UnavailableError
from swapstone.core.model.regular_file import text_of

TRACING = "/sys/kernel/tracing"
_PROBE_S = 30
KERNEL_EVENT = "cpu-clock:k"
"""An event that is refused unless the kernel may be sampled."""
USER_EVENT = "cpu-clock:u"


class MissingRequirement(NamedTuple):
    """Why a tool or a kernel feature can't be used, and a command or setting that enables it."""

    reason: str
    remedy: str


def require(missing: MissingRequirement | None) -> None:
    """Check that nothing is missing.

    Raises:
        UnavailableError: something is.
    """
    if missing is not None:
        raise UnavailableError(missing.reason, missing.remedy)


@functools.cache
def version_of(tool: str) -> str:
    """Return the first line of a tool's ``--version``; empty if the tool is not installed."""
    if shutil.which(tool) is None:
        return ""
    result = _run((tool, "--version"))
    return (result.stdout.splitlines() or [""])[0] if result and result.returncode == 0 else ""


def missing_tool(tool: str, package: str) -> MissingRequirement | None:
    """Return why a tool can't be used; None if it can."""
    if shutil.which(tool) is None:
        return MissingRequirement(f"the command {tool!r} is not installed", install_command(package))
    if not version_of(tool):
        return MissingRequirement(f"{tool} doesn't start: it may be built for another kernel", install_command(package))
    return None


@functools.cache
def missing_perf() -> MissingRequirement | None:
    """Return why perf can't sample stacks of user and kernel code; None if it can.

    The event is of the kernel alone (``:k``). Without that, perf samples the user's code alone where the kernel's samples are refused, and
    reports success.
    """
    missing = missing_tool("perf", "linux-perf")
    if missing:
        return missing
    return (
        None if _counts(KERNEL_EVENT) else _refused("samples of the kernel" if _counts(USER_EVENT) else "perf events")
    )


@functools.cache
def missing_user_samples() -> MissingRequirement | None:
    """Return why perf can't sample stacks of user code alone; None if it can, which needs no privilege by default."""
    return missing_tool("perf", "linux-perf") or (None if _counts(USER_EVENT) else _refused("perf events"))


def _counts(event: str) -> bool:
    result = _run(("perf", "stat", "-e", event, "--", "true"))
    return result is not None and result.returncode == 0 and "<not" not in result.stderr


def _refused(what: str) -> MissingRequirement:
    setting = text_of(Path("/proc/sys/kernel/perf_event_paranoid"))
    return MissingRequirement(
        f"the kernel refuses {what} (kernel.perf_event_paranoid={setting or 'unreadable'})",
        "sudo sysctl kernel.perf_event_paranoid=1; in a container also --cap-add PERFMON",
    )


@functools.cache
def tracing_wrapper() -> tuple[tuple[str, ...], MissingRequirement | None]:
    """Return the command prefix with which perf can use tracepoints, and why it can't.

    If tracefs is not mounted, the prefix mounts it in a mount namespace of the command.
    """
    if os.geteuid() != 0:
        readable = os.access(f"{TRACING}/events", os.R_OK | os.X_OK)
        return (), None if readable else MissingRequirement("tracefs needs root", "start swapstone as root")
    if Path(f"{TRACING}/events").is_dir():
        return (), None
    mount = f'mount -t tracefs tracefs {TRACING} && exec "$@"'
    wrapper = ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
    result = _run((*wrapper, "test", "-d", f"{TRACING}/events/syscalls"))
    if result is not None and result.returncode == 0:
        return wrapper, None
    return (), MissingRequirement(
        f"tracefs can't be mounted on {TRACING}"
        + (f": {result.stderr.strip()[:120]}" if result and result.stderr.strip() else ""),
        "a kernel with CONFIG_FTRACE_SYSCALLS=y; in a container: --privileged, or -v /sys/kernel/tracing:/sys/kernel/tracing",
    )


def missing_tracepoints() -> MissingRequirement | None:
    """Return why perf can't use tracepoints; None if it can.

    Root comes before the setting of the kernel's samples: without it, that setting alone would enable nothing.
    """
    return missing_tool("perf", "linux-perf") or tracing_wrapper()[1] or missing_perf()


def missing_kernel_names(symbols: Path = Path("/proc/kallsyms")) -> MissingRequirement | None:
    """Return why kernel functions have no names in stacks; None if they have. The kernel shows hidden addresses as zeros.

    Args:
        symbols: the kernel's list of symbols.
    """
    with contextlib.suppress(OSError, ValueError, IndexError), symbols.open() as opened:
        if any(int(line.split()[0], 16) for line, _ in zip(opened, range(50), strict=False)):
            return None
    return MissingRequirement(
        "the kernel hides its symbol addresses, so kernel functions in stacks have no names",
        "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1; or start swapstone as root",
    )


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
