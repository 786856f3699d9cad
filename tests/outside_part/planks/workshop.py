# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target: this machine under another name."""

from __future__ import annotations

from swapstone.core.model import Experiment, FrozenStruct
from swapstone.core.targets.host import HostTarget
from swapstone.core.targets.target import Target
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions


class Workshop(HostTarget):
    """This machine."""

    name = "workshop"


class WorkshopSpec(FrozenStruct, frozen=True):
    """The target has no parameters."""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:
        """Open the target."""
        del experiment, notify
        return Workshop()


def _parse(detail: str, options: TargetOptions) -> WorkshopSpec:
    del detail, options
    return WorkshopSpec()


WORKSHOP = TargetKind(
    name="workshop", description="this machine, as a part has it", opens=Workshop, parse=_parse, usage="workshop"
)
