# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which root file systems an experiment may name: those of a program of the user, or those that a board of a lab boots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swapstone.factors import ROOT_FACTORS, ROOTFS
from swapstone.factors.rootfs import no_root
from swapstone.model import FactorLevels, UnavailableError, UserError
from swapstone.targets import find_target_kind, target_kinds


def check_root_levels(factors: Sequence[FactorLevels], target: str | None, *, own: bool) -> None:
    """Check that something is measured in the roots that a request names.

    Args:
        factors: of the request, also those whose level is held.
        target: of the request; None if it names none.
        own: whether it measures a program of the user.

    Raises:
        UserError: a level is the name of an image, and the target boots none. Or there is no program that could run in the roots.
        UnavailableError: the target is a board that boots no roots.
    """
    rooted = next((choice for choice in factors if choice.factor in ROOT_FACTORS), None)
    if rooted is None:
        return
    if rooted.factor == ROOTFS.name:
        opens = find_target_kind(target or "host").opens
        if "reboots" in opens.offers:
            return
        if opens.offers.isdisjoint({"shares_files", "boots"}):
            places = " or ".join(kind.usage for kind in target_kinds() if "reboots" in kind.opens.offers)
            raise UnavailableError(
                f"The target {opens.name} boots no root file systems.",
                f"Measure on a board of a lab, whose strategy deploys them: --target {places}",
            )
        if name := next((level for level in rooted.levels if "/" not in level), ""):
            raise no_root(str(Path(name).absolute()))
    if not own:
        raise UserError(
            f"The factor {rooted.factor} is for a program of yours: Swapstone's workloads are built for this machine.",
            f"Name it after --: swapstone compare {rooted.factor}={','.join(rooted.levels)} -- /bin/sh bench.sh",
        )
