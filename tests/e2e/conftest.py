# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.targets.agent_build import build_agent
from tests.shared import Shared


@pytest.fixture(scope="session")
def agents(shared: Shared) -> Path:
    """Return a folder with the agent, compiled once for all workers. Tests that have a cache of their own copy it there."""
    return shared.folder("agents", build_agent)
