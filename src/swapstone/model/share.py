"""Where the files are that Swapstone ships besides its Python: C sources, studies, the list of packages."""

from __future__ import annotations

from pathlib import Path


def share_dir() -> Path:
    """Return the folder that holds ``native/``, ``studies/`` and ``packages``.

    That is ``swapstone/share`` in an installed package, and the repository's top in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / "share"
    return installed if installed.is_dir() else package.parent.parent
