# SPDX-License-Identifier: MIT OR Apache-2.0
"""`float=`: soft, softfp and hard in a machine of armhf, from the command line to the report and the explanation."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.session.request import default_architecture, default_suites, parse_factors, resolve
from swapstone.core.session.study_file import load_study
from swapstone.parts.build.factors.float_abi import MACHINES
from tests.e2e.cli import fake, runs_of, swapstone
from tests.programs import needs
from tests.small_records import request_of

TOOLS = ("arm-linux-gnueabi-gcc", "arm-linux-gnueabihf-gcc", "qemu-system-arm")
FACTOR = "float=soft,softfp,hard"


def test_the_factor_has_a_default_suite() -> None:
    choice = parse_choice(FACTOR)
    assert default_suites((choice,), ()) == ("float",)
    assert default_suites((choice,), ("float_dot*",)) == ("float",)


@pytest.mark.skipif(os.uname().machine in MACHINES, reason="this machine is the architecture")
def test_the_factor_runs_in_a_machine_of_armhf_if_nothing_else_is_named() -> None:
    factors = parse_factors([FACTOR])
    assert default_architecture(factors) == "armhf"
    assert default_architecture(parse_factors(["libc=glibc,musl"])) == ""
    experiment = resolve(request_of(name="compare", factors=factors))
    assert (experiment.target, experiment.architecture, experiment.clock) == ("vm", "armhf", "virtual")
    assert resolve(request_of(name="compare", factors=factors, target="host")).architecture == ""
    assert resolve(request_of(name="compare", factors=factors, architecture="arm64")).architecture == "arm64"


@pytest.mark.skipif(os.uname().machine in MACHINES, reason="this machine is the architecture")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "host"), "The factor float is for 32-bit ARM, not for"),
        (("--arch", "arm64"), "The factor float is for 32-bit ARM, not for aarch64"),
        (("--hold", "linking=dynamic"), "linked statically"),
        (("--hold", "compiler=clang"), "gcc and glibc only"),
    ],
)
def test_what_the_factor_can_t_be_combined_with_is_refused(
    options: tuple[str, str], message: str, tmp_path: Path
) -> None:
    result = swapstone(tmp_path, "compare", FACTOR, "--only", "float_dot*", *options, expect=2)
    assert message in result.stderr


def test_the_study_has_the_page_s_program_and_the_suite() -> None:
    study = load_study("float-abi")
    assert study.settings.workloads.published == "float-abi"
    assert study.factor[0].levels == ("soft", "softfp", "hard")
    assert [part.name for part in study.part] == ["emulator", "page", "suite"]


def test_the_study_runs_on_the_fake_target(tmp_path: Path) -> None:
    result = swapstone(
        tmp_path, "study", "float-abi", "--only-part", "page", "--target", fake(tmp_path), "--out", str(tmp_path / "r")
    )
    assert "1 part: 1 complete." in result.stdout
    assert {tuple(run["observed"][0]) for run in runs_of(tmp_path / "r" / "page")} == {
        ("float", level) for level in ("soft", "softfp", "hard")
    }


@pytest.mark.slow  # boots machines
@needs(*TOOLS)
def test_abis_give_the_same_results_in_different_numbers_of_instructions(tmp_path: Path, exhaustive: bool) -> None:
    """With --exhaustive also with the ABI `hard`, and explained."""
    record = tmp_path / "r"
    levels = ("soft", "softfp", *(("hard",) if exhaustive else ()))
    asked = (f"float={','.join(levels)}", "--only", "float_dot(exact)", "--blocks", "1", "--out", str(record), "--all")
    assert "Instructions of an operation" in swapstone(tmp_path, "compare", *asked).stdout
    runs = runs_of(record)
    assert {(run["trial"]["variant"], *run["observed"][0]) for run in runs} == {
        (f"float={level}", "float", level) for level in levels
    }
    assert {run["status"] for run in runs} == {"ok"}
    assert len({run["check"] for run in runs}) == 1  # every ABI computes the same bits
    wall = {
        run["trial"]["variant"]: next(each["values"][0] for each in run["samples"] if each["metric"] == "wall")
        for run in runs
    }
    assert wall["float=soft"] > 2 * wall["float=softfp"]
    if exhaustive:
        _check_the_explanation(tmp_path, record)


def _check_the_explanation(folder: Path, record: Path) -> None:
    row = ("wall", "--only", "float_dot(exact)", "--candidate", "float=softfp")
    told = " ".join(swapstone(folder, "explain", str(record), *row).stdout.split())  # without the ends of lines
    assert "calls of libgcc's floating-point functions" in told
    assert "Cortex-A8" in told and "This is a model and no measurement" in told
    (stored,) = record.glob("explain/*/instructions.json")
    soft, softfp = json.loads(stored.read_text())["sides"]
    operations = soft["operations"]  # each is a product and a sum
    assert not set(dict(soft["arm"]["kinds"])) & {"vadd.f32", "vmul.f32", "vmla.f32"}
    assert soft["arm"]["helper_calls"] == 2 * operations
    kinds = dict(softfp["arm"]["kinds"])
    assert 0 <= kinds.get("vadd.f32", 0) + kinds.get("vmla.f32", 0) - operations <= softfp["repeated"]
    assert softfp["arm"]["helper_calls"] == 0
