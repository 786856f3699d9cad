# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.core.targets.agent_build import build_agent
from tests.shared import Shared
from tests.unit.agent.harness import Calls, Printed, compiled


@pytest.fixture(scope="session")
def agent(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent, compiled from the current sources. It is a copy, because tests find the processes of their agent by its path."""
    return Path(shutil.copy(build_agent(shared.folder("agents", build_agent)), tmp_path_factory.mktemp("agent")))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the compiled programs of `tests.contract.programs`."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def fake_proc(shared: Shared) -> Path:
    """Compile the readers with files of a folder in place of those of the machine."""
    return compiled(shared, "fake_proc", ("conditions", "counters", "observe", "text"))


@pytest.fixture(scope="session")
def fake_trial(shared: Shared) -> Path:
    """Compile the agent's trial with a scripted system."""
    names = ("answer", "conditions", "counters", "kill", "observation", "observe", "server", "text", "trial")
    return compiled(shared, "fake_trial", names)


@pytest.fixture
def printed(fake_trial: Path, tmp_path: Path) -> Printed:
    """Return a function that runs a script; it returns what the agent writes, and the calls."""

    def printed(*parts: str) -> tuple[bytes, list[str]]:
        script = tmp_path / "script"
        script.write_text("".join(f"{part.rstrip()}\n" for part in parts if part))
        result = subprocess.run([fake_trial, script], capture_output=True, check=True, timeout=60)
        return result.stdout, result.stderr.decode().splitlines()

    return printed


@pytest.fixture(scope="session")
def fake_calls(shared: Shared) -> Path:
    """Compile what forks, mounts and waits, with calls that are printed."""
    names = ("child", "keeper", "kill", "main", "observe", "root", "start", "text")
    return compiled(shared, "fake_calls", names)


@pytest.fixture
def calls(fake_calls: Path) -> Calls:
    """Return a function that makes the calls with some settings and returns them, with what is printed at the end."""

    def calls(*arguments: str) -> list[str]:
        result = subprocess.run([fake_calls, *arguments], capture_output=True, check=True, text=True, timeout=60)
        return result.stdout.splitlines()

    return calls
