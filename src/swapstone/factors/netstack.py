# SPDX-License-Identifier: MIT OR Apache-2.0
"""The network stack of a server: the kernel's, or one in the server's process over a TAP device. docs/netstack.md explains it."""

from __future__ import annotations

import msgspec

from swapstone.factors.factor import Evidence, Level, Recipe, Stage

KERNEL = "kernel"
VARIABLE = "NETSTACK"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

_NONE = "none"
_SMOLTCP, _SHIPPED = "smoltcp", "smoltcp:shipped"
_FIXES = "ack-beyond-window"
"""All fixes, as the server's stack reports those that are on (crates/swapstone-net-smoltcp/src/fixes.rs)."""
_NEEDS = ("cargo", "ip")
_PACKAGES = "cargo-web rustc-web iproute2"


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
        Level(name="lwip", description="lwIP in the server's process, over a TAP", needs=_NEEDS, package=_PACKAGES),
        Level(
            name=_SMOLTCP,
            description="smoltcp in the server's process, over a TAP; with the fix ack-beyond-window: without it two-way streams hang"
            " after a loss",
            needs=_NEEDS,
            package=_PACKAGES,
        ),
        Level(name=_SHIPPED, description="smoltcp as shipped, without fixes", needs=_NEEDS, package=_PACKAGES),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest name."""
        room = max(len(each.name) for each in self.levels)
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
        if stack == _SMOLTCP:
            stack = _of_fixes(seen.get("server_fixes", _FIXES))
        return stack if fits else f"{stack} on {places or 'neither a TAP nor the kernel'}"


def _of_fixes(fixes: str) -> str:
    """Return the level of smoltcp by the fixes that were on. Older servers report none and had none of the switches."""
    if fixes == _NONE:
        return _SHIPPED
    return _SMOLTCP if fixes == _FIXES else f"smoltcp with the fixes {fixes}"


NETSTACK = Netstack()
