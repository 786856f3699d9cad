"""The network stack under a server: the kernel's, or one in the server's own process over a TAP. docs/netstack.md explains it."""

from __future__ import annotations

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage

KERNEL = "kernel"
VARIABLE = "NETSTACK"
"""What tells a trial its level. All levels' values are equally long, so the environment is equally large."""

_NONE = "none"
_NEEDS = ("cargo", "ip")
_PACKAGES = "rustup iproute2"


class Netstack:
    """Which network stack the server runs on."""

    name = "netstack"
    stage = Stage.LAUNCH
    description = "the network stack that a server runs on"
    unseen = "Only workloads of the suites netstack and netstack-counts run on a stack: add `--suite netstack`."
    levels: tuple[Level, ...] = (
        Level(
            name=KERNEL,
            description="Linux's own sockets, over a pair of veth",
            needs=_NEEDS,
            package=_PACKAGES,
        ),
        Level(name="lwip", description="lwIP in the server's process, over a TAP", needs=_NEEDS, package=_PACKAGES),
        Level(
            name="smoltcp", description="smoltcp in the server's process, over a TAP", needs=_NEEDS, package=_PACKAGES
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the environment, padded with blanks to the longest name."""
        room = max(len(each.name) for each in self.levels)
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (VARIABLE, level.ljust(room))))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the stack by what was seen of the server: its open TAP, the kernel's sockets that it listens on, what its stack says it is.

        Returns:
            A level only where all three agree; what was there, where they don't; None where one of them was not looked at.
        """
        seen = dict(evidence.seen)
        if not {"tap", "kernel_sockets", "stack"} <= seen.keys():
            return None
        wired, listens = seen["tap"] != _NONE, seen["kernel_sockets"] != _NONE
        stack = seen["stack"].partition(" ")[0]
        places = " and ".join(text for text, there in (("a TAP", wired), ("the kernel's sockets", listens)) if there)
        fits = (wired, listens) == ((False, True) if stack == KERNEL else (True, False))
        return stack if fits else f"{stack} on {places or 'neither a TAP nor the kernel'}"


NETSTACK = Netstack()
