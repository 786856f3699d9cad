# SPDX-License-Identifier: MIT OR Apache-2.0
"""A lab with labgrid's coordinator and exporter on the loopback device: places are acquired and released, and kernels swapped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.boards.targets.labgrid_session import LabPlace, LabSession
from tests.e2e.cli import command, environment, swapstone
from tests.virtual_lab import PLACE, write_lab

LAB = """
targets:
  main:
    resources: [RemotePlace: {name: bench}]
    drivers: []
"""
EXPORTER = """
bench:
  NetworkService: {address: 192.0.2.7, port: 2222, username: me}
"""


class Lab:
    """A coordinator and an exporter, and the client's commands."""

    def __init__(self, folder: Path, exporter: Path) -> None:
        with socket.socket() as candidate:
            candidate.bind(("127.0.0.1", 0))
            self._port: int = candidate.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._folder, self._exporter = folder, exporter
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._start("coordinator", "-l", self.address)
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self._start("exporter", "-c", self.address, "-n", "lab", str(self._exporter))
        while "NetworkService" not in self.client("resources"):
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def client(self, *words: str, user: str = "") -> str:
        variables = {**os.environ, "LG_COORDINATOR": self.address, **({"LG_USERNAME": user} if user else {})}
        made = subprocess.run(
            (sys.executable, "-P", "-m", "labgrid.remote.client", *words),
            env=variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout

    def owner(self, place: str) -> str:
        shown = self.client("-p", place, "show")
        return next(line for line in shown.splitlines() if "acquired:" in line).partition(":")[2].strip()

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes = []

    def _start(self, program: str, *words: str) -> None:
        script = f"from labgrid.remote.{program} import main; main()"
        self._processes.append(
            subprocess.Popen(
                (sys.executable, "-P", "-c", script, *words),
                cwd=self._folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "exporter.yaml").write_text(EXPORTER)
    found = Lab(tmp_path, tmp_path / "exporter.yaml")
    monkeypatch.setenv("LG_COORDINATOR", found.address)
    try:
        found.start()
        found.client("-p", "bench", "create")
        found.client("-p", "bench", "add-match", "lab/bench/*")
        yield found
    finally:
        found.stop()


HOLDER = """
import sys, time
from swapstone.parts.boards.targets.labgrid_session import LabPlace, LabSession
LabSession(LabPlace(place="bench", environment=sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_place_is_acquired_and_always_released(lab: Lab, tmp_path: Path, exhaustive: bool) -> None:
    place = LabPlace(place="bench", environment=str(tmp_path / "lab.yaml"))
    session = LabSession(place)
    board = session.board
    assert (board.address, board.port, board.user, board.source) == ("192.0.2.7", 2222, "me", "NetworkService")
    assert board.acquired and board.owner == lab.owner("bench") != ""
    session.close()
    assert lab.owner("bench") in {"None", ""}

    lab.client("-p", "bench", "acquire")  # by hand: the user keeps it
    with contextlib.closing(LabSession(place)) as held:
        assert not held.board.acquired and held.board.owner
    assert lab.owner("bench") == board.owner
    lab.client("-p", "bench", "release")

    lab.client("-p", "bench", "acquire", user="eve")
    with pytest.raises(UserError, match=r"The place bench is acquired by .*/eve\.") as caught:
        LabSession(place)
    assert "labgrid-client -p bench allow" in caught.value.hint
    lab.client("-p", "bench", "release", user="eve")

    (tmp_path / "other.yaml").write_text(LAB.replace("bench", "bunch"))
    with pytest.raises(UserError, match=r"has no place bunch\.") as caught:
        LabSession(LabPlace(place="bunch", environment=str(tmp_path / "other.yaml")))
    assert caught.value.hint.startswith("It has: bench.")

    for number in (signal.SIGKILL, *([signal.SIGINT] if exhaustive else [])):
        holder = subprocess.Popen(
            (sys.executable, "-P", "-c", HOLDER, place.environment), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert holder.stdout is not None
        with holder.stdout:
            assert holder.stdout.readline() == b"held\n"
            assert lab.owner("bench") == board.owner
            holder.send_signal(number)
            holder.wait()
        deadline = time.monotonic() + 60
        while lab.owner("bench") == board.owner and time.monotonic() < deadline:
            time.sleep(0.2)
        assert lab.owner("bench") in {"None", ""}, number

    lab.stop()
    with pytest.raises(UserError, match=f"coordinator {lab.address} can't be reached") as caught:
        LabSession(place)
    assert "LG_COORDINATOR=HOST:PORT" in caught.value.hint


@pytest.mark.exhaustive
@pytest.mark.slow
def test_kernels_are_swapped_on_a_virtual_board_of_a_lab(tmp_path: Path) -> None:
    """Each block has one boot of each kernel, and each run reports the kernel on which it ran."""
    folder = tmp_path / "lab"
    write_lab(folder, "arm64", print)
    lab = Lab(tmp_path, folder / "exporter.yaml")
    try:
        lab.start()
        lab.client("-p", PLACE, "create")
        lab.client("-p", PLACE, "add-match", f"lab/{PLACE}/*")
        generic, rt = (str(folder / f"kernel-{name}") for name in ("generic", "rt"))
        record = tmp_path / "r"
        words = ("compare", f"kernel={generic},{rt}", "--only", "b_malloc_tiny[12]", "--blocks", "2", "--seed", "1")
        made = subprocess.run(
            command(*words, "--target", f"labgrid:{PLACE}", "--lg-env", str(folder / "lab.yaml"), "--out", str(record)),
            env={**environment(tmp_path), "LG_COORDINATOR": lab.address},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        assert lab.owner(PLACE) in {"None", ""}
    finally:
        lab.stop()
    runs = [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 12 and {run["status"] for run in runs} == {"ok"}
    for block in (0, 1, 2):
        labels = [run["trial"]["variant"] for run in runs if run["trial"]["block"] == block]
        assert labels[0] == labels[1] != labels[2] == labels[3]
    swapstone(tmp_path, "verify", str(record))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_roots_are_deployed_on_a_virtual_board_of_a_lab(tmp_path: Path) -> None:
    """Each block has one boot of each root, and each run reports the root in which it ran."""
    folder = tmp_path / "lab"
    write_lab(folder, "x86_64", print)

    def compare(roots: str, only: str, record: Path) -> subprocess.CompletedProcess[str]:
        words = ("compare", f"rootfs={roots}", "--only", only, "--blocks", "1", "--seed", "1", "--out", str(record))
        return subprocess.run(  # without a limit of time: on a busy machine a boot takes minutes
            command(*words, "--target", f"labgrid:{PLACE}", "--lg-env", str(folder / "local.yaml")),
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    record = tmp_path / "r"
    made = compare("musl,glibc", "b_malloc_tiny[12]", record)
    assert made.returncode == 0, made.stderr
    runs = [json.loads(line)["run"] for line in (record / "runs.jsonl").read_text().splitlines()]
    assert len(runs) == 8 and {run["status"] for run in runs} == {"ok"}
    for block in (0, 1):
        labels = [run["trial"]["variant"] for run in runs if run["trial"]["block"] == block]
        assert labels[0] == labels[1] != labels[2] == labels[3]
    for run in runs:
        assert dict(run["observed"])["rootfs"] == run["trial"]["variant"].partition("=")[2]
    swapstone(tmp_path, "verify", str(record))

    (folder / "again").write_bytes((folder / "root-musl").read_bytes() + bytes(512))  # another file, the same root
    made = compare(f"musl,{folder}/again", "b_malloc_tiny1", tmp_path / "same")
    assert made.returncode != 0
    assert "The board shows the same root file system with" in made.stderr
