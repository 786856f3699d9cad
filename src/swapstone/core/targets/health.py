# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks this machine for causes of noisy timings: the findings of ``swapstone doctor``."""

from __future__ import annotations

import enum
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from swapstone.core.factors import Level
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.regular_file import text_of


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


class MachineFindings(NamedTuple):
    """What a part finds of this machine, which it provides as the kind ``findings``.

    Attributes:
        order: findings are printed by it.
        find: makes the checks.
        of_levels: by factor, a function that describes a level whose tools are all installed.
        exact: makes runs on the exact clock, and returns for each whether its output is the certified one. It calls its argument with a
            line before each long step.
    """

    order: int
    find: Callable[[], Sequence[Finding]] = tuple
    of_levels: Mapping[str, Callable[[Level], str]] = {}
    exact: Callable[[Callable[[str], None]], Sequence[Finding]] | None = None


class HostFiles:
    """The files of ``/proc`` and ``/sys`` that the checks read.

    Args:
        root: the folder that contains ``proc`` and ``sys``; another one for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str:
        """Return a file's text without leading and trailing space; empty if it does not exist or can't be read."""
        return text_of(self.root / path.lstrip("/"))

    def processors(self) -> int:
        """Return how many processors trials may use."""
        return len(os.sched_getaffinity(0))

    def free_bytes(self) -> int | None:
        """Return the free space for records, in the working folder; None if it is unknown."""
        return shutil.disk_usage(Path.cwd()).free

    def texts(self, pattern: str) -> list[str]:
        """Return the texts of all files that match a pattern (glob)."""
        return [self.text(str(path.relative_to(self.root))) for path in sorted(self.root.glob(pattern.lstrip("/")))]


class _Seen(NamedTuple):
    """What a machine shows: how severe that is, in words, and a detail for the remedy."""

    state: State
    found: str
    detail: str = ""


class _Check(NamedTuple):
    """A check: what it reads, and for states what they mean and the command that changes them; ``{}`` in it is the detail."""

    name: str
    probe: Callable[[HostFiles], _Seen]
    advice: Mapping[State, tuple[str, str]]


def examine(machine: HostFiles | None = None) -> tuple[Finding, ...]:
    """Run all checks.

    Returns:
        One finding for each check, in a fixed order.
    """
    files, findings = machine or HostFiles(), []
    for check in _CHECKS:
        state, found, detail = check.probe(files)
        meaning, remedy = check.advice.get(state, ("", ""))
        remedy = remedy.format(detail)
        findings.append(Finding(name=check.name, state=state, found=found, meaning=meaning, remedy=remedy))
    return tuple(findings)


def ability(
    name: str,
    trouble: tuple[str, str] | None,
    found: Callable[[], str],
    meaning: str = "{}",
    absent: str = "unavailable",
) -> Finding:
    """Return whether something can be used.

    Args:
        name: of the finding.
        trouble: why it can't, and what enables it; None if it can.
        found: returns the observed value if it can.
        meaning: consequence if it can't; ``{}`` in it stands for the first text of `trouble`.
        absent: the observed value if it can't.
    """
    if trouble is None:
        return Finding(name=name, state=State.GOOD, found=found())
    reason, remedy = trouble
    text = meaning.format(reason if meaning.endswith("{}") else reason.rstrip("."))
    return Finding(name=name, state=State.MISSING, found=absent, meaning=text, remedy=remedy)


def trouble_of(attempt: Callable[[], object]) -> tuple[str, str] | None:
    """Return message and hint of the `UserError` that an attempt raises; None if it raises none."""
    try:
        attempt()
    except UserError as error:
        return error.message, error.hint
    return None


_UNREPORTED = _Seen(State.UNKNOWN, "not reported by this kernel")
_OTHER = ""
"""Key of a table of `_looked_up` for all texts that the table does not have."""


def _looked_up(path: str, table: Mapping[str | None, _Seen], form: str = "(.+)") -> Callable[[HostFiles], _Seen]:
    """Return a probe that looks a file's text up, or what a group of a regular expression finds in it; ``{}`` stands for it."""

    def probe(machine: HostFiles) -> _Seen:
        match = re.search(form, machine.text(path))
        state, found, detail = table.get(match[1], table[_OTHER]) if match else table.get(None, _UNREPORTED)
        return _Seen(state, found.format(match and match[1]), detail)

    return probe


def _up_to(most: float, value: float | None, found: str, absent: _Seen = _UNREPORTED) -> _Seen:
    """Return the severity of a number of which more than `most` disturbs."""
    if value is None:
        return absent
    return _Seen(State.NOISY if value > most else State.GOOD, found.format(value))


def _governor(machine: HostFiles) -> _Seen:
    found = sorted(set(machine.texts("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")))
    if not found:
        return _Seen(State.UNKNOWN, "no cpufreq")
    return _Seen(State.GOOD if found == ["performance"] else State.NOISY, ", ".join(found))


_TURBO_SWITCHES = (("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0"))
"""Files with their contents while turbo is on, and off."""


def _turbo(machine: HostFiles) -> _Seen:
    for name, on, off in _TURBO_SWITCHES:
        path = f"/sys/devices/system/cpu/{name}"
        if value := machine.text(path):
            noisy = _Seen(State.NOISY, "on", f"echo {off} | sudo tee {path}")
            return noisy if value == on else _Seen(State.GOOD, "off")
    return _Seen(State.UNKNOWN, "no switch for it")


def _pressure(machine: HostFiles) -> _Seen:
    found = re.match(r".*\bavg10=([0-9]{1,3}(?:\.[0-9]{1,2})?)(?!\S)", machine.text("/proc/pressure/cpu"))
    absent = _Seen(State.UNKNOWN, "no /proc/pressure")
    return _up_to(5, float(found[1]) if found else None, "{:g} % of the last 10 s", absent)


def _steal(machine: HostFiles) -> _Seen:
    found = re.match(r"\S+((?: +[0-9]{1,20}){8,}) *$", machine.text("/proc/stat"), re.MULTILINE)
    times = [int(field) for field in found[1].split()] if found else []
    return _up_to(1, 100 * times[7] / max(1, sum(times)) if times else None, "{:.2f} % since boot")


def _swap(machine: HostFiles) -> _Seen:
    kib = dict(re.findall(r"^(SwapTotal|SwapFree): *([0-9]{1,18})\b", machine.text("/proc/meminfo"), re.MULTILINE))
    used_mib = (int(kib["SwapTotal"]) - int(kib["SwapFree"])) // 1024 if len(kib) == 2 else None
    return _up_to(0, used_mib, "{} MiB" if used_mib and used_mib > 0 else "none")


def _cores(machine: HostFiles) -> _Seen:
    count = machine.processors()
    return _Seen(State.GOOD if count > 1 else State.NOISY, str(count))


def _disk(machine: HostFiles) -> _Seen:
    free = machine.free_bytes()
    if free is None:
        return _Seen(State.UNKNOWN, "not reported")
    if free > 1024**3:
        return _Seen(State.GOOD, f"{free / 1024**3:.0f} GiB")
    return _Seen(State.MISSING, f"{free / 1024**2:.0f} MiB")


def _virtual(machine: HostFiles) -> _Seen:
    if " hypervisor" not in machine.text("/proc/cpuinfo"):
        return _Seen(State.GOOD, "none seen")
    return _Seen(State.NOISY, machine.text("/sys/class/dmi/id/sys_vendor") or "unnamed hypervisor")


_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_SLOW_CLOCK = _Seen(State.NOISY, "{}")
_GOOD_AS_READ = _Seen(State.GOOD, "{}")

_CHECKS = (
    _Check(
        "processors",
        _cores,
        {
            State.NOISY: (
                "the trials share their processor with all other processes, and threads can't run in parallel",
                "",
            )
        },
    ),
    _Check(
        "virtual machine",
        _virtual,
        {
            State.NOISY: (
                "its host may preempt the processor at any time; steal time is recorded around every trial",
                "",
            )
        },
    ),
    _Check("stolen time", _steal, {State.NOISY: ("the hypervisor took this share of the processors since boot", "")}),
    _Check(
        "CPU pressure",
        _pressure,
        {
            State.UNKNOWN: (
                "a report can't show whether the machine was busy",
                "boot a kernel with CONFIG_PSI=y, with psi=1 on its command line",
            ),
            State.NOISY: (
                "other tasks compete for the processors; above 20 % a report leads with CPU time",
                "find them with: top -o %CPU",
            ),
        },
    ),
    _Check(
        "governor",
        _governor,
        {
            State.UNKNOWN: ("the host of a virtual machine controls the clock rate", ""),
            State.NOISY: (
                "the clock rate follows the load, so the first milliseconds of a trial run slower",
                "sudo cpupower frequency-set -g performance",
            ),
        },
    ),
    _Check("turbo", _turbo, {State.NOISY: ("the clock rate depends on heat and on what the other cores do", "{}")}),
    _Check(
        "SMT",
        _looked_up(
            "/sys/devices/system/cpu/smt/active",
            {"1": _Seen(State.NOISY, "on"), "0": _Seen(State.GOOD, "off, or none"), _OTHER: _UNREPORTED},
        ),
        {
            State.NOISY: (
                "another thread on the same core takes part of its time without showing as load",
                "echo off | sudo tee /sys/devices/system/cpu/smt/control",
            )
        },
    ),
    _Check(
        "ASLR",
        _looked_up(
            "/proc/sys/kernel/randomize_va_space",
            {
                "2": _Seen(State.GOOD, "on"),
                "0": _Seen(State.NOISY, "off"),
                _OTHER: _Seen(State.NOISY, "partly on"),
            },
        ),
        {
            State.GOOD: (
                "each run has a random layout, so the intervals include that spread; without ASLR one layout would be measured",
                "",
            ),
            State.NOISY: (
                "every run has the same layout: a difference may be that of two layouts, not of two levels",
                "sudo sysctl kernel.randomize_va_space=2",
            ),
        },
    ),
    _Check(
        "huge pages",
        _looked_up(
            _HUGE_PAGES,
            {"always": _Seen(State.NOISY, "always"), _OTHER: _GOOD_AS_READ, None: _Seen(State.UNKNOWN, "none")},
            r"\[(.+?)\]",
        ),
        {
            State.NOISY: (
                "memory figures depend on when the kernel merges pages, and allocators differ in that",
                f"echo madvise | sudo tee {_HUGE_PAGES}",
            )
        },
    ),
    _Check(
        "swap in use",
        _swap,
        {
            State.NOISY: (
                "a trial may wait for the disk",
                "sudo swapoff -a && sudo swapon -a, when there is memory enough",
            )
        },
    ),
    _Check(
        "clock source",
        _looked_up(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            {**dict.fromkeys(("hpet", "acpi_pm", "jiffies"), _SLOW_CLOCK), _OTHER: _GOOD_AS_READ},
        ),
        {
            State.NOISY: (
                "reading the time takes a system call of a microsecond",
                "boot with tsc=reliable, if the processor's TSC is",
            )
        },
    ),
    _Check(
        "free disk",
        _disk,
        {
            State.MISSING: (
                "a record of a whole study takes some tens of MiB, and a trial may write up to 1 GiB",
                "free some space, or name another disk with --out",
            )
        },
    ),
)
