"""From what a user names as target to one that is open, the virtual machines among them: their images are built first."""

from __future__ import annotations

import os
from collections.abc import Callable

from swapstone.build.images import ImageRequest, build_image
from swapstone.model import Experiment, UnavailableError, UserError
from swapstone.targets import Target, open_target
from swapstone.targets.qemu import Machine
from swapstone.targets.vm import Parts, VmTarget, Ways

VM = "vm"
VIRTUAL, WALL = "virtual", "wall"

ARCHITECTURE = "x86_64"
"""Programs are built by this machine's own compilers, so the guest is of the same architecture; images exist for this one so far."""

LIBRARIES = ("glibc", "libgcc", "musl")
"""The parts of an image that programs of our suites need."""

CLOCK_NOTE = (
    "The clock is virtual: each instruction takes one nanosecond of the guest's time, on one processor. So a run is exact and repeatable "
    "to the byte, and knows nothing of caches, buses, memory or branch prediction: it counts the work, and not what a processor makes "
    "of it."
)


def clock_of(target: str, asked: str | None) -> str:
    """Return the clock of a target, ``wall`` or ``virtual``.

    Args:
        target: as the user names it.
        asked: the clock that the user asks for, or None for the target's own.

    Raises:
        UserError: the target has another one.
    """
    own = VIRTUAL if target.partition(":")[0] == VM else WALL
    if asked in {None, own}:
        return own
    if own == VIRTUAL:
        raise UnavailableError(
            "Virtual machines have the virtual clock here: an emulated machine's wall clock would time the emulator.",
            "Leave --clock out, or measure on --target host.",
        )
    raise UserError(f"The target {target} has a wall clock.", "The virtual clock is that of --target vm.")


def open_machine(experiment: Experiment, tell: Callable[[str], None], *, no_cache: bool = False) -> Target:
    """Open the target of an experiment.

    Args:
        experiment: names it: ``vm`` or ``vm:KERNEL`` for a virtual machine, else as `open_target` reads it.
        tell: called with a line for the user while an image is fetched and built.
        no_cache: whether a virtual machine makes every run anew, though an equal one is known.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    name, _, kernel = experiment.target.partition(":")
    if name != VM:
        return open_target(experiment.target)
    here = os.uname().machine
    if here != ARCHITECTURE:
        raise UnavailableError(
            f"Workloads are built for this machine's processor, {here}, and the virtual machine is of {ARCHITECTURE}.",
            "Measure on --target host.",
        )
    request = ImageRequest(architecture=ARCHITECTURE, kernel=kernel or "generic", modules=(), parts=LIBRARIES)
    built = build_image(request, progress=tell)
    options = tuple(built.options.split())
    parts = Parts(built.kernel, built.initrd, Machine(architecture=ARCHITECTURE, options=options))
    return VmTarget(parts, Ways(no_cache=no_cache))
