"""The C library: glibc or musl, linked dynamically."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, Recipe, Stage

# File names by which each library is known: its dynamic loader, and the library itself (for musl they are one file).
_SIGNS = {
    "glibc": re.compile(r"^(ld-linux.*\.so\.\d+|ld64?\.so\.\d+|ld-\d.*\.so|libc\.so\.6|libc-2\.\d+\.so)$"),
    "musl": re.compile(r"^(ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1|libc\.so)$"),
}


class Libc:
    """Which C library a program is compiled against and runs on."""

    name = "libc"
    stage = Stage.COMPILE
    describes = "the C library, linked dynamically"
    levels: tuple[Level, ...] = (
        Level(name="glibc", describes="the GNU C library, by cc", needs=("cc",), package="gcc libc6-dev"),
        Level(name="musl", describes="musl, by musl-gcc", needs=("musl-gcc",), package="musl-tools"),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, libc=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the C library by the program's loader and by the objects it had mapped.

        Returns:
            ``glibc`` or ``musl`` when everything seen agrees; both names joined by ``+`` when a process holds both; None when
            neither was seen.
        """
        paths = (*((evidence.interp,) if evidence.interp else ()), *evidence.objects, *evidence.mapped)
        names = {path.rsplit("/", 1)[-1].removesuffix(" (deleted)") for path in paths}
        seen = [level for level, sign in _SIGNS.items() if any(sign.match(name) for name in names)]
        return "+".join(seen) or None


LIBC = Libc()
