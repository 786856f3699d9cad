# SPDX-License-Identifier: MIT OR Apache-2.0
"""The allocator that serves a program's malloc."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.factors.elf_file import read_facts
from swapstone.core.factors.factor import Evidence, Level, ProgramFacts, Recipe, Stage
from swapstone.core.model import refuse
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import ALLOCATOR_SYMBOLS, BuildFacts

DEFAULT = "default"

_LIBC_SYMBOLS = {"__libc_start_main", "_rtld_global"}  # glibc's loader exports a malloc too, for its own start
_INVALID = re.compile(r"[\s,=:()%*?\[\]{}]")


class Allocator:
    """Which allocator serves malloc."""

    name = "allocator"
    stage = Stage.LAUNCH
    description = "the allocator behind malloc: preloaded, or linked into a static program; the path of a shared object is a level too"
    levels: tuple[Level, ...] = (
        Level(name=DEFAULT, description="that of the C library"),
        Level(
            name="mimalloc",
            description="built once from Debian's source package",
            needs=("cc", "apt-get"),
        ),
        Level(
            name="jemalloc",
            description="built once from Debian's source package",
            needs=("make", "cc", "apt-get"),
        ),
        Level(
            name="tcmalloc",
            description="gperftools' tcmalloc_minimal, built once from Debian's source package; not on musl",
            needs=("g++", "apt-get"),
        ),
        Level(
            name="snmalloc",
            description="built once from the sources in the crate snmalloc-sys",
            needs=("g++", "cargo"),
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return recipe.changed(Build, allocator=level)

    def level_of_path(self, text: str) -> Level:
        """Return the level of a shared object; see `TakesPaths`."""
        path = Path(text).expanduser().resolve()
        invalid = next(iter(_INVALID.findall(str(path))), "")
        refuse(
            (
                invalid,
                f"{str(path)!r} can't be a level: a path with {invalid!r} in it can't be part of a variant's name.",
                "Copy the object to a path that consists of letters, digits and ._/+- only.",
            ),
            (
                not path.is_file(),
                f"There is no file {path} to use as an allocator.",
                "Give the path of a shared object. A comma separates levels, so it can't be part of a path.",
            ),
        )
        facts = read_facts(path)
        _check_object(path, facts)
        return Level(name=str(path), description="a shared object of the user")

    def observe(self, evidence: Evidence) -> str | None:
        """Name the allocator that contains the process's malloc.

        A bundled workload reports the file of its malloc. For every process, the loader's search order over the mapped objects
        determines which malloc was bound. If both are known, they must agree.

        Returns:
            A level's name, or a requested path if that object serves malloc and no other allocator is mapped; else a text that describes
            what was observed; None if the evidence does not show it.
        """
        known = {facts.path: facts for facts in (*evidence.libraries, *_program(evidence))}
        # The loader binds the first malloc in its search order.
        deduced = next((facts for facts in _search_order(evidence) if _has_malloc(facts, evidence)), None)
        reported = known.get(evidence.malloc)
        if evidence.malloc and reported is None:
            return f"an allocator in {evidence.malloc}, which can't be read,"
        if reported is not None and deduced is not None and reported.path != deduced.path:
            return f"malloc of {reported.path} (as the process reports) or of {deduced.path} (by the mapped objects)"
        serving = reported or deduced
        if serving is None:
            return None
        name = _name(serving, evidence)
        others = [
            _name(facts, evidence)
            for facts in known.values()
            if facts != serving and _has_malloc(facts, evidence) and not _is_libc_malloc(facts)
        ]
        return f"{name} beside {' and '.join(others)}" if others else name


def _check_object(path: Path, facts: ProgramFacts | None) -> None:
    """Refuse a file that can't be preloaded as an allocator.

    Raises:
        UserError: it is no ELF file, no shared object, or does not export malloc.
    """
    built = facts.of(BuildFacts) if facts is not None and facts.interp is None else BuildFacts()
    refuse(
        (
            built.kind != "ET_DYN",
            f"{path} is not an ELF shared object, so it can't be preloaded.",
            "Build it with: cc -shared -fPIC",
        ),
        (
            "malloc" not in built.exports,
            f"{path} does not export malloc: programs would use another one.",
            "It must define malloc as a dynamic symbol: `nm -D --defined-only` lists those.",
        ),
    )


def _program(evidence: Evidence) -> tuple[ProgramFacts, ...]:
    return (evidence.program,) if evidence.program is not None else ()


def _has_malloc(facts: ProgramFacts, evidence: Evidence) -> bool:
    """Return whether other objects can bind to a file's malloc. In a static program, which has no loader, any symbol counts."""
    built = facts.of(BuildFacts)
    return "malloc" in (built.symbols if evidence.interp is None else built.exports)


def _search_order(evidence: Evidence) -> Iterator[ProgramFacts]:
    """Yield the objects of a process in the loader's search order.

    First the program, then preloaded objects, then their dependencies breadth first; last objects that no other needs (dlopen).
    """
    left = {facts.path: facts for facts in evidence.libraries}
    preloaded = [left.pop(path) for path in evidence.preload if path in left]
    found = [*_program(evidence), *preloaded]
    for facts in found:  # `found` grows in the loop
        yield facts
        for name in facts.needed:
            match = next((one for one in left.values() if name in _names_of(one)), None)
            if match is not None:
                found.append(left.pop(match.path))
    yield from left.values()


def _names_of(facts: ProgramFacts) -> set[str]:
    return {facts.of(BuildFacts).soname, facts.path.rsplit("/", 1)[-1]}


def _is_libc_malloc(facts: ProgramFacts) -> bool:
    """Return whether a file's malloc is the C library's: the file is the C library, or a static program linked with it.

    glibc's ``malloc`` is in one object file with ``_int_malloc``, which is never linked together with another malloc. musl's has an alias.
    """
    built = facts.of(BuildFacts)
    if _LIBC_SYMBOLS.intersection(built.exports) or "default_malloc" in built.aliases:
        return True
    return "_int_malloc" in built.symbols and not {*ALLOCATOR_SYMBOLS.values()}.intersection(built.aliases)


def _name(facts: ProgramFacts, evidence: Evidence) -> str:
    """Name the allocator that serves malloc from a file."""
    if facts.path == evidence.path_of(ALLOCATOR.name):
        return facts.path
    if _is_libc_malloc(facts):
        return DEFAULT
    names = [level for level, symbol in ALLOCATOR_SYMBOLS.items() if symbol in facts.of(BuildFacts).symbols]
    return "+".join(names) or f"an unknown allocator in {facts.path}"


ALLOCATOR = Allocator()
