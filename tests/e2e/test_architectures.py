# SPDX-License-Identifier: MIT OR Apache-2.0
"""Comparisons in virtual machines of other architectures: both C libraries run there, and several architectures are compared at once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError
from swapstone.parts.build.artifacts.cross_compilers import check_cross
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from tests.contract.vm_images import need_emulator
from tests.e2e.cli import runs_of, swapstone
from tests.programs import require

ONE = ("--only", "b_string_strlen", "--blocks", "1", "--seed", "4")


def need(architecture: str) -> None:
    """Skip a test where machines of an architecture can't be emulated, or programs for it can't be built."""
    machine = find_machine_architecture(architecture).machine
    need_emulator(machine)
    try:
        for libc in ("glibc", "musl"):
            check_cross(machine, "gcc", libc)
    except UnavailableError as error:
        pytest.skip(error.message)


@pytest.mark.slow
@pytest.mark.exhaustive  # a test below compares both on x86_64 and arm64
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the architectures are foreign ones on x86_64")
@pytest.mark.parametrize(
    ("architecture", "machine"),
    [
        ("arm64", "aarch64"),
        ("armhf", "armv7l"),
        ("riscv64", "riscv64"),  # test_image.py boots it
    ],
)
def test_both_c_libraries_run_on_another_architecture(tmp_path: Path, architecture: str, machine: str) -> None:
    need(architecture)
    record = tmp_path / "r"
    swapstone(tmp_path, "compare", "libc=glibc,musl", "--arch", architecture, *ONE, "--out", str(record))
    runs = runs_of(record)
    assert {run["status"] for run in runs} == {"ok"}
    observed = {run["trial"]["variant"]: dict(run["observed"])["libc"] for run in runs}
    assert observed == {"libc=glibc": "glibc", "libc=musl": "musl"}
    assert dict(json.loads((record / "manifest.json").read_text())["machine"])["architecture"] == machine


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
@pytest.mark.parametrize("factor", ["compiler=gcc,clang", "optimization=O0,O2", "linking=dynamic,static"])
def test_factors_of_the_build_are_observed_on_arm64(tmp_path: Path, factor: str) -> None:
    need("arm64")
    if "clang" in factor:
        require("clang")
    record = tmp_path / "r"
    swapstone(tmp_path, "compare", factor, "--arch", "arm64", "--suite", "libc", *ONE, "--out", str(record))
    runs = runs_of(record)
    assert {run["status"] for run in runs} == {"ok"}
    name, _, levels = factor.partition("=")
    assert {dict(run["observed"])[name] for run in runs} == set(levels.split(","))


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="as above")
def test_several_architectures_have_a_record_and_a_table_each(tmp_path: Path) -> None:
    need("arm64")
    asked = ("libc=glibc,musl", "--arch", "x86_64,arm64", *ONE, "--out", str(tmp_path / "r"))
    shown = swapstone(tmp_path, "compare", *asked).stdout
    assert shown.index("Architecture x86_64\n") < shown.index("Architecture arm64\n")
    assert shown.count("libc: musl against glibc") == 2
    machines = {
        path.parent.name: dict(json.loads(path.read_text())["machine"])["architecture"]
        for path in tmp_path.glob("r/*/manifest.json")
    }
    assert machines == {"x86_64": "x86_64", "arm64": "aarch64"}
    for architecture in machines:
        runs = runs_of(tmp_path / "r" / architecture)
        assert {run["status"] for run in runs} == {"ok"}
        assert {run["trial"]["variant"]: dict(run["observed"])["libc"] for run in runs} == {
            "libc=glibc": "glibc",
            "libc=musl": "musl",
        }


@pytest.mark.parametrize(
    ("names", "message"),
    [("arm64,arm64", "--arch names arm64 twice"), ("x86_64,mips", "no architecture named 'mips'")],
)
def test_wrong_names_of_architectures_are_refused_before_the_first_run(
    tmp_path: Path, names: str, message: str
) -> None:
    result = swapstone(tmp_path, "compare", "libc=glibc,musl", "--arch", names, *ONE, expect=2)
    assert message in result.stderr
    assert not list(tmp_path.rglob("record.json"))


def test_an_architecture_that_can_t_be_built_for_is_refused_before_the_first_run(tmp_path: Path) -> None:
    """The second of two: nothing of the first is run."""
    other = "armhf" if os.uname().machine == "x86_64" else "x86_64"
    here = "x86_64" if other == "armhf" else "arm64"
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cc", "gcc", "musl-gcc", "ld", "as", "git", "uname"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    asked = ("libc=glibc,musl", "--arch", f"{here},{other}", *ONE)
    result = swapstone(tmp_path, "compare", *asked, expect=2, PATH=str(tools))
    assert f"building the agent and workloads for {other}" in result.stderr or f"programs for {other}" in result.stderr
    assert "gcc-" in result.stderr.splitlines()[-1] and "qemu-system-" in result.stderr.splitlines()[-1]
    assert not list(tmp_path.rglob("record.json"))
