# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of network stacks: readers of program output, plans, and tables."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks import netstack, netstack_lab, netstack_tables
from benchmarks.netstack_output import UnreadableError, read_ab, read_ab_percentiles, read_own, read_wrk
from benchmarks.netstack_workloads import CHAIN, QUICK, SETTINGS, SWEEP, TUNED, WORKLOADS

RECORDED = Path(__file__).parents[2] / "recorded"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_ab_output_without_failures_is_read() -> None:
    found = read_ab(recorded("ab-all.txt"), 5000)
    rate = next(line for line in recorded("ab-all.txt").splitlines() if line.startswith("Requests per second"))
    assert found == {"requests": 5000, "failed": 0, "rate": float(rate.split()[3]), "gave_up": None}


def test_failed_and_missing_requests_of_ab_are_counted() -> None:
    assert read_ab(recorded("ab-failed.txt"), 50)["failed"] == 7
    assert read_ab(recorded("ab-failed.txt"), 60)["failed"] == 17


def test_ab_output_with_a_time_out_is_read() -> None:
    assert read_ab(recorded("ab-hung.txt"), 50) == {
        "requests": 20,
        "failed": 30,
        "rate": None,
        "gave_up": "apr_pollset_poll: The timeout specified has expired (70007)",
    }


def test_ab_output_without_results_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="could not open"):
        read_ab("This is ApacheBench\n\nab: could not open something\n", 5)
    with pytest.raises(UnreadableError, match="it printed nothing"):
        read_ab("", 5)


def test_percentiles_of_ab_are_microseconds() -> None:
    found = read_ab_percentiles(recorded("ab-all.csv"))
    assert found["max"] == pytest.approx(75_615)
    assert found["p99"] == pytest.approx(74_697)
    assert set(found) == {"p50", "p90", "p99", "max"}
    with pytest.raises(UnreadableError):
        read_ab_percentiles("")


def test_wrk_output_is_read_with_and_without_errors() -> None:
    whole = read_wrk(recorded("wrk-keep-alive.txt"))
    assert whole["failed"] == 0
    assert whole["rate"] > 0
    assert list(whole["latency_us"]) == ["p50", "p75", "p90", "p99"]
    broken = read_wrk(recorded("wrk-errors.txt"))
    assert broken == {
        "requests": 3161,
        "failed": 1581 + 632,
        "rate": 3093.95,
        "latency_us": {"p50": 165.0, "p75": 1290.0, "p90": 3710.0, "p99": 7490.0},
    }
    with pytest.raises(UnreadableError, match="unable to connect"):
        read_wrk("unable to connect to 10.9.0.2:80 Connection refused\n")


def test_the_last_line_of_swapstone_net_bench_is_read() -> None:
    lines = [json.dumps({"event": "ready"}), json.dumps({"event": "end", "requests": 3}), ""]
    assert read_own("\n".join(lines))["requests"] == 3
    with pytest.raises(UnreadableError, match="panicked"):
        read_own('{"event": "ready"}\nthread main panicked\n')


def test_each_block_of_a_plan_has_every_cell_once_in_random_order() -> None:
    cells = netstack.plan(("kernel", "lwip"), ("plain", TUNED), ("ab", "ping"), 3, 7)
    count = Counter((cell.stack, cell.setting, cell.workload) for cell in cells)
    assert set(count.values()) == {3}
    assert len(count) == 2 + 4, "the kernel has one setting"
    orders = {tuple((c.stack, c.setting, c.workload) for c in cells if c.block == block) for block in range(3)}
    assert len(orders) == 3
    assert cells == netstack.plan(("kernel", "lwip"), ("plain", TUNED), ("ab", "ping"), 3, 7)
    assert cells[:6] == netstack.plan(("kernel", "lwip"), ("plain", TUNED), ("ab", "ping"), 1, 7)


def test_settings_and_client_commands_are_complete(tmp_path: Path) -> None:
    assert {*CHAIN, *SWEEP} == set(SETTINGS)
    for workload in WORKLOADS:
        command = workload.client(Path("/bin/swapstone-net-bench"), QUICK, tmp_path)
        words = {"REQUESTS", "MESSAGES", "SECONDS", "CONNECTIONS"}
        assert not words & set(command), workload.name
        assert all(isinstance(word, str) for word in command)


def server(**more: Any) -> dict[str, Any]:
    return {"user_s": 0.5, "system_s": 1.5, "requests": 1000, "bytes_in": 4_000_000, "active_s": 2.0, **more}


def test_workloads_compute_figures_from_client_and_server_output(tmp_path: Path) -> None:
    by_name = {workload.name: workload for workload in WORKLOADS}
    ab = by_name["ab"].read(
        recorded("ab-all.txt"), server(requests=5000), dataclasses.replace(QUICK, requests=5000), tmp_path
    )
    assert (ab["cpu_us"], ab["user_us"]) == (400, 100)
    assert (ab["requests"], ab["failed"]) == (5000, 0)
    client = {
        "event": "end",
        "requests": 10,
        "failed": 0,
        "first_failure": None,
        "bytes_in": 9_000_000,
        "active_s": 3.0,
    }
    output = json.dumps({**client, "latency_us": {"p50": 1.0}})
    assert by_name["bulk-in"].read(output, server(), QUICK, tmp_path)["rate"] == 2.0
    out = by_name["bulk-out"].read(output, server(), QUICK, tmp_path)
    assert out["rate"] == 3.0
    assert out["cpu_us"] == pytest.approx(2e6 / 9)
    datagrams = by_name["udp"].read(output, server(), QUICK, tmp_path)
    assert (datagrams["rate"], datagrams["sent"]) == (500, 10)
    ping = by_name["ping"].read(output, server(), QUICK, tmp_path)
    assert ping["rate"] == pytest.approx(10 / 3)
    assert ping["latency_us"] == {"p50": 1.0}


def run(stack: str, block: int, rate: float | None, **more: Any) -> dict[str, Any]:
    found = {
        "stack": stack,
        "block": block,
        "rate": rate,
        "setting": TUNED,
        "workload": "ab",
        "status": "ok",
        "reason": None,
    }
    return {**found, **more}


def test_a_table_of_runs_has_median_range_and_ratio() -> None:
    runs = [
        run("kernel", 0, 100.0, cpu_us=5.0, user_us=1.0, latency_us={"p50": 3.0}),
        run("kernel", 1, 200.0, cpu_us=7.0, user_us=2.0, latency_us={"p50": 5.0}),
        run("lwip", 0, 150.0),
        run("lwip", 1, 400.0, status="failed", reason="3 failed"),
        run("smoltcp", 0, None, status="unavailable", reason="there is none"),
    ]
    lines = netstack_tables.results(runs).splitlines()
    assert lines[0] == "ab: ab, a connection for each request"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:7]]
    assert cells[0] == ["kernel", "150 (100 to 200)", "1.00", "4", "-", "-", "-", "-", "6", "1.5", "2 of 2"]
    assert cells[1][:3] == [f"lwip, {TUNED}", "275 (150 to 400)", "1.75"]
    assert cells[1][-1] == "1 of 2"
    assert cells[2][-1] == "0 of 0"
    assert lines[7:] == [f"- lwip, {TUNED}: failed: 3 failed", f"- smoltcp, {TUNED}: unavailable: there is none"]


def test_rows_are_in_the_order_of_stacks_and_settings() -> None:
    pairs = [("lwip", TUNED), ("kernel", TUNED), ("lwip", "plain")]
    lines = netstack_tables.results([run(stack, 0, 1.0, setting=setting) for stack, setting in pairs]).splitlines()[4:]
    assert [line.split("|")[1].strip() for line in lines] == ["kernel", "lwip, plain", f"lwip, {TUNED}"]


def test_tables_have_the_measured_and_the_published_counts() -> None:
    tally = {"calls": 6000, "bytes": 36_000}
    sizes = [{"calls": 500 * number, "bytes": 1} for number in range(4)]
    counts = {"copies": tally, "copies_by_size": sizes, "heap": {"calls": 0, "bytes": 0}, "lwip": tally}
    text = netstack_tables.counted(
        [
            {
                "stack": "lwip",
                "setting": TUNED,
                "status": "ok",
                "reason": None,
                "server": {"counts": counts, "requests": 1000},
            },
            {"stack": "smoltcp", "setting": TUNED, "status": "unavailable", "reason": "there is none"},
        ]
    )
    row = [cell.strip() for cell in text.splitlines()[2].strip("|").split("|")]
    assert row == [f"lwip, {TUNED}", "6.00 (36)", "0.00", "0.50", "1.00", "1.50", "0.00 (0)", "6.00 (36)"]
    assert text.splitlines()[3] == f"- smoltcp, {TUNED}: unavailable: there is none"


def test_the_benchmark_prints_why_it_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.netstack_lab.os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["netstack", "--quick", "--stacks", "kernel"])
    assert netstack.main() == 3
    assert capsys.readouterr().err == "unavailable: network namespaces need root\n"
    monkeypatch.setattr("benchmarks.netstack_lab.os.geteuid", lambda: 0)
    monkeypatch.setattr("benchmarks.netstack_lab.shutil.which", lambda _: None)
    assert netstack_lab.why_not(["kernel"]) == "the command ip is not installed; Debian's iproute2 has it"
    monkeypatch.setattr("benchmarks.netstack_lab.shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("benchmarks.netstack_lab.Path.exists", lambda _: False)
    assert netstack_lab.why_not(["kernel"]) is None
    assert netstack_lab.why_not(["kernel", "lwip"]) == (
        "/dev/net/tun, needed for a TAP, does not exist; --stacks kernel needs none"
    )


@pytest.mark.parametrize(
    ("printed", "reason"), [("rustc 1.91.0 (f8 2025)", None), ("rustc 2.0.0", None), ("rustc 1.63.0", "1.63")]
)
def test_an_old_rust_is_named(
    printed: str, reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cargo", "rustc"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho '{printed}'\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = netstack.no_rust()
    if reason is None:
        assert found is None
    else:
        assert found == f"the stacks need Rust 1.91 or newer; this is rustc {reason}.0"


@pytest.mark.parametrize("text", ["Percentage served,Time in ms\n50,1\n", "Percentage served,Time in ms\n50\nx,y,z\n"])
def test_percentiles_that_lack_one_are_an_error(text: str) -> None:
    with pytest.raises(UnreadableError, match="lacks"):
        read_ab_percentiles(text)


def test_a_rate_that_is_no_number_is_an_error() -> None:
    with pytest.raises(UnreadableError):
        read_wrk("  5 requests in 1s\nRequests/sec:  1.2.3\n")
