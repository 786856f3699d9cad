# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plan of a request."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from swapstone.core.model import (
    Observation,
    WireError,
    cgroup_file,
    environment_variable,
    process_file,
    system_file,
)
from swapstone.core.wire import LoadGeneratorRequest, TrialRequest, encode_request
from tests.unit.wire.strategies import light, requests

REQUEST = TrialRequest(
    id="1-2",
    arguments=("/bin/prog", "a b\n", "", "é%"),
    environment=(("LC_ALL", "C"), ("EMPTY", "")),
    cwd="/tmp",
    cpus=(1, 3),
    stdin="/in put",
    stdout="/dev/null",
    nice=-5,
    timeout_ms=60_000,
    output_bytes=65_536,
    disk_bytes=1 << 30,
)


def test_an_encoded_request_has_the_documented_lines() -> None:
    assert encode_request(REQUEST).decode().splitlines() == [
        "trial 1-2",
        "arg /bin/prog",
        "arg a%20b%0A",
        "arg %",
        "arg %C3%A9%25",
        "env LC_ALL=C",
        "env EMPTY=",
        "cwd /tmp",
        "cpus 1,3",
        "nice -5",
        "timeout-ms 60000",
        "output-bytes 65536",
        "disk-bytes 1073741824",
        "stdin /in%20put",
        "stdout /dev/null",
        "run",
    ]


def test_observations_are_encoded_in_order() -> None:
    what = (environment_variable("A b"), process_file("limits"), cgroup_file("memory.max"), system_file("/proc/x"))
    lines = encode_request(TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1, observe=what)).decode()
    assert lines.splitlines()[-5:] == [
        "observe env A%20b",
        "observe proc limits",
        "observe cgroup memory.max",
        "observe file /proc/x",
        "run",
    ]


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ((environment_variable("A=B"),), "'env A=B' can't be observed"),
        ((environment_variable(""),), "can't be observed"),
        ((process_file("fd/3"),), "'proc fd/3' can't be observed"),
        ((process_file(".."),), "can't be observed"),
        ((cgroup_file("../x"),), "can't be observed"),
        ((system_file("etc/passwd"),), "can't be observed"),
        ((environment_variable("A\0"),), "zero byte"),
        ((environment_variable("A"),) * 2, "an observation twice"),
        (tuple(environment_variable(f"A{number}") for number in range(65)), "more than 64 observations"),
    ],
)
def test_an_invalid_observation_is_refused(what: tuple[Observation, ...], text: str) -> None:
    with pytest.raises(WireError, match=re.escape(text)):
        encode_request(TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1, observe=what))


def test_a_server_request_has_the_lines_of_its_load_generator() -> None:
    generator = LoadGeneratorRequest(
        port=23456, arguments=("/usr/bin/wrk", "-c", "1"), environment=(("A", "b c"),), cpus=(0,), warm_ms=300
    )
    lines = encode_request(
        TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1, load_generator=generator)
    ).decode()
    assert lines.splitlines()[7:] == [
        "port 23456",
        "ready-ms 10000",
        "warm-ms 300",
        "drain-ms 0",
        "stop-ms 5000",
        "driver-arg /usr/bin/wrk",
        "driver-arg -c",
        "driver-arg 1",
        "driver-env A=b%20c",
        "driver-cpus 0",
        "run",
    ]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"port": 0}, "the port is 0, outside 1 to 65535"),
        ({"port": 65536}, "the port is 65536"),
        ({"arguments": ()}, "there is no load generator to run"),
        ({"arguments": ("wrk",)}, "a path is not absolute"),
        ({"arguments": ("/wrk", "a\0b")}, "holds a zero byte"),
        ({"environment": (("A=", "b"),)}, "a variable's name is empty or holds '='"),
        ({"cpus": (4096,)}, "the processor is 4096"),
        ({"ready_ms": 0}, "the time to be ready is 0"),
        ({"warm_ms": -1}, "the time to warm up is -1"),
        ({"stop_ms": 0}, "the time to stop is 0"),
    ],
)
def test_an_invalid_load_generator_request_is_refused(changed: dict[str, object], text: str) -> None:
    generator = LoadGeneratorRequest(**{"port": 80, "arguments": ("/wrk",), **changed})  # type: ignore[arg-type] # one field at a time
    with pytest.raises(WireError, match=text):
        encode_request(TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1, load_generator=generator))


def test_fields_that_are_not_set_are_omitted_and_output_and_disk_are_limited() -> None:
    lines = encode_request(TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1)).decode().splitlines()
    assert "cpus all" in lines
    assert {"output-bytes 65536", "disk-bytes 1073741824"} <= set(lines)
    assert not [line for line in lines if line.startswith(("nice", "env", "stdin", "stdout"))]


@light
@given(requests)
def test_every_line_is_printable_ascii(request_: TrialRequest) -> None:
    for line in encode_request(request_).removesuffix(b"\n").split(b"\n"):
        assert all(0x20 <= byte < 0x7F for byte in line)


def test_file_names_that_are_not_utf8_are_encoded() -> None:
    odd = TrialRequest(id="a", arguments=(b"/a\xff".decode("utf-8", "surrogateescape"),), cwd="/", timeout_ms=1)
    assert b"arg /a%FF\n" in encode_request(odd)


_GENERATOR = LoadGeneratorRequest(port=80, arguments=("/wrk",))


def test_a_root_is_encoded_after_the_folder() -> None:
    asked = TrialRequest(
        id="a", arguments=("/a",), cwd="/b", root="/r s", root_layer="/l", root_files="/f", timeout_ms=1
    )
    lines = encode_request(asked).decode().splitlines()
    assert lines[2:7] == ["cwd /b", "root /r%20s", "root-layer /l", "root-files /f", "cpus all"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"id": "a b"}, "is no trial identifier"),
        ({"id": ""}, "is no trial identifier"),
        ({"arguments": ()}, "there is no program"),
        ({"arguments": ("prog",)}, "a path is not absolute"),
        ({"cwd": "."}, "a path is not absolute"),
        ({"stdin": "in"}, "a path is not absolute"),
        ({"stdout": "out"}, "a path is not absolute"),
        ({"stdin": "/a\0"}, "zero byte"),
        ({"root": "r"}, "a path is not absolute"),
        ({"root": "/r", "root_layer": "l"}, "a path is not absolute"),
        ({"root": "/r", "root_files": "f"}, "a path is not absolute"),
        ({"root": "/r:s"}, "a comma, a colon or a backslash"),
        ({"root": "/r", "root_layer": "/l,m"}, "a comma, a colon or a backslash"),
        ({"root_layer": "/l"}, "without root"),
        ({"root_files": "/f"}, "without root"),
        ({"arguments": ("/a", "b\0")}, "zero byte"),
        ({"arguments": ("/a", "\ud800")}, "can't be written as UTF-8"),
        ({"environment": (("A=B", "c"),)}, "a variable's name is empty or holds '='"),
        ({"environment": (("", "c"),)}, "a variable's name is empty"),
        ({"cpus": (-1,)}, "the processor is -1, outside 0 to 4095"),
        ({"nice": 20}, "the nice value is 20, outside -20 to 19"),
        ({"timeout_ms": 0}, "the time-out is 0"),
        ({"output_bytes": 1 << 30}, "the output limit is 1073741824"),
        ({"disk_bytes": 0}, "the disk limit is 0"),
        ({"arguments": ("/a", *["b"] * 4096)}, "more than 4096"),
        ({"arguments": ("/a", *["b" * 300_000] * 4)}, "longer than 1 MiB"),
        ({"arguments": ("/a", "é" * 100_000)}, "longer than an agent can read"),
    ],
)
def test_an_invalid_request_is_refused(changed: dict[str, object], message: str) -> None:
    fields: dict[str, object] = {"id": "a", "arguments": ("/a",), "cwd": "/", "timeout_ms": 1, **changed}
    with pytest.raises(WireError, match=message):
        encode_request(TrialRequest(**fields))  # type: ignore[arg-type] # a table of wrong values, one at a time


def test_the_nonce_is_the_second_line_of_a_trial() -> None:
    asked = TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1)
    nonce = "0123456789abcdef" * 2
    assert encode_request(asked, nonce).startswith(f"trial a\nnonce {nonce}\narg /a\n".encode())
    assert b"nonce" not in encode_request(asked)


@pytest.mark.parametrize("nonce", ["0", "0" * 31, "0" * 33, "A" * 32, "0" * 31 + "\n", "0" * 32 + "\n", "é" * 32])
def test_an_invalid_nonce_is_refused(nonce: str) -> None:
    with pytest.raises(WireError, match="nonce has not 32"):
        encode_request(TrialRequest(id="a", arguments=("/a",), cwd="/", timeout_ms=1), nonce)
