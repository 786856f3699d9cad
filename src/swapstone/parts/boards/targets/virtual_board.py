# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board that everyone has: an emulated machine that this target boots, and then reaches by ssh as any other board. See docs/boards.md."""

from __future__ import annotations

from swapstone.parts.boards.targets.emulated_board import EmulatedBoard
from swapstone.parts.boards.targets.ssh_target import SshTarget
from swapstone.parts.vm.machine.boot_image import VmImage

ARCHITECTURES = ("arm64", "armhf", "riscv64", "x86_64")
"""Names of `swapstone.core.model.architectures`; the first is the default."""


class VirtualBoardTarget(SshTarget):
    """Boots a machine, runs trials there as on a board, and ends it.

    The machine ends with `close`, with this program, and with its death by SIGKILL.

    Args:
        image: what it boots.
        architecture: one of `ARCHITECTURES`.

    Raises:
        UserError: it can't be booted.
    """

    name = "virtual-board"
    emulated = True

    def __init__(self, image: VmImage, architecture: str) -> None:
        self.machine = EmulatedBoard(image, architecture)
        try:
            super().__init__(self.machine.place)
        except BaseException:
            self.machine.close()
            raise

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the tools of a board, and the emulator."""
        return (*super().tools(), ("emulator of the board", self.machine.version))

    def _before_connecting(self) -> None:
        """Boot the machine again if it has ended."""
        self.machine.power_on()
        self.board.move(self.machine.place)

    def close(self) -> None:
        """End the agent, the connection and the machine."""
        super().close()
        self.machine.close()
