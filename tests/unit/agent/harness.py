# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs an agent in tests, and finds the processes that it left."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from swapstone.core.wire import AgentAnswer, TrialRequest, decode_answers, encode_plan_header, encode_request
from tests.shared import Shared

MARK = "SWAPSTONE_TEST_MARK"
SANITIZED = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
"""Options of a compiler: an index outside an array, or a sum beyond its type, ends the program. They need no library."""

Printed = Callable[..., tuple[bytes, list[str]]]
"""Runs a script of `fake_trial.c`: returns what the agent writes, and the calls."""

Calls = Callable[..., list[str]]
"""Runs `fake_calls.c` with arguments: returns what it prints."""


def compiled(shared: Shared, name: str, sources: tuple[str, ...], **limits: int) -> Path:
    """Return a program of a C file of this folder and sources of the agent, compiled once for all workers.

    Args:
        shared: of the fixture.
        name: of the C file, without its ending.
        sources: names of the agent's.
        limits: constants of `counters.c` that have another value in this program.
    """
    native = Path(__file__).parents[3] / "native"

    def fill(folder: Path) -> None:
        paths = [native / "agent" / f"{source}.c" for source in sources]
        for limit, value in limits.items():
            text = (native / "agent" / "counters.c").read_text()
            changed = re.sub(rf"\b{limit} = \d+", f"{limit} = {value}", text)
            assert changed != text, f"{limit} is no constant of counters.c"
            (folder / "counters.c").write_text(changed)
            paths = [folder / "counters.c" if path.stem == "counters" else path for path in paths]
        command: list[str | Path] = ["cc", "-std=gnu11", "-O1", *SANITIZED, "-I", native / "agent", "-o", folder / name]
        subprocess.run([*command, Path(__file__).parent / f"{name}.c", native / "wire" / "words.c", *paths], check=True)

    values = "".join(f"-{limit}-{value}" for limit, value in limits.items())
    return shared.folder(f"{name}{values}", fill) / name


def request(folder: Path, *arguments: str | Path, **changed: object) -> TrialRequest:
    """Return a request for a program. A variable of its environment marks all its descendants."""
    fields: dict[str, object] = {
        "id": "t",
        "arguments": tuple(map(str, arguments)),
        "environment": (("PATH", "/usr/bin:/bin"), (MARK, str(folder))),
        "cwd": str(folder),
        "timeout_ms": 20_000,
        **changed,
    }
    return TrialRequest(**fields)  # type: ignore[arg-type] # one of its fields at a time


def run(agent: Path, *requests: TrialRequest) -> tuple[AgentAnswer, ...]:
    """Return an agent's answers to a plan.

    This agent is in a process group of its own, as are those that tests start: a broken one that signals its group must not end pytest.
    """
    plan = encode_plan_header() + b"".join(map(encode_request, requests))
    result = subprocess.run([agent, "-"], process_group=0, input=plan, stdout=subprocess.PIPE, check=True, timeout=60)
    return decode_answers(result.stdout)


def one(agent: Path, asked: TrialRequest) -> AgentAnswer:
    (answer,) = run(agent, asked)
    return answer


def alive(folder: Path) -> list[int]:
    """Return the processes that a trial in this folder left, without zombies."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def agents(agent: Path) -> list[int]:
    """Return the processes that execute this agent. Only root can read the link ``exe`` of a process that is not dumpable."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[0] == os.fsencode(agent):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds; fail after a time-out."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.02)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Kill an agent, and close its pipes."""
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
    process.kill()
    process.wait()
