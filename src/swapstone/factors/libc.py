"""The C library: glibc or musl."""

from __future__ import annotations

import re

import msgspec

from swapstone.factors.base import Evidence, Level, ProgramFacts, Recipe, Stage

# File names by which each library is known: its dynamic loader, and the library itself (for musl they are one file).
_SIGNS = {
    "glibc": re.compile(r"^(ld-linux.*\.so\.\d+|ld64?\.so\.\d+|ld-\d.*\.so|libc\.so\.6|libc-2\.\d+\.so)$"),
    "musl": re.compile(r"^(ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1|libc\.so)$"),
}

# What each library leaves in the file of every program that is linked with it statically. Symbols go when a program is stripped;
# sections, and the code at its entry, stay.
_SYMBOLS = {"glibc": "__libc_setup_tls", "musl": "__init_libc"}
_SECTIONS = {"glibc": re.compile(r"^(\.note\.ABI-tag|__libc_\w+)$")}

# The code at the entry of every program that musl's start-up objects begin, by the machine's name in ELF; dots are addresses.
# Disassembled from Debian's crt1.o, Scrt1.o and rcrt1.o: clear the frame pointer, pass the stack and _DYNAMIC, align, call _start_c.
_ENTRIES = {"EM_X86_64": re.compile(r"^4831ed4889e7488d35.{8}4883e4f0e8")}


class Libc:
    """Which C library a program is compiled against and runs on."""

    name = "libc"
    stage = Stage.COMPILE
    description = "the C library"
    unseen = (
        "A static program that is stripped may show no sign of its C library: build it without -s, and don't strip it."
    )
    levels: tuple[Level, ...] = (
        Level(name="glibc", description="the GNU C library", needs=("cc",), package="gcc libc6-dev"),
        Level(
            name="musl",
            description="musl, by musl-gcc or a clang told where it is",
            needs=("musl-gcc",),
            package="musl-tools",
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, libc=level)

    def observe(self, evidence: Evidence) -> str | None:
        """Name the C library by the program's loader, by the objects it had mapped, and by what is linked into its file.

        Returns:
            ``glibc`` or ``musl`` when everything seen agrees; both names joined by ``+`` when a process holds both; None when
            neither was seen.
        """
        paths = (*((evidence.interp,) if evidence.interp else ()), *evidence.objects, *evidence.mapped)
        names = {path.rsplit("/", 1)[-1].removesuffix(" (deleted)") for path in paths}
        seen = {level for level, sign in _SIGNS.items() if any(sign.match(name) for name in names)}
        if evidence.program is not None:
            seen |= _linked_in(evidence.program)
        return "+".join(sorted(seen)) or None


def _linked_in(program: ProgramFacts) -> set[str]:
    """Return whose start-up objects and code a program's file holds."""
    seen = {level for level, symbol in _SYMBOLS.items() if symbol in program.symbols}
    seen |= {level for level, sign in _SECTIONS.items() if any(map(sign.match, program.sections))}
    entry = _ENTRIES.get(program.machine)
    return seen | ({"musl"} if entry is not None and entry.match(program.entry) else set())


LIBC = Libc()
