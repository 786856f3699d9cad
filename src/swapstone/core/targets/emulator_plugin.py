# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plugin of QEMU's code generator (native/plugin), which observes the instructions of a virtual machine."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.targets.agent_build import build_native

_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")


def _sources() -> tuple[Path, ...]:
    return tuple(sorted((share_dir() / "native" / "plugin").glob("*.[ch]")))


def build_plugin(directory: Path, compiler: str = "cc") -> Path:
    """Compile the plugin for this machine, or return it from the cache; as `build_agent`."""
    return build_native("swapstone-plugin.so", _sources(), directory, (compiler, *_FLAGS))


_built = functools.cache(build_plugin)


@functools.cache
def plugin_digest() -> bytes:
    """Return a digest of the plugin's sources."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in _sources())).digest()


def plugin_option(out: Path, *words: str) -> tuple[str, ...]:
    """Return QEMU's arguments that load the plugin, which is compiled first.

    Args:
        out: the file that it writes.
        words: its other arguments (native/plugin/plugin.c).

    Raises:
        UserError: it can't be compiled.
    """
    place = cache_dir() / "agents", os.environ.get("CC") or "cc"
    plugin = _built(*place)
    if not plugin.exists():
        plugin = build_plugin(*place)
    return ("-plugin", ",".join(word.replace(",", ",,") for word in (str(plugin), f"out={out}", *words)))
