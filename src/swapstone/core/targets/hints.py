# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hints that name targets by what they offer."""

from __future__ import annotations

from swapstone.core.model.parts import provided


def target_hint(offer: str, text: str) -> str:
    """Return a hint that names the targets of parts that can do something; empty if there are none.

    Args:
        offer: one of `swapstone.core.targets.target.Offer`.
        text: the hint; ``{}`` in it stands for ``--target NAME``.
    """
    names = " or ".join(kind.name for kind in provided("target", object) if offer in kind.opens.offers)
    return text.format(f"--target {names}") if names else ""
