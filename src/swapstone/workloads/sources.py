"""How native workloads become programs: facts that the build needs and that belong to the sources."""

from __future__ import annotations

from pathlib import PurePosixPath

FOLDER = "native/workloads"
"""Where the sources are, in the repository."""

HARNESS = ("harness.c",)
"""Linked with every workload; it holds main."""

EMPTY = "empty.c"
"""A program that does nothing, for the table of sizes. It stands alone, without the harness."""

FLAGS = ("-std=gnu11", "-O2", "-fno-builtin", "-Wall", "-Wextra", "-Werror")
"""For every source. Without -fno-builtin a compiler replaces calls of the C library with code of its own."""

COMPANION_FLAGS = ("-shared", "-fPIC")
"""For a companion, beside `FLAGS`."""


def companion_name(source: str) -> str:
    """Return the file name that a companion must have in the directory of the program.

    Args:
        source: as in `Workload.companions`, e.g. ``companions/object.c``.

    Returns:
        E.g. ``object.so``.
    """
    return f"{PurePosixPath(source).stem}.so"
