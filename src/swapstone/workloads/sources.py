"""Which sources are no workload's own, and how companions become shared objects: facts for whoever builds."""

from __future__ import annotations

from pathlib import PurePosixPath

HARNESS = "harness.c"
"""Linked with every workload; it holds main."""

EMPTY = "empty.c"
"""A program that does nothing, for the table of sizes. It stands alone, without the harness."""

COMPANION_FLAGS = ("-shared", "-fPIC")
"""For a companion, beside the flags of every source."""


def companion_name(source: str) -> str:
    """Return the file name that a companion must have in the directory of the program.

    Args:
        source: as in `Workload.companions`, e.g. ``companions/object.c``.

    Returns:
        E.g. ``object.so``.
    """
    return f"{PurePosixPath(source).stem}.so"
