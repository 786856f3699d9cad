# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boards: comparisons through a program in ssh's place, and through a real sshd on 127.0.0.1 where there is one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.vm_images import need_emulator
from tests.e2e.cli import command, environment, runs_of, swapstone
from tests.e2e.ssh_server import SshServer, missing, ssh_server
from tests.fake_ssh import FakeSsh

EXPERIMENT = ("compare", "libc=glibc,musl", "--only", "b_malloc_tiny1", "--seed", "1")


def test_a_comparison_on_a_board_uses_its_own_copies_of_both_c_libraries(tmp_path: Path) -> None:
    ssh, record = FakeSsh(tmp_path / "board"), tmp_path / "r"
    swapstone(tmp_path, *EXPERIMENT, "--target", "ssh:board", "--blocks", "2", "--out", str(record), PATH=ssh.path)
    runs = runs_of(record)
    assert len(runs) == 6 and {run["status"] for run in runs} == {"ok"}
    assert {dict(run["observed"])["libc"] for run in runs} == {"glibc", "musl"}
    manifest = json.loads((record / "manifest.json").read_text())
    started = {
        (each["variant"], each["sha256"]) for each in manifest["artifacts"] if each["workload"] == "b_malloc_tiny1"
    }
    assert started < {(each["variant"], each["sha256"]) for each in manifest["mapped"]}, "and what they map"
    assert {(each["kept"], each["alone"]) for each in manifest["mapped"]} == {("", False)}, "alike in its page cache"
    tools = dict(manifest["tools"])
    assert tools["board"] == f"board, folder {ssh.board}"
    assert {name.split("-")[1] for name in tools if name.startswith("C library of ld-")} == {"linux", "musl"}
    for each in manifest["artifacts"]:
        if each["command"] and "--dynamic-linker" in each["command"]:
            assert f"--dynamic-linker={ssh.board}/files/" in each["command"]
    swapstone(tmp_path, "verify", str(record))
    assert not list(ssh.board.glob("scratch-*")) and not list(ssh.folder.glob("swapstone-board-lock-*"))


def test_a_null_comparison_on_a_board_runs_a_copy_there(tmp_path: Path) -> None:
    ssh, record = FakeSsh(tmp_path / "board"), tmp_path / "r"
    words = (*EXPERIMENT, "--null", "--target", "ssh:board", "--blocks", "1", "--out", str(record))
    swapstone(tmp_path, *words, PATH=ssh.path)
    assert {run["status"] for run in runs_of(record)} == {"ok"}
    manifest = json.loads((record / "manifest.json").read_text())
    first, again = (
        {each["path"] for each in manifest["mapped"] if each["variant"] == name and each["path"].endswith("/prog")}
        for name in ("libc=glibc", "libc=glibc (again)")
    )
    assert len(first) == len(again) == 1 and first != again
    built = {each["variant"]: each["path"] for each in manifest["artifacts"] if each["workload"] == "b_malloc_tiny1"}
    assert built["libc=glibc"] == built["libc=glibc (again)"], "the file here"


def test_a_shared_object_that_a_workload_loads_is_copied_with_it(tmp_path: Path) -> None:
    ssh, record = FakeSsh(tmp_path / "board"), tmp_path / "r"
    experiment = ("compare", "libc=glibc,musl", "--suite", "libc-extra", "--only", "dlopen", "--blocks", "1")
    swapstone(tmp_path, *experiment, "--target", "ssh:board", "--out", str(record), PATH=ssh.path)
    assert {run["status"] for run in runs_of(record)} == {"ok"}
    folders = [path.parent for path in (ssh.board / "files").glob("*/object.so")]
    assert [len(list(folder.iterdir())) for folder in folders] == [2, 2]


def test_doctor_and_clean_of_a_board(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "board")
    text = swapstone(tmp_path, "doctor", "--target", "ssh:board", PATH=ssh.path).stdout
    assert "What the board can do" in text and "programs can be written and run" in text
    found = json.loads(swapstone(tmp_path, "doctor", "--target", "ssh:board", "--json", PATH=ssh.path).stdout)
    states = {each["name"]: each["state"] for each in found["can"]}
    assert states["observing a trial"] == "good" and states["swap=LEVEL"] in {"good", "missing"}
    assert "Removed " in swapstone(tmp_path, "target", "clean", "ssh:board", PATH=ssh.path).stdout
    assert "nothing to remove" in swapstone(tmp_path, "target", "clean", "ssh:board", PATH=ssh.path).stdout
    refused = swapstone(tmp_path, "doctor", "--target", "host", expect=2)
    assert refused.stderr.startswith("error: The target host is no board.\n")


def test_what_a_board_does_not_have_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    ssh = FakeSsh(tmp_path / "board")
    for words, message in (
        (("compare", "kernel=generic,rt"), "starts no machine of its own"),
        (("compare", "allocator=default,mimalloc", "--suite", "server"), "no load generators"),
        (("compare", "--vary", "env:A=1,2", "--", "/bin/true"), "can't run on the target ssh"),
        (("compare", "netstack=kernel,lwip"), "not for the target ssh"),
    ):
        target = ("--target", "ssh:board", "--blocks", "1")
        refused = swapstone(tmp_path, words[0], *target, *words[1:], PATH=ssh.path, expect=2)
        assert message in refused.stderr


needs_sshd = pytest.mark.skipif(bool(missing()), reason=missing() or "sshd is there")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as found:
        yield found


def board_of(server: SshServer, tmp_path: Path) -> str:
    return f"{server.target},folder={tmp_path}/there"


def lines_of(record: Path) -> str:
    path = record / "runs.jsonl"
    return path.read_text() if path.exists() else ""


@needs_sshd
@pytest.mark.slow
def test_a_connection_that_is_cut_loses_and_doubles_nothing(server: SshServer, tmp_path: Path) -> None:
    record = tmp_path / "r"
    words = (*EXPERIMENT, "--target", board_of(server, tmp_path), "--blocks", "8", "--out", str(record))
    asked = environment(tmp_path, PATH=f"{server.bin}:{os.environ['PATH']}")
    process = subprocess.Popen(command(*words), env=asked, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for number in (3, 7):
        while process.poll() is None and lines_of(record).count("\n") < number:
            time.sleep(0.02)
        for session in server.sessions():
            os.kill(session, signal.SIGKILL)
    assert process.stderr is not None
    assert process.wait(120) == 0, process.stderr.read()
    process.stderr.close()
    runs = [json.loads(line)["run"] for line in lines_of(record).splitlines()]
    assert len(runs) == 18 and {run["status"] for run in runs} == {"ok"}
    assert len({json.dumps(run["trial"], sort_keys=True) for run in runs}) == 18
    assert sum(dict(run["facts"]).get("reconnects", 0) for run in runs) in {1, 2}
    assert "The connection to the board ended during" in swapstone(tmp_path, "show", str(record), "--all").stdout
    swapstone(tmp_path, "verify", str(record))


@needs_sshd
@pytest.mark.slow
def test_an_unknown_host_key_and_a_refused_key_are_errors_with_the_next_step(server: SshServer, tmp_path: Path) -> None:
    path = f"{server.bin}:{os.environ['PATH']}"
    known = server.known_hosts.read_text()
    try:
        server.known_hosts.write_text("")
        refused = swapstone(tmp_path, "doctor", "--target", server.target, PATH=path, expect=2)
        assert "Host key verification failed" in refused.stderr and "Connect once by hand" in refused.stderr
    finally:
        server.known_hosts.write_text(known)
    unknown_user = server.target.replace("ssh:", "ssh:nobody-", 1)
    refused = swapstone(tmp_path, "doctor", "--target", unknown_user, PATH=path, expect=2)
    assert "Permission denied" in refused.stderr and "ssh-copy-id" in refused.stderr


def simulated_boards(folder: Path) -> list[str]:
    """Write the specifications of three boards, of which the second differs, and return the targets."""
    for number, candidate_ns in enumerate((3_000_000, 3_600_000, 3_030_000), start=1):
        (folder / f"board{number}.toml").write_text(
            f'seed = {number}\n[[behaviour]]\nwall_ns = 2_000_000\nnoise = 0.02\n[[behaviour]]\nvariant = "libc=musl*"\n'
            f"wall_ns = {candidate_ns}\nnoise = 0.02\n"
        )
    return [f"fake:board{number}.toml" for number in (1, 2, 3)]


def test_a_folder_of_several_boards_stands_for_its_records(tmp_path: Path) -> None:
    targets = ("--target", ",".join(simulated_boards(tmp_path)))
    swapstone(tmp_path, *EXPERIMENT, *targets, "--blocks", "20", "--seed", "1", "--out", "a")
    alone = swapstone(tmp_path, "agree", "a", "--json").stdout
    assert alone == swapstone(tmp_path, "agree", "a/board-1", "a/board-2", "a/board-3", "--json").stdout
    refused = swapstone(tmp_path, "agree", "a/board-1", "a/board-1", "a/board-2", expect=2)
    assert "swapstone agree RECORD RECORD" in refused.stderr


def test_several_boards_have_a_record_each_and_a_report_over_all(tmp_path: Path) -> None:
    names = simulated_boards(tmp_path)
    out = ("--blocks", "20", "--out", str(tmp_path / "r"))
    shown = swapstone(tmp_path, *EXPERIMENT, "--target", ",".join(names), *out)
    answer = "boards and over all of them; board 2, fake:board2.toml, differs in "
    assert answer in " ".join(shown.stdout.split()) and "board 3 of 3: fake:board3.toml" in shown.stderr
    assert "board 2 of 3: building 2 programs" in shown.stderr
    records = [str(tmp_path / "r" / f"board-{number}") for number in (1, 2, 3)]
    table = json.loads(swapstone(tmp_path, "agree", *records, "--json").stdout)["tables"][0]["table"]
    assert table["names"] == names
    wall = next(row for row in table["rows"] if row["metric"]["name"] == "wall")
    over = wall["judgement"]
    assert over["deviating"] == [1] and over["low"] < 1.5 and over["high"] > 1.8 and over["verdict"] == "worse"
    assert len(swapstone(tmp_path, "agree", *records[:2], "--csv").stdout.splitlines()) > 1


@pytest.mark.slow
def test_a_board_s_record_is_compared_with_that_of_a_virtual_machine(tmp_path: Path) -> None:
    """One is measured on the wall clock, the other counted: `agree` compares their sizes and signs."""
    need_emulator()
    ssh = FakeSsh(tmp_path / "board")
    swapstone(tmp_path, *EXPERIMENT, "--target", "ssh:board", "--blocks", "4", "--out", "measured", PATH=ssh.path)
    swapstone(tmp_path, *EXPERIMENT, "--target", "vm", "--blocks", "2", "--out", "counted")
    table = json.loads(swapstone(tmp_path, "agree", "measured", "counted", "--json").stdout)
    rows = table["tables"][0]["table"]["rows"]
    assert any(row["workload"] == "b_malloc_tiny1" for row in rows)
    swapped = json.loads(swapstone(tmp_path, "agree", "counted", "measured", "--json").stdout)
    assert len(swapped["tables"][0]["table"]["rows"]) == len(rows)
