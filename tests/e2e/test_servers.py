# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers from the command line to the record: on the fake target, and under load of wrk, ab and swapstone-pace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from swapstone.core.session.request import find_workloads
from swapstone.core.session.study_file import load_study
from tests.e2e.cli import MEASURED, runs_of, swapstone
from tests.programs import require

SERVER = Path(__file__).parents[2] / "native" / "workloads" / "server.c"
SPEC = """
seed = 3
[[behaviour]]
wall_ns = 20_000
noise = 0.01
[[behaviour]]
variant = "libc=musl,allocator=default"
wall_ns = 240_000
minflt = 64
"""


def values(run: dict[str, object]) -> dict[str, float]:
    return {sample["metric"]: sample["values"][0] for sample in run["samples"]}  # type: ignore[attr-defined] # JSON


def source(folder: Path) -> Path:
    """Make a project with a makefile from the server workload."""
    project = folder / "project"
    project.mkdir()
    shutil.copy(SERVER, project / "server.c")
    (project / "Makefile").write_text("server: server.c\n\t$(CC) $(CFLAGS) -o $@ $< $(LDFLAGS) -pthread\n")
    return project


def test_the_study_has_the_published_factors_and_all_server_workloads() -> None:
    study = load_study("musl-malloc")
    assert study.settings.workloads.published == "musl-malloc"
    assert [(factor.name, factor.levels) for factor in study.factor] == [
        ("libc", ("glibc", "musl")),
        ("allocator", ("default", "mimalloc", "jemalloc", "tcmalloc")),
    ]
    wanted = [part.settings.workloads for part in study.part]
    found = [work.name for each in wanted for _, work in find_workloads(each.suites, each.only)]
    assert found == [work.name for _, work in find_workloads(["server"])]
    assert study.total_budget_ns == 30 * 60 * 10**9


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/unit/report/test_printed_ratios.py prints such a record of both factors beside its page
def test_the_study_prints_published_and_measured_ratios(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(SPEC)
    asked = ("--only-part", "one-thread", "--blocks", "2", "--target", f"fake:{tmp_path / 'fake.toml'}")
    swapstone(tmp_path, "study", "musl-malloc", *asked, "--out", str(tmp_path / "s"))
    stdout = swapstone(tmp_path, "show", str(tmp_path / "s" / "one-thread"), "--all").stdout
    assert "Servers: requests a second, and the cost of a request" in stdout
    assert "page: x of musl" in stdout
    assert "37.76" in stdout  # 16432.60 / 435.13
    assert "(coordinated omission)" in stdout
    run = next(
        run for run in runs_of(tmp_path / "s" / "one-thread") if "musl,allocator=default" in run["trial"]["variant"]
    )
    assert values(run)["minflt_per_request"] == 64.0
    assert values(run)["requests"] == pytest.approx(1e9 / 240_000, rel=0.1)


def test_truncated_load_generator_output_fails_the_trial(tmp_path: Path) -> None:
    (tmp_path / "fake.toml").write_text(SPEC + "[[behaviour.faults]]\nkind = 'truncate'\nprobability = 1.0\n")
    asked = ("libc=glibc,musl", "allocator=default,mimalloc", "--suite", "server", "--only", "http(c=10,t=1)")
    target = ("--target", f"fake:{tmp_path / 'fake.toml'}", "--blocks", "1", "--seed", "1")
    swapstone(tmp_path, "compare", *asked, *target, "--out", str(tmp_path / "r"), expect=4)
    runs = {run["trial"]["variant"]: run for run in runs_of(tmp_path / "r")}
    truncated = runs.pop("libc=musl,allocator=default")
    assert (truncated["status"], truncated["reason"][:13]) == ("failed", "wrk's output ")
    assert {run["status"] for run in runs.values()} == {"ok"}


def test_help_describes_servers(tmp_path: Path) -> None:
    stdout = swapstone(tmp_path, "compare", "--help").stdout
    assert "Your own server" in stdout
    assert "--server './my-server --port {port}'" in stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "drive"),
    [
        pytest.param(  # the suite's generator: its tests run it
            *("wrk", "wrk -c {connections} -t 1 -d 1s --latency http://127.0.0.1:{port}/"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(  # tests/e2e/test_netstack_factor.py runs it, and tests/recorded has what it prints
            *("ab", "ab -k -c {connections} -n 2000 http://127.0.0.1:{port}/"),
            marks=pytest.mark.exhaustive,
        ),
        ("cc", "swapstone-pace --port {port} --connections {connections} --rate 100 --seconds 1"),
    ],
)
def test_an_own_server_is_measured_with_each_load_generator(tmp_path: Path, tool: str, drive: str) -> None:
    require(tool, "musl-gcc")
    project, record = source(tmp_path), tmp_path / "r"
    build = ("--build", "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}", "--source", str(project))
    server = ("--server", "./server {port} 1 20 262144", "--load-generator", drive, "--connections", "1,4")
    asked = ("libc=glibc,musl", *build, *server, "--pin", "--blocks", "1", "--seed", "4")
    stdout = swapstone(tmp_path, "compare", *asked, "--out", str(record), "--all", expect=MEASURED).stdout
    assert ("(coordinated omission)" in stdout) == (tool != "cc")
    runs = runs_of(record)
    assert {run["trial"]["workload"] for run in runs} == {"server(c=1)", "server(c=4)"}
    assert {(run["status"], run["reason"]) for run in runs} == {("ok", "")}
    for run in runs:
        found = values(run)
        level = run["trial"]["variant"].removeprefix("libc=")
        assert dict(run["observed"])["libc"] == level
        assert found["requests"] > 0
        assert found["cpu_per_request"] > 0
        # A buffer of 256 KiB has 64 pages: musl maps them anew for every request, glibc keeps them.
        assert (found["minflt_per_request"] > 60) == (level == "musl")


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="images that programs can be built for are of x86_64")
def test_a_server_and_its_load_generator_run_in_one_machine(tmp_path: Path, exhaustive: bool) -> None:
    require("musl-gcc")
    project, record = source(tmp_path), tmp_path / "r"
    build = ("--build", "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}", "--source", str(project))
    server = ("--server", "./server {port} 1 20 262144", "--connections", "2")
    generator = ("--load-generator", "swapstone-pace --port {port} --connections {connections} --rate 100 --seconds 1")
    asked = ("libc=glibc,musl", *build, *server, *generator, "--target", "vm", "--blocks", "1", "--seed", "4")
    swapstone(tmp_path, "compare", *asked, "--out", str(record))
    runs = runs_of(record)
    assert {(run["status"], run["reason"]) for run in runs} == {("ok", "")}
    for level in ("glibc", "musl"):
        mine = [run for run in runs if run["trial"]["variant"] == f"libc={level}"]
        assert {dict(run["observed"])["libc"] for run in mine} == {level}
        assert {round(values(run)["requests"]) for run in mine} == {101}  # 100 in 0.99 s
        assert {values(run)["minflt_per_request"] > 60 for run in mine} == {level == "musl"}
    if not exhaustive:  # test_vm_target.py recomputes a trial
        return
    verified = swapstone(tmp_path, "verify", str(record), "--recompute", "1")
    assert "1 of 1 trials gave the same bytes" in verified.stdout


@pytest.mark.slow
@pytest.mark.exhaustive  # an own server and the same load generator run in a machine above
@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(
            "x86_64",
            marks=pytest.mark.skipif(os.uname().machine != "x86_64", reason="musl-gcc builds for this machine"),
        ),
        "arm64",
    ],
)
def test_a_server_of_the_suite_runs_in_a_machine(tmp_path: Path, architecture: str) -> None:
    """Its load generator comes along, built for the machine; a run is exact."""
    asked = ("libc=glibc,musl", "--suite", "server", "--only", "http(paced)", "--target", "vm", "--arch", architecture)
    swapstone(tmp_path, "compare", *asked, "--blocks", "1", "--seed", "4", "--out", str(tmp_path / "r"))
    runs = {run["trial"]["variant"]: run for run in runs_of(tmp_path / "r")}
    assert {(run["status"], run["reason"]) for run in runs.values()} == {("ok", "")}
    for level in ("glibc", "musl"):
        run = runs[f"libc={level}"]
        assert dict(run["observed"])["libc"] == level
        assert round(values(run)["requests"]) == 1001  # 1000 in 0.999 s
        assert (values(run)["minflt_per_request"] > 60) == (level == "musl")
    verified = swapstone(tmp_path, "verify", str(tmp_path / "r"), "--recompute", "1")
    assert "1 of 1 trials gave the same bytes" in verified.stdout
    refused = swapstone(tmp_path, "explain", str(tmp_path / "r"), "--only", "http*", expect=2)
    assert "Instructions don't explain servers" in refused.stderr


@pytest.mark.slow
def test_a_load_generator_with_a_pattern_and_a_server_that_exits(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(
        "import sys, http.server as h\nh.test(h.SimpleHTTPRequestHandler, port=int(sys.argv[1]))\n"
    )
    (tmp_path / "drive.py").write_text(
        "import sys, urllib.request as u\n"
        "for i in range(20): u.urlopen(f'http://127.0.0.1:{sys.argv[1]}/server.py').read()\nprint('20 in 0.5 s; pages: 7')\n"
    )
    python = shutil.which("python3", path="/usr/bin")
    assert python
    asked = (
        *("compare", "allocator=default,mimalloc", "--server", f"{python} server.py {{port}}"),
        *(
            "--load-generator",
            f"{python} drive.py {{port}}",
            "--read",
            r"regex:(?P<requests>\d+) in (?P<seconds>[0-9.]+) s",
        ),
        *("--metric", r"pages[1,neither]=regex:pages: (\d+)", "--warm-up", "0", "--blocks", "1"),
    )
    swapstone(tmp_path, *asked, "--out", str(tmp_path / "r"), expect=MEASURED)
    runs = runs_of(tmp_path / "r")
    assert {(run["status"], run["reason"]) for run in runs} == {("ok", "")}
    assert {(values(run)["requests"], values(run)["pages"]) for run in runs} == {(40.0, 7.0)}
    (tmp_path / "server.py").write_text("raise SystemExit('no luck today')\n")
    result = swapstone(tmp_path, *asked, "--out", str(tmp_path / "s"), expect=4)
    assert "the server ended before it accepted connections, with status 1" in result.stderr
    assert "no luck today" in result.stderr


def place_of(run: Any) -> tuple[str, str]:
    """Return the workload and the variant of a run."""
    return run["trial"]["workload"], run["trial"]["variant"]


@pytest.mark.slow
def test_the_server_suite_runs_with_each_libc_and_allocator(tmp_path: Path, exhaustive: bool) -> None:
    require("wrk")
    asked = (
        "libc=glibc,musl",
        "allocator=default,mimalloc",
        "--suite",
        "server",
        "--only",
        "http(c=10,t=*" if exhaustive else "http(c=10,t=1)",
        "--blocks",
        "1",
    )
    # wrk runs for one second. If other work has the processors for all of it, wrk has no answer, and the run fails with that reason. So the
    # experiment is repeated until each variant has been measured on each workload; a run that fails for another reason is an error.
    well: list[Any] = []
    for number in range(5):
        record = tmp_path / f"r{number}"
        swapstone(tmp_path, "compare", *asked, "--out", str(record), expect=MEASURED)
        runs = runs_of(record)
        assert {run["reason"] for run in runs if run["status"] != "ok"} <= {"wrk had no request answered."}
        planned = {place_of(run) for run in runs}
        well += [run for run in runs if run["status"] == "ok"]
        if planned == {place_of(run) for run in well}:
            break
    assert len(planned) >= 4 and planned == {place_of(run) for run in well}
    faults = {(run["trial"]["workload"], run["trial"]["variant"]): values(run)["minflt_per_request"] for run in well}
    for (_, variant), found in faults.items():
        assert (found > 60) == (variant == "libc=musl,allocator=default")
