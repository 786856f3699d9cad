# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.targets.agent_build import build_agent


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent, compiled once for this session from the current sources."""
    return build_agent(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the compiled programs of `tests.contract.programs`."""
    return tmp_path_factory.mktemp("programs")
