# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images with a shell on the console, and the emulator's command line that boots them."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.artifacts.image_assembly import Overlay
from swapstone.artifacts.image_catalog import Architecture
from swapstone.artifacts.images import BuiltImage, ImageRequest, build_image
from swapstone.model import cpio
from swapstone.model.directories import share_dir


def build_console_image(
    architecture: str,
    kernel: str,
    modules_folder: str,
    modules: tuple[str, ...] | None,
    notify: Callable[[str], None],
) -> BuiltImage:
    """Build an image with a shell on its console, or take it from the cache.

    Args:
        architecture: a name of the image catalog.
        kernel: a name of the image catalog, or the path of a kernel.
        modules_folder: of a kernel of the user; may be empty.
        modules: names of the modules to load; None for the default ones.
        notify: receives a line of text while packages are fetched and the image is built.

    Raises:
        UserError: a name is unknown, or a package or file is not available.
    """
    init = cpio.file((share_dir() / "native" / "images" / "console-init").read_bytes(), executable=True)
    request = ImageRequest(
        architecture=architecture,
        kernel=kernel,
        modules_folder=modules_folder,
        modules=modules,
        overlays=(Overlay(part="console", entries={"init": init}),),
    )
    return build_image(request, progress=notify)


def boot_arguments(architecture: Architecture, built: BuiltImage, memory_mb: int) -> list[str]:
    """Return the emulator's command line for a console on standard input and output."""
    append = f"console={architecture.console} rdinit=/init quiet panic=-1 {built.options}".strip()
    return [
        *(architecture.emulator, *architecture.options, "-accel", "tcg", "-m", str(memory_mb)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "mon:stdio"),
        *("-kernel", str(built.kernel), "-initrd", str(built.initrd), "-append", append),
    ]
