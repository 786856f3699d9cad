"""The kernel of the machine: generic, PREEMPT_RT, the generic one's dynamic modes, or kernels of the user's own."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage
from swapstone.model import UserError

_MODES = ("none", "voluntary", "full")
_IN_FORCE = re.compile(
    r"\((\w+)\)"
)  # of the modes in /sys/kernel/debug/sched/preempt, the one in force stands in brackets
_ASKED = re.compile(r"(?:^|\s)preempt=")


class Kernel:
    """Which kernel the machine runs on."""

    name = "kernel"
    stage = Stage.BOOT
    description = "the machine's kernel, and how far it can be preempted"
    unseen = (
        "The guest did not say enough of its kernel: a mode is read in /sys/kernel/debug/sched/preempt, which needs debugfs; a kernel of "
        "your own must name itself in its file as it does when it runs."
    )
    levels: tuple[Level, ...] = (
        Level(name="generic", description="the distribution's usual kernel, in the mode that it was built for"),
        Level(name="rt", description="the distribution's kernel with PREEMPT_RT"),
        Level(name="none", description="the usual one, preempted only where it returns to a program (preempt=none)"),
        Level(name="voluntary", description="the usual one, preempted also where it offers to be (preempt=voluntary)"),
        Level(name="full", description="the usual one, preempted wherever no lock is held (preempt=full)"),
    )

    def level_of_path(self, text: str) -> Level:
        """Return the level that a kernel of the user's own is.

        Raises:
            UserError: there is no such file.
        """
        path = Path(text).expanduser()
        if not path.is_file():
            raise UserError(
                f"There is no kernel {text}.",
                "It is the file that a kernel's build leaves, such as arch/x86/boot/bzImage.",
            )
        return Level(name=str(path.resolve()), description="a kernel that the user named")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, kernel=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the kernel by what it says of itself while it runs.

        Returns:
            ``rt`` where its version says PREEMPT_RT or /sys/kernel/realtime holds 1; a mode where its command line asked for one and
            one is in force; the path of the user's kernel where the banner in its file is that of the one that runs; else
            ``generic``. None where no kernel said anything.
        """
        version = evidence.said("version")
        booted = evidence.said("booted")
        if not version:
            return None
        if "/" in booted:
            return booted
        if "PREEMPT_RT" in version or evidence.said("/sys/kernel/realtime").strip() == "1":
            return "rt"
        if not _ASKED.search(evidence.said("/proc/cmdline")):
            return "generic"
        found = _IN_FORCE.search(evidence.said("before /sys/kernel/debug/sched/preempt"))
        return found[1] if found and found[1] in _MODES else None


KERNEL = Kernel()
