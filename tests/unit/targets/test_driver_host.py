# SPDX-License-Identifier: MIT OR Apache-2.0
"""The connection to the load generators' machine, with a program in ssh's place that runs the commands here or answers as it likes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UnavailableError, UserError, WireError
from swapstone.core.targets.host import ready_listener
from swapstone.parts.boards.model.ssh_address import DriverTarget
from swapstone.parts.boards.targets import ssh_connection
from swapstone.parts.boards.targets.driver_host import DriverHost
from swapstone.parts.boards.targets.ssh_connection import SshConnection

CALLED = """#!/bin/sh
printf '%s\\n' "$@" >>{log}
while [ "$1" != -- ]; do shift; done
shift 2
SSH_CONNECTION='127.0.0.1 40000 127.0.0.1 22'; export SSH_CONNECTION
"""
HONEST = 'exec /bin/sh -c "$*"\n'


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "called"


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str) -> None:
    """Put a program in ssh's place."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(CALLED.format(log=tmp_path / "called") + rest)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DriverHost]:
    install(tmp_path, monkeypatch, HONEST)
    found = DriverHost(DriverTarget(host="board", user="me", port=2222))
    yield found
    found.close()


def test_facts_of_the_machine_and_of_its_programs_are_observed(host: DriverHost) -> None:
    program = host.find("cat")
    facts = dict(host.facts())
    assert facts["load generators on"] == "me@board:2222"
    assert facts["load generators' machine: architecture"] == os.uname().machine == host.architecture
    assert os.uname().release in facts["load generators' machine: kernel"]
    assert facts["load generators' machine: same kernel as the servers'"] == "yes"
    assert facts["servers listen on"] == host.address == "127.0.0.1"
    assert facts["driver cat"] == f"{program.path}, sha256 {program.sha256}"


def test_the_users_configuration_decides_about_keys_and_unknown_hosts_are_refused(host: DriverHost, log: Path) -> None:
    host.find("cat")
    for words in log.read_text().split("-o\nBatchMode=yes\n")[1:]:
        assert "StrictHostKeyChecking=yes\n" in words
        assert "ForwardAgent=no\n" in words
        assert "\n-p\n2222\n-l\nme\n" in words
        assert "\n--\nboard\n" in words
    assert "UserKnownHostsFile" not in log.read_text()


def test_a_command_runs_with_its_arguments_while_standard_input_never_ends(host: DriverHost) -> None:
    program = host.find(os.path.realpath(sys.executable))
    command = host.command(program, ("-c", "import sys; print(sys.argv[1:])", "a b", "$(x)", "'"), 30)
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, env={})
    assert found.stdout == "['a b', '$(x)', \"'\"]\n"


def test_a_copied_program_is_that_of_this_machine(host: DriverHost, tmp_path: Path) -> None:
    (tmp_path / "client").write_text("#!/bin/sh\necho copied\n")
    (tmp_path / "client").chmod(0o755)
    program = host.copy(tmp_path / "client")
    assert program.path.startswith("/tmp/swapstone-driver-")
    found = subprocess.run(host.command(program, (), 30), capture_output=True, text=True, check=True, env={})
    assert found.stdout == "copied\n"
    Path(program.path).write_text("#!/bin/sh\necho other\n")
    changed = subprocess.run(host.command(program, (), 30), capture_output=True, text=True, check=False, env={})
    assert (changed.returncode, changed.stdout) == (97, "")


def test_a_copy_that_arrives_changed_is_refused(
    host: DriverHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "client").write_text("content")
    real = SshConnection.call

    def shortened(connection: SshConnection, command: str, content: object = None) -> bytes:
        if content is None:
            return real(connection, command)
        with (tmp_path / "empty").open("w+b") as empty:
            return real(connection, command, empty)

    monkeypatch.setattr(SshConnection, "call", shortened)
    with pytest.raises(UserError, match="another content"):
        host.copy(tmp_path / "client")


def test_a_missing_program_another_architecture_and_long_commands_are_errors(
    host: DriverHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnavailableError, match="not installed on me@board:2222"):
        host.find("no-such-program-here")
    with pytest.raises(UserError, match="too long"):
        host.command(host.find("cat"), ("x" * 40_000,), 1)
    monkeypatch.setitem(host._facts, "architecture", "riscv64")
    with pytest.raises(UnavailableError, match="riscv64"):
        host.copy(Path(shutil.which("cat") or "/bin/cat"))


def test_the_end_removes_the_folder_there_and_can_be_repeated(host: DriverHost) -> None:
    there = Path(host._there)
    assert there.is_dir()
    host.close()
    host.close()
    assert not there.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rest", "error", "message"),
    [
        ("echo 'Host key verification failed.' >&2; exit 255\n", UnavailableError, "Host key verification failed"),
        ("printf 'a\\033[31mb\\n' >&2; exit 255\n", UnavailableError, r"a\\x1b\[31mb"),
        ("exit 0\n", UnavailableError, "without a message"),
        ("echo Welcome; cat >/dev/null\n", UnavailableError, "did not answer within"),
        ("exec yes\n", WireError, "more than 16384 bytes"),
        ("exec yes >&2\n", WireError, "more than 16384 bytes"),
        ("printf '\\nswapstone-0 CPU\\n4\\nswapstone-0 end\\n'; exec cat >/dev/null\n", WireError, "not valid"),
        (
            "printf '\\nswapstone-0 missing\\nod\\nswapstone-0 end\\n'; exec cat >/dev/null\n",
            UnavailableError,
            "lacks programs: od",
        ),
        (
            "printf '\\nswapstone-0 client\\n8.8.8.8\\nswapstone-0 end\\n'; exec cat >/dev/null\n",
            UnavailableError,
            "8.8.8.8, is no address of this machine",
        ),
        (
            "printf '\\nswapstone-0 client\\n$`$\\nswapstone-0 end\\n'; exec cat >/dev/null\n",
            UnavailableError,
            "is no address of this machine",
        ),
    ],
)
def test_hostile_and_failing_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str, error: type[UserError], message: str
) -> None:
    install(tmp_path, monkeypatch, rest)
    monkeypatch.setattr("swapstone.parts.boards.targets.driver_host.secrets.token_hex", lambda _: "0")
    monkeypatch.setattr(ssh_connection, "ANSWER_S", 1.0 if "cat >/dev/null\n" in rest and "end" not in rest else 30.0)
    with pytest.raises(error, match=message) as raised:
        DriverHost(DriverTarget(host="board"))
    assert "\x1b" not in str(raised.value)


def test_without_ssh_the_machine_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="needs the command 'ssh', which is not installed"):
        DriverHost(DriverTarget(host="board"))


def test_the_agent_notices_a_server_on_another_address() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.2", 0))
        port = server.getsockname()[1]
        with ready_listener("127.0.0.2", port):
            with socket.socket() as early:
                assert early.connect_ex(("127.0.0.1", port)) != 0
            server.listen()
            for _ in range(3000):
                with socket.socket() as attempt:
                    if attempt.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.01)
            else:
                pytest.fail("nothing listens on 127.0.0.1")
        with socket.socket() as late:
            assert late.connect_ex(("127.0.0.1", port)) != 0
