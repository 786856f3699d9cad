"""Where the files are that Swapstone ships besides its Python, and where it keeps what it builds."""

from __future__ import annotations

import os
from pathlib import Path


def share_dir() -> Path:
    """Return the folder that holds ``native/``, ``crates/``, ``studies/`` and ``packages``.

    That is ``swapstone/share`` in an installed package, and the repository's top in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / "share"
    return installed if installed.is_dir() else package.parent.parent


def cache_dir() -> Path:
    """Return the folder of what was built: ``$XDG_CACHE_HOME/swapstone``, usually ``~/.cache/swapstone``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "swapstone"
