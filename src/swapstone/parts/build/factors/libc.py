# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library: glibc, musl, or a C library of the user in a folder."""

from __future__ import annotations

import re
from pathlib import Path

from swapstone.core.factors.factor import Evidence, Level, ProgramFacts, Recipe, Stage
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.c_library_files import read_tree

# File names of each library: its dynamic loader and the library itself (one file in musl).
_FILE_NAMES = {
    "glibc": re.compile(r"^(ld-linux.*\.so\.\d+|ld64?\.so\.\d+|ld-\d.*\.so|libc\.so\.6|libc-2\.\d+\.so)$"),
    "musl": re.compile(r"^(ld-musl-.*\.so\.1|libc\.musl-.*\.so\.1|libc\.so)$"),
    "uclibc": re.compile(r"^(ld(64)?-uClibc.*\.so(\.\d+)?|libuClibc-.*\.so)$"),
}

# What the file of every program contains that is linked statically with the library. Stripping removes the symbols, but not the
# sections and the code at the entry point.
_SYMBOLS = {"glibc": "__libc_setup_tls", "musl": "__init_libc"}
_SECTIONS = {"glibc": re.compile(r"^(\.note\.ABI-tag|__libc_\w+)$")}

# The code at the entry point of programs with musl's start-up objects, by the machine's name in ELF. Dots are addresses.
# Disassembled from Debian's crt1.o, Scrt1.o and rcrt1.o: clear the frame pointer, pass the stack and _DYNAMIC, align, call _start_c.
_ENTRIES = {"EM_X86_64": re.compile(r"^4831ed4889e7488d35.{8}4883e4f0e8")}


class Libc:
    """The C library that a program is compiled and run with."""

    name = "libc"
    stage = Stage.COMPILE
    tools_are_of_this_machine = True
    description = "the C library; a folder with headers, objects and a loader is a level too"
    unseen = (
        "The C library of a stripped static program may not be recognizable: build it without -s, and don't strip it."
    )
    levels: tuple[Level, ...] = (
        Level(name="glibc", description="the GNU C library", needs=("cc",), package="gcc libc6-dev"),
        Level(
            name="musl",
            description="musl, with musl-gcc or clang",
            needs=("musl-gcc",),
            package="musl-tools",
        ),
    )

    forms: tuple[Level, ...] = (
        Level(
            name="FOLDER",
            description="a musl, glibc or uClibc-ng with headers, objects and loader, with a slash in its path",
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return recipe.changed(Build, libc=level)

    def level_of_path(self, text: str) -> Level:
        """Return the level of a folder with a C library; see `TakesPaths`.

        Raises:
            UserError: it is no folder, or holds no C library.
        """
        root = Path(text).expanduser().resolve()
        if re.search(r"[\s,:%]", str(root)):
            raise UserError(
                f"{str(root)!r} can't be a level: linkers and loaders separate folders by some of its characters.",
                "Move the C library to a folder whose path has letters, digits and ._/+- only.",
            )
        tree = read_tree(root)
        return Level(name=str(root), description=f"{tree.kind} in a folder of the user")

    def observe(self, evidence: Evidence) -> str | None:
        """Name the C library by its folder if the user named one and all evidence lies in it; else by its kind."""
        kind = self._kind(evidence)
        root = evidence.path_of(self.name)
        if not root or kind is None:
            return kind
        files = [path for path in _paths(evidence) if any(each.match(_name(path)) for each in _FILE_NAMES.values())]
        outside = [path for path in files if not Path(path).is_relative_to(root)]
        if outside:
            return f"{kind} of {outside[0]}"
        try:
            tree = read_tree(Path(root))
        except UserError:
            return kind  # the folder is gone: nothing can be observed of it
        marked = evidence.program is not None and tree.mark() in evidence.program.marks
        return root if kind == tree.kind and (files or marked) else kind

    def _kind(self, evidence: Evidence) -> str | None:
        """Name the C library by the program's loader, by its mapped objects, and by what is linked into its file.

        Returns:
            ``glibc`` or ``musl`` if all evidence agrees; both names joined by ``+`` if the process contains both; None if it shows
            neither.
        """
        names = set(map(_name, _paths(evidence)))
        found = {level for level, pattern in _FILE_NAMES.items() if any(map(pattern.match, names))}
        if evidence.program is not None:
            found |= _linked_in(evidence.program)
        return "+".join(sorted(found)) or None


def _paths(evidence: Evidence) -> tuple[str, ...]:
    return (*((evidence.interp,) if evidence.interp else ()), *evidence.objects, *evidence.mapped)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1].removesuffix(" (deleted)")


def _linked_in(program: ProgramFacts) -> set[str]:
    """Return the C libraries whose start-up objects and code a program's file contains."""
    found = {level for level, symbol in _SYMBOLS.items() if symbol in program.symbols}
    found |= {level for level, pattern in _SECTIONS.items() if any(map(pattern.match, program.sections))}
    entry = _ENTRIES.get(program.machine)
    return found | ({"musl"} if entry is not None and entry.match(program.entry) else set())


LIBC = Libc()
