# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the first process of virtual machines from its C sources."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model.directories import share_dir
from swapstone.core.targets.agent_build import FREESTANDING, build_native


def guest_sources() -> tuple[Path, ...]:
    """Return the C files and headers of a virtual machine's first process, sorted."""
    native = share_dir() / "native"
    return tuple(sorted(path for part in ("guest", "port", "wire", "agent/text") for path in _sources(native / part)))


def _sources(part: Path) -> tuple[Path, ...]:
    """Return the files of a folder, or a file and its header."""
    return tuple(part.glob("*.[ch]") if part.is_dir() else (part.with_suffix(".c"), part.with_suffix(".h")))


def build_init(directory: Path, compiler: str = "cc") -> Path:
    """Compile the first process of virtual machines, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-init", guest_sources(), directory, (compiler, *FREESTANDING))
