# SPDX-License-Identifier: MIT OR Apache-2.0
"""The suites `os` and `unix` from the command line to their tables, in a virtual machine and on this one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.e2e.cli import runs_of, swapstone
from tests.programs import require

_ROW = re.compile(
    r"^(.{1,20}?) +(us|MB/s) +([0-9.]+) +([0-9.]+) +([0-9.]+)(?: \(no interval\))? +([0-9.]+)$", re.MULTILINE
)


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_lmbench_rows_of_a_virtual_machine_stand_beside_the_page(tmp_path: Path, exhaustive: bool) -> None:
    require("qemu-system-x86_64")
    only = ["lat_syscall(stat)"]  # each program of each library is a boot
    rows_of_the_page = {("stat", "us")}
    if exhaustive:
        only += ["bw_pipe", "lat_proc(shell)", "lat_ctx(2,0)", "lat_ctx(1,0)", "lat_udp", "lat_connect"]
        rows_of_the_page |= {
            ("Pipe", "MB/s"),
            ("sh proc", "us"),
            ("2p/0K ctxsw", "us"),
            ("UDP", "us"),
            ("TCP conn", "us"),
        }
    asked = [word for name in only for word in ("--only", name)]
    folder = tmp_path / "r"
    command = ("compare", "libc=glibc,musl", "--target", "vm", "--suite", "os", *asked, "--blocks", "1", "--all")
    made = swapstone(tmp_path, *command, "--out", str(folder))
    rows = {
        (found[1].strip(), found[2]): [float(each) for each in found.groups()[2:]]
        for found in _ROW.finditer(made.stdout)
    }
    assert set(rows) == rows_of_the_page
    for glibc, musl, ratio, page in rows.values():
        assert ratio == pytest.approx(musl / glibc, rel=0.01)
        assert page > 0
    runs = runs_of(folder)
    failed = [run for run in runs if not run["samples"]]
    assert failed == []
    checks = {(run["trial"]["workload"], run["check"]) for run in runs}
    assert len(checks) == len({workload for workload, _ in checks}) == len(only)


@pytest.mark.slow
def test_the_shell_of_unix_is_of_the_compared_c_library_on_the_host(tmp_path: Path) -> None:
    only = ("--only", "shell1 (1 copy)", "--only", "syscall (1 copy)")
    folder = tmp_path / "r"
    made = swapstone(
        tmp_path, "compare", "libc=glibc,musl", "--suite", "unix", *only, "--blocks", "1", "--all", "--out", str(folder)
    )
    assert "UnixBench's tests and index, one copy" in made.stdout
    assert "unavailable" in next(line for line in made.stdout.splitlines() if line.startswith("index "))
    assert [run for run in runs_of(folder) if not run["samples"]] == []
