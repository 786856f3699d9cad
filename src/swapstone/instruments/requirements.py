"""What a machine lets instruments do, and what would allow the rest."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import subprocess
from pathlib import Path

TRACING = "/sys/kernel/tracing"
_PROBE_S = 30


@dataclasses.dataclass(frozen=True)
class Barrier:
    """Why something can't be had, and what would mend it."""

    reason: str
    mend: str


@functools.cache
def version_of(tool: str) -> str:
    """Return the first line that a tool says of its version; empty where it is not there."""
    if shutil.which(tool) is None:
        return ""
    said = _run((tool, "--version"))
    return (said.stdout.splitlines() or [""])[0] if said and said.returncode == 0 else ""


def tool_barrier(tool: str, package: str) -> Barrier | None:
    """Say why a tool can't be used; None where it can."""
    if shutil.which(tool) is None:
        return Barrier(f"the command {tool!r} is not installed", f"sudo apt-get install {package}")
    if not version_of(tool):
        return Barrier(f"{tool} doesn't start: it may be built for another kernel", f"sudo apt-get install {package}")
    return None


@functools.cache
def perf_barrier() -> Barrier | None:
    """Say why perf can't take stacks of user and kernel here; None where it can."""
    missing = tool_barrier("perf", "linux-perf")
    if missing:
        return missing
    said = _run(("perf", "stat", "-e", "cpu-clock", "--", "true"))
    if said is not None and said.returncode == 0:
        return None
    setting = _read("/proc/sys/kernel/perf_event_paranoid")
    return Barrier(
        f"the kernel refuses perf events (kernel.perf_event_paranoid={setting or 'unreadable'})",
        "sudo sysctl kernel.perf_event_paranoid=1; in a container also --cap-add PERFMON",
    )


@functools.cache
def tracing_wrapper() -> tuple[str, ...] | Barrier:
    """Return the command before perf with which tracepoints can be used, or why they can't.

    Where tracefs is not mounted it is mounted in a mount namespace of the command's own, so that nothing else sees it.
    """
    if os.geteuid() != 0:
        readable = os.access(f"{TRACING}/events", os.R_OK | os.X_OK)
        return (
            ()
            if readable
            else Barrier("tracepoints need root, or a readable tracefs", f"sudo mount -o remount,mode=755 {TRACING}")
        )
    if Path(f"{TRACING}/events").is_dir():
        return ()
    mount = f'mount -t tracefs tracefs {TRACING} && exec "$@"'
    wrapper = ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh")
    said = _run((*wrapper, "test", "-d", f"{TRACING}/events/syscalls"))
    if said is not None and said.returncode == 0:
        return wrapper
    return Barrier(
        f"tracefs can't be mounted on {TRACING}"
        + (f": {said.stderr.strip()[:120]}" if said and said.stderr.strip() else ""),
        "a kernel with CONFIG_FTRACE_SYSCALLS=y; in a container: --privileged, or -v /sys/kernel/tracing:/sys/kernel/tracing",
    )


@functools.cache
def uprobe_barrier() -> Barrier | None:
    """Say why calls of malloc and memcpy can't be counted by probes here; None where they can."""
    missing = perf_barrier()
    if missing:
        return missing
    wrapper = tracing_wrapper()
    if isinstance(wrapper, Barrier):
        return wrapper
    said = _run((*wrapper, "test", "-w", f"{TRACING}/uprobe_events"))
    if said is not None and said.returncode == 0:
        return None
    return Barrier(
        "this kernel, or this user, has no probes of user code", "root, and a kernel with CONFIG_UPROBE_EVENTS=y"
    )


def kernel_names_barrier(symbols: Path = Path("/proc/kallsyms")) -> Barrier | None:
    """Say why the kernel's functions have no names in stacks; None where they have. Hidden addresses are shown as zeros.

    Args:
        symbols: the kernel's list of its symbols.
    """
    try:
        with symbols.open() as opened:
            shown = any(int(line.split()[0], 16) for line, _ in zip(opened, range(50), strict=False))
    except (OSError, ValueError, IndexError):
        shown = False
    if shown:
        return None
    return Barrier(
        "the kernel hides its addresses, so what a thread waits for in it has no name",
        "sudo sysctl kernel.kptr_restrict=0; or root",
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
