# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manifest of the part `planks`."""

from __future__ import annotations

from swapstone.core.model.parts import Part

PART = Part(
    name="planks",
    version="1.2",
    provides={
        "factor": ("planks.shade:SHADE",),
        "program-facts": ("planks.segments:Segments",),
        "suite": ("planks.counting:SUITE",),
        "target": ("planks.workshop:WORKSHOP",),
    },
)
