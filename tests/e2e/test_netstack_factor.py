# SPDX-License-Identifier: MIT OR Apache-2.0
"""`netstack=`: each stack under the HTTP server, from the command line to the record."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.session.request import default_suites
from swapstone.core.session.study_file import load_study
from swapstone.core.workloads import find_workload
from swapstone.parts.net.artifacts.crates import build_crate, missing_crate_requirement
from swapstone.parts.net.factors.netstack import FIXES, build_variables
from tests.e2e.cli import runs_of, swapstone
from tests.unit.crate_origin import crate_of

UNAVAILABLE = missing_crate_requirement()
LEVELS = ("kernel", "lwip", "smoltcp")


def test_the_factor_has_a_default_suite() -> None:
    choice = parse_choice("netstack=kernel,lwip,smoltcp")
    assert default_suites((choice,), ()) == ("netstack",)
    assert default_suites((choice,), ("ab",)) == ("netstack",)


def test_the_study_compares_three_stacks_in_23_minutes_with_a_bare_machine() -> None:
    study = load_study("lwip-vs-smoltcp")
    assert study.settings.workloads.published == "lwip-vs-smoltcp"
    assert study.factor[0].levels == ("lwip", "smoltcp", "kernel")
    assert [part.name for part in study.part] == ["speed", "counts", "bare"]
    assert study.total_budget_ns == 23 * 60 * 10**9


def test_the_factor_is_refused_on_the_vm_target(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "netstack=kernel,lwip", "--target", "vm", expect=2)
    assert "is built by cargo for this machine, and not for the target vm" in result.stderr


@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_layouts_are_refused_for_programs_of_crates(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "compare", "netstack=kernel,lwip", "--layouts", "2", expect=2)
    assert "cargo, which makes one link only" in result.stderr


@pytest.mark.first
@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_three_stacks_are_measured_and_observed(tmp_path: Path, exhaustive: bool) -> None:
    build_crate(
        crate_of(find_workload("netstack", "udp-in"))
    )  # compile before the command, which has a time limit here
    before = _links()
    record = tmp_path / "r"
    works = ["udp-in", *(["ab"] if shutil.which("ab") else []), *(["round-trip", "http-churn"] if exhaustive else [])]
    only = [word for work in works for word in ("--only", work)]
    asked = (f"netstack={','.join(LEVELS)}", *only, "--blocks", "1", "--seed", "3")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = {
        (run["trial"]["workload"], run["trial"]["variant"]): run
        for run in runs_of(record)
        if run["trial"]["block"] == 1
    }
    assert set(runs) == {(work, f"netstack={level}") for work in works for level in LEVELS}
    for (work, variant), run in runs.items():
        assert (run["status"], run["reason"]) == ("ok", ""), (work, variant)
        assert f"netstack={dict(run['observed'])['netstack']}" == variant
        figures = {sample["metric"]: sample["values"][0] for sample in run["samples"]}
        assert figures["rate"] > 0
        assert figures["cpu"] == pytest.approx(figures["user_cpu"] + figures["system_cpu"], abs=0.01)
        if work == "udp-in":
            assert 0 <= figures["lost"] < 200_000
        elif work != "ab":
            _check_percentiles(figures)
    assert _links() == before


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_a_stack_is_compared_with_itself_without_its_fixes(tmp_path: Path) -> None:
    build_crate(crate_of(find_workload("netstack-fixes", "fixes-round-trip")))
    record = tmp_path / "r"
    levels = ("smoltcp", "smoltcp:shipped", "smoltcp:without-early-fin", "lwip:shipped")
    work = ("--suite", "netstack-fixes", "--only", "fixes-round-trip")
    swapstone(tmp_path, "compare", f"netstack={','.join(levels)}", *work, "--blocks", "1", "--out", str(record))
    runs = runs_of(record)
    for run in runs:
        _check_percentiles({sample["metric"]: sample["values"][0] for sample in run["samples"]})
    observed = {
        run["trial"]["variant"]: (run["status"], dict(run["observed"])["netstack"], dict(run["seen"])["server_fixes"])
        for run in runs
    }
    everything = ",".join(FIXES["smoltcp"])
    assert observed == {
        "netstack=smoltcp": ("ok", "smoltcp", everything),
        "netstack=smoltcp:shipped": ("ok", "smoltcp:shipped", "none"),
        "netstack=smoltcp:without-early-fin": ("ok", levels[2], everything.replace("early-fin,", "")),
        "netstack=lwip:shipped": ("ok", "lwip:shipped", "none"),
    }
    report = swapstone(tmp_path, "show", str(record), "--all").stdout
    assert "server_fixes none" in " ".join(report.split())


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_a_stack_is_compared_with_other_options(tmp_path: Path) -> None:
    levels = (
        "lwip",
        "lwip:checksum-on-copy=1+oversize=0+ooseq=0+pools=256",
        "lwip:buffers=256KiB",
        "smoltcp:ooseq=4+pools=512+buffers=16KiB",
    )
    crate = crate_of(find_workload("netstack-fixes", "fixes-churn"))
    for level in levels:
        build_crate(crate, variables=build_variables(level))
    record = tmp_path / "r"
    works = ("--suite", "netstack-fixes", "--only", "fixes-churn", "--only", "fixes-bulk-*")
    swapstone(tmp_path, "compare", f"netstack={','.join(levels)}", *works, "--blocks", "1", "--out", str(record))
    runs = [run for run in runs_of(record) if run["trial"]["block"] == 1]
    assert len(runs) == 3 * len(levels)
    for run in runs:
        level = run["trial"]["variant"].removeprefix("netstack=")
        assert (run["status"], run["reason"]) == ("ok", ""), (run["trial"]["workload"], level)
        assert dict(run["observed"])["netstack"] == level
    seen = {run["trial"]["variant"]: dict(run["seen"]) for run in runs}
    default = "checksum-on-copy=0,oversize=1460,ooseq=1,pools=0"
    assert {variant.partition("=")[2]: facts["server_options"] for variant, facts in seen.items()} == {
        levels[0]: default,
        levels[1]: "checksum-on-copy=1,oversize=0,ooseq=0,pools=256",
        levels[2]: f"{default},buffers=256KiB",
        levels[3]: "ooseq=4,pools=512,buffers=16KiB",
    }
    assert seen[f"netstack={levels[3]}"]["server_buffers"] == "receive:16384 send:16384"
    report = " ".join(swapstone(tmp_path, "show", str(record), "--all").stdout.split())
    assert "server_options checksum-on-copy=1,oversize=0,ooseq=0,pools=256" in report


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_stacks_are_crossed_with_the_number_of_clients(tmp_path: Path, exhaustive: bool) -> None:
    build_crate(crate_of(find_workload("netstack-clients", "clients-churn")))
    record = tmp_path / "r"
    works = () if exhaustive else ("--only", "clients-churn")
    asked = ("netstack=kernel,lwip", "clients=1,300", "--suite", "netstack-clients", *works, "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = [run for run in runs_of(record) if run["trial"]["block"] == 1]
    assert len(runs) == (2 if exhaustive else 1) * 4
    for run in runs:
        assert (run["status"], run["reason"]) == ("ok", ""), run["trial"]
        observed = dict(run["observed"])
        assert run["trial"]["variant"] == f"netstack={observed['netstack']},clients={observed['clients']}"
    assert {dict(run["observed"])["clients"] for run in runs} == {"1", "300"}


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_a_workload_without_connections_has_no_clients(tmp_path: Path) -> None:
    build_crate(crate_of(find_workload("netstack", "udp-in")))
    record = tmp_path / "r"
    asked = ("clients=1,10", "--suite", "netstack", "--only", "udp-in", "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record), expect=4)
    assert {run["status"] for run in runs_of(record)} == {"refused"}


def test_options_are_listed_with_their_reasons(tmp_path: Path) -> None:
    listed = swapstone(tmp_path, "list", "levels").stdout
    for text in ("lwip:checksum-on-copy=1", "TCP_OVERSIZE", "lwip:ooseq=0", "lwip:pools=64", "smoltcp:ooseq=1"):
        assert text in listed
    result = swapstone(tmp_path, "compare", "netstack=lwip,lwip:oosequence=0", expect=2)
    assert "There is no option of lwip named 'oosequence'. Did you mean 'ooseq'?" in " ".join(result.stderr.split())


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_smoltcp_copies_the_expected_bytes_per_request(tmp_path: Path) -> None:
    build_crate(crate_of(find_workload("netstack-counts", "counts-tuned")))
    record = tmp_path / "r"
    asked = ("netstack=lwip,smoltcp", "--suite", "netstack-counts", "--blocks", "1", "--seed", "3")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    found = {
        run["trial"]["workload"]: {sample["metric"]: sample["values"][0] for sample in run["samples"]}
        for run in runs_of(record)
        if (run["trial"]["block"], run["trial"]["variant"]) == (1, "netstack=smoltcp")
    }
    request, answer = 56, 424
    # The request into the ring, the answer into it and out of it; and three calls of no bytes, see docs/netstack.md.
    calls, copied = 6, request + 2 * answer
    # The counts include the server's start, divided by 2000 requests.
    for work, more, bytes_more in (("counts-tuned", 0, 0), ("counts-plain", 1, request)):
        figures = found[work]
        assert calls + more <= figures["copies"] < calls + more + 0.05, work
        assert copied + bytes_more <= figures["copied"] < copied + bytes_more + 8, work
        assert figures["heap_calls"] < 0.1, work


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_a_client_on_each_stack_copies_the_expected_bytes_per_request(tmp_path: Path, exhaustive: bool) -> None:
    """With --exhaustive also that two runs have equal counts, and the client without the fixes of its stack."""
    build_crate(crate_of(find_workload("netstack-counts", "counts-client-tuned")))
    record = tmp_path / "r"
    only = ("--suite", "netstack-counts", "--only", "counts-client-*")
    levels = (*LEVELS, *(["smoltcp:shipped"] if exhaustive else []))
    asked = (f"netstack={','.join(levels)}", *only, "--blocks", "2" if exhaustive else "1", "--seed", "3")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    request, answer = 56, 424
    # Calls and bytes of a request with counts-client-tuned, and how many more with counts-client-plain: see docs/netstack.md.
    expected = {
        "lwip": ((10, 60), (3, request + answer)),
        "smoltcp": ((7, 2 * request + answer), (2, answer)),
    }
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for run in (run for run in runs_of(record) if run["trial"]["block"] > 0):
        work, variant = run["trial"]["workload"], run["trial"]["variant"]
        assert (run["status"], run["reason"]) == ("ok", ""), (work, variant)
        assert variant == f"netstack={dict(run['observed'])['netstack']}"
        seen, figures = dict(run["seen"]), {each["metric"]: each["values"][0] for each in run["samples"]}
        stack = variant.removeprefix("netstack=").partition(":")[0]
        assert (seen["tap"], seen["kernel_sockets"]) == (("none", "tcp:80") if stack == "kernel" else ("tap0", "none"))
        assert seen["server_control"] == "cubic", "the server is on the kernel's stack"
        assert ("client_options" in seen) == ("client_fixes" in seen) == (stack != "kernel")
        assert not {"server_options", "server_fixes"} & seen.keys()
        assert figures["heap_calls"] < 0.01, (work, variant)
        found.setdefault((work, variant), []).append(figures)
        assert (figures["store_calls"] >= 9) == (stack == "lwip")
        if stack in expected:
            tuned, more = expected[stack]
            calls, copied = (sum(pair) if work.endswith("plain") else pair[0] for pair in zip(tuned, more, strict=True))
            # Linux sends a FIN again if the client is slow, and the stack answers with one more frame.
            assert calls <= figures["copies"] < calls + 0.5, (work, variant)
            assert copied <= figures["copied"] < copied + 64, (work, variant)
    assert len(found) == 2 * len(levels)
    for (work, variant), (one, *others) in found.items():
        # Over the kernel's sockets no count depends on when a frame arrives.
        exact = variant == "netstack=kernel"
        for other in others:
            assert one == other if exact else one == pytest.approx(other, rel=0.05, abs=2), (work, variant)


@pytest.mark.slow
@pytest.mark.skipif(UNAVAILABLE is not None, reason=f"unavailable: {UNAVAILABLE and UNAVAILABLE[0]}")
def test_a_workload_without_a_network_stack_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "r"
    asked = ("netstack=kernel,lwip", "--only", "b_string_strlen", "--blocks", "1")
    swapstone(tmp_path, "compare", *asked, "--out", str(record), expect=4)
    runs = runs_of(record)
    assert runs and {run["status"] for run in runs} == {"refused"}
    assert all("the level in force could not be observed" in run["reason"] for run in runs)


def _check_percentiles(figures: dict[str, float]) -> None:
    assert 0 < figures["p50"] <= figures["p99"] <= figures["p99_9"] <= figures["p99_99"] <= figures["max"]


def _links() -> list[str]:
    """Return the network devices of this namespace."""
    assert os.geteuid() == 0
    listed = subprocess.run(("ip", "-brief", "link"), capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines()]
