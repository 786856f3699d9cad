# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which build of a library a process used: the check of ``--with``."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.factors import Evidence, Recipe
from swapstone.parts.build.artifacts.library_table import LIBRARIES
from swapstone.parts.build.build import Build


def wrong_library(recipe: Recipe, evidence: Evidence) -> str:
    """Return a sentence if the process did not use the libraries that were built for it.

    Each object of a library that Swapstone builds has a text with a digest of all its inputs in ``.comment``. A linker copies it into
    every program and shared object that contains such an object.

    Args:
        recipe: of the program; names the texts.
        evidence: the program's file and the files of the mapped objects.

    Returns:
        A sentence on the first library of which another file was mapped, or whose text was in no file; empty if there is none.
    """
    files = [*((evidence.program,) if evidence.program else ()), *evidence.libraries]
    for ident in recipe.of(Build).libraries:
        name = ident.split()[2]
        stems = tuple(f"lib{link}.so" for link in LIBRARIES[name].links)
        other = next((f for f in files if Path(f.path).name.startswith(stems) and ident not in f.comments), None)
        if other is not None:
            return (
                f"--with {name} was requested, but the process had {other.path} mapped, which was not built for it; "
                "does the build ignore {cflags} or {ldflags}?"
            )
        if not any(ident in file.comments for file in files):
            return (
                f"--with {name} was requested, but no file of the process contains it. Leave {name} out if the program does not use it; "
                "else the build ignores {cflags} or {ldflags}, or removes the section .comment"
            )
    return ""
