# SPDX-License-Identifier: MIT OR Apache-2.0
"""The network stack of a server or client: the kernel's, or one in its process over a TAP device. docs/netstack.md explains it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import UserError, unknown
from swapstone.parts.net.factors.netstack_fixes import FIXES, upstream_of
from swapstone.parts.net.factors.netstack_options import (
    OPTIONS,
    SEPARATOR,
    option_text,
    options_text,
    parse_options,
    stack_level,
)

KERNEL = "kernel"
VARIABLE = "NETSTACK"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

CONTROLS = (
    "reno",
    "bbr",
    "bic",
    "cdg",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)
"""Congestion controls of Linux besides `DEFAULT_CONTROL` (net/ipv4/Kconfig), those of the documentation first."""
DEFAULT_CONTROL = "cubic"
"""That of the level ``kernel``."""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_MODULES = Path("/lib/modules")

_NONE = "none"
_SHIPPED = "shipped"
_WITHOUT = "without-"
_LONGEST = len(
    f"lwip:{_WITHOUT}reordering-window+checksum-on-copy=1+oversize=1460+ooseq=0+pools=16000+buffers=65536KiB"
)


class Netstack:
    """The network stack of the server."""

    name = "netstack"
    stage = Stage.LAUNCH
    description = "the network stack that a server runs on"
    unseen = "Only workloads of the suites netstack and netstack-counts use a stack: add `--suite netstack`."
    levels: tuple[Level, ...] = (
        stack_level(KERNEL, "Linux's sockets with cubic, over a pair of veth devices"),
        *(stack_level(stack, f"{stack} in the server's process, over a TAP, with its fixes") for stack in FIXES),
        *(stack_level(f"{stack}:{_SHIPPED}", f"{stack} without its fixes") for stack in FIXES),
    )
    forms: tuple[Level, ...] = (
        tuple(
            stack_level(f"{stack}:{_WITHOUT}{fix}", f"all fixes but one: then {reason} ({upstream_of(stack, fix)})")
            for stack, fixes in FIXES.items()
            for fix, reason in fixes.items()
        )
        + tuple(
            stack_level(f"{stack}:{option_text(option, value)}", reason)
            for stack, options in OPTIONS.items()
            for option in options
            for value, reason in option.listed
        )
        + tuple(stack_level(f"{KERNEL}:{control}", f"Linux's sockets with {control}") for control in CONTROLS)
    )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a stack with other fixes or options, or of the kernel with a congestion control; None for another text.

        Raises:
            UserError: the stack has no such fix or option, or Linux no such congestion control.
        """
        stack, colon, rest = text.partition(":")
        if not colon or stack not in (KERNEL, *FIXES):
            return None
        for form in (*self.levels, *self.forms):
            if form.name in {text, text.removesuffix(f":{DEFAULT_CONTROL}")}:
                return form
        if stack == KERNEL:
            raise unknown("congestion control", rest, [DEFAULT_CONTROL, *CONTROLS])
        return _tuned(stack, tuple(rest.split(SEPARATOR)))

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest name."""
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (VARIABLE, level.ljust(_LONGEST))))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the stack of the measured process by its open TAP device, its kernel sockets, and the name that its stack reports.

        The kernel sockets of a server are those that listen; of a client, those that are connected. The process reports fixes and
        options of its stack as ``server_fixes`` and ``server_options``, or as ``client_fixes`` and ``client_options``.

        Returns:
            A level if all three agree; a description if they don't; None if one of them was not observed.
        """
        seen = dict(evidence.seen)
        if not {"tap", "kernel_sockets", "stack"} <= seen.keys():
            return None
        wired, listens = seen["tap"] != _NONE, seen["kernel_sockets"] != _NONE
        stack = seen["stack"].partition(" ")[0]
        places = " and ".join(text for text, there in (("a TAP", wired), ("the kernel's sockets", listens)) if there)
        fits = (wired, listens) == ((False, True) if stack == KERNEL else (True, False))
        controls = {seen[name] for name in ("server_control", "client_control") if name in seen}
        if stack == KERNEL and controls - {DEFAULT_CONTROL}:
            stack = f"{KERNEL}:{' and '.join(sorted(controls))}"
        fixes, options = (_of_process(seen, what) for what in ("fixes", "options"))
        if stack in FIXES and fixes is not None:
            stack = _of_fixes(stack, fixes)
        if stack.partition(":")[0] in FIXES and options is not None:
            stack = _with_options(stack, options)
        return stack if fits else f"{stack} on {places or 'neither a TAP nor the kernel'}"


def _of_process(seen: Mapping[str, str], what: str) -> str | None:
    """Return what the measured process, a server or a client, reports of its stack; None if it reports nothing."""
    return seen.get(f"server_{what}", seen.get(f"client_{what}"))


def needs_system(level: str) -> str:
    """Return why a level can't be measured on a machine without an operating system; empty if it can."""
    if level.partition(":")[0] != KERNEL:
        return ""
    return "unavailable: there is no operating system on that machine, so no kernel whose sockets a server could use"


def missing_control(level: str) -> str | None:
    """Return why this machine's kernel lacks the congestion control of a level; None if it has it, or can load it."""
    stack, _, control = level.partition(":")
    if stack != KERNEL or not control:
        return None
    try:
        there = _AVAILABLE.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None  # the trial finds out
    modules = _MODULES / os.uname().release
    if control in there or next(modules.rglob(f"tcp_{control}.ko*"), None) is not None:
        return None
    return f"unavailable: this kernel has no congestion control {control}; it has {', '.join(sorted(there))}"


def _tuned(stack: str, parts: tuple[str, ...]) -> Level:
    """Return the level of a stack with other fixes, with options, or with both."""
    fixes = [part for part in parts if "=" not in part]
    known = [_SHIPPED, *(f"{_WITHOUT}{fix}" for fix in FIXES[stack])]
    for fix in fixes:
        if fix not in known:
            usages = [option_text(option, option.listed[0][0]) for option in OPTIONS[stack]]
            raise unknown("fix or option", fix, [*usages, *known])
    if len(fixes) > 1:
        raise UserError(
            f"The level {stack}:{SEPARATOR.join(parts)} selects fixes twice.",
            f"Use {stack}:{_SHIPPED} for none, {stack}:{_WITHOUT}FIX for all but one.",
        )
    values = parse_options(stack, tuple(part for part in parts if "=" in part))
    rest = SEPARATOR.join(filter(None, (*fixes, options_text(stack, values))))
    return stack_level(f"{stack}:{rest}" if rest else stack, "defined by its parts")


def _with_options(level: str, options: str) -> str:
    """Return a level with the options in force that its stack does not have by default; another text if the level has no such form."""
    stack, colon, rest = level.partition(":")
    try:
        text = options_text(stack, parse_options(stack, tuple(options.split(","))))
    except UserError:
        return f"{level} with the options {options}"
    return f"{stack}:{rest}{SEPARATOR if colon else ''}{text}" if text else level


def _of_fixes(stack: str, fixes: str) -> str:
    """Return the level of a stack by the fixes that were on. Servers of older records report none."""
    if fixes == _NONE:
        return f"{stack}:{_SHIPPED}"
    on = fixes.split(",")
    off = [fix for fix in FIXES[stack] if fix not in on]
    if len(on) + len(off) != len(FIXES[stack]) or len(off) > 1:
        return f"{stack} with the fixes {fixes}"
    return f"{stack}:{_WITHOUT}{off[0]}" if off else stack


NETSTACK = Netstack()
