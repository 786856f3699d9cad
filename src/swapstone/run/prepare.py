"""Before the first trial: everything is built, and written down."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from swapstone import plan
from swapstone.artifacts import (
    BASE_RECIPE,
    EMPTY_AS_VARIED,
    EMPTY_PROGRAMS,
    EMPTY_SUITE,
    Built,
    allocator_tools,
    build_crate,
    build_empty,
    build_layouts,
    build_packaged,
    build_workload,
    c_library_version,
    compiler_version,
    environment_padding,
    find_load_generator,
    load_generator_identity,
    loader_version,
    packaged_recipe,
    require_crate,
    require_tools,
    resolve_recipe,
)
from swapstone.artifacts.image_catalog import architecture_of
from swapstone.factors import Recipe, Stage, find_factor, find_level, recipe_of
from swapstone.model import (
    IDLE,
    Copy,
    Crate,
    Experiment,
    ImageTool,
    Package,
    Source,
    UnavailableError,
    UserError,
    Variant,
    Workload,
)
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
    """Check, before anything is made, that the baseline's levels and at least one other level of each factor can be had here.

    The user's own program is checked too, if it is one that is measured.

    Raises:
        UnavailableError: the tools of a level are missing without which there is nothing to compare.
        UserError: something is wrong with the user's own program.
    """
    check_own(experiment, target)
    _check_crates(experiment, target)
    _check_machine(experiment, target)
    _check_servers(experiment, target)
    for choice in experiment.factors if target.needs_build else ():
        missing: list[UnavailableError | None] = []
        for level in choice.levels:
            try:
                require_tools(choice.factor, find_level(find_factor(choice.factor), level))
                missing.append(None)
            except UnavailableError as error:
                missing.append(error)
        decisive = missing[:1] if None in missing[1:] else missing
        for reason in filter(None, decisive):
            raise reason


def _check_servers(experiment: Experiment, target: Target) -> None:
    """Refuse to drive a server where no driver can be.

    Raises:
        UnavailableError: a workload is a server, and the target's machines have no drivers.
    """
    servers = [name for (_, name), work in workloads_of(experiment).items() if work.load_generator is not None]
    if servers and not target.has_load_generators:
        raise UnavailableError(
            f"{servers[0]} is a server, and the machines of the target {target.name} have no program that drives it.",
            "Leave --target out: servers are driven on this machine.",
        )


def _check_crates(experiment: Experiment, target: Target) -> None:
    """Refuse what is built by cargo where it can't be built or run.

    Raises:
        UnavailableError: another target than this machine, or something is missing here; or the programs were to be relinked.
    """
    crates = [name for (_, name), work in workloads_of(experiment).items() if isinstance(work.origin, Crate)]
    if not crates:
        return
    if target.boots or not target.needs_build:
        raise UnavailableError(
            f"{crates[0]} is built by cargo for this machine, and not for the target {target.name}.",
            "Measure on --target host.",
        )
    if experiment.layouts:
        raise UnavailableError(f"{crates[0]} is built by cargo, which makes one link only.", "Leave --layouts out.")
    require_crate()


def _check_machine(experiment: Experiment, target: Target) -> None:
    """Refuse what only a machine can do that is started for each trial, on a target that starts none.

    Raises:
        UnavailableError: a factor acts when a machine starts, a load runs beside, or a workload needs a machine of its own.
    """
    if target.boots:
        return
    wants = [
        f"the factor {choice.factor}" for choice in experiment.factors if find_factor(choice.factor).stage is Stage.BOOT
    ]
    wants += [f"the load {load}" for load in experiment.loads if load != IDLE.name]
    wants += [f"the workload {name}" for (_, name), work in workloads_of(experiment).items() if work.machine]
    if wants:
        raise UnavailableError(
            f"The target {target.name} starts no machine of its own, and {wants[0]} needs one.",
            "Measure on --target vm.",
        )


def prepare(
    experiment: Experiment,
    target: Target,
    progress: Callable[[int, int, str], None],
    tell: Callable[[str], None] = lambda _: None,
    *,
    keep_log: KeepLog = lambda _label, _log: "",
    rebuild: bool = False,
) -> Prepared:
    """Build every program of an experiment and put it on the target.

    Args:
        experiment: what is asked.
        target: where it will run.
        progress: called with how many programs are done, of how many, and the next one's name.
        tell: called with one line for each thing that the user should know before the trials: what takes its time, what is left out.
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
    seeds = plan.layout_seeds(experiment, Copy.FIRST)
    own = OwnPrograms(experiment.own, keep_log, seeds=seeds, rebuild=rebuild) if experiment.own else None
    # Programs that an image brings need no compiler, and no C library to compile for.
    builds = target.needs_build and (
        own is not None or not all(isinstance(work.origin, ImageTool | Crate) for work in workloads.values())
    )
    make = functools.partial(resolve_recipe, tell=tell) if builds else _as_it_is
    recipes, impossible = _recipes(
        variants.values(), base_recipe(experiment.architecture), target, own, tell=tell, make=make
    )
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
                _own_program(
                    own, workload, variant, recipe, target, tell=functools.partial(progress, done, len(wanted))
                )
                if own is not None
                else _with_layouts(
                    experiment, _program(suite, workload, variant, recipe, target, tell=tell), workload, variant, target
                )
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
    empty = tuple(_empty(variants.values(), recipes)) if builds else ()
    return Prepared(workloads, variants, programs, refused, empty)


def base_recipe(architecture: str) -> Recipe:
    """Return the recipe from which factors start, for the machines of an experiment.

    Args:
        architecture: as the experiment has it.
    """
    machine = architecture_of(architecture).machine if architecture else ""
    return (
        BASE_RECIPE
        if machine in {"", os.uname().machine}
        else msgspec.structs.replace(BASE_RECIPE, architecture=machine)
    )


def _as_it_is(recipe: Recipe) -> Recipe:
    return recipe


def _recipes(
    variants: Iterable[Variant],
    base: Recipe,
    target: Target,
    own: OwnPrograms | None,
    *,
    tell: Callable[[str], None],
    make: Callable[[Recipe], Recipe],
) -> tuple[dict[str, Recipe], dict[str, str]]:
    """Return every variant's recipe by its label, and why some variants can't be had here."""
    recipes: dict[str, Recipe] = {}
    impossible: dict[str, str] = {}
    for variant in variants:
        recipe = recipe_of(variant, own.base_recipe(variant) if own else base)
        try:
            recipes[variant.label] = make(recipe)
            _check_preload(recipes[variant.label], target)
        except UserError as error:
            impossible[variant.label] = " ".join(filter(None, (error.message, error.hint)))
            if variant.copy is Copy.FIRST:
                tell(f"left out: {variant.label}: {impossible[variant.label]}")
    return _equally_large(recipes), impossible


def _check_preload(recipe: Recipe, target: Target) -> None:
    """Refuse to preload an object on a target that has no files of ours but programs."""
    if recipe.preload and not target.shares_files:
        raise UnavailableError(
            f"An object can't be preloaded on the target {target.name}.",
            "Add linking=static,dynamic: an allocator that is linked in works there.",
        )


def _equally_large(recipes: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """Give every recipe as much room for the list of preloaded objects as the longest takes: the stack begins where it ends."""
    room = max((len(":".join(recipe.preload)) for recipe in recipes.values()), default=0)
    return {label: msgspec.structs.replace(recipe, preload_bytes=room) for label, recipe in recipes.items()}


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
    programs = [program for program in prepared.programs.values() if program.artifact]
    recipes = {
        program.recipe
        for program in programs
        if program.artifact and program.artifact.command and program.recipe.command
    }
    compilers = sorted({recipe.command for recipe in recipes})
    tools = [(" ".join((Path(name).name, *rest)), compiler_version((name, *rest))) for name, *rest in compilers]
    # The C library as its loader names itself: the one that a dynamic program of the same recipe is started by, and the one that a
    # program of the user's own names.
    loaders = {*map(c_library_version, recipes)}
    loaders |= {loader_version(Path(program.artifact.path)) for program in programs if program.artifact}
    tools += sorted(found for found in loaders if found is not None)
    tools += allocator_tools(program.recipe for program in programs)
    tools += sorted({load_generator_identity(program.load_generator) for program in programs if program.load_generator})
    every = [each for program in programs for each in (program, *program.links)]
    artifacts = (*(program.artifact for program in every if program.artifact), *prepared.empty)
    return Manifest(
        machine=target.describe().facts(),
        tools=(*tools, *target.tools()),
        artifacts=artifacts,
        passes=tuple((suite, workload, count) for (suite, workload), count in passes.items()),
        image_differences=target.image_differences(),
    )


def _program(
    suite: str, workload: Workload, variant: Variant, recipe: Recipe, target: Target, *, tell: Callable[[str], None]
) -> Program:
    origin = workload.origin
    if isinstance(origin, ImageTool):
        return Program(origin.path, recipe, None, target.inspect(origin.path))
    if not target.needs_build:
        path = target.path_of(variant.label, workload.name)
        driver = workload.load_generator.command[0] if workload.load_generator else ""
        return Program(path, recipe, None, target.inspect(path), load_generator=f"/fake/{driver}" if driver else "")
    if workload.load_generator is not None:
        return _server(suite, workload, variant, recipe, target)
    if isinstance(origin, Crate):
        if variant.copy is Copy.RELINKED:
            raise UnavailableError("It is built by cargo and can't be relinked.")
        built = build_crate(origin, tell)
        return Program(target.put(built.path), recipe, _artifact(suite, workload, variant, built), built.facts)
    assert isinstance(origin, Source)
    built = build_workload(origin, recipe, relinked=variant.copy is Copy.RELINKED)
    return Program(target.put(built.path), recipe, _artifact(suite, workload, variant, built), built.facts)


def _server(suite: str, workload: Workload, variant: Variant, recipe: Recipe, target: Target) -> Program:
    assert workload.load_generator is not None
    driver = target.put(find_load_generator(workload.load_generator))
    if isinstance(workload.origin, Package):
        built = build_packaged(workload.origin.name, variant)
        environment = packaged_recipe(variant)
        recipe = msgspec.structs.replace(environment, preload_bytes=recipe.preload_bytes)
    else:
        assert isinstance(workload.origin, Source)
        built = build_workload(workload.origin, recipe, relinked=variant.copy is Copy.RELINKED)
    artifact = _artifact(suite, workload, variant, built)
    return Program(target.put(built.path), recipe, artifact, built.facts, load_generator=driver)


def _own_program(
    own: OwnPrograms,
    workload: Workload,
    variant: Variant,
    recipe: Recipe,
    target: Target,
    *,
    tell: Callable[[str], object],
) -> Program:
    program = own.program(workload.name, variant, recipe, target, tell)
    if workload.load_generator is None:
        return program
    driver = target.put(find_load_generator(workload.load_generator))
    links = tuple(dataclasses.replace(link, load_generator=driver) for link in program.links)
    return dataclasses.replace(program, load_generator=driver, links=links)


def _with_layouts(
    experiment: Experiment, program: Program, workload: Workload, variant: Variant, target: Target
) -> Program:
    """Give a program the links that take its turns, if the experiment asks for layouts. Each has an environment of another size."""
    if not experiment.layouts or program.artifact is None:
        return program
    if not isinstance(workload.origin, Source):
        raise UserError("--layouts links our own workloads anew, and this one is built by its makers' own build.")
    seeds = plan.layout_seeds(experiment, variant.copy)
    links = []
    for number, (seed, built) in enumerate(
        zip(seeds, build_layouts(workload.origin, program.recipe, seeds), strict=True), start=1
    ):
        recipe = msgspec.structs.replace(
            program.recipe, environment=(*program.recipe.environment, environment_padding(seed))
        )
        artifact = msgspec.structs.replace(
            _artifact(program.artifact.suite, workload, variant, built), layout=number, sizes=()
        )
        links.append(
            Program(target.put(built.path), recipe, artifact, built.facts, load_generator=program.load_generator)
        )
    return dataclasses.replace(program, links=tuple(links))


def _empty(variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> Iterator[Artifact]:
    """Build the empty programs of each variant. One that can't be linked (no static library, say) is left out of the table."""
    for variant in variants:
        if variant.copy is not Copy.FIRST or variant.label not in recipes:
            continue
        varied = "linking" in dict(variant.levels)
        for program in (program for program in EMPTY_PROGRAMS if (program is EMPTY_AS_VARIED) == varied):
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
