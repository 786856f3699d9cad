# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C compiler."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.factors.factor import Evidence, Level, ProgramFacts, Recipe, Stage
from swapstone.core.model import UserError
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts, recorded, with_recording
from swapstone.parts.build.factors.compiler_probe import probe_compiler
from swapstone.parts.build.factors.sdk import SDK, command_of_level

# The name of each compiler in .comment.
_COMMENTS = {"gcc": re.compile(r"^GCC: "), "clang": re.compile(r"\bclang version ")}


_LINK = "Make a symbolic link to it with letters, digits and ._/+- only."


class Compiler:
    """The C compiler that compiles a program."""

    name = "compiler"
    stage = Stage.COMPILE
    tools_are_of_this_machine = True
    description = "the C compiler; the path of a compiler is a level too, and sdk:FILE an SDK's environment script"
    unseen = "Its file names no compiler: don't remove the section .comment, and pass CFLAGS to the compiler."
    levels: tuple[Level, ...] = (
        Level(name="gcc", description="the GNU C compiler", needs=("gcc",)),
        Level(
            name="clang",
            description="LLVM's C compiler, with gcc's start-up objects",
            needs=("clang",),
        ),
    )

    forms: tuple[Level, ...] = (
        Level(name="PATH", description="any gcc or clang by its path, with options if quoted"),
        Level(name="sdk:FILE", description="the environment script of an SDK of Yocto or Buildroot"),
    )

    def level_of_path(self, text: str) -> Level:
        """Return the level of a compiler by its path, with options if the text has any; see `TakesPaths`.

        Raises:
            UserError: it is no compiler, or the SDK can't be used.
        """
        command = command_of_level(text)
        facts = probe_compiler(command)
        name = (
            f"{SDK}{Path(text.removeprefix(SDK)).expanduser().resolve()}"
            if text.startswith(SDK)
            else shlex.join(command)
        )
        if re.search(r"[,()\[\]{}*?\n]", name):
            raise UserError(f"{name!r} can't be a level: it has characters with a meaning in names of variants.", _LINK)
        return Level(name=name, description=f"{facts.kind} {facts.version} for {facts.target}")

    def check_levels(self, levels: Sequence[str]) -> None:
        """Check that programs show which of several compilers built them.

        Raises:
            UserError: two write the same name and the same options into programs.
        """
        seen: dict[tuple[str, tuple[str, ...]], str] = {}
        for level in levels if any("/" in level for level in levels) else ():
            found = level if "/" in level else shutil.which(level)
            if found is None:
                continue
            facts = probe_compiler(command_of_level(found))
            other = seen.setdefault((facts.name, facts.switches), level)
            if other != level:
                raise UserError(
                    f"The compilers {other} and {level} write the same name into programs, {facts.name!r}: a program does not show which "
                    "of them built it.",
                    "Compare compilers of different versions, or with options that differ: '/path/to/gcc -march=native'",
                )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the compiler, and make it record its command line."""
        return recipe.changed(Build, compiler=level, cflags=with_recording(recipe.of(Build).cflags))

    def observe(self, evidence: Evidence) -> str | None:
        """Name the compiler by the recorded command lines, or else by the names in ``.comment``.

        gcc compiles the start-up objects and libraries of a system, so without recorded command lines its name proves nothing if
        clang's is present.

        Returns:
            A level's name; several joined by ``+`` if command lines of several compilers are recorded; None if there is no name.
        """
        program = evidence.program
        if program is None:
            return None
        compilers = sorted({name for name, _ in recorded(program)})
        named = {
            level for level, pattern in _COMMENTS.items() if any(map(pattern.search, program.of(BuildFacts).comments))
        }
        kind = "+".join(compilers) or ("clang" if "clang" in named else "gcc" if named else None)
        path = evidence.path_of(self.name)
        return self._of_path(path, kind, program) if path and kind else kind

    def _of_path(self, level: str, kind: str, program: ProgramFacts) -> str | None:
        """Return the level of a compiler's path if the program contains its name, version and options; else what it contains."""
        try:
            facts = probe_compiler(command_of_level(level))
        except UserError:
            return None  # the compiler is gone: there is nothing to compare the program with
        lines = [line for _, line in recorded(program)]
        comments = program.of(BuildFacts).comments
        same = all(facts.version in line.split() for line in lines) or facts.kind == "clang"
        options = all(set(facts.switches) <= set(line.split()) for line in lines)
        if kind == facts.kind and facts.name in comments and same and options:
            return level
        return f"{kind} ({'; '.join(comments)})"


COMPILER = Compiler()
