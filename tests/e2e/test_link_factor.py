# SPDX-License-Identifier: MIT OR Apache-2.0
"""`link=`: the kernel and a stack of its own over the same emulated link, from the command line to the record and the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.session.request import default_suites
from swapstone.core.session.study_file import load_study
from swapstone.core.workloads import find_workload
from swapstone.parts.net.artifacts.crates import build_crate, missing_crate_requirement
from swapstone.parts.net.model.link_counters import counters
from tests.e2e.cli import runs_of, swapstone
from tests.unit.crate_origin import crate_of

UNAVAILABLE = missing_crate_requirement()
LEVEL = "loss:2%+delay:1ms"


def test_the_factor_has_a_suite_of_its_own() -> None:
    link, netstack = parse_choice("link=clean,loss:1%"), parse_choice("netstack=kernel,lwip")
    assert default_suites((link,), ()) == ("netstack-link",)
    assert default_suites((netstack, link), ()) == ("netstack-link",)
    assert default_suites((netstack,), ()) == ("netstack",)


def test_levels_are_listed(tmp_path: Path) -> None:
    listed = swapstone(tmp_path, "list", "levels").stdout
    for text in ("loss:1%", "reorder:1%", "delay:10ms", "corrupt:1%", "duplicate:1%", "kernel:reno", "kernel:bbr"):
        assert text in listed


def test_a_wrong_level_is_refused_with_the_next_step(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "link=clean,loss:101%", expect=2)
    assert "The loss of a link is a number of % above 0 and at most 50, and '101%' is none." in result.stderr
    assert "For example: link=clean,loss:0.1%" in result.stderr


def test_the_study_has_curves_of_five_stacks() -> None:
    study = load_study("netstack-link")
    assert study.factor[0].levels == ("kernel", "kernel:reno", "kernel:bbr", "lwip", "smoltcp")
    assert [part.name for part in study.part] == ["out", "in"]


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_each_stack_is_measured_over_the_same_link(tmp_path: Path) -> None:
    build_crate(crate_of(find_workload("netstack-link", "link-out")))
    record = tmp_path / "r"
    stacks = ("kernel", "kernel:reno", "lwip")
    work = ("--suite", "netstack-link", "--only", "link-out", "--hold", f"link={LEVEL}")
    swapstone(tmp_path, "compare", f"netstack={','.join(stacks)}", *work, "--blocks", "1", "--out", str(record))
    runs = {run["trial"]["variant"]: run for run in runs_of(record)}
    assert set(runs) == {f"netstack={stack}" for stack in stacks}
    for variant, run in runs.items():
        assert (run["status"], run["reason"]) == ("ok", ""), variant
        assert dict(run["observed"])["link"] == LEVEL
        seen = dict(run["seen"])
        into, out = counters(seen["link_in"]), counters(seen["link_out"])
        assert out["frames"] - out["lost"] >= out["delivered"] > 0
        assert min(into["shortest_us"], out["shortest_us"]) >= 1000
        assert seen["client_control"] == ("reno" if variant.endswith("reno") else "cubic")
    seeds = {dict(run["seen"])["link_seed"] for run in runs.values()}
    assert len(seeds) == len(stacks)
    report = " ".join(swapstone(tmp_path, "show", str(record), "--all").stdout.split())
    assert "Goodput out of the server, Mbit/s" in report
    assert "link of netstack=lwip" in report
