# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel of the machine: generic, PREEMPT_RT, the modes of the generic one (PREEMPT_DYNAMIC), or the user's kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import UnavailableError, UserError, unknown
from swapstone.parts.vm.factors.kernel_parameters import (
    DROPPED_OPTIONS,
    KEPT_OPTIONS,
    PARAMETERS,
    parameters_in_force,
    parse_kernel_level,
    split_kernel,
)

_MODES = ("none", "voluntary", "full")
# /sys/kernel/debug/sched/preempt lists the modes; the one in force is in parentheses.
_ACTIVE_MODE = re.compile(r"\((\w+)\)")
_PREEMPT_OPTION = re.compile(r"(?:^|\s)preempt=")

PACKAGED = ("generic", "rt")
"""Kernels of the distribution that need no boot parameter. A lab may name files of its own so."""

OTHER_KERNEL = "another"
"""As ``booted`` in the evidence of a machine that boots files: none of them has the running kernel."""


class Kernel:
    """Which kernel the machine runs on."""

    name = "kernel"
    stage = Stage.BOOT
    reboots = True
    description = "the machine's kernel, its preemption mode and its boot parameters"
    unseen = (
        "The guest did not report enough about its kernel. A mode is read from /sys/kernel/debug/sched/preempt, which needs debugfs. Your "
        "own kernel's file must contain the banner that the running kernel reports."
    )
    elsewhere = "Measure on --target vm, or on a board of a lab whose strategy boots kernels: --target labgrid:PLACE"
    levels: tuple[Level, ...] = (
        Level(name="generic", description="the distribution's default kernel in its default mode"),
        Level(name="rt", description="the distribution's kernel with PREEMPT_RT"),
        Level(name="none", description="the default kernel, preemption on return to user space only (preempt=none)"),
        Level(name="voluntary", description="the default kernel, with explicit preemption points (preempt=voluntary)"),
        Level(name="full", description="the default kernel, preemption wherever no lock is held (preempt=full)"),
    )

    forms: tuple[Level, ...] = (
        Level(name="PATH", description="a kernel of your own: its file, e.g. ./arch/x86/boot/bzImage"),
        Level(
            name="LEVEL+NAME=VALUE",
            description="any of these with boot parameters, e.g. generic+threadirqs or ./bzImage+mitigations=auto",
        ),
        Level(
            name="LEVEL+drop:NAME",
            description="the same without a base option of the virtual machine, e.g. generic+drop:nokaslr",
        ),
    )

    def acts_on(self, target: str, offers: frozenset[str], levels: Sequence[str]) -> bool:
        """Return whether a target boots kernels; see `ChecksPlace`.

        Raises:
            UnavailableError: of a board, a level is neither a file nor a kernel that a lab may name, or it has boot parameters, which a
                board takes from its boot loader.
        """
        if "boots" in offers or "reboots" not in offers:
            return "boots" in offers
        for level in levels:
            kernel, options = split_kernel(level)
            if ("/" not in kernel and kernel not in PACKAGED) or options:
                raise UnavailableError(
                    f"The target {target} can't boot {level}: it needs boot parameters, and its boot loader has its own.",
                    "Name kernels that the board boots: kernel=./Image-a,./Image-b, or kernel=generic,rt where labgrid's environment "
                    "names both images. Or measure on --target vm.",
                )
        return True

    def level_of_path(self, text: str) -> Level:
        """Return the level of a kernel's file, with boot parameters if the text has any.

        Raises:
            UserError: there is no such file, or a parameter is invalid.
        """
        level = parse_kernel_level(text)
        if "/" not in level.kernel and (taken := self.level_of_text(text)):
            return taken
        path = Path(level.kernel).expanduser()
        if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises for some texts
            raise UserError(
                f"There is no kernel {level.kernel}.",
                "Name the file that a kernel's build creates, such as arch/x86/boot/bzImage.",
            )
        return Level(
            name=msgspec.structs.replace(level, kernel=str(path.resolve())).name, description="a kernel of the user"
        )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a packaged kernel with boot parameters; None for a text without any.

        Raises:
            UserError: there is no such kernel, or a parameter is invalid.
        """
        if "+" not in text:
            return None
        level = parse_kernel_level(text)
        known = {each.name: each for each in self.levels}
        if level.kernel not in known:
            raise unknown("kernel", level.kernel, list(known))
        return Level(name=level.name, description=f"{known[level.kernel].description}, with boot parameters")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, kernel=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the kernel and its boot parameters by what the running kernel reports.

        Returns:
            ``rt`` if its version contains PREEMPT_RT or /sys/kernel/realtime is 1; a mode if its command line has the option and a mode is
            in force; the path of a user's kernel if the banner in its file is that of the running one; else ``generic``. Then the
            parameters in /proc/cmdline that are not the machine's own. The running kernel's version if it is of none of the files that
            were to be booted. None if the machine reports no kernel.
        """
        version = evidence.machine_text("version")
        booted = evidence.machine_text("booted")
        if not version:
            return None
        if booted == OTHER_KERNEL:
            return version
        own = "/" in booted
        kernel = booted if own else self._packaged(evidence, version)
        if kernel is None or not (kept := evidence.machine_text(KEPT_OPTIONS)):
            return kernel
        dropped, cmdline = evidence.machine_text(DROPPED_OPTIONS), evidence.machine_text("/proc/cmdline")
        return kernel + parameters_in_force(cmdline, kept, dropped, evidence.machine_text(PARAMETERS) if own else None)

    def _packaged(self, evidence: Evidence, version: str) -> str | None:
        """Return the level of a packaged kernel without its parameters."""
        if "PREEMPT_RT" in version or evidence.machine_text("/sys/kernel/realtime").strip() == "1":
            return "rt"
        if not _PREEMPT_OPTION.search(evidence.machine_text("/proc/cmdline")):
            return "generic"
        found = _ACTIVE_MODE.search(evidence.machine_text("before /sys/kernel/debug/sched/preempt"))
        return found[1] if found and found[1] in _MODES else None


KERNEL = Kernel()
