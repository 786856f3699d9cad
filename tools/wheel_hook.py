# SPDX-License-Identifier: MIT OR Apache-2.0
"""A build hook of hatchling: a wheel that is built beside ``agents/MACHINE/swapstone-agent`` carries it, and has that processor's tag.

The agent is a static program without a C library, so it runs on the distributions of both tags: those with glibc 2.17 or newer, the oldest
that a Python 3.11 package can name, and those with musl. Without such a folder the wheel is for any machine, and compiles its agent there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentHook(BuildHookInterface[Any]):
    """See the module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Add the agent's folder and the tag to a wheel."""
        for folder in Path(self.root).glob("agents/*"):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-manylinux_2_17_{folder.name}.musllinux_1_1_{folder.name}"
            build_data["force_include"][str(folder)] = f"swapstone/share/agents/{folder.name}"
