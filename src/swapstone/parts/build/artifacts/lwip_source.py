# SPDX-License-Identifier: MIT OR Apache-2.0
"""The source of lwIP for ``crates/swapstone-net-lwip-sys``, whose build script fetches nothing."""

from __future__ import annotations

import os
from pathlib import Path

from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts.upstream_sources import read_lock, unpacked

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
    return unpacked(read_lock(share_dir() / LWIP_LOCK)["lwip"], LWIP_LOCK, "lwip")
