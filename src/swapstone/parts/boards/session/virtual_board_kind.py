# SPDX-License-Identifier: MIT OR Apache-2.0
"""The registry entry of virtual boards, and how they are opened."""

from __future__ import annotations

from swapstone.core.model import Experiment, FrozenStruct, UserError, find_named
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.parts.boards.targets.virtual_board import ARCHITECTURES, VirtualBoardTarget


class VirtualBoardSpec(FrozenStruct, frozen=True, kw_only=True):
    """A virtual board as a target.

    Attributes:
        architecture: one of `ARCHITECTURES`.
    """

    architecture: str = ARCHITECTURES[0]

    def open(self, experiment: Experiment | None, notify: Notify) -> VirtualBoardTarget:  # noqa: ARG002 - boots the same for each
        """Build the image and boot the machine.

        Raises:
            UserError: the image can't be built, or the machine can't be booted.
        """
        from swapstone.parts.boards.session.board_images import board_image  # noqa: PLC0415 - lists need no images

        return VirtualBoardTarget(board_image(self.architecture, notify), self.architecture)


def _parse(detail: str, options: TargetOptions) -> VirtualBoardSpec:
    named = detail or options.architecture or ARCHITECTURES[0]
    find_named("architecture of a virtual board", named, dict.fromkeys(ARCHITECTURES))
    if options.architecture not in {"", named}:
        raise UserError(
            f"The virtual board {named} runs no programs of {options.architecture}.",
            f"Write: --target virtual-board:{options.architecture}",
        )
    return VirtualBoardSpec(architecture=named)


VIRTUAL_BOARD = TargetKind(
    name="virtual-board",
    description="an emulated board, booted for the experiment, that ssh reaches",
    opens=VirtualBoardTarget,
    parse=_parse,
    usage="virtual-board[:ARCHITECTURE]",
    usages=(
        (
            "virtual-board",
            "an emulated arm64 board, booted for the experiment: to try boards out, its times are the emulator's",
        ),
        ("virtual-board:armhf", "the same of another architecture: armhf, riscv64 or x86_64"),
    ),
    has_architectures=True,
    does=lambda detail: f"boot an emulated {detail or ARCHITECTURES[0]} machine, and run the programs of trials there",
)
