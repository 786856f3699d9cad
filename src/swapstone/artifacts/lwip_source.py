# SPDX-License-Identifier: MIT OR Apache-2.0
"""The source of lwIP for ``crates/swapstone-net-lwip-sys``, whose build script fetches nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from swapstone.artifacts.upstream_sources import Source, fetch, locked, read_lock, unpack
from swapstone.model.directories import cache_dir, share_dir

LWIP_LOCK = "crates/swapstone-net-lwip-sys/source.toml"
LWIP_VARIABLE = "LWIP_DIR"


def lwip_source() -> Path:
    """Return the folder with lwIP's source: ``$LWIP_DIR``, or the locked version in the cache, fetched once.

    The build script finds the folder in the cache by itself: ``sources/lwip-`` and the first 16 digits of the archive's SHA-256.

    Raises:
        UnavailableError: it can't be fetched.
        UserError: the archive has another digest, or the cache can't be written.
    """
    if given := os.environ.get(LWIP_VARIABLE):
        return Path(given)
    return unpacked(read_lock(share_dir() / LWIP_LOCK)["lwip"])


def unpacked(source: Source) -> Path:
    """Return the folder with a source in the cache; fetch and unpack it the first time.

    Args:
        source: of lwIP.
    """
    home = cache_dir() / "sources"
    folder = home / f"lwip-{source.sha256[:16]}"
    if folder.is_dir():
        return folder
    archive = fetch(source, LWIP_LOCK)
    with locked(home / "lock"), tempfile.TemporaryDirectory(dir=home, prefix=".unpacking-") as work:
        if not folder.is_dir():
            shutil.move(unpack(archive, Path(work)), folder)
    return folder
