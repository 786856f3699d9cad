"""Before the first trial: everything is built, and written down."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from swapstone import plan
from swapstone.build import (
    BASE_RECIPE,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    Built,
    build_empty,
    build_workload,
    compiler_version,
    loader_version,
    require_tools,
)
from swapstone.factors import Recipe, find_factor, find_level, recipe_of
from swapstone.model import Copy, Experiment, UserError, Variant, Workload
from swapstone.record import Artifact, Manifest
from swapstone.targets import Target
from swapstone.workloads import find_workload

Key = tuple[str, str, str]
"""(suite, workload, variant label)"""


@dataclasses.dataclass(frozen=True)
class Program:
    """What a variant of a workload is started as.

    Attributes:
        path: on the target.
        recipe: environment and priority.
        artifact: what the manifest says of it, or None on a target that needs no build.
    """

    path: str
    recipe: Recipe
    artifact: Artifact | None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that the trials of an experiment need.

    Attributes:
        workloads: by (suite, workload).
        variants: by label, the baseline first.
        programs: by (suite, workload, variant label).
        refused: why a workload can't be run on some variant, by (suite, workload); those are left out of `programs`.
        empty: the programs that are built for their size alone.
    """

    workloads: Mapping[tuple[str, str], Workload]
    variants: Mapping[str, Variant]
    programs: Mapping[Key, Program]
    refused: Mapping[tuple[str, str], str]
    empty: tuple[Artifact, ...] = ()


def check_levels(experiment: Experiment, target: Target) -> None:
    """Check that every level can be built here, before anything is made.

    Raises:
        UnavailableError: a level's tools are missing.
    """
    for choice in experiment.factors if target.needs_build else ():
        for level in choice.levels:
            require_tools(choice.factor, find_level(find_factor(choice.factor), level))


def prepare(experiment: Experiment, target: Target, progress: Callable[[int, int, str], None]) -> Prepared:
    """Build every program of an experiment and put it on the target.

    Args:
        experiment: what is asked.
        target: where it will run.
        progress: called with how many programs are done, of how many, and the next one's name.

    Returns:
        What the engine needs. A workload that doesn't build on some variant is refused with the compiler's words; the others go on.

    Raises:
        UserError: nothing at all could be built.
    """
    variants = {variant.label: variant for variant in plan.variants(experiment)}
    workloads = {(suite, name): find_workload(suite, name) for suite, name in experiment.workloads}
    programs: dict[Key, Program] = {}
    refused: dict[tuple[str, str], str] = {}
    wanted = [(key, workload, variant) for key, workload in workloads.items() for variant in variants.values()]
    for done, ((suite, name), workload, variant) in enumerate(wanted):
        progress(done, len(wanted), f"{name} {variant.label}")
        if (suite, name) in refused:
            continue
        try:
            programs[suite, name, variant.label] = _program(suite, workload, variant, target)
        except UserError as error:
            if len(workloads) == 1:
                raise
            refused[suite, name] = f"{variant.label}: {error.message}"
    progress(len(wanted), len(wanted), "")
    if len(refused) == len(workloads):
        raise UserError(f"Nothing could be built. The first reason: {next(iter(refused.values()))}")
    empty = tuple(_empty(variants.values())) if target.needs_build else ()
    return Prepared(workloads, variants, programs, refused, empty)


def manifest_of(prepared: Prepared, target: Target, passes: Mapping[tuple[str, str], int]) -> Manifest:
    """Write down what an experiment is made of."""
    compilers = sorted({program.recipe.compiler for program in prepared.programs.values() if program.artifact})
    tools = [(" ".join(compiler), compiler_version(compiler)) for compiler in compilers]
    # The C library as the programs name it themselves: by their loader.
    named = {loader_version(Path(program.artifact.path)) for program in prepared.programs.values() if program.artifact}
    tools += sorted(loader for loader in named if loader is not None)
    artifacts = (*(program.artifact for program in prepared.programs.values() if program.artifact), *prepared.empty)
    return Manifest(
        machine=target.describe().facts(),
        tools=(*tools, *target.tools()),
        artifacts=artifacts,
        passes=tuple((suite, workload, count) for (suite, workload), count in passes.items()),
    )


def _program(suite: str, workload: Workload, variant: Variant, target: Target) -> Program:
    recipe = recipe_of(variant, BASE_RECIPE)
    if not target.needs_build:
        return Program(target.path_of(variant.label, workload.name), recipe, None)
    built = build_workload(workload, recipe, relinked=variant.copy is Copy.RELINKED)
    return Program(target.put(built.path), recipe, _artifact(suite, workload, variant, built))


def _empty(variants: Iterable[Variant]) -> Iterator[Artifact]:
    """Build the empty programs of each variant. One that can't be linked (no static library, say) is left out of the table."""
    for variant in variants:
        if variant.copy is not Copy.FIRST:
            continue
        for program in EMPTY_PROGRAMS:
            with contextlib.suppress(UserError):
                yield _artifact(EMPTY_SUITE, program, variant, build_empty(program, recipe_of(variant, BASE_RECIPE)))


def _artifact(suite: str, workload: Workload, variant: Variant, built: Built) -> Artifact:
    return Artifact(
        suite=suite,
        workload=workload.name,
        variant=variant.label,
        path=str(built.path),
        sha256=built.sha256,
        command=built.command,
        sources=built.sources,
        sizes=built.sizes,
    )
