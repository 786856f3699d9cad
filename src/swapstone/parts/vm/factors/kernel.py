# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel of the machine: generic, PREEMPT_RT, the modes of the generic one (PREEMPT_DYNAMIC), or the user's kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import FrozenStruct, UnavailableError, UserError, unknown

DROP = "drop:"
"""Prefix of the key of a base option to leave out."""

LONGEST_PARAMETERS = 512
"""Number of characters of a level's parameters: the command line of most kernels is limited to 2048 (COMMAND_LINE_SIZE)."""

_KEY = "[A-Za-z0-9_][A-Za-z0-9_.-]*"
_WORD = re.compile(rf"(?:{_KEY})(?:=[A-Za-z0-9_.:-]*)?", re.ASCII)
_DROPPED = re.compile(rf"{DROP}(?P<key>{_KEY})", re.ASCII)
_ROOT = "the machine boots from an initrd, whose first process Swapstone provides"
_END = "Swapstone must see that the machine ends"
_RESERVED = {
    "console": "the console is where Swapstone reads the kernel's messages",
    "init": _ROOT,
    "rdinit": _ROOT,
    "root": _ROOT,
    "rootfstype": _ROOT,
    "rootflags": _ROOT,
    "initrd": _ROOT,
    "noinitrd": _ROOT,
    "panic": _END,
    "reboot": _END,
    "preempt": "the levels none, voluntary and full set it",
}
"""Keys that a level can't set or leave out, with the reason."""

_OF_PROCESSORS = {
    "nohz_full": "/sys/devices/system/cpu/nohz_full",
    "isolcpus": "/sys/devices/system/cpu/isolated",
}
"""Parameters with a list of processors, of which the kernel reports the list in force; it is empty if the kernel corrected it."""

_INTERRUPTS = "irqaffinity"
_MASK = "/proc/irq/default_smp_affinity"
"""The file with the processors that serve interrupts: a mask in hexadecimal digits, 32 bits between two commas."""

ARGUMENTS, ENVIRONMENT = "/proc/self/cmdline", "/proc/self/environ"
"""Files of the guest's first process, to which the kernel passes the parameters that it does not accept."""

KEPT_OPTIONS, DROPPED_OPTIONS, PARAMETERS = "kept options", "dropped options", "boot parameters"
"""What a target reports of its machine: the base options in its command line, the keys of those that it left out, and the parameters."""

_TRUE, _FALSE = frozenset({"", "1", "y", "on"}), frozenset({"0", "n", "off"})


class KernelLevel(FrozenStruct, frozen=True, kw_only=True):
    """A level of the factor ``kernel``.

    Attributes:
        kernel: name of a packaged kernel or of a mode, or the path of a kernel's file.
        added: parameters, as they stand on the kernel's command line.
        dropped: keys of the base options that are left out, sorted.
    """

    kernel: str
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The level's name: the kernel, what is left out, and what is added."""
        return "+".join((self.kernel, *(f"{DROP}{key}" for key in self.dropped), *self.added))


def key_of(parameter: str) -> str:
    """Return the key of a parameter. Like the kernel, it treats ``-`` and ``_`` as equal."""
    return parameter.partition("=")[0].replace("-", "_")


def split_kernel(text: str) -> tuple[str, str]:
    """Split a level's text into the kernel and its parameters, which begin with ``+`` or are empty.

    The name of a kernel's file may contain ``+``, so the longest beginning that is a file is the kernel; without one, the shortest.
    """
    ends = [at for at in range(len(text)) if text[at] == "+"]
    if "/" in text.partition("+")[0]:
        for at in (len(text), *reversed(ends)):
            if os.path.isfile(Path(text[:at]).expanduser()):  # noqa: PTH113 - Path.is_file raises for some texts
                return text[:at], text[at:]
        ends = [at for at in ends if at > text.rfind("/")]
    at = ends[0] if ends else len(text)
    return text[:at], text[at:]


def parse_kernel_level(text: str) -> KernelLevel:
    """Parse the text of a level. Whether there is such a kernel is not checked.

    Raises:
        UserError: a parameter has another form, is twice, or is one that Swapstone sets.
    """
    kernel, rest = split_kernel(text)
    if not rest:
        return KernelLevel(kernel=kernel)
    if len(rest) > LONGEST_PARAMETERS:
        raise UserError(f"The boot parameters of a level have more than {LONGEST_PARAMETERS} characters.")
    added: list[str] = []
    dropped: list[str] = []
    for word in rest[1:].split("+"):
        left_out = _DROPPED.fullmatch(word)
        if left_out is None and not _WORD.fullmatch(word):
            raise UserError(
                f"{word[:60]!a} is no boot parameter of a level.",
                "Write NAME or NAME=VALUE of letters, digits and . _ : - after each +, such as generic+threadirqs, "
                f"or +{DROP}NAME to leave a base option out.",
            )
        (dropped if left_out else added).append(left_out["key"].replace("-", "_") if left_out else word)
    keys = [*map(key_of, added), *dropped]
    for key in keys:
        if reason := _RESERVED.get(key):
            raise UserError(f"The boot parameter {key} can't be a level: {reason}.")
    if twice := next((key for key in keys if keys.count(key) > 1), ""):
        raise UserError(f"The level {text[:80]!a} has the boot parameter {twice} twice.")
    return KernelLevel(kernel=kernel, added=tuple(added), dropped=tuple(sorted(dropped)))


def kept_options(base: Iterable[str], added: Iterable[str], dropped: Iterable[str]) -> tuple[str, ...]:
    """Return the base options that remain: those without a key that is added or left out."""
    gone = {*map(key_of, added), *dropped}
    return tuple(word for word in base if key_of(word) not in gone)


def parameters_in_force(cmdline: str, kept: str, dropped: str, only: str | None = None) -> str:
    """Return the parameters of a running kernel as the end of its level's name.

    Args:
        cmdline: its /proc/cmdline.
        kept: the base options that the machine was started with.
        dropped: keys of the base options that were left out.
        only: parameters to return, of a user's kernel, whose build may have added words to the command line; None to return all.
    """
    words, expected = cmdline.split(), kept.split()
    missing = [word for word in expected if word not in words]
    rest = [word for word in words if word not in expected]
    keys = set(map(key_of, rest))
    gone = [key for key in dropped.split() if key not in keys]
    added = [word for word in rest if key_of(word) != "preempt" and (only is None or word in only.split())]
    name = "".join(f"+{word}" for word in (*(f"{DROP}{key}" for key in sorted(gone)), *added))
    return f"{name} without {' '.join(missing)}" if missing else name


def files_that_show(parameters: Sequence[str]) -> tuple[str, ...]:
    """Return the files of a guest that show whether its kernel accepted the parameters; `why_ignored` reads them. None for none."""
    return (ARGUMENTS, ENVIRONMENT, *filter(None, map(_file_of, parameters))) if parameters else ()


def _file_of(parameter: str) -> str:
    """Return the file of a guest that shows the value in force; empty for most parameters."""
    key = parameter.partition("=")[0]
    module, dot, name = key.replace("-", "_").partition(".")
    if dot:
        return f"/sys/module/{module}/parameters/{name}"
    return _MASK if key == _INTERRUPTS else _OF_PROCESSORS.get(key, "")


def why_ignored(parameters: Iterable[str], files: Mapping[str, str]) -> str:
    """Return which parameter a running kernel ignored, and how that shows; empty for none.

    A module's parameter (``MODULE.NAME=VALUE``) is in force if the kernel reports its value below /sys/module: the kernel ignores those of
    modules that it does not contain, and passes none of them on.

    Args:
        parameters: to check.
        files: contents of the guest's files by path: the first process's arguments and environment, lists of processors, and the
            parameters of modules.
    """
    passed_on = [*files.get(ARGUMENTS, "").split("\0")[1:], *files.get(ENVIRONMENT, "").split("\0")]
    for word in parameters:
        key, equals, value = word.partition("=")
        if word in passed_on:
            one = (
                "; one processor must remain for the kernel's own work, and a machine has one by default (--smp)"
                if key in _OF_PROCESSORS
                else ""
            )
            return f"the kernel ignored the boot parameter {word}: it does not know it, or not this value{one}"
        path = _file_of(word)
        shown = files.get(path, "").strip()
        if "." in key and path not in files:
            return f"the boot parameter {word} has no effect: the guest has no file {path}"
        if "." in key and not _equal(shown, value, flag=not equals):
            return f"the kernel ignored the boot parameter {word}: the value in force is {shown[:40]}"
        if key == _INTERRUPTS and shown != _mask_of(value):
            return f"the kernel ignored the boot parameter {word}: {_MASK} has {shown[:40] or 'no mask'}"
        if key in _OF_PROCESSORS and path in files and shown in {"", "(null)"}:
            return f"the kernel ignored the boot parameter {word}: {path} lists no processor"
    return ""


def _mask_of(processors: str) -> str:
    """Return the mask of one processor or of one range of them, as the kernel prints it; empty for another text."""
    found = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", processors, re.ASCII)
    if not found:
        return ""
    first, last = int(found[1]), int(found[2] or found[1])
    return f"{sum(1 << number for number in range(first, last + 1)):x}"


def _equal(shown: str, value: str, *, flag: bool) -> bool:
    """Return whether a module's parameter has the value that was set; the kernel prints truth values as Y and N."""
    if shown == value:
        return True
    if shown in {"Y", "N"}:
        return value.lower() in (_TRUE if shown == "Y" else _FALSE) and (bool(value) or flag)
    try:
        return int(shown, 0) == int(value, 0)
    except ValueError:
        return False


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
