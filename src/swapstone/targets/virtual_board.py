# SPDX-License-Identifier: MIT OR Apache-2.0
"""A board that everyone has: an emulated machine that this target boots, and then reaches by ssh as any other board. See docs/boards.md."""

from __future__ import annotations

from swapstone.model import FrozenStruct, UserError, unknown
from swapstone.targets.emulated_board import BoardImageRequest, EmulatedBoard
from swapstone.targets.ssh_target import SshTarget
from swapstone.targets.target_kind import ImageBuilder, TargetKind, TargetOptions
from swapstone.targets.vm.boot_image import VmImage

ARCHITECTURES = ("arm64", "armhf", "riscv64", "x86_64")
"""Names of `swapstone.artifacts.image_catalog`; the first is the default."""


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

    @property
    def emulated(self) -> bool:
        """Whether it is an emulator: always."""
        return True

    def _before_connecting(self) -> None:
        """Boot the machine again if it has ended."""
        self.machine.power_on()
        self.board.move(self.machine.place)

    def close(self) -> None:
        """End the agent, the connection and the machine."""
        super().close()
        self.machine.close()


class VirtualBoardSpec(FrozenStruct, frozen=True, kw_only=True):
    """A virtual board as a target.

    Attributes:
        architecture: one of `ARCHITECTURES`.
    """

    architecture: str = ARCHITECTURES[0]

    def open(self, build_images: ImageBuilder | None) -> VirtualBoardTarget:
        """Build the image and boot the machine.

        Raises:
            UserError: `build_images` is None, or the machine can't be booted.
        """
        if build_images is None:
            raise UserError("The target virtual-board needs an image, and no image builder was given.")
        (image,) = build_images(BoardImageRequest(architecture=self.architecture)).images.values()
        return VirtualBoardTarget(image, self.architecture)


def _parse(detail: str, options: TargetOptions) -> VirtualBoardSpec:
    named = detail or options.architecture or ARCHITECTURES[0]
    if named not in ARCHITECTURES:
        raise unknown("architecture of a virtual board", named, ARCHITECTURES)
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
