# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from swapstone.targets.agent_build import build_agent
from tests.unit.agent.harness import SANITIZED


@pytest.fixture(scope="session")
def agent(agents: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent, compiled from the current sources. It is a copy, because tests find the processes of their agent by its path."""
    return Path(shutil.copy(build_agent(agents), tmp_path_factory.mktemp("agent")))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the compiled programs of `tests.contract.programs`."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="session")
def fake_proc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the readers with files of a folder in place of those of the machine."""
    native = Path(__file__).parents[3] / "native"
    program = tmp_path_factory.mktemp("fake-proc") / "fake_proc"
    sources = [Path(__file__).parent / "fake_proc.c"]
    sources += [native / "agent" / f"{name}.c" for name in ("conditions", "counters", "observe", "text")]
    subprocess.run(
        ["cc", "-std=gnu11", "-O1", *SANITIZED, "-o", program, *sources, native / "wire" / "words.c"], check=True
    )
    return program
