# SPDX-License-Identifier: MIT OR Apache-2.0
"""Describes which allocators are built on this machine."""

from __future__ import annotations

from swapstone.core.factors import Level
from swapstone.core.session.catalog import Listing
from swapstone.core.targets.health import MachineFindings
from swapstone.parts.build.artifacts.allocators import cached_libcs
from swapstone.parts.build.artifacts.libraries import library_version
from swapstone.parts.build.artifacts.library_table import LIBRARIES


def _allocator(level: Level) -> str:
    if not level.needs:
        return "ready"
    built = " and ".join(cached_libcs(level.name))
    return f"built for {built}" if built else "not built yet; the first comparison that needs it builds it"


FINDINGS = MachineFindings(0, of_levels={"allocator": _allocator})

LIST = Listing(
    "libraries",
    ("library", "version", "needs", "what it is"),
    lambda: (
        (name, library_version(name), ",".join(library.needs), library.description)
        for name, library in LIBRARIES.items()
    ),
    70,
)
