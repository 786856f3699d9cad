# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swap=`: flash and zram in virtual machines, from the command line to the record."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.session.request import default_suites
from swapstone.core.session.study_file import load_study
from tests.e2e.cli import runs_of, swapstone
from tests.programs import require


def test_a_machine_factor_has_a_default_suite() -> None:
    swap, libc = parse_choice("swap=flash,zram:lz4"), parse_choice("libc=glibc,musl")
    assert default_suites((swap,), ()) == ("swap",)
    assert default_suites((libc, swap), ()) == ("swap",)
    assert default_suites((libc,), ()) == ("libc",)
    assert default_suites((), ()) == ("libc",)
    assert default_suites((swap,), ("fill*",)) == ("swap",)
    assert default_suites((swap,), ("b_string_strlen",)) == ("libc",)
    assert default_suites((parse_choice("kernel=generic,rt"),), ()) == ("latency",)


def test_the_study_compares_the_published_devices() -> None:
    study = load_study("zram-vs-flash")
    wanted = study.settings.workloads
    assert (wanted.published, wanted.suites) == ("zram-vs-flash", ("swap",))
    assert [(factor.name, factor.levels[0]) for factor in study.factor] == [("swap", "flash")]
    assert parse_choice(f"swap={','.join(study.factor[0].levels)}").levels == study.factor[0].levels


def test_swap_is_refused_on_the_host(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "swap=flash,zram:lz4", "--target", "host", expect=2)
    assert "the factor swap needs one" in result.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_only_swap_to_flash_writes_to_flash_and_a_missing_algorithm_is_named(tmp_path: Path, exhaustive: bool) -> None:
    require("qemu-system-x86_64")
    record = tmp_path / "r"
    asked = ("swap=flash,zram:lz4,zram:842", "--only", "fill (100 % random)", "--blocks", "1", "--seed", "4")
    swapstone(tmp_path, "compare", *asked, "--out", str(record), expect=4)
    runs = {run["trial"]["variant"]: run for run in runs_of(record) if run["trial"]["block"] == 1}
    flash, zram, missing = (runs[f"swap={level}"] for level in ("flash", "zram:lz4", "zram:842"))
    assert (flash["status"], dict(flash["observed"])["swap"]) == ("ok", "flash")
    assert (zram["status"], dict(zram["observed"])["swap"]) == ("ok", "zram:lz4")
    assert missing["status"] == "failed"
    assert "zram has no algorithm 842; it has: lzo [lzo-rle] lz4" in missing["reason"]

    def figures(run: dict[str, object]) -> dict[str, float]:
        return {sample["metric"]: sample["values"][0] for sample in run["samples"]}  # type: ignore[attr-defined] # JSON

    on_flash, on_zram = figures(flash), figures(zram)
    assert on_zram["flash_written"] == 0 < on_zram["swapped_out"]
    assert on_flash["flash_written"] == on_flash["swapped_out"] > 200 << 20
    # zram stores random data uncompressed, so that swapping out frees no memory.
    assert on_zram["compression"] < 1.1 and on_flash["compression"] == 1
    assert on_zram["reached"] < on_flash["reached"]
    series = {sample["metric"]: sample["values"] for sample in flash["series"]}
    assert sum(series["so"]) * 1024 == on_flash["swapped_out"]
    assert max(series["swpd"]) <= 256 << 10
    assert json.loads((record / "experiment.json").read_text())["target"] == "vm"
    if exhaustive:  # else test_vm_target.py recomputes trials
        assert (
            "2 of 2 trials gave the same bytes" in swapstone(tmp_path, "verify", str(record), "--recompute", "2").stdout
        )


@pytest.mark.slow
@pytest.mark.exhaustive  # test_vm.py shows that replicates differ, on a machine without a slow device
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_replicates_of_a_slow_device_differ(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("swap=flash,zram:lz4", "--only", "fill (0 % random)", "--blocks", "2", "--seed", "4")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    lengths = [
        sample["values"][0] for run in runs_of(record) for sample in run["samples"] if sample["metric"] == "until_kill"
    ]
    assert len(lengths) == len(set(lengths)) == 4, "two replicates are equal to the nanosecond"
