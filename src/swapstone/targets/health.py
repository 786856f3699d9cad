# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks this machine for causes of noisy timings: the findings of ``swapstone doctor``."""

from __future__ import annotations

import enum
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from swapstone.model import FrozenStruct


class State(enum.Enum):
    """The severity of a finding."""

    GOOD = "good"
    NOISY = "noisy"  # timings will spread more, or drift
    MISSING = "missing"  # something is unavailable
    UNKNOWN = "unknown"  # the machine does not report it


class Finding(FrozenStruct, frozen=True, kw_only=True):
    """The result of one check.

    Attributes:
        name: of the check.
        state: severity.
        found: the observed value.
        meaning: consequence for measurements; empty if the state is good.
        remedy: a command that fixes it; empty if there is none or nothing to fix.
    """

    name: str
    state: State
    found: str
    meaning: str = ""
    remedy: str = ""


_COUNT = re.compile("[0-9]{1,20}")
_PERCENTAGE = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,2})?")


class HostFiles:
    """The files of ``/proc`` and ``/sys`` that the checks read.

    Args:
        root: the folder that contains ``proc`` and ``sys``; another one for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str:
        """Return a file's text without leading and trailing space; empty if it does not exist or can't be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace").strip()
        except OSError:
            return ""

    def processors(self) -> int:
        """Return how many processors trials may use."""
        return len(os.sched_getaffinity(0))

    def free_bytes(self) -> int | None:
        """Return the free space for records, in the working folder; None if it is unknown."""
        return shutil.disk_usage(Path.cwd()).free

    def texts(self, pattern: str) -> list[str]:
        """Return the texts of all files that match a pattern (glob)."""
        return [self.text(str(path.relative_to(self.root))) for path in sorted(self.root.glob(pattern.lstrip("/")))]


def examine(machine: HostFiles | None = None) -> tuple[Finding, ...]:
    """Run all checks.

    Returns:
        One finding for each check, in a fixed order.
    """
    return tuple(check(machine or HostFiles()) for check in _CHECKS)


def _governor(machine: HostFiles) -> Finding:
    governors = sorted(set(machine.texts("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")))
    if not governors:
        return Finding(
            name="governor",
            state=State.UNKNOWN,
            found="no cpufreq",
            meaning="the host of a virtual machine controls the clock rate",
        )
    if governors == ["performance"]:
        return Finding(name="governor", state=State.GOOD, found="performance")
    return Finding(
        name="governor",
        state=State.NOISY,
        found=", ".join(governors),
        meaning="the clock rate follows the load, so the first milliseconds of a trial run slower",
        remedy="sudo cpupower frequency-set -g performance",
    )


def _turbo(machine: HostFiles) -> Finding:
    switches = (
        (
            "/sys/devices/system/cpu/intel_pstate/no_turbo",
            "0",
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
        ),
        ("/sys/devices/system/cpu/cpufreq/boost", "1", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"),
    )
    for path, on, remedy in switches:
        value = machine.text(path)
        if value == on:
            meaning = "the clock rate depends on heat and on what the other cores do"
            return Finding(name="turbo", state=State.NOISY, found="on", meaning=meaning, remedy=remedy)
        if value:
            return Finding(name="turbo", state=State.GOOD, found="off")
    return Finding(name="turbo", state=State.UNKNOWN, found="no switch for it")


def _smt(machine: HostFiles) -> Finding:
    active = machine.text("/sys/devices/system/cpu/smt/active")
    if active == "1":
        return Finding(
            name="SMT",
            state=State.NOISY,
            found="on",
            meaning="another thread on the same core takes part of its time without showing as load",
            remedy="echo off | sudo tee /sys/devices/system/cpu/smt/control",
        )
    if active == "0":
        return Finding(name="SMT", state=State.GOOD, found="off, or none")
    return Finding(name="SMT", state=State.UNKNOWN, found="not reported by this kernel")


def _pressure(machine: HostFiles) -> Finding:
    line = machine.text("/proc/pressure/cpu").split("\n")[0]
    fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
    share = _share(fields.get("avg10", ""))
    if share is None:
        return Finding(
            name="CPU pressure",
            state=State.UNKNOWN,
            found="no /proc/pressure",
            meaning="a report can't show whether the machine was busy",
            remedy="boot a kernel with CONFIG_PSI=y, with psi=1 on its command line",
        )
    if share <= 5:
        return Finding(name="CPU pressure", state=State.GOOD, found=f"{share:g} % of the last 10 s")
    return Finding(
        name="CPU pressure",
        state=State.NOISY,
        found=f"{share:g} % of the last 10 s",
        meaning="other tasks compete for the processors; above 20 % a report leads with CPU time",
        remedy="find them with: top -o %CPU",
    )


def _share(text: str) -> float | None:
    """Return a percentage as the kernel prints it; None for another text."""
    return float(text) if _PERCENTAGE.fullmatch(text) else None


def _virtual(machine: HostFiles) -> Finding:
    if " hypervisor" not in machine.text("/proc/cpuinfo"):
        return Finding(name="virtual machine", state=State.GOOD, found="none seen")
    maker = machine.text("/sys/class/dmi/id/sys_vendor") or "unnamed hypervisor"
    return Finding(
        name="virtual machine",
        state=State.NOISY,
        found=maker,
        meaning="its host may preempt the processor at any time; steal time is recorded around every trial",
    )


def _steal(machine: HostFiles) -> Finding:
    fields = machine.text("/proc/stat").split("\n")[0].split()
    if len(fields) < 9 or not all(map(_COUNT.fullmatch, fields[1:])):
        return Finding(name="stolen time", state=State.UNKNOWN, found="not reported by this kernel")
    times = [int(field) for field in fields[1:]]
    share = 100 * times[7] / max(1, sum(times))
    state = State.NOISY if share > 1 else State.GOOD
    meaning = "the hypervisor took this share of the processors since boot" if share > 1 else ""
    return Finding(name="stolen time", state=state, found=f"{share:.2f} % since boot", meaning=meaning)


def _aslr(machine: HostFiles) -> Finding:
    value = machine.text("/proc/sys/kernel/randomize_va_space")
    if value == "2":
        return Finding(
            name="ASLR",
            state=State.GOOD,
            found="on",
            meaning="each run has a random layout, so the intervals include that spread; without ASLR one layout would be measured",
        )
    if value:
        return Finding(
            name="ASLR",
            state=State.NOISY,
            found="off" if value == "0" else "partly on",
            meaning="every run has the same layout: a difference may be that of two layouts, not of two levels",
            remedy="sudo sysctl kernel.randomize_va_space=2",
        )
    return Finding(name="ASLR", state=State.UNKNOWN, found="not reported by this kernel")


def _clock(machine: HostFiles) -> Finding:
    source = machine.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    slow = source in {"hpet", "acpi_pm", "jiffies"}
    return Finding(
        name="clock source",
        state=State.NOISY if slow else State.GOOD if source else State.UNKNOWN,
        found=source or "not reported by this kernel",
        meaning="reading the time takes a system call of a microsecond" if slow else "",
        remedy="boot with tsc=reliable, if the processor's TSC is" if slow else "",
    )


def _swap(machine: HostFiles) -> Finding:
    fields = dict(line.split(":", 1) for line in machine.text("/proc/meminfo").splitlines() if ":" in line)
    try:
        used_kib = int(fields["SwapTotal"].split()[0]) - int(fields["SwapFree"].split()[0])
    except (KeyError, ValueError, IndexError):
        return Finding(name="swap in use", state=State.UNKNOWN, found="not reported by this kernel")
    if used_kib < 1024:
        return Finding(name="swap in use", state=State.GOOD, found="none")
    return Finding(
        name="swap in use",
        state=State.NOISY,
        found=f"{used_kib // 1024} MiB",
        meaning="a trial may wait for the disk",
        remedy="sudo swapoff -a && sudo swapon -a, when there is memory enough",
    )


def _huge_pages(machine: HostFiles) -> Finding:
    text = machine.text("/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen == "always":
        return Finding(
            name="huge pages",
            state=State.NOISY,
            found="always",
            meaning="memory figures depend on when the kernel merges pages, and allocators differ in that",
            remedy="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )
    return Finding(name="huge pages", state=State.GOOD if chosen else State.UNKNOWN, found=chosen or "none")


def _cores(machine: HostFiles) -> Finding:
    count = machine.processors()
    if count > 1:
        return Finding(name="processors", state=State.GOOD, found=str(count))
    return Finding(
        name="processors",
        state=State.NOISY,
        found="1",
        meaning="the trials share their processor with all other processes, and threads can't run in parallel",
    )


def _disk(machine: HostFiles) -> Finding:
    free = machine.free_bytes()
    if free is None:
        return Finding(name="free disk", state=State.UNKNOWN, found="not reported")
    if free > 1024**3:
        return Finding(name="free disk", state=State.GOOD, found=f"{free / 1024**3:.0f} GiB")
    return Finding(
        name="free disk",
        state=State.MISSING,
        found=f"{free / 1024**2:.0f} MiB",
        meaning="a record of a whole study takes some tens of MiB, and a trial may write up to 1 GiB",
        remedy="free some space, or name another disk with --out",
    )


_CHECKS: tuple[Callable[[HostFiles], Finding], ...] = (
    _cores,
    _virtual,
    _steal,
    _pressure,
    _governor,
    _turbo,
    _smt,
    _aslr,
    _huge_pages,
    _swap,
    _clock,
    _disk,
)
