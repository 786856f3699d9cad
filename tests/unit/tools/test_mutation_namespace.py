# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a process under test does to others, or mounts, stays in its namespaces."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tools.mutation_namespace import enter, obstacle


@pytest.mark.skipif(bool(obstacle()), reason=f"no namespaces here: {obstacle()}")
def test_a_signal_to_all_processes_ends_none_outside(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as outside:
        inside = os.fork()
        if inside == 0:
            try:
                enter()
                seen = sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit())
                (tmp_path / "seen").write_text(f"{os.getpid()} {os.getppid()} {seen}")
                if seen == [1, 2]:
                    os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(inside, 0)
        alive = outside.poll() is None
        outside.kill()
    assert alive
    assert (tmp_path / "seen").read_text() == "2 1 [1, 2]"


@pytest.mark.skipif(bool(obstacle()) or os.geteuid() != 0, reason="no namespaces here, or not root")
def test_a_mount_does_not_reach_the_machine(tmp_path: Path) -> None:
    inside = os.fork()
    if inside == 0:
        try:
            enter()
            status = ctypes.CDLL(None).mount(b"none", os.fsencode(tmp_path), b"tmpfs", 0, None)
            here = os.path.ismount(tmp_path)
            (tmp_path.parent / "seen").write_text(f"{status} {here}")
        finally:
            os._exit(0)
    os.waitpid(inside, 0)
    assert (tmp_path.parent / "seen").read_text() == "0 True"
    assert not os.path.ismount(tmp_path)


def test_the_process_that_enters_ends_when_its_child_has_ended(tmp_path: Path) -> None:
    if obstacle():
        pytest.skip(obstacle())
    inside = os.fork()
    if inside == 0:
        try:
            enter()
            subprocess.Popen(["sleep", "600"], start_new_session=True, cwd=tmp_path)
        finally:
            os._exit(0)
    assert os.waitpid(inside, 0) == (inside, 0)
    left = [each for each in Path("/proc").glob("[0-9]*/cwd") if _target(each) == str(tmp_path)]
    assert not left


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
