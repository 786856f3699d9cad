"""Shared objects and programs of the user's own: for which C library and processor they were made."""

from __future__ import annotations

import functools
from pathlib import Path

from swapstone.factors import Evidence, ProgramFacts, Recipe, find_factor, read_facts
from swapstone.model import UnavailableError, UserError


def program_libc(path: Path) -> str:
    """Return the C library on which a program runs, by the loader that it names: what `Recipe.libc` must be where nothing is built.

    Raises:
        UnavailableError: nothing can be preloaded: it is static, or its loader is none that Swapstone knows.
        UserError: it is no ELF program.
    """
    facts = read_facts(path)
    if facts is None:
        raise UserError(
            f"{path} is not an ELF program.",
            "A script's interpreter is the program: name that one, and the script after it.",
        )
    if facts.interp is None:
        raise UnavailableError(
            f"{path} is a static program: no allocator can be preloaded into it.",
            "Link it dynamically, or link the allocator in.",
        )
    libc = find_factor("libc").observe(Evidence(interp=facts.interp, objects=()))
    if libc is None:
        raise UnavailableError(f"{path} names the loader {facts.interp}, which is neither glibc's nor musl's.")
    return libc


def object_libc(facts: ProgramFacts) -> str | None:
    """Return the C library for which a shared object was made; None when it doesn't tell."""
    names = [name.rsplit("/", 1)[-1] for name in facts.needed]
    if "libc.so.6" in names or any(version.startswith("GLIBC_") for version in facts.versions):
        return "glibc"
    if any(name == "libc.so" or name.startswith(("libc.musl-", "ld-musl-")) for name in names):
        return "musl"
    return None


def check_fits(recipe: Recipe) -> None:
    """Check that the shared object that a recipe names as its allocator can be preloaded into what the recipe makes.

    Raises:
        UnavailableError: it was made for another C library or processor, or the program is static.
        UserError: it is not there.
    """
    path = recipe.allocator
    facts = read_facts(Path(path))
    if facts is None:
        raise UserError(f"{path} is not there any more, or can't be read as a shared object.")
    if recipe.linking == "static":
        raise UnavailableError(f"{path} can't be preloaded into a static program.", "Compare it with linking=dynamic.")
    machine = _machine()
    if _processor(facts) != machine:
        raise UnavailableError(
            f"{path} is for {_processor(facts)}-bit, and programs here are {machine}-bit.",
            "Build it for this processor.",
        )
    made_for = object_libc(facts)
    if made_for is not None and made_for != recipe.libc:
        builder = {"glibc": "cc", "musl": "musl-gcc"}.get(recipe.libc, "that library's compiler")
        raise UnavailableError(
            f"{path} was built for {made_for}, so a program on {recipe.libc} can't load it.",
            f"Build it with {builder}, or compare with libc={made_for}.",
        )


@functools.cache
def _machine() -> str:
    facts = read_facts(Path("/proc/self/exe").resolve())
    assert facts is not None
    return _processor(facts)


def _processor(facts: ProgramFacts) -> str:
    return f"{facts.machine} {facts.bits}"
