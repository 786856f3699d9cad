# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the command line in a separate process."""

from __future__ import annotations

import array
import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.json_schema import check_printed

TOP = Path(__file__).parents[2]

TIMEOUT_S = 900
MEASURED = frozenset({0, 4})
"""Statuses of a comparison of a few blocks of work that all depends on processors: a busy machine may have left nothing to compare."""

OTHER_SEED = frozenset({"rerun", "verify", "--resume"})

FAKE = """
seed = 3
[[behaviour]]
wall_ns = 2_000_000
noise = 0.01
pass_noise = 0.005
[[behaviour]]
variant = "libc=musl*"
wall_ns = 3_000_000
virt_bytes = 16384
"""


def environment(records: Path, **changes: str) -> dict[str, str]:
    """Return an environment for the command line: records in the test's folder, and hints with the name of the installed command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWAPSTONE_")}
    ours = {"PYTHONPATH": str(TOP / "src"), "SWAPSTONE_RECORDS": str(records), "SWAPSTONE_COMMAND": "swapstone"}
    return {**kept, **ours, **changes}


def command(*arguments: str) -> list[str]:
    """Return the command line as a list."""
    return [sys.executable, "-m", "swapstone", *arguments]


def swapstone(
    records: Path, *arguments: str, expect: int | frozenset[int] = 0, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and check its exit status.

        Most of a start is imports. Therefore a command runs in a fork of a process that has made the imports: see `tests.e2e.fork_server`.
    Forks share the seed of Python's hashes, which would hide an order that depends on the seed. Therefore commands with one of the
    words `OTHER_SEED`, which examine what another command wrote, are forks of a second process. JSON that a command prints is compared
    with its published schema.

    Args:
            records: folder of the records, and working directory.
            arguments: of the command line.
            expect: the exit status, or each that it may be.
            changes: variables of its environment.
    """
    asked, of_the_interpreter = environment(records, **changes), ("PYTHON", "LC_", "LANG", "OPENBLAS", "OMP")
    if any(name.startswith(of_the_interpreter) for name in changes):
        result = run_started(records, list(arguments), asked)
    else:
        other = expect == 0 and not OTHER_SEED.isdisjoint(arguments)  # a refused command has no output to compare
        result = run_forked(records, list(arguments), asked, other_seed=other)
    expected = {expect} if isinstance(expect, int) else expect
    assert result.returncode in expected, f"status {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr
    if result.stdout.startswith('{\n "format": "swapstone-'):
        check_printed(result.stdout)
    return result


def run_started(folder: Path, arguments: list[str], asked: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=asked, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder
    )


def forked_status(
    folder: Path,
    arguments: list[str],
    asked: dict[str, str],
    *,
    out: int,
    err: int,
    closed: tuple[int, ...] = (),
    other_seed: bool = False,
) -> int:
    """Run a command in a fork and return its exit status.

    Args:
        folder: working directory.
        arguments: of the command line.
        asked: the environment.
        out: descriptor of its standard output.
        err: descriptor of its standard error.
        closed: numbers of the standard descriptors that are closed.
        other_seed: whether it is a fork of the second process, whose hashes have another seed.
    """
    channel = server_channel(other_seed)
    request = {"arguments": arguments, "environment": asked, "folder": str(folder), "closed": closed}
    files = array.array("i", [out, err])
    channel.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    process = int(channel.recv(64))
    try:
        return int(channel.recv(64))
    except TimeoutError:
        os.kill(process, signal.SIGKILL)
        channel.recv(64)
        raise


def run_forked(
    folder: Path, arguments: list[str], asked: dict[str, str], *, other_seed: bool = False
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        status = forked_status(folder, arguments, asked, out=out.fileno(), err=err.fileno(), other_seed=other_seed)
        out.seek(0)
        err.seek(0)
        # text=True reads a pipe in this way.
        stdout, stderr = (file.read().decode().replace("\r\n", "\n").replace("\r", "\n") for file in (out, err))
    return subprocess.CompletedProcess(command(*arguments), status, stdout, stderr)


@functools.cache
def server_channel(other_seed: bool) -> socket.socket:
    """Start a fork server and return the socket to it. One has the seed 0, the other a random one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", TOP / "tests" / "e2e" / "fork_server.py", str(theirs.fileno())],
            env=environment(Path("/nonexistent"), PYTHONHASHSEED="0" if other_seed else "random"),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    ours.settimeout(TIMEOUT_S)
    return ours


def fake(folder: Path, extra: str = "") -> str:
    """Write a spec for the fake target and return the target's name."""
    path = folder / "fake.toml"
    path.write_text(FAKE + extra)
    return f"fake:{path}"


def runs_of(record: Path) -> list[dict[str, Any]]:
    """Return a record's runs without times of day and facts."""
    lines = [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]
    for run in lines:
        for name in ("started_unix_ns", "elapsed_ns", "facts"):
            run.pop(name, None)
    return lines
