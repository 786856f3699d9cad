# SPDX-License-Identifier: MIT OR Apache-2.0
"""The agent's program in the cache: it has a digest, and a file that is not the compiled one is made again."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.targets import TargetError
from swapstone.core.targets.agent_build import build_agent, describe_agent, find_agent
from swapstone.core.targets.host import HostTarget
from swapstone.core.wire import ProcessOutcome
from tests.unit.agent.harness import request

# A compiler that copies an agent and counts its calls.
COMPILER = """#!/bin/sh
[ "$1" = --version ] && echo "copying 1" && exit 0
while [ $# -gt 1 ]; do shift; done
echo >>{calls}
cp {agent} "$1"
"""


@pytest.fixture
def compiler(agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The compiler of the environment, which copies the agent."""
    path = tmp_path / "cc"
    path.write_text(COMPILER.format(calls=tmp_path / "calls", agent=agent))
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def _truncate(program: Path) -> None:
    os.truncate(program, program.stat().st_size // 2)


def _empty(program: Path) -> None:
    os.truncate(program, 0)


def _alter(program: Path) -> None:
    data = bytearray(program.read_bytes())
    data[len(data) // 2] ^= 1
    program.write_bytes(data)


def _forget_digest(program: Path) -> None:
    program.with_name(f"{program.name}.sha256").unlink()


def _spoil_digest(program: Path) -> None:
    program.with_name(f"{program.name}.sha256").write_bytes(b"\xff\xfe")


DAMAGES = [_truncate, _empty, _alter, _forget_digest, _spoil_digest, Path.unlink, lambda program: program.chmod(0o644)]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_agent_is_compiled_again(
    agent: Path, compiler: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    made = build_agent(tmp_path / "agents", str(compiler))
    assert build_agent(tmp_path / "agents", str(compiler)) == made
    assert calls(tmp_path) == 1
    damage(made)
    assert build_agent(tmp_path / "agents", str(compiler)) == made
    assert calls(tmp_path) == 2
    assert made.read_bytes() == agent.read_bytes()
    assert os.access(made, os.X_OK)


def test_the_agent_of_a_wheel_is_used_while_it_is_whole(
    agent: Path, compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swapstone.core.targets.agent_build.share_dir", lambda: tmp_path / "share")
    carried = tmp_path / "share" / "agents" / "x86_64" / "swapstone-agent"
    carried.parent.mkdir(parents=True)
    shutil.copy(agent, carried)
    sha256 = hashlib.sha256(agent.read_bytes()).hexdigest()
    carried.with_name(f"{carried.name}.sha256").write_text(sha256)
    assert find_agent("x86_64", "no-such-cc") == carried
    assert describe_agent(carried, "no-such-cc") == f"x86_64, SHA-256 {sha256}, of the wheel"
    compiled = find_agent("aarch64", str(compiler))
    assert describe_agent(compiled, str(compiler)).endswith("built by copying 1")
    _alter(carried)
    assert find_agent("x86_64", str(compiler)) == compiled


@pytest.mark.parametrize("damage", [_truncate, _alter, Path.unlink])
def test_an_agent_that_is_damaged_between_two_starts_is_compiled_again(
    compiler: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    del compiler
    with HostTarget() as target:
        assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED
        (made,) = (tmp_path / "cache" / "swapstone" / "agents").glob("*/swapstone-agent")
        made.rename(made.with_name("running"))  # a file that is being executed can't be written
        made.write_bytes(made.with_name("running").read_bytes())
        damage(made)
        with pytest.raises(TargetError):
            target.run(request(tmp_path, "/bin/sh", "-c", "kill -KILL $PPID; sleep 60"))
        assert target.run(request(tmp_path, "/bin/true")).outcome is ProcessOutcome.EXITED
    assert calls(tmp_path) == 2


def test_the_manifest_has_the_digest_of_the_agent(agent: Path) -> None:
    with HostTarget(agent) as target:
        (text,) = dict(target.tools()).values()
    assert f"SHA-256 {hashlib.sha256(agent.read_bytes()).hexdigest()}" in text
