# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boot parameters as levels, read back from real guests; and a kernel that hangs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e import known_program
from tests.e2e.cli import runs_of, swapstone
from tests.programs import require

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.uname().machine != "x86_64", reason="the latency suite of another machine takes minutes here"
    ),
]

# Halted without interrupts: such a machine takes no processor time of this one until the limit ends it.
_HANGS = """
    .section .note.pvh, "a"
    .long 4, 4, 18
    .asciz "Xen"
    .long start
    .section .text
    .globl start
start:
    cli
    hlt
    jmp start
    .asciz "Linux version 6.6.0-hangs (me@here) #1 SMP"
"""


def test_parameters_are_read_back_and_an_ignored_one_fails(tmp_path: Path) -> None:
    """What a kernel at a random address executes is not counted."""
    require(known_program.COMPILERS["x86_64"])
    known_program.build(tmp_path, "known", "x86_64", 1000)
    record = tmp_path / "r"
    levels = ("generic", "generic+drop:nokaslr+threadirqs+mitigations=auto", "generic+nohz_full=1")
    asked = (f"kernel={','.join(levels)}", "--blocks", "1", "--out", str(record), "--", "./known")
    result = swapstone(tmp_path, "compare", *asked, expect=4)
    runs = {run["trial"]["variant"].removeprefix("kernel="): run for run in runs_of(record)}
    assert set(runs) == set(levels)
    for level in levels[:2]:
        assert runs[level]["status"] == "ok" and dict(runs[level]["observed"])["kernel"] == level
        metrics = {each["metric"] for each in runs[level]["samples"]}
        assert ("instructions" in metrics, {"user", "system"} <= metrics) == (level == "generic", level != "generic")
    ignored = runs[levels[2]]
    assert ignored["status"] == "failed"
    assert "the kernel ignored the boot parameter nohz_full=1" in ignored["reason"]
    assert "nohz_full=1" in result.stdout
    tools = dict(json.loads((record / "manifest.json").read_text())["tools"])
    assert tools["base boot options"].startswith("quiet panic=-1 nokaslr")
    changed = tools[f"boot options of {levels[1]}"].split()
    assert "nokaslr" not in changed and "mitigations=off" not in changed and changed[-1] == "mitigations=auto"
    assert f"boot options of {levels[0]}" not in tools
    shown = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert "base boot options: quiet panic=-1" in shown
    assert f"system calls are not counted of {levels[1]}: its kernel is booted without nokaslr." in " ".join(
        shown.split()
    )
    assert "What was executed" not in shown
    assert "damaged" not in swapstone(tmp_path, "verify", str(record)).stdout


@pytest.mark.exhaustive
def test_a_kernel_that_hangs_is_ended_by_the_limit(tmp_path: Path) -> None:
    (tmp_path / "hangs.s").write_text(_HANGS)
    kernel = tmp_path / "vmlinux"
    link = ("-static", "-nostdlib", "-Wl,--build-id=none,-Ttext=0x200000,-e,start", "-no-pie")
    subprocess.run(["cc", *link, str(tmp_path / "hangs.s"), "-o", str(kernel)], check=True)
    record = tmp_path / "r"
    # The packaged kernel boots in less, also beside other work.
    asked = (
        f"kernel=generic,{kernel}+threadirqs",
        "--suite",
        "latency",
        "--blocks",
        "1",
        "--guest-timeout",
        "40s",
        "--out",
        str(record),
    )
    swapstone(tmp_path, "compare", *asked, expect=4)
    (run,) = (run for run in runs_of(record) if str(kernel) in run["trial"]["variant"])
    assert run["status"] == "failed"
    assert "it ran for more than 40 s of this machine's time (--guest-timeout)" in run["reason"]
