# SPDX-License-Identifier: MIT OR Apache-2.0
"""The report of a native workload: a complete report, an ``error`` line, or a decoding error with a clear message."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model import WireError
from swapstone.core.wire import Memory, Pass, WorkloadReport, decode_workload_report, encode_workload_report
from tests.unit.wire.strategies import done_reports, failed_reports, light

LINES = (
    "swapstone-workload 2",
    "name b_malloc_sparse",
    "ops 1",
    "passes 2",
    "pass 100 90 - 5 0 1 2",
    "pass 110 95 7 6 0 1 2",
    "memory 4096 8192 0",
    "malloc /lib/libc.so",
    "mapped /lib/libc.so",
    "check 9af",
    "end",
)


def text(**changed: str | None) -> bytes:
    """The lines above, some replaced (by their first word) or removed."""
    lines = [changed.get(line.split(" ")[0].replace("-", "_"), line) for line in LINES]
    return "".join(f"{line}\n" for line in lines if line is not None).encode()


def test_the_documented_report_is_decoded_and_encoded() -> None:
    report = decode_workload_report(text())
    assert report == WorkloadReport(
        name="b_malloc_sparse",
        ops=1,
        passes=(
            Pass(wall_ns=100, cpu_ns=90, run_delay_ns=None, minflt=5, majflt=0, nvcsw=1, nivcsw=2),
            Pass(wall_ns=110, cpu_ns=95, run_delay_ns=7, minflt=6, majflt=0, nvcsw=1, nivcsw=2),
        ),
        memory=Memory(virt_bytes=4096, res_bytes=8192, dirty_bytes=0),
        malloc="/lib/libc.so",
        mapped=("/lib/libc.so",),
        check="9af",
    )
    assert encode_workload_report(report) == text()


@light
@given(done_reports | failed_reports)
def test_reports_round_trip(report: WorkloadReport) -> None:
    assert decode_workload_report(encode_workload_report(report)) == report


@light
@given(done_reports | failed_reports, st.data())
def test_any_truncation_is_an_error(report: WorkloadReport, data: st.DataObject) -> None:
    whole = encode_workload_report(report)
    with pytest.raises(WireError):
        decode_workload_report(whole[: data.draw(st.integers(0, len(whole) - 1))])


@light
@given(done_reports, st.data())
def test_a_changed_byte_is_an_error_or_another_valid_report(report: WorkloadReport, data: st.DataObject) -> None:
    whole = bytearray(encode_workload_report(report))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        got = decode_workload_report(bytes(whole))
    except WireError:
        return
    # The decoded report encodes to the input. Only text that is not UTF-8 is escaped.
    for encoded, read in zip(encode_workload_report(got).splitlines(), bytes(whole).splitlines(), strict=True):
        assert encoded == read or read.startswith((b"name ", b"malloc ", b"mapped ", b"check ", b"error "))


@light
@given(st.binary(max_size=300))
def test_random_bytes_never_decode_to_measurements(noise: bytes) -> None:
    # Hypothesis can find the shortest valid report, which is an error of a few letters.
    for data in (noise, b"swapstone-workload 2\n" + noise):
        with contextlib.suppress(WireError):
            read = decode_workload_report(data)
            assert read.error and not read.passes and read.memory is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "The workload printed nothing."),
        (b"Hello, world\n", "Line 1 of the workload's report: 'Hello, world' is not 'swapstone-workload 2'."),
        (b"swapstone-workload 2\n", "Line 1 of the workload's report: the report stops here, without an 'end'."),
        (text(swapstone_workload="swapstone-workload 3"), "Line 1 .*is not 'swapstone-workload 2'"),
        (text(end=None), "Line 10 .*the report stops here, without an 'end'"),
        (text().removesuffix(b"\n"), "Line 10 .*without an 'end'"),
        (text() + b"end\n", "Line 11 .*printed more after its 'end'"),
        (text() + b"x", "Line 11 .*printed more after its 'end'"),
        (text(name=None), "Line 2 .*should begin with 'name' and is 'ops 1'"),
        (text(name="name %"), "Line 2 .*the name is empty"),
        (text(ops="ops 0"), "Line 3 .*the number of operations is 0, outside 1 to"),
        (text(passes="passes 3"), "Line 7 .*the report has 2 of 3 passes"),
        (text(passes="passes 1"), "Line 6 .*should begin with 'memory' and is 'pass 110"),
        (text(passes="passes 0"), "Line 4 .*the number of passes is 0"),
        (text(passes="passes 10000000"), "Line 7 .*the report has 2 of 10000000 passes"),
        (text(passes="passes 10000001"), "Line 4 .*the number of passes is 10000001, outside 1 to 10000000"),
        (text(**{"pass": "pass -3 90 0 5 0 1 2"}), "Line 5 .*the wall time of pass 1 is negative: -3"),
        (text(**{"pass": "pass 0 90 0 5 0 1 2"}), "Line 5 .*the wall time of pass 1 is 0, outside 1"),
        (text(**{"pass": "pass nan 90 0 5 0 1 2"}), "Line 5 .*the wall time of pass 1 is 'nan', not a whole number"),
        (text(**{"pass": "pass 1e9 90 0 5 0 1 2"}), "Line 5 .*'1e9', not a whole number"),
        (text(**{"pass": "pass 1 -1 0 5 0 1 2"}), "Line 5 .*the CPU time of pass 1 is negative: -1"),
        (text(**{"pass": "pass 9223372036854775808 9 0 5 0 1 2"}), "Line 5 .*outside 1 to 9223372036854775807"),
        (text(**{"pass": "pass 1 - 0 5 0 1 2"}), "Line 5 .*the CPU time of pass 1 is '-', not a whole number"),
        (text(**{"pass": "pass 1 2 3"}), "Line 5 .*'pass' has 3 numbers, not 7"),
        (text(memory=None), "Line 7 .*should begin with 'memory'"),
        (text(memory="memory 1 2 -3"), "Line 7 .*the dirty memory is negative: -3"),
        (text(malloc=None), "Line 8 .*should begin with 'malloc' and is 'mapped /lib/libc.so'"),
        (text(malloc="malloc"), "Line 8 .*should begin with 'malloc' and is 'malloc'"),
        (text(check="mapped /a b"), "Line 10 .*not percent-encoded"),
        (text(check="checksum 1"), "Line 10 .*should be 'end' and is 'checksum 1'"),
        (text(check="error %"), "Line 10 .*the error is empty"),
    ],
)
def test_errors_name_the_line_and_the_cause(data: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_workload_report(data)


@pytest.mark.parametrize("after", range(1, 9))
def test_a_workload_can_report_an_error_at_any_line(after: int) -> None:
    lines = [*LINES[:after], "error no%20memory", "end"]
    report = decode_workload_report("".join(f"{line}\n" for line in lines).encode())
    assert report.error == "no memory"
    assert report.name == ("b_malloc_sparse" if after > 1 else "")
    assert report.memory is None
