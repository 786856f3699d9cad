from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.targets.agent_build import build_agent


@pytest.fixture(scope="session")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent built for this session from the sources as they are."""
    return build_agent(tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the programs of `tests.contract.programs` are built."""
    return tmp_path_factory.mktemp("programs")
