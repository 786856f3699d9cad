# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel of the machine: generic, PREEMPT_RT, the modes of the generic one (PREEMPT_DYNAMIC), or the user's kernels."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from swapstone.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.model import UserError

_MODES = ("none", "voluntary", "full")
# /sys/kernel/debug/sched/preempt lists the modes; the one in force is in parentheses.
_ACTIVE_MODE = re.compile(r"\((\w+)\)")
_PREEMPT_OPTION = re.compile(r"(?:^|\s)preempt=")


class Kernel:
    """Which kernel the machine runs on."""

    name = "kernel"
    stage = Stage.BOOT
    description = "the machine's kernel and its preemption mode"
    unseen = (
        "The guest did not report enough about its kernel. A mode is read from /sys/kernel/debug/sched/preempt, which needs debugfs. Your "
        "own kernel's file must contain the banner that the running kernel reports."
    )
    levels: tuple[Level, ...] = (
        Level(name="generic", description="the distribution's default kernel in its default mode"),
        Level(name="rt", description="the distribution's kernel with PREEMPT_RT"),
        Level(name="none", description="the default kernel, preemption on return to user space only (preempt=none)"),
        Level(name="voluntary", description="the default kernel, with explicit preemption points (preempt=voluntary)"),
        Level(name="full", description="the default kernel, preemption wherever no lock is held (preempt=full)"),
    )

    def level_of_path(self, text: str) -> Level:
        """Return the level of a kernel's file.

        Raises:
            UserError: there is no such file.
        """
        path = Path(text).expanduser()
        if not path.is_file():
            raise UserError(
                f"There is no kernel {text}.",
                "Name the file that a kernel's build creates, such as arch/x86/boot/bzImage.",
            )
        return Level(name=str(path.resolve()), description="a kernel of the user")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, kernel=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the kernel by what the running kernel reports.

        Returns:
            ``rt`` if its version contains PREEMPT_RT or /sys/kernel/realtime is 1; a mode if its command line has the option and a mode is
            in force; the path of a user's kernel if the banner in its file is that of the running one; else ``generic``. None
            if the machine reports no kernel.
        """
        version = evidence.machine_text("version")
        booted = evidence.machine_text("booted")
        if not version:
            return None
        if "/" in booted:
            return booted
        if "PREEMPT_RT" in version or evidence.machine_text("/sys/kernel/realtime").strip() == "1":
            return "rt"
        if not _PREEMPT_OPTION.search(evidence.machine_text("/proc/cmdline")):
            return "generic"
        found = _ACTIVE_MODE.search(evidence.machine_text("before /sys/kernel/debug/sched/preempt"))
        return found[1] if found and found[1] in _MODES else None


KERNEL = Kernel()
