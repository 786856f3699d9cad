# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the plugin of QEMU's code generator from its C sources."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.model.directories import share_dir
from swapstone.core.targets.agent_build import build_native

_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")


def build_plugin(directory: Path, compiler: str = "cc") -> Path:
    """Compile the plugin of QEMU's code generator for this machine, or return it from the cache; as `build_agent`."""
    sources = tuple(sorted((share_dir() / "native" / "plugin").glob("*.[ch]")))
    return build_native("swapstone-plugin.so", sources, directory, (compiler, *_FLAGS))
