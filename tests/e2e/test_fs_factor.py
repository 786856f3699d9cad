# SPDX-License-Identifier: MIT OR Apache-2.0
"""`fs=`: root file systems in virtual machines, from the command line to the record."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.session.request import default_suites
from swapstone.core.session.study_file import load_study
from tests.e2e.cli import runs_of, swapstone
from tests.programs import require


def test_the_study_compares_levels_on_the_suite_of_the_factor() -> None:
    study = load_study("fs")
    (choice,) = study.factor
    assert parse_choice(f"fs={','.join(choice.levels)}").levels == choice.levels
    assert study.settings.workloads.suites == default_suites((parse_choice("fs=ext4,erofs"),), ()) == ("fs",)


def test_it_is_refused_where_no_machine_boots(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "fs=ext4,erofs", "--target", "host", expect=2)
    assert "the factor fs needs one" in result.stderr and "--target vm" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_each_level_is_mounted_and_one_that_the_kernel_lacks_is_named(tmp_path: Path, exhaustive: bool) -> None:
    for program in ("qemu-system-x86_64", "mksquashfs"):
        require(program)
    record = tmp_path / "r"
    asked = ("fs=squashfs:lz4,ext4,squashfs:lzma", "--blocks", "1", "--seed", "4")
    done = swapstone(tmp_path, "compare", *asked, "--out", str(record), expect=4)
    assert "The machine's kernel can't mount squashfs:lzma" in done.stdout
    assert 'Filesystem uses "lzma" compression. This is not supported' in done.stdout.replace("\n", " ")
    runs = {
        (run["trial"]["workload"], run["trial"]["variant"]): run
        for run in runs_of(record)
        if run["trial"]["block"] == 1
    }
    assert len(runs) == 9
    figures = {}
    for (work, variant), run in runs.items():
        if variant == "fs=squashfs:lzma":
            assert run["status"] != "ok" and not run["samples"]
            continue
        assert (run["status"], f"fs={dict(run['observed'])['fs']}") == ("ok", variant)
        figures[work, variant] = {sample["metric"]: sample["values"][0] for sample in run["samples"]}
    small, large = "fs=squashfs:lz4", "fs=ext4"
    assert figures["boot", small]["image_bytes"] < figures["boot", large]["image_bytes"]
    for variant in (small, large):
        boot, cold, warm = (figures[work, variant] for work in ("boot", "cold-read", "warm-read"))
        # Nothing of the device was in memory before the cold read, and everything was before the warm one.
        assert cold["device_bytes"] > 0.9 * boot["image_bytes"] and warm["device_bytes"] == 0
        assert 0 < boot["device_bytes"] < cold["device_bytes"]
        assert warm["read_time"] < cold["busy"] < cold["read_time"]
        assert 0 < cold["memory_kept"] < cold["memory"]
    if exhaustive:  # else test_vm_target.py recomputes trials
        verified = swapstone(tmp_path, "verify", str(record), "--recompute", "2").stdout
        assert "2 of 2 trials gave the same bytes" in verified
