# SPDX-License-Identifier: MIT OR Apache-2.0
"""The folder of the files that Swapstone ships besides its Python code, and the cache folder of what it builds."""

from __future__ import annotations

import os
from pathlib import Path


def share_dir() -> Path:
    """Return the folder with ``native/``, ``crates/``, ``studies/``, ``docs/`` and ``packages``.

    It is ``swapstone/share`` in an installed package, and the top of the repository in a checkout.
    """
    package = Path(__file__).resolve().parents[2]
    installed = package / "share"
    return installed if installed.is_dir() else package.parent.parent


def cache_dir() -> Path:
    """Return the cache folder: ``$XDG_CACHE_HOME/swapstone``, by default ``~/.cache/swapstone``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "swapstone"
