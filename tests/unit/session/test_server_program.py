# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of an own server: the load generators that they give, and the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import FactorLevels, LoadGenerator, UserError
from swapstone.core.session.command_text import command_line
from swapstone.core.session.options import Program
from swapstone.core.session.own_program_request import own_program, program_factor
from swapstone.core.session.request import resolve
from swapstone.core.session.server_program import server_notes
from swapstone.core.workloads import workloads_of
from swapstone.core.workloads.server_metrics import closed_loop_notes
from tests.small_records import request_of

SERVER = "./my-server --port {port}"
LOAD_GENERATOR = "/bin/echo -c {connections} http://127.0.0.1:{port}/"


def server_request(**changed: object) -> Program:
    fields: dict[str, object] = {
        "server": SERVER,
        "load_generator": LOAD_GENERATOR,
        "connections": "1,10",
        "read": "wrk",
        **changed,
    }
    return Program(**fields)  # type: ignore[arg-type] # one of its fields at a time


def test_each_number_of_connections_is_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = own_program(server_request(warm_up="0", ready_timeout="2s"))
    assert own is not None
    assert own.arguments == (str(tmp_path / "my-server"), "--port", "{port}")
    assert own.load_generators == tuple(
        LoadGenerator(
            command=("/bin/echo", "-c", str(count), "http://127.0.0.1:{port}/"),
            reader="wrk",
            connections=count,
            warm_ms=0,
            ready_ms=2000,
        )
        for count in (1, 10)
    )
    resolved = resolve(
        request_of(
            name="compare",
            factors=(FactorLevels(factor="allocator", levels=("default", "mimalloc")),),
            suites=(),
            own=own,
        )
    )
    assert resolved.workloads == (("own", "my-server(c=1)"), ("own", "my-server(c=10)"))
    works = workloads_of(resolved)
    assert [work.load_generator for work in works.values()] == list(own.load_generators)
    assert command_line(resolved) == f"--server '{tmp_path}/my-server --port {{port}}'"
    (note,) = server_notes(resolved)
    assert note.startswith("wrk's percentiles come partly from a model")  # the reader decides, not the command's name
    assert "coordinated omission" in note


def test_wrks_percentiles_are_a_model_and_not_compared_with_those_of_others() -> None:
    wrk, others = closed_loop_notes(("wrk", "ab", "redis-benchmark"))
    assert wrk.startswith("wrk's percentiles come partly from a model: since version 4.0 it adds latencies")
    assert "can't be compared with those of ab" in wrk and "look better" not in wrk
    assert others.startswith("ab and redis-benchmark send the next request") and "wrk" not in others
    assert closed_loop_notes(()) == ()


def test_one_driver_keeps_the_servers_name() -> None:
    own = own_program(server_request(load_generator="swapstone-pace --port {port}", connections=None, read=None))
    assert own is not None
    assert own.load_generators == (
        LoadGenerator(command=("swapstone-pace", "--port", "{port}"), reader="swapstone-pace"),
    )
    resolved = resolve(
        request_of(
            name="compare",
            factors=(FactorLevels(factor="allocator", levels=("default", "mimalloc")),),
            suites=(),
            own=own,
        )
    )
    assert resolved.workloads == (("own", "my-server"),)
    assert server_notes(resolved) == ()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"load_generator": None}, "--server needs --load-generator"),
        ({"server": "./s"}, "--server receives no port"),
        ({"server": "./s '{port}"}, "The quotes of --server don't match"),
        ({"server": ""}, "--server is empty"),
        ({"load_generator": "/bin/echo {connections}"}, "--load-generator receives no port"),
        (
            {"load_generator": "/bin/echo {port}"},
            "--load-generator has no {connections}: every number would give the same load",
        ),
        ({"connections": None}, "--load-generator has {connections}, and --connections is missing"),
        ({"connections": "1,1"}, "no list of different numbers"),
        ({"connections": "0"}, "no list of different numbers from 1 to 10000"),
        ({"connections": "a"}, "no list of different numbers"),
        ({"read": None}, "Swapstone has no reader for the output of echo"),
        ({"read": "absent"}, "There is no reader 'absent'"),
        ({"load_generator": "./absent {port} {connections}"}, "The load generator ./absent is not an executable file"),
        (
            {"load_generator": "no-such-generator {port} {connections}"},
            "The load generator no-such-generator is not installed",
        ),
        (
            {"load_generator": "/bin/echo -q {port} {connections}", "read": "ab"},
            "With -q, ab does not print the figures that are read",
        ),
        ({"command": ("./x",)}, "--server names the program"),
        ({"programs": ("a=./x", "b=./y")}, "With --program, the command of --server starts with {program}"),
        ({"output": "null"}, "--output is not for a server"),
        ({"artifacts": ("out",)}, "--artifact is not for a server"),
        ({"output_may_differ": True}, "--output-may-differ is not for a server"),
        ({"ignore_failure": True}, "--ignore-failure is not for a server"),
        ({"cpu_bound": True}, "--cpu-bound is not for a server"),
    ],
)
def test_what_can_not_be(changed: dict[str, object], text: str) -> None:
    with pytest.raises(UserError, match=text):
        own_program(server_request(**changed))


@pytest.mark.parametrize(
    ("name", "option"),
    [("load_generator", "load-generator"), ("connections", "connections"), ("read", "read"), ("warm_up", "warm-up")],
)
def test_an_option_of_servers_without_a_server(name: str, option: str) -> None:
    with pytest.raises(UserError, match=f"--{option} is for a server, and there is none"):
        own_program(Program(**{"command": ("/bin/true",), name: "1"}))  # type: ignore[arg-type] # one of its fields


def test_the_port_may_be_in_the_environment() -> None:
    assert own_program(server_request(server="/bin/true", env=("PORT={port}",))) is not None


def test_two_builds_of_a_server_are_programs_with_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    own = own_program(
        server_request(
            server="{program} --port {port}",
            programs=("old=./old", "new=./new"),
            connections=None,
            load_generator="/bin/echo {port}",
        )
    )
    assert own is not None
    assert own.arguments == ("--port", "{port}")
    assert own.programs == (("old", f"{tmp_path}/old"), ("new", f"{tmp_path}/new"))
    resolved = resolve(request_of(name="compare", factors=program_factor(own), suites=(), own=own))
    options = (f"--program old={tmp_path}/old", f"--program new={tmp_path}/new")
    assert command_line(resolved) == " ".join((*options, "--server", "'{program} --port {port}'"))
    (work,) = workloads_of(resolved).values()
    assert work.load_generator is not None
