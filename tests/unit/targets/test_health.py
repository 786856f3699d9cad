# SPDX-License-Identifier: MIT OR Apache-2.0
"""The doctor's findings on simulated ``/proc`` and ``/sys`` trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.targets.health import Finding, HostFiles, State, examine

CPU = "sys/devices/system/cpu"


def _files(root: Path, files: dict[str, str]) -> dict[str, Finding]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {finding.name: finding for finding in examine(HostFiles(root))}


def test_a_machine_without_these_files_has_unknown_findings(tmp_path: Path) -> None:
    found = _files(tmp_path, {})
    silent = (
        "governor",
        "turbo",
        "SMT",
        "CPU pressure",
        "stolen time",
        "ASLR",
        "huge pages",
        "swap in use",
        "clock source",
    )
    assert {name: found[name].state for name in silent} == dict.fromkeys(silent, State.UNKNOWN)


CASES = [
    ("governor", {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance"}, State.GOOD, ""),
    (
        "governor",
        {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave"},
        State.NOISY,
        "cpupower frequency-set -g performance",
    ),
    (
        "governor",
        {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance", f"{CPU}/cpu1/cpufreq/scaling_governor": "ondemand"},
        State.NOISY,
        "cpupower",
    ),
    ("turbo", {f"{CPU}/intel_pstate/no_turbo": "0"}, State.NOISY, "no_turbo"),
    ("turbo", {f"{CPU}/intel_pstate/no_turbo": "1"}, State.GOOD, ""),
    ("turbo", {f"{CPU}/cpufreq/boost": "1"}, State.NOISY, "cpufreq/boost"),
    ("SMT", {f"{CPU}/smt/active": "1"}, State.NOISY, "smt/control"),
    ("SMT", {f"{CPU}/smt/active": "0"}, State.GOOD, ""),
    ("CPU pressure", {"proc/pressure/cpu": "some avg10=0.50 avg60=1.00 avg300=1.00 total=5\n"}, State.GOOD, ""),
    ("CPU pressure", {"proc/pressure/cpu": "some avg10=55.00 avg60=1.00 avg300=1.00 total=5\n"}, State.NOISY, "top"),
    ("virtual machine", {"proc/cpuinfo": "flags : fpu hypervisor lm\n"}, State.NOISY, ""),
    ("virtual machine", {"proc/cpuinfo": "flags : fpu lm\n"}, State.GOOD, ""),
    ("stolen time", {"proc/stat": "cpu  10 0 10 70 0 0 0 10 0 0\n"}, State.NOISY, ""),
    ("stolen time", {"proc/stat": "cpu  10 0 10 80 0 0 0 0 0 0\n"}, State.GOOD, ""),
    ("ASLR", {"proc/sys/kernel/randomize_va_space": "2"}, State.GOOD, ""),
    ("ASLR", {"proc/sys/kernel/randomize_va_space": "0"}, State.NOISY, "randomize_va_space=2"),
    ("huge pages", {"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"}, State.NOISY, "madvise"),
    ("huge pages", {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"}, State.GOOD, ""),
    ("swap in use", {"proc/meminfo": "SwapTotal: 8192 kB\nSwapFree: 2048 kB\n"}, State.NOISY, "swapoff"),
    ("swap in use", {"proc/meminfo": "SwapTotal: 0 kB\nSwapFree: 0 kB\n"}, State.GOOD, ""),
    ("clock source", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}, State.NOISY, "tsc"),
    ("clock source", {"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc"}, State.GOOD, ""),
]


@pytest.mark.parametrize(("name", "files", "state", "remedy"), CASES)
def test_each_finding_has_its_state_and_remedy(
    tmp_path: Path, name: str, files: dict[str, str], state: State, remedy: str
) -> None:
    finding = _files(tmp_path, files)[name]
    assert finding.state is state
    assert remedy in finding.remedy
    assert bool(finding.meaning) or state is State.GOOD


def test_this_machine_has_each_finding_once() -> None:
    names = [finding.name for finding in examine()]
    assert len(names) == len(set(names)) == 12


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("CPU pressure", "proc/pressure/cpu", "some avg10=x avg60=0"),
        ("CPU pressure", "proc/pressure/cpu", "some avg10=1e999"),
        ("stolen time", "proc/stat", "cpu 1 2 3 4 5 6 7 x"),
        ("stolen time", "proc/stat", "cpu 1 2 3 4 5 6 7 " + "9" * 5000),
        ("swap in use", "proc/meminfo", "SwapTotal: x kB\nSwapFree: \n"),
    ],
)
def test_a_file_of_another_form_is_unknown(tmp_path: Path, name: str, path: str, text: str) -> None:
    assert _files(tmp_path, {path: text})[name].state is State.UNKNOWN
