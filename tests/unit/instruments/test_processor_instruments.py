# SPDX-License-Identifier: MIT OR Apache-2.0
"""The processor's counters, and sizes of pages: decoding, and what is unavailable."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.core.model.memory_phases import HUGE, RESIDENT
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import hardware, pages
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee
from swapstone.parts.explain.model.explanation import CYCLES, SLOTS

RECORDED = Path(__file__).parents[2] / "recorded" / "perf-stat-unsupported.txt"

# Made by hand in the format of perf-stat(1), section CSV FORMAT: no machine with counters was at hand.
COUNTED = """\
# started on Tue Nov 24 16:01:48 2026

1000000;;cycles:u;66585414;100.00;;
2500000;;instructions;66585414;83.20;2.50;insn per cycle
<not counted>;;branch-misses;0;0.00;;
77;;LLC-load-misses;66585414;100.00;;
12.50;;cache-misses:uk;66585414;16.60;;
4000000;;slots;66585414;100.00;;
1000000;;topdown-bad-spec;66585414;100.00;25.0;
"""


def test_counts_by_name() -> None:
    assert hardware.counted(COUNTED.splitlines()) == {
        CYCLES: 1e6,
        "instructions": 2.5e6,
        "misses of the last-level cache": 12.5,
        SLOTS: 4e6,
        "slots lost to bad speculation": 1e6,
    }


def test_a_machine_without_counters_is_unavailable() -> None:
    """The output of a virtual machine without a PMU, recorded with perf 6.1."""
    found = hardware.counted(RECORDED.read_text().splitlines())
    assert found == {}
    with pytest.raises(UnavailableError, match="the kernel counts no cycles here") as caught:
        hardware.require_cycles(found)
    assert "a machine with a PMU" in caught.value.hint


@pytest.mark.parametrize(
    "line", ["", ";;", "1e999;;cycles", "-5;;cycles", "9" * 40 + ";;cycles", "5;cycles", "5;;\x1b[2J"]
)
def test_other_lines_are_no_counts(line: str) -> None:
    assert hardware.counted([line]) == {}


def test_slots_are_counted_where_the_kernel_lists_them(tmp_path: Path) -> None:
    assert "{slots" not in " ".join(hardware.event_options(tmp_path))
    listed = tmp_path / "cpu_core" / "events"
    listed.mkdir(parents=True)
    (listed / "topdown-retiring").write_text("event=0x00,umask=0x80\n")
    assert hardware.event_options(tmp_path)[-1].startswith("{slots,topdown-retiring,")


ROLLUP = """\
55d4b7600000-7ffe0a5e5000 ---p 00000000 00:00 0                          [rollup]
Rss:              131072 kB
Pss:              131000 kB
AnonHugePages:    129024 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      2048 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
Rss: 99999999999999999999 kB
"""


def test_sizes_of_a_process() -> None:
    assert pages.sizes(ROLLUP.splitlines()) == {RESIDENT: 131072 << 10, HUGE: (129024 + 2048) << 10}
    assert pages.sizes(["Rss: x kB", "Rss 5 kB"]) == {RESIDENT: 0, HUGE: 0}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").is_file(), reason="the kernel has no smaps_rollup")
def test_the_memory_of_a_run_is_read_while_it_runs(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    wait = 'i=0; while [ "$i" -lt 200000 ]; do i=$((i + 1)); done'
    request = TrialRequest(id="x", arguments=(shell, "-c", wait), cwd="/", timeout_ms=60_000)
    found = pages.measure(Tracee("v", request, Region.PROGRAM), ReferenceRuns({"wall": 1e9}, (), tmp_path))
    sizes = {each.name: each.value for each in found.amounts}
    assert sizes[RESIDENT] >= 100 << 10
    assert sizes[HUGE] <= sizes[RESIDENT]
    assert set(dict(found.limits)["nice value"]) == {str(os.nice(0))}


def test_servers_have_no_counts_of_a_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swapstone.parts.explain.instruments.requirements.missing_perf", lambda: None)
    request = TrialRequest(id="x", arguments=("/s",), cwd="/", timeout_ms=1)
    with pytest.raises(UnavailableError, match="a server's start and end"):
        hardware.measure(Tracee("v", request, Region.DRIVEN), ReferenceRuns({}, (), tmp_path))
