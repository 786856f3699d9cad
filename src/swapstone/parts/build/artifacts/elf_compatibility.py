# SPDX-License-Identifier: MIT OR Apache-2.0
"""The C library and processor that a shared object was built for, and whether it can be preloaded."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.factors import ProgramFacts, Recipe, read_facts
from swapstone.core.model import UnavailableError, UserError, refuse
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts


def object_libc(facts: ProgramFacts) -> str | None:
    """Return the C library that a shared object was built for; None if unknown."""
    names = [name.rsplit("/", 1)[-1] for name in facts.needed]
    if "libc.so.6" in names or any(version.startswith("GLIBC_") for version in facts.of(BuildFacts).versions):
        return "glibc"
    if any(name == "libc.so" or name.startswith(("libc.musl-", "ld-musl-")) for name in names):
        return "musl"
    return None


def check_preloadable(recipe: Recipe) -> None:
    """Check that the shared object named as a recipe's allocator can be preloaded into its programs.

    Raises:
        UnavailableError: it was built for another C library or processor, or the program is static.
        UserError: it does not exist.
    """
    path = recipe.of(Build).allocator
    facts = read_facts(Path(path))
    if facts is None:
        raise UserError(f"{path} does not exist any more, or can't be read as a shared object.")
    own = read_facts(Path("/proc/self/exe").resolve())
    assert own is not None
    libc, machine, made_for = recipe.of(Build).libc, _processor(own), object_libc(facts)
    builder = {"glibc": "cc", "musl": "musl-gcc"}.get(libc, "that library's compiler")
    refuse(
        (
            recipe.of(Build).linking == "static",
            f"{path} can't be preloaded into a static program.",
            "Compare it with linking=dynamic.",
        ),
        (
            _processor(facts) != machine,
            f"{path} is for {_processor(facts)}-bit; programs on this machine are {machine}-bit.",
            "Build it for this processor.",
        ),
        (
            made_for not in {None, libc},
            f"{path} was built for {made_for}, so a program on {libc} can't load it.",
            f"Build it with {builder}, or compare with libc={made_for}.",
        ),
        kind=UnavailableError,
    )


def _processor(facts: ProgramFacts) -> str:
    return f"{facts.machine} {facts.of(BuildFacts).bits}"
