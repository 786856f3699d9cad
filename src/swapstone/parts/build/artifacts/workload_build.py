# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build the bundled C workloads."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.artifacts.cache_folder import new_folder, read_description, sha256_of
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.program_size import sizes_of
from swapstone.core.artifacts.tool_versions import compiler_identity, loader_version
from swapstone.core.factors import ProgramFacts, Recipe, facts_of_parts, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import FrozenStruct, Source, UnavailableError, UserError, Workload
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.regular_file import read_toml
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.parts.build.artifacts import link_layouts
from swapstone.parts.build.artifacts.build_command import run_compiler
from swapstone.parts.build.artifacts.servers import build_packaged
from swapstone.parts.build.artifacts.toolchain import linked_dynamically, tool_prefix
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import RECORDED, RELEVANT_SYMBOLS

BASE_RECIPE = Recipe(
    environment=SOURCE_RECIPE.environment,
    pieces=(
        Build(
            cflags=("-std=gnu11", "-O2", "-fno-builtin", "-U_FORTIFY_SOURCE", "-Wall", "-Wextra", "-Werror"),
            ldflags=("-pthread",),
        ),
    ),
)

_OF_THIS_PROJECT = frozenset(flag for flag in BASE_RECIPE.of(Build).cflags if not flag.startswith(("-O", "-U")))
"""The warnings and the dialect of this project's own sources."""

PROGRAM = "prog"
FACTS = "facts.json"
_KINDS: Any = GenericAlias(tuple, (ProgramFacts, *facts_of_parts()))
"""What that file has."""

CACHE_VERSION = (
    "program, facts",
    *(f"{name}: {kind}" for facts in (ProgramFacts, *facts_of_parts()) for name, kind in facts.__annotations__.items()),
)
"""Version of the files in a built program's folder; part of the digest, so that versions of Swapstone whose facts have other
fields or types don't share builds."""


class Inputs(FrozenStruct, frozen=True, kw_only=True):
    """What a program is built from beside its source: a table of ``native/workloads.toml``, which describes them."""

    libraries: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


@functools.cache
def _tables() -> dict[str, Inputs]:
    return read_toml(share_dir() / "native" / "workloads.toml", dict[str, Inputs], "Install Swapstone again.")


def inputs_of(workload: Workload) -> Inputs:
    """Return what a C program of this project is built from beside its source.

    Raises:
        UserError: the tables can't be read.
    """
    assert isinstance(workload.origin, Source)
    return _tables().get(workload.name) or _tables().get(workload.origin.file, Inputs())


def companion_programs(workload: Workload, recipe: Recipe) -> tuple[Path, ...]:
    """Return the programs that a workload starts, built for a variant or taken from the cache.

    Args:
        workload: a C program of this project.
        recipe: resolved; of the workload's own program.

    Raises:
        UnavailableError: the sources can't be fetched, or there is no compiler.
        UserError: a build fails; the message ends with its output.
    """
    cflags = tuple(flag for flag in recipe.of(Build).cflags if flag not in _OF_THIS_PROJECT)
    theirs = recipe.changed(Build, cflags=cflags)
    return tuple(build_packaged(name, theirs).path for name in inputs_of(workload).packages)


def build_workload(workload: Workload, recipe: Recipe, *, relinked: bool = False) -> Built:
    """Build a workload, or return it from the cache.

    Args:
        workload: a C program of this project.
        recipe: resolved; gives compiler and flags.
        relinked: link the same objects in another order and with another offset, which moves the same code to other addresses.

    Raises:
        UnavailableError: the compiler is not installed, or the workload loads shared objects and the program would be static.
        UserError: the compilation fails; the message ends with the compiler's output.
    """
    return _build(_job(workload, recipe, relinked=relinked, beside=companion_programs(workload, recipe)))


def build_whole(workload: Workload, recipe: Recipe, folder: Path, *, like: str) -> Path | None:
    """Build a workload again with symbols, to name the addresses of the stripped program that runs.

    Args:
        workload: a C program of this project.
        recipe: of the program.
        folder: for the output; created.
        like: path of the stripped program.

    Returns:
        The file with symbols; None if it does not build, or its stripped form differs from the program.
    """
    try:
        job = _job(workload, recipe, relinked=False)
        folder.mkdir(parents=True, exist_ok=True)
        whole, stripped = folder / "whole", folder / "stripped"
        run_compiler(
            [
                *recipe.of(Build).command,
                *recipe.of(Build).cflags,
                *_objects(job, folder),
                "-o",
                str(whole),
                *recipe.of(Build).ldflags,
                *job.libraries,
            ]
        )
        run_compiler(
            [
                f"{tool_prefix(recipe)}strip",
                "--strip-all",
                f"--remove-section={RECORDED}",
                "-o",
                str(stripped),
                str(whole),
            ]
        )
        return whole if stripped.read_bytes() == Path(like).read_bytes() else None
    except (UserError, OSError):
        return None


def build_layouts(workload: Workload, recipe: Recipe, seeds: Sequence[str]) -> tuple[Built, ...]:
    """Build several links of a workload: the same code with other orders of functions and objects, and other offsets.

    Args:
        workload: a C program of this project.
        recipe: resolved; gives compiler and flags.
        seeds: one per link; equal seeds give equal programs.

    Returns:
        A program for each seed. The sources are compiled once, with each function in its own section. What it starts is linked once.

    Raises:
        UnavailableError: the compiler is not installed.
        UserError: the compilation fails; the message ends with the compiler's output.
    """
    job = _job(
        workload,
        recipe.changed(Build, cflags=(*recipe.of(Build).cflags, link_layouts.SECTIONS_FLAG)),
        relinked=False,
        beside=companion_programs(workload, recipe),
    )
    with TemporaryFolder("objects") as objects:
        return tuple(_build(dataclasses.replace(job, layout=seed, objects=Path(objects))) for seed in seeds)


def _job(workload: Workload, recipe: Recipe, *, relinked: bool, beside: Sequence[Path] = ()) -> Job:
    source, inputs = workload.origin, inputs_of(workload)
    assert isinstance(source, Source)
    if inputs.companions and recipe.of(Build).linking == "static":
        raise UnavailableError("The workload loads shared objects at run time, which a static program can't do.")
    folder = share_dir() / "native" / "workloads"
    harness = (folder / "harness.c",) if source.harness else ()
    sources = (folder / source.file, *harness)
    headers = tuple(sorted(folder.glob("*.h")))
    companions = tuple(folder / name for name in inputs.companions)
    return Job(sources, headers, companions, recipe, inputs.libraries, relinked, beside=tuple(beside))


EMPTY_SUITE = "size"


def _empty(name: str, description: str) -> Workload:
    origin = Source(file="empty.c", harness=False)
    return Workload(name=name, origin=origin, description=description, metrics=())


EMPTY_AS_VARIED = _empty("empty", "a program that does nothing")
"""Linked as its variant is: for experiments that vary the linking."""

EMPTY_PROGRAMS: tuple[Workload, ...] = (
    _empty("empty (dynamic)", "a program that does nothing"),
    _empty("empty (static)", "the same, linked statically"),
    EMPTY_AS_VARIED,
)
"""Built for their size alone, which is what the C library adds to every program."""


def build_empty(program: Workload, recipe: Recipe) -> Built:
    """Build one of `EMPTY_PROGRAMS`.

    Raises:
        UnavailableError: the compiler is not installed.
        UserError: it can't be linked, e.g. because there is no static library.
    """
    assert isinstance(program.origin, Source)
    source = share_dir() / "native" / "workloads" / program.origin.file
    return _build(Job((source,), (), (), recipe, inputs_of(program).libraries, relinked=False))


def c_library_version(recipe: Recipe) -> tuple[str, str] | None:
    """Return the version of the C library that a recipe links with, as printed by its loader.

    Args:
        recipe: resolved.

    Returns:
        The loader's path and its version line; None if no dynamic program can be linked.
    """
    with contextlib.suppress(UserError):
        return loader_version(build_empty(EMPTY_PROGRAMS[0], linked_dynamically(recipe)).path)
    return None


@dataclasses.dataclass(frozen=True)
class Job:
    """All inputs of a build: C sources, headers, companion shared objects, recipe.

    `layout` is the seed of a shuffled link, empty for none. `objects` is a folder that keeps the compiled objects between the links
    of one workload. `beside` are programs that are copied to the program's folder.
    """

    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    companions: tuple[Path, ...]
    recipe: Recipe
    libraries: tuple[str, ...]
    relinked: bool
    layout: str = ""
    objects: Path | None = None
    beside: tuple[Path, ...] = ()


def _build(job: Job) -> Built:
    recipe = job.recipe
    require_command(recipe.of(Build).command[0], "Compiling")
    digests = tuple((path.name, sha256_of(path)) for path in (*job.sources, *job.headers, *job.companions, *job.beside))
    shown = [
        Path(recipe.of(Build).command[0]).name,
        *recipe.of(Build).command[1:],
        *recipe.of(Build).cflags,
        *(path.name for path in job.sources),
        *recipe.of(Build).ldflags,
        *job.libraries,
    ]
    command = " ".join(shown) + (" (relinked)" if job.relinked else "")
    command += f" (layout {job.layout})" if job.layout else ""
    parts = (
        *CACHE_VERSION,
        command,
        compiler_identity(recipe.of(Build).command),
        " ".join(sorted(RELEVANT_SYMBOLS)),  # the symbols whose presence is stored
        *(f"{name} {digest}" for name, digest in digests),
    )
    address = "\n".join(parts)
    home = cache_dir() / "programs" / hashlib.sha256(address.encode()).hexdigest()[:32]
    program = home / PROGRAM
    if not program.is_file() or ((home / FACTS).is_file() and read_description(home / FACTS, _KINDS) is None):
        shutil.rmtree(home, ignore_errors=True)  # of another version, or damaged
        _compile(home, job)
    beside = (*(home / f"{each.stem}.so" for each in job.companions), *(home / each.name for each in job.beside))
    return Built(program, sha256_of(program), command, digests, sizes_of(program), _facts_of(program), beside=beside)


def _compile(home: Path, job: Job) -> None:
    """Compile and link in a temporary folder and rename it, so that the result is complete."""
    recipe = job.recipe
    with new_folder(home) as done:
        work = done.parent
        objects = _objects(job, job.objects or work)
        if job.layout:
            objects = link_layouts.shuffle_objects(
                objects, work, job.layout, lambda arguments: run_compiler([*recipe.of(Build).command, *arguments])
            )
        elif job.relinked:
            padding = link_layouts.make_padding(
                work,
                "relinked",
                lambda arguments: run_compiler([*recipe.of(Build).command, *recipe.of(Build).cflags, *arguments]),
            )
            objects = [str(padding), *reversed(objects)]
        whole = work / "whole"
        run_compiler(
            [
                *recipe.of(Build).command,
                *recipe.of(Build).cflags,
                *objects,
                "-o",
                str(whole),
                *recipe.of(Build).ldflags,
                *job.libraries,
            ]
        )
        facts = read_facts(whole)
        if facts is not None:
            (done / FACTS).write_bytes(
                msgspec.json.encode((msgspec.structs.replace(facts, path="", pieces=()), *facts.pieces))
            )
        # Symbols and recorded command lines are not loaded, and the file size should not depend on them.
        run_compiler(
            [
                f"{tool_prefix(recipe)}strip",
                "--strip-all",
                f"--remove-section={RECORDED}",
                "-o",
                str(done / PROGRAM),
                str(whole),
            ]
        )
        for source in job.companions:
            shared = ("-shared", "-fPIC", "-s", str(source), "-o", str(done / f"{source.stem}.so"))
            run_compiler([*recipe.of(Build).command, *recipe.of(Build).cflags, *shared, *recipe.of(Build).ldflags])
        for program in job.beside:
            run_compiler([f"{tool_prefix(recipe)}strip", "--strip-all", "-o", str(done / program.name), str(program)])


def _objects(job: Job, folder: Path) -> list[str]:
    """Compile every source without an object in the folder."""
    objects = []
    for source in job.sources:
        target = folder / f"{source.stem}.o"
        if not target.exists():
            flags = (*job.recipe.of(Build).cflags, "-I", str(share_dir() / "native" / "workloads"))
            run_compiler([*job.recipe.of(Build).command, *flags, "-c", str(source), "-o", str(target)])
        objects.append(str(target))
    return objects


def _facts_of(program: Path) -> ProgramFacts | None:
    """Return the properties of a program's file before it was stripped."""
    if (written := read_description(program.with_name(FACTS), _KINDS)) is None:
        return None
    facts: ProgramFacts = written[0]
    mapped = str(program.resolve())  # the path that the kernel shows for mappings
    return msgspec.structs.replace(facts, path=mapped, pieces=written[1:])
