# SPDX-License-Identifier: MIT OR Apache-2.0
"""Recorded output of load generators is read; truncated, contradicting and error output is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from swapstone.core.model import UserError, WireError
from swapstone.core.workloads.load_generators import (
    LOAD_GENERATORS,
    READERS,
    LoadReport,
    check_reader,
    is_closed,
    percentiles_of,
    read_load_report,
)

RECORDED = Path(__file__).parents[2] / "recorded"
GOOD = {"wrk": "wrk-good", "ab": "ab-good", "redis-benchmark": "redis-benchmark-good", "swapstone-pace": "pace-good"}


def recorded(name: str) -> bytes:
    return (RECORDED / f"{name}.txt").read_bytes()


def changed(name: str, old: bytes, new: bytes) -> bytes:
    output = recorded(name)
    assert old in output
    return output.replace(old, new, 1)


def test_every_load_generator_has_a_reader_and_a_recorded_output() -> None:
    assert set(READERS) == set(LOAD_GENERATORS) == set(GOOD)


def test_wrk_output_is_read() -> None:
    assert read_load_report("wrk", recorded("wrk-good")) == LoadReport(
        requests=21098,
        per_second=18349.05,
        latencies=(
            ("p50", 95_000.0),
            ("p75", 53_880_000.0),
            ("p90", 235_130_000.0),
            ("p99", 409_530_000.0),
            ("max", 428_610_000.0),
        ),
    )


def test_wrk_output_without_a_distribution_has_only_a_maximum() -> None:
    assert read_load_report("wrk", recorded("wrk-without-latency")).latencies == (("max", 95e6),)


def test_ab_output_is_read_in_whole_milliseconds() -> None:
    assert read_load_report("ab", recorded("ab-good")) == LoadReport(
        requests=5000, per_second=89835.96, latencies=(("max", 1e6),)
    )


def test_redis_benchmark_output_is_read() -> None:
    found = read_load_report("redis-benchmark", recorded("redis-benchmark-good"))
    assert (found.requests, [name for name, _ in found.latencies]) == (2000, ["p50", "p95", "p99", "max"])
    assert dict(found.latencies)["p50"] == 12_407_000.0


def test_pace_output_is_read() -> None:
    found = read_load_report("swapstone-pace", recorded("pace-good"))
    assert found.requests == 1000
    assert found.per_second == pytest.approx(1000 / 0.999246754)
    assert found.latencies == (
        ("p50", 1155071.0),
        ("p75", 2342911.0),
        ("p90", 6160383.0),
        ("p99", 39059455.0),
        ("p99.9", 47972351.0),
        ("p99.99", 48822544.0),
        ("max", 48822544.0),
    )


@pytest.mark.slow
@pytest.mark.parametrize("reader", sorted(GOOD))
def test_truncated_output_is_refused(reader: str) -> None:
    output = recorded(GOOD[reader])
    whole = read_load_report(reader, output)
    for cut in range(len(output) - 1):
        try:
            found = read_load_report(reader, output[:cut])
        except WireError:
            continue
        assert reader == "redis-benchmark"  # its last line is empty
        assert found == whole
        assert output[cut:].strip() == b""


@pytest.mark.parametrize("reader", sorted(GOOD))
def test_other_output_is_refused(reader: str) -> None:
    for output in (b"", b"\x00\xff\n", b"Segmentation fault\n", recorded(GOOD[reader]) * 2):
        with pytest.raises(WireError):
            read_load_report(reader, output)


@pytest.mark.parametrize(
    ("reader", "output", "text"),
    [
        ("wrk", recorded("wrk-refused"), "2971 of 8914 answers were not of 2xx or 3xx"),
        (
            "wrk",
            # As wrk's main.c prints it.
            changed(
                "wrk-good", b"Requests/sec", b"  Socket errors: connect 0, read 3, write 0, timeout 12\nRequests/sec"
            ),
            "wrk met socket errors: connect 0, read 3, write 0, timeout 12",
        ),
        ("wrk", changed("wrk-good", b"  21098 requests", b"  0 requests"), "wrk had no request answered"),
        ("wrk", changed("wrk-good", b"     90%  235.13ms\n", b""), "distribution is cut off"),
        ("wrk", changed("wrk-good", b"50%   95.00us", b"50%   95.00s"), "don't rise"),
        ("ab", recorded("ab-refused"), "100 of 300 answers were not of 2xx"),
        (
            "ab",
            changed("ab-good", b"Failed requests:        0", b"Failed requests:        7"),
            "7 of 5000 requests failed",
        ),
        (
            "ab",
            changed("ab-good", b"Complete requests:      5000", b"Complete requests:      0"),
            "no request answered",
        ),
        ("swapstone-pace", changed("pace-good", b"name pace", b"name fill"), "checksum"),
    ],
)
def test_errors_of_a_load_generator_fail_the_run(reader: str, output: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        read_load_report(reader, output)


PATTERN = r"regex:(?P<requests>\d+) in (?P<seconds>[0-9.]+) s\n.*?p99\.9 (?P<p99_9_us>[0-9.]+), max (?P<max_ms>\S+)"


def test_a_pattern_with_named_groups_is_read() -> None:
    assert check_reader(PATTERN) == PATTERN
    assert percentiles_of(PATTERN) == ("p99.9", "max")
    assert read_load_report(PATTERN, b"hello\n500 in 2.5 s\nand\np99.9 1500.5, max 7\n") == LoadReport(
        requests=500, per_second=200.0, latencies=(("p99.9", 1_500_500.0), ("max", 7e6))
    )


def test_a_pattern_with_only_a_rate_is_read() -> None:
    assert read_load_report(r"regex:(?P<per_second>\d+) req/s", b"300 req/s") == LoadReport(per_second=300.0)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"nothing", "matches 0 times"),
        (b"1 of 5\n1 of 5\n", "matches 2 times"),
        (b"1 of x\n", "The group errors of --read holds 'x', which is no number"),
        (b"1 of 5\n", "counted 5 errors"),
    ],
)
def test_output_that_does_not_fit_the_pattern_fails_the_run(output: bytes, text: str) -> None:
    with pytest.raises(WireError, match=text):
        read_load_report(r"regex:(?P<requests>\d+) of (?P<errors>\w+)", output)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("hey", "There is no reader 'hey'"),
        ("regex:(", "no regular expression"),
        ("regex:(?P<p50_ms>.)", "neither a group named requests nor one named per_second"),
        ("regex:(?P<requests>.)(?P<p50>.)", "a group named 'p50', which is unknown"),
        ("regex:(?P<requests>.)(?P<p100_ms>.)", "a group named 'p100_ms'"),
    ],
)
def test_an_invalid_reader_is_refused(reader: str, text: str) -> None:
    with pytest.raises(UserError, match=text):
        check_reader(reader)


def test_only_swapstone_pace_is_open_loop() -> None:
    assert [name for name in LOAD_GENERATORS if not is_closed(name)] == ["swapstone-pace"]
    assert is_closed("regex:(?P<requests>.)")


@pytest.mark.parametrize(
    ("reader", "old"),
    [
        ("wrk", b"21098 requests in"),
        ("wrk", b"Requests/sec:  18349"),
        ("ab", b"Complete requests:      5000"),
        ("redis-benchmark", b"2000 requests completed in"),
    ],
)
def test_a_number_that_no_run_has_is_refused(reader: str, old: bytes) -> None:
    """More digits than a float holds become an infinity, which is no whole number."""
    output = re.sub(rb"[0-9]+", b"9" * 400, old)
    with pytest.raises(WireError, match="has no line like"):
        read_load_report(reader, changed(GOOD[reader], old, output))


@pytest.mark.parametrize("number", [b"inf", b"nan", b"1e999", b"-5", b"1e300"])
def test_a_number_that_the_pattern_finds_must_be_finite(number: bytes) -> None:
    with pytest.raises(WireError, match=r"The group requests of --read holds .* out of range"):
        read_load_report(r"regex:n (?P<requests>\S+)", b"n " + number)
    with pytest.raises(WireError, match=r"The group p99_ms of --read holds .* out of range"):
        read_load_report(r"regex:n (?P<requests>1) (?P<p99_ms>\S+)", b"n 1 " + number)


def test_a_rate_that_is_no_number_is_refused() -> None:
    with pytest.raises(WireError, match="The group seconds of --read holds 1e-29"):
        read_load_report(r"regex:(?P<requests>\S+) (?P<seconds>\S+)", b"1e29 1e-29")


@pytest.mark.parametrize("pattern", ["(?P<requests>a{99999999999999999999})", "(" * 5000 + ")" * 5000])
def test_a_pattern_that_python_can_not_compile_is_refused(pattern: str) -> None:
    with pytest.raises(UserError, match="--read"):
        check_reader(f"regex:{pattern}")
