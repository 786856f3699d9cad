# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the first process of virtual machines from its C sources."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model.directories import share_dir
from swapstone.core.targets.agent_build import FREESTANDING, build_native


def guest_sources() -> tuple[Path, ...]:
    """Return the C files and headers of a virtual machine's first process, sorted."""
    patterns = ("guest/*.[ch]", "port/*.[ch]", "wire/*.[ch]", "agent/text.[ch]")
    return tuple(sorted(path for pattern in patterns for path in (share_dir() / "native").glob(pattern)))


def build_init(directory: Path, compiler: str = "cc") -> Path:
    """Compile the first process of virtual machines, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-init", guest_sources(), directory, (compiler, *FREESTANDING))
