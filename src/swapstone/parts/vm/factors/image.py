# SPDX-License-Identifier: MIT OR Apache-2.0
"""The image of one C library in which the user's program runs: docs/images.md."""

from __future__ import annotations

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.factors.mounts import MOUNTS, mounted_root
from swapstone.core.model import UserError
from swapstone.parts.build.factors.libc import LIBC


class LibcImageFactor:
    """The root of an image whose every program is of one C library, built by Swapstone."""

    name = "image"
    stage = Stage.LAUNCH
    is_root = True
    description = "an image whose every program is built with one C library, in which your program runs"
    levels: tuple[Level, ...] = (
        Level(
            name="glibc",
            description="busybox, dropbear, sqlite and lua with the GNU C library",
            needs=("cc", "make", "tclsh"),
        ),
        Level(
            name="musl",
            description="the same programs with musl",
            needs=("cc", "make", "tclsh", "patch"),
        ),
    )
    observes = (MOUNTS,)
    unseen = "The root or the C library of the process could not be observed."

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, root=level)

    def level_of_text(self, text: str) -> Level | None:
        """Return None: there are no more levels than the listed ones; see `TakesTexts`.

        Raises:
            UserError: the text is a path, which is a level of another factor.
        """
        if "/" in text or text.endswith(".tar"):
            raise UserError(
                f"{text!r} is no level of the factor image: Swapstone builds its images.",
                "A root file system of yours is a level of rootfs: swapstone compare rootfs=./one.tar,./other.tar -- /bin/sh bench.sh",
            )
        return None

    def observe(self, evidence: Evidence) -> str | None:
        """Name the C library that the process uses in the requested root: its loader and its mapped objects, by their paths in that root.

        Returns:
            ``glibc`` or ``musl``; another text if another root is mounted at / of the process; None if its mounts or its C library are
            unknown.
        """
        mounted = mounted_root(evidence)
        if mounted is None:
            return None
        return LIBC.observe(evidence) if mounted == evidence.root else f"the root {mounted}"


IMAGE = LibcImageFactor()
