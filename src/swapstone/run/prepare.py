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
    provide,
    require_tools,
)
from swapstone.factors import Recipe, find_factor, find_level, recipe_of
from swapstone.model import Copy, Experiment, UserError, Variant, Workload
from swapstone.record import Artifact, Manifest
from swapstone.run.own import KeepLog, OwnPrograms, check_own, check_recipes, with_additions
from swapstone.run.program import Program
from swapstone.targets import Target
from swapstone.workloads import workloads_of

Key = tuple[str, str, str]
"""(suite, workload, variant label)"""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that the trials of an experiment need.

    Attributes:
        workloads: by (suite, workload).
        variants: by label, the baseline first.
        programs: by (suite, workload, variant label).
        refused: why a workload can't be run on a variant, by (suite, workload, variant label); those are left out of `programs`. A
            workload that the baseline or every candidate can't run is refused on all of them.
        empty: the programs that are built for their size alone.
    """

    workloads: Mapping[tuple[str, str], Workload]
    variants: Mapping[str, Variant]
    programs: Mapping[Key, Program]
    refused: Mapping[Key, str]
    empty: tuple[Artifact, ...] = ()

    def runs(self, suite: str, workload: str) -> bool:
        """Say whether a workload can be compared: the baseline can run it."""
        return (suite, workload, next(iter(self.variants))) not in self.refused


def check_levels(experiment: Experiment, target: Target) -> None:
    """Check that every level can be built here, before anything is made; and the user's own program, if it is one that is measured.

    Raises:
        UnavailableError: a level's tools are missing.
        UserError: something is wrong with the user's own program.
    """
    check_own(experiment, target)
    for choice in experiment.factors if target.needs_build else ():
        for level in choice.levels:
            require_tools(choice.factor, find_level(find_factor(choice.factor), level))


def prepare(
    experiment: Experiment,
    target: Target,
    progress: Callable[[int, int, str], None],
    *,
    keep_log: KeepLog = lambda _label, _log: "",
    rebuild: bool = False,
) -> Prepared:
    """Build every program of an experiment and put it on the target.

    Args:
        experiment: what is asked.
        target: where it will run.
        progress: called with how many programs are done, of how many, and the next one's name.
        keep_log: keeps the logs of builds of the user's own program.
        rebuild: whether to build that anew, though it was built before.

    Returns:
        What the engine needs. What doesn't build is refused with the compiler's words; the others go on.

    Raises:
        UserError: nothing at all could be built.
    """
    variants = {variant.label: variant for variant in plan.variants(experiment)}
    workloads = workloads_of(experiment)
    programs: dict[Key, Program] = {}
    refused: dict[Key, str] = {}
    own = OwnPrograms(experiment.own, keep_log, rebuild=rebuild) if experiment.own else None
    recipes, impossible = _recipes(variants.values(), target, own)
    if experiment.own is not None and experiment.own.build:
        check_recipes(experiment.own, variants.values(), recipes)
    wanted = [(key, workload, variant) for key, workload in workloads.items() for variant in variants.values()]
    for done, ((suite, name), workload, variant) in enumerate(wanted):
        progress(done, len(wanted), f"{name} {variant.label}")
        key = (suite, name, variant.label)
        if variant.label in impossible:
            refused[key] = impossible[variant.label]
            continue
        try:
            recipe = recipes[variant.label]
            programs[key] = (
                own.program(name, variant, recipe, target)
                if own is not None
                else _program(suite, workload, variant, recipe, target)
            )
        except UserError as error:
            refused[key] = str(error) if own is not None else error.message
    progress(len(wanted), len(wanted), "")
    _refuse_incomparable(workloads, variants, programs, refused)
    if not programs:
        (_, name, label), why = next(iter(refused.items()))
        raise UserError(f"Nothing can be compared. The first reason, for {name} with {label}: {why}")
    if own is not None:
        return Prepared(workloads, variants, with_additions(programs), refused)
    empty = tuple(_empty(variants.values(), recipes)) if target.needs_build else ()
    return Prepared(workloads, variants, programs, refused, empty)


def _recipes(
    variants: Iterable[Variant], target: Target, own: OwnPrograms | None
) -> tuple[dict[str, Recipe], dict[str, str]]:
    """Return every variant's recipe by its label, and why some variants can't be had here."""
    recipes: dict[str, Recipe] = {}
    impossible: dict[str, str] = {}
    for variant in variants:
        recipe = recipe_of(variant, own.base_recipe(variant) if own else BASE_RECIPE)
        try:
            recipes[variant.label] = provide(recipe) if target.needs_build else recipe
        except UserError as error:
            impossible[variant.label] = str(error)
    return recipes, impossible


def _refuse_incomparable(
    workloads: Iterable[tuple[str, str]],
    variants: Mapping[str, Variant],
    programs: dict[Key, Program],
    refused: dict[Key, str],
) -> None:
    """Refuse a workload on every variant where its baseline, or every candidate, is refused: there is nothing to compare."""
    baseline, *others = variants
    candidates = [label for label in others if variants[label].copy is Copy.FIRST]
    for suite, name in workloads:
        keys = [(suite, name, label) for label in candidates]
        why = refused.get((suite, name, baseline))
        if why is None and candidates and all(key in refused for key in keys):
            why = f"no candidate can be built: {keys[0][2]}: {refused[keys[0]]}"
        elif why is not None:
            why = f"the baseline {baseline} can't be built: {why}"
        if why is not None:
            for label in variants:
                refused.setdefault((suite, name, label), why)
                programs.pop((suite, name, label), None)


def manifest_of(prepared: Prepared, target: Target, passes: Mapping[tuple[str, str], int]) -> Manifest:
    """Write down what an experiment is made of."""
    built = [program for program in prepared.programs.values() if program.artifact and program.artifact.command]
    compilers = sorted({program.recipe.command for program in built})
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


def _program(suite: str, workload: Workload, variant: Variant, recipe: Recipe, target: Target) -> Program:
    if not target.needs_build:
        path = target.path_of(variant.label, workload.name)
        return Program(path, recipe, None, target.inspect(path))
    built = build_workload(workload, recipe, relinked=variant.copy is Copy.RELINKED)
    return Program(target.put(built.path), recipe, _artifact(suite, workload, variant, built), built.facts)


def _empty(variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> Iterator[Artifact]:
    """Build the empty programs of each variant. One that can't be linked (no static library, say) is left out of the table."""
    for variant in variants:
        if variant.copy is not Copy.FIRST or variant.label not in recipes:
            continue
        for program in EMPTY_PROGRAMS:
            with contextlib.suppress(UserError):
                yield _artifact(EMPTY_SUITE, program, variant, build_empty(program, recipes[variant.label]))


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
