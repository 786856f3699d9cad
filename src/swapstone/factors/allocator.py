"""The allocator: what serves a program's calls of malloc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from swapstone.factors.base import Evidence, Level, ProgramFacts, Recipe, Stage
from swapstone.factors.facts import read_facts
from swapstone.model import UserError

DEFAULT = "default"

# By what each allocator is told: a symbol that it defines and no other does (`TELLING_SYMBOLS`). File names prove nothing.
_SIGNS = {
    "mimalloc": "mi_malloc",
    "jemalloc": "mallctlbymib",
    "tcmalloc": "tc_malloc",
    "snmalloc": "__malloc_end_pointer",
}
_OF_LIBC = {"__libc_start_main", "_rtld_global"}  # glibc's loader offers a malloc too, until the C library is there
_UNFIT = re.compile(r"[\s,=:()%*?\[\]{}]")


class Allocator:
    """Which allocator serves malloc."""

    name = "allocator"
    stage = Stage.LAUNCH
    description = (
        "what serves malloc: preloaded, or linked into a static program; a path of a shared object is a level too"
    )
    levels: tuple[Level, ...] = (
        Level(name=DEFAULT, description="the C library's own"),
        Level(
            name="mimalloc",
            description="built once from Debian's source package",
            needs=("cc", "apt-get"),
            package="gcc libc6-dev apt",
        ),
        Level(
            name="jemalloc",
            description="built once from Debian's source package",
            needs=("make", "cc", "apt-get"),
            package="make gcc libc6-dev apt",
        ),
        Level(
            name="tcmalloc",
            description="gperftools' tcmalloc_minimal, built once from Debian's source package; not on musl",
            needs=("g++", "apt-get"),
            package="g++ apt",
        ),
        Level(
            name="snmalloc",
            description="built once from the sources in the crate snmalloc-sys",
            needs=("g++", "cargo"),
            package="g++ cargo",
        ),
    )

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Name the level in the recipe."""
        return msgspec.structs.replace(recipe, allocator=level)

    def level_of_path(self, text: str) -> Level:
        """Return the level that the path of a shared object stands for; see `TakesPaths`."""
        path = Path(text).expanduser().resolve()
        unfit = _UNFIT.search(str(path))
        if unfit is not None:
            raise UserError(
                f"{str(path)!r} can't be a level: a path with {unfit[0]!r} in it can't be part of a variant's name.",
                "Copy the object to a path of letters, digits and ._/+- alone.",
            )
        if not path.is_file():
            raise UserError(
                f"There is no file {path} to take as an allocator.",
                "Give the path of a shared object. A comma parts levels, so it can't be part of a path.",
            )
        facts = read_facts(path)
        _check_object(path, facts)
        return Level(name=str(path), description="a shared object of the user's")

    def observe(self, evidence: Evidence) -> str | None:
        """Name the allocator in which the process's malloc lies.

        The process itself reports the file of its malloc, if it is one of our workloads; for every process, the loader's search order
        over the objects that were mapped tells whose malloc it took. Where both are known they must agree.

        Returns:
            A level's name, or a path that was asked for, when that very object serves malloc and no other allocator is there; else
            a text that says what was seen; None when nothing tells.
        """
        known = {facts.path: facts for facts in (*evidence.libraries, *_program(evidence))}
        deduced = _first_with_malloc(evidence)
        reported = known.get(evidence.malloc)
        if evidence.malloc and reported is None:
            return f"an allocator in {evidence.malloc}, which can't be read,"
        if reported is not None and deduced is not None and reported.path != deduced.path:
            return f"malloc of {reported.path} (says the process) or of {deduced.path} (say the objects that it had mapped)"
        serving = reported or deduced
        if serving is None:
            return None
        seen = _name(serving, evidence)
        others = [_name(facts, evidence) for facts in _with_allocators(known.values(), evidence) if facts != serving]
        return f"{seen} beside {' and '.join(others)}" if others else seen


def _check_object(path: Path, facts: ProgramFacts | None) -> None:
    """Refuse a file that can't be preloaded as an allocator.

    Raises:
        UserError: it is no ELF file, no shared object, or has no malloc to offer.
    """
    if facts is None or facts.kind != "ET_DYN" or facts.interp is not None:
        raise UserError(
            f"{path} is not an ELF shared object, so it can't be preloaded.", "Build it with: cc -shared -fPIC"
        )
    if "malloc" not in facts.exports:
        raise UserError(
            f"{path} has no malloc to offer: programs would go on to use another one.",
            "It must define malloc as a dynamic symbol: `nm -D --defined-only` shows those.",
        )


def _program(evidence: Evidence) -> tuple[ProgramFacts, ...]:
    return (evidence.program,) if evidence.program is not None else ()


def _first_with_malloc(evidence: Evidence) -> ProgramFacts | None:
    """Return what defines the malloc that the loader takes: the first in its search order that has one."""
    return next((facts for facts in _search_order(evidence) if _has_malloc(facts, evidence)), None)


def _has_malloc(facts: ProgramFacts, evidence: Evidence) -> bool:
    """Say whether a malloc in a file can serve others. In a static program, which has no loader, every symbol can."""
    return "malloc" in (facts.symbols if evidence.interp is None else facts.exports)


def _search_order(evidence: Evidence) -> Iterator[ProgramFacts]:
    """Yield the objects of a process as the loader searches them.

    First the program, then what was preloaded, then what those need, level by level; last what nobody needs (it was loaded later).
    """
    left = {facts.path: facts for facts in evidence.libraries}
    preloaded = [left.pop(path) for path in evidence.preload if path in left]
    found = [*_program(evidence), *preloaded]
    for facts in found:  # grows while it is walked through
        yield facts
        for name in facts.needed:
            match = next((one for one in left.values() if name in {one.soname, one.path.rsplit("/", 1)[-1]}), None)
            if match is not None:
                found.append(left.pop(match.path))
    yield from left.values()


def _with_allocators(objects: Iterable[ProgramFacts], evidence: Evidence) -> Iterator[ProgramFacts]:
    """Yield what brings an allocator that is not the C library's."""
    return (facts for facts in objects if _has_malloc(facts, evidence) and not _is_libc_malloc(facts))


def _is_libc_malloc(facts: ProgramFacts) -> bool:
    """Say whether the malloc in a file is the C library's own: the file is the C library, or a static program that took it from there.

    glibc's ``malloc`` comes in one object with ``_int_malloc``, which is never linked beside another malloc. musl's has a second name.
    """
    if _OF_LIBC.intersection(facts.exports) or "default_malloc" in facts.aliases:
        return True
    return "_int_malloc" in facts.symbols and not set(_SIGNS.values()).intersection(facts.aliases)


def _name(facts: ProgramFacts, evidence: Evidence) -> str:
    """Name the allocator that serves malloc from a file."""
    if facts.path in evidence.paths:
        return facts.path
    if _is_libc_malloc(facts):
        return DEFAULT
    signs = [level for level, sign in _SIGNS.items() if sign in facts.symbols]
    return "+".join(signs) or f"an allocator of no known name in {facts.path}"


ALLOCATOR = Allocator()
