# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sizes of memory as text."""

from __future__ import annotations

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size_text(size_bytes: int) -> str:
    """Return a size of memory: ``96 MiB``, ``5.25 MiB``, ``768 KiB``. GiB are used for whole ones alone."""
    for factor, name in _UNITS:
        if size_bytes >= factor and (name != "GiB" or size_bytes % factor == 0):
            return (
                f"{round(size_bytes / factor, 2):g} {name}"
                if size_bytes < 1000 * factor
                else f"{size_bytes // factor} {name}"
            )
    return f"{size_bytes} B"
