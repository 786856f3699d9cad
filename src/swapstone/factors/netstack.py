# SPDX-License-Identifier: MIT OR Apache-2.0
"""The network stack of a server: the kernel's, or one in the server's process over a TAP device. docs/netstack.md explains it."""

from __future__ import annotations

import msgspec

from swapstone.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.factors.netstack_fixes import FIXES, upstream_of
from swapstone.model import unknown

KERNEL = "kernel"
VARIABLE = "NETSTACK"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

_NONE = "none"
_SHIPPED = "shipped"
_WITHOUT = "without-"
_NEEDS = ("cargo", "ip")
_PACKAGES = "cargo-web rustc-web iproute2"


def _level(name: str, description: str) -> Level:
    return Level(name=name, description=description, needs=_NEEDS, package=_PACKAGES)


class Netstack:
    """The network stack of the server."""

    name = "netstack"
    stage = Stage.LAUNCH
    description = "the network stack that a server runs on"
    unseen = "Only workloads of the suites netstack and netstack-counts use a stack: add `--suite netstack`."
    levels: tuple[Level, ...] = (
        Level(
            name=KERNEL,
            description="Linux's sockets, over a pair of veth devices",
            needs=_NEEDS,
            package=_PACKAGES,
        ),
        *(_level(stack, f"{stack} in the server's process, over a TAP, with its fixes") for stack in FIXES),
        *(_level(f"{stack}:{_SHIPPED}", f"{stack} without its fixes") for stack in FIXES),
    )
    forms: tuple[Level, ...] = tuple(
        _level(f"{stack}:{_WITHOUT}{fix}", f"all fixes but one: then {reason} ({upstream_of(stack, fix)})")
        for stack, fixes in FIXES.items()
        for fix, reason in fixes.items()
    )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of a stack without one of its fixes; None for another text.

        Raises:
            UserError: the stack has no such fix.
        """
        stack, colon, rest = text.partition(":")
        if not colon or stack not in FIXES:
            return None
        for form in self.forms:
            if form.name == text:
                return form
        raise unknown("fix", rest.removeprefix(_WITHOUT), [_SHIPPED, *FIXES[stack]])

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest name."""
        room = max(len(each.name) for each in (*self.levels, *self.forms))
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (VARIABLE, level.ljust(room))))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the stack by the server's open TAP device, its listening kernel sockets, and the name that its stack reports.

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
        if stack in FIXES and "server_fixes" in seen:
            stack = _of_fixes(stack, seen["server_fixes"])
        return stack if fits else f"{stack} on {places or 'neither a TAP nor the kernel'}"


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
