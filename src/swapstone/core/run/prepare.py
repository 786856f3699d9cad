# SPDX-License-Identifier: MIT OR Apache-2.0
"""Before the first trial: every program of an experiment is built, and the manifest is written.

`VariantRecipes` has the recipes of an experiment's variants: every level applied, every name resolved to what this machine has.

The manifest has the machine, the programs, and the versions of the tools that built them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core import plan
from swapstone.core.artifacts.distribution_packages import missing_programs
from swapstone.core.factors import Recipe, Stage, find_factor, find_level, recipe_of
from swapstone.core.factors.factor import ChecksLevels, ChecksPlace
from swapstone.core.model import (
    DIRECTION_RULES,
    IDLE,
    NO_CANDIDATE_BUILDS,
    NOT_BUILT,
    Copy,
    Experiment,
    Load,
    MissingProgramsError,
    NothingComparableError,
    UnavailableError,
    UserError,
    Variant,
)
from swapstone.core.model.errors import is_of_machine
from swapstone.core.model.parts import provided
from swapstone.core.record import Artifact, Manifest
from swapstone.core.run.builder import builder
from swapstone.core.run.mapped_files import MappedFiles
from swapstone.core.run.subject import BuildContext, KeepLog, Subject
from swapstone.core.run.subject_kinds import subjects_of
from swapstone.core.run.variant_program import Program, stamp_of
from swapstone.core.targets import Capabilities, Target, find_target_kind
from swapstone.core.targets.hints import target_hint
from swapstone.core.workloads import find_load, shared_machine_load, workloads_of
from swapstone.exit_status import Finding

Label = TypeVar("Label")


class VariantRecipes:
    """The variants' recipes, resolved once for each base recipe: kinds of subjects start from different ones.

    Args:
        base: of the C programs of this project.
        variants: all of the experiment.
        target: where the programs run.
        resolve: finds, fetches and builds what a recipe names.
        notify: called with one line for each variant that is left out.
        has_files: whether the target has this machine's files that the programs need. If not, it gets the objects to preload.
    """

    def __init__(
        self,
        base: Recipe,
        variants: Iterable[Variant],
        target: Target,
        resolve: Callable[[Recipe], Recipe],
        notify: Callable[[str], None],
        *,
        has_files: bool,
    ) -> None:
        self._has_files = has_files
        self._base = base
        self._variants = tuple(variants)
        self._target = target
        self._resolve = resolve
        self._notify = notify
        self._resolved: dict[tuple[Recipe, str], Recipe] = {}
        self._impossible: dict[tuple[Recipe, str], str] = {}

    def resolve(self, subjects: Iterable[Subject], *, with_default: bool) -> None:
        """Resolve the recipes of all variants for these subjects, and make their lists of preloaded objects equally large.

        Args:
            subjects: which.
            with_default: whether `default` will be called.
        """
        wanted = [
            (subject.base_recipe(variant, self._base), variant) for subject in subjects for variant in self._variants
        ]
        wanted += [(self._base, variant) for variant in self._variants] if with_default else []
        for base, variant in wanted:
            if (base, variant.label) not in self._resolved and (base, variant.label) not in self._impossible:
                self._resolve_one(base, variant)
        self._resolved = equally_large(self._resolved)

    def _resolve_one(self, base: Recipe, variant: Variant) -> None:
        key = (base, variant.label)
        try:
            recipe = self._resolve(recipe_of(variant, base))
            if recipe.preload and not self._has_files:
                put = functools.partial(self._target.put_library, keep_path=recipe.preload_keeps_path)
                recipe = msgspec.structs.replace(recipe, preload=tuple(put(Path(each)) for each in recipe.preload))
            if "takes_loaders" in self._target.offers:
                recipe = builder().with_carried_loader(recipe, self._target, self._notify)
        except UserError as error:
            known = {label for _, label in self._impossible}
            self._impossible[key] = " ".join(filter(None, (error.message, error.hint)))
            if variant.copy is Copy.FIRST and variant.label not in known:
                self._notify(f"left out: {variant.label}: {self._impossible[key]}")
        else:
            self._resolved[key] = recipe

    def default(self) -> dict[str, Recipe]:
        """Return the recipes of the C programs of this project, by label; variants that are impossible here are missing."""
        return {label: recipe for (base, label), recipe in self._resolved.items() if base == self._base}

    def by_label(self, subject: Subject) -> dict[str, Recipe]:
        """Return a subject's recipes by label; variants that are impossible here are missing."""
        keys = {variant.label: (subject.base_recipe(variant, self._base), variant.label) for variant in self._variants}
        return {label: self._resolved[key] for label, key in keys.items() if key in self._resolved}

    def impossible(self, subject: Subject, variant: Variant) -> str:
        """Return why a variant is impossible here."""
        return self._impossible[subject.base_recipe(variant, self._base), variant.label]


def equally_large(recipes: Mapping[Label, Recipe]) -> dict[Label, Recipe]:
    """Give every recipe as much room for the list of preloaded objects as the longest takes: the stack begins where it ends."""
    room = max((len(":".join(recipe.preload)) for recipe in recipes.values()), default=0)
    return {key: msgspec.structs.replace(recipe, preload_bytes=room) for key, recipe in recipes.items()}


Key = tuple[str, str, str]
"""(suite, workload, variant label)"""


class Prepared(msgspec.Struct, frozen=True):
    """All that the trials of an experiment need.

    Attributes:
        subjects: the workloads, by (suite, workload).
        variants: by label, the baseline first.
        programs: by (suite, workload, variant label).
        refused: why a workload can't be run on a variant, by (suite, workload, variant label); those are left out of `programs`. A
            workload that the baseline or every candidate can't run is refused on all of them.
        empty: the programs that are built for their size alone.
        loads: by name, ready to run on the target.
        earlier: manifest of the session that made the baseline's runs; None if this session makes them.
    """

    subjects: Mapping[tuple[str, str], Subject]
    variants: Mapping[str, Variant]
    programs: Mapping[Key, Program]
    refused: Mapping[Key, str]
    empty: tuple[Artifact, ...] = ()
    loads: Mapping[str, Load] = msgspec.field(default_factory=dict)
    earlier: Manifest | None = None

    def load(self, name: str) -> Load:
        """Return a load as it runs on the target."""
        return self.loads.get(name) or find_load(name)

    def runs(self, suite: str, workload: str) -> bool:
        """Return whether a workload can be compared: the baseline can run it."""
        return (suite, workload, next(iter(self.variants))) not in self.refused


def check_levels(experiment: Experiment, target: Capabilities) -> None:
    """Check, before anything is fetched or made, that the workloads, the baseline and a candidate are available here.

    A level of which only a program is missing that a package brings is refused as well: it would silently be left out.

    Args:
        experiment: what is measured.
        target: where it will run; the class of a target before it is opened.

    Raises:
        MissingProgramsError: programs are missing; names all that packages bring.
        UnavailableError: the target or the tools of a level are missing without which there is nothing to compare.
        UserError: something is wrong with a user's own program.
    """
    subjects = subjects_of(workloads_of(experiment)).values()
    target.check_experiment(experiment, [each.workload.name for each in subjects if not each.workload.bare])
    check_machine(experiment, target)
    for subject in subjects:
        with contextlib.suppress(MissingProgramsError):  # they are named below, with all others
            subject.check(experiment, target)
    if missing := missing_programs(_programs(experiment)):
        raise missing
    base = builder().base_recipe(experiment.architecture)
    for choice in experiment.applied_factors if "runs_programs" in target.offers else ():
        if isinstance(factor := find_factor(choice.factor), ChecksLevels):
            factor.check_levels(choice.levels)
    if "runs_programs" in target.offers:
        compiled = [subject for subject in subjects if subject.needs_compiler]
        has_files = has_files_for(subjects, target)
        check = functools.partial(builder().check_recipe, preloads=has_files or "takes_libraries" in target.offers)
        check_variants(experiment, base, compiled, check)


def _programs(experiment: Experiment) -> Iterator[str]:
    """Yield the programs of this machine by which an experiment is built and run, by their names in `packages`."""
    kind = find_target_kind(experiment.target)
    if "runs_programs" not in kind.opens.offers:
        return
    yield from kind.programs(experiment)
    base = builder().base_recipe(experiment.architecture)
    levels = (
        find_level(factor, name)
        for factor, names in ((find_factor(each.factor), each.levels) for each in experiment.applied_factors)
        if not getattr(factor, "tools_are_of_this_machine", False)  # `Builder.programs` has those
        for name in names
    )
    yield from (program for level in levels for program in level.needs)
    for subject in subjects_of(workloads_of(experiment)).values():
        recipes = (recipe_of(each, subject.base_recipe(each, base)) for each in plan.run_variants(experiment))
        yield from subject.programs(experiment, recipes)


def check_variants(
    experiment: Experiment, base: Recipe, compiled: Iterable[Subject], check: Callable[[Recipe], None]
) -> None:
    """Refuse an experiment whose baseline, or each of whose candidates, is impossible.

    Args:
        experiment: gives the variants.
        base: the recipe that their levels change.
        compiled: the subjects that need a compiler.
        check: raises `UnavailableError` for an impossible recipe.

    Raises:
        UnavailableError: the reason of the baseline, or of the first candidate, with its label.
    """
    variants = plan.run_variants(experiment)
    baseline, *others = (_impossible(variant, base, compiled, check) for variant in variants)
    decisive = baseline or (others[0] if others and all(others) else None)
    if decisive is not None:
        raise decisive


def has_files_for(subjects: Iterable[Subject], target: Capabilities) -> bool:
    """Return whether the target has the files of this machine that its programs need: shared, or carried for each of them."""
    return "shares_files" in target.offers or (
        "carries_files" in target.offers and all(subject.carries_files for subject in subjects)
    )


def _impossible(
    variant: Variant, base: Recipe, compiled: Iterable[Subject], check: Callable[[Recipe], None]
) -> UnavailableError | None:
    try:
        check(recipe_of(variant, base))
        for subject in compiled:
            builder().check_compiler(recipe_of(variant, subject.base_recipe(variant, base)))
    except UnavailableError as error:
        error.message = f"{variant.label}: {error.message}"
        return error
    return None


def check_machine(experiment: Experiment, target: Capabilities) -> None:
    """Refuse factors and loads that need a machine started for each trial, on a target that starts none.

    Args:
        experiment: what is measured.
        target: where it will run; the class of a target before it is opened.

    Raises:
        UnavailableError: a factor acts when a machine starts, or a load runs beside. Or the target is open, and can't set a swap device.
    """
    needs, hint = [], ""
    for choice in experiment.applied_factors:
        factor = find_factor(choice.factor)
        acts = (
            factor.acts_on(target.name, target.offers, choice.levels)
            if isinstance(factor, ChecksPlace)
            else factor.stage is not Stage.BOOT
        )
        if not acts:
            needs.append(f"the factor {choice.factor}")
            hint = hint or getattr(factor, "elsewhere", "")
    if "boots" in target.offers:
        return
    needs += [
        f"the load {load}"
        for load in experiment.loads
        if load != IDLE.name and not ("runs_loads" in target.offers and shared_machine_load(load) is not None)
    ]
    if needs:
        raise UnavailableError(
            f"The target {target.name} starts no machine of its own, and {needs[0]} needs one.",
            hint or target_hint("boots", "Measure on {}."),
        )
    if isinstance(target, Target):
        for choice in experiment.applied_factors:
            if find_factor(choice.factor).stage is Stage.BOOT:
                target.try_levels(choice.factor, choice.levels)


def prepare(
    experiment: Experiment,
    target: Target,
    progress: Callable[[int, int, str], None],
    notify: Callable[[str], None] = lambda _: None,
    *,
    keep_log: KeepLog = lambda _label, _log: "",
    rebuild: bool = False,
) -> Prepared:
    """Build every program of an experiment and put it on the target.

    Args:
        experiment: what is measured.
        target: where it will run.
        progress: called with how many programs are done, of how many, and the next one's name.
        notify: called with one line for each step that takes long, and each variant that is left out.
        keep_log: stores the logs of builds of own programs.
        rebuild: whether to build that anew, though it was built before.

    Returns:
        What the engine needs. What doesn't build is refused with the compiler's message; the others go on.

    Raises:
        NothingComparableError: nothing at all could be built.
    """
    for note in target.left_out_levels(experiment):
        notify(note)
    variants = {variant.label: variant for variant in plan.run_variants(experiment)}
    subjects = subjects_of(workloads_of(experiment))
    compiles = "runs_programs" in target.offers and any(subject.needs_compiler for subject in subjects.values())
    with_empty = compiles and any(subject.empty_programs for subject in subjects.values())
    recipes = VariantRecipes(
        builder().base_recipe(experiment.architecture),
        variants.values(),
        target,
        functools.partial(builder().resolve, notify=notify) if compiles else lambda recipe: recipe,
        notify,
        has_files=has_files_for(subjects.values(), target),
    )
    recipes.resolve(subjects.values(), with_default=with_empty)
    for subject in subjects.values():
        subject.check_recipes(variants.values(), recipes.by_label(subject))
    loads: Mapping[str, Load] = {}
    for place_loads in provided("loads", Callable):
        loads = place_loads(experiment, target, notify)
    context = BuildContext("", target, notify=notify, keep_log=keep_log, rebuild=rebuild)
    programs, refused = _built(experiment, context, subjects, variants, recipes=recipes, progress=progress)
    refuse_incomparable(subjects, variants, programs, refused)
    if not programs:
        (_, name, label), why = next(iter(refused.items()))
        baseline = next(iter(variants))
        alone = all(refused[(*key, baseline)].startswith(NO_CANDIDATE_BUILDS) for key in subjects)
        built = Finding.NOT_BUILT if alone else Finding.BASELINE
        message = f"Nothing can be compared. The first reason, for {name} with {label}: {why}"
        raise NothingComparableError(message, finding=built if NOT_BUILT in why else Finding.NOT_COMPARED)
    if experiment.rules >= DIRECTION_RULES:
        programs = {
            key: _copied(program, target) if variants[key[2]].copy is Copy.AGAIN else program
            for key, program in programs.items()
        }
    empty = tuple(builder().empty_programs(variants.values(), recipes.default())) if with_empty else ()
    return Prepared(subjects, variants, _equalized(subjects, programs), refused, empty, loads)


def _copied(program: Program, target: Target) -> Program:
    """Return a program whose file is a copy: how the file lies in the page cache is then another accident than the baseline's."""
    if program.root or program.file or program.carried or not (path := target.copied(program.path)):
        return program
    facts = program.facts and msgspec.structs.replace(program.facts, path=target.real_path(path))
    artifact = program.artifact  # on another machine its path is that of the file here
    return dataclasses.replace(
        program,
        path=path,
        artifact=msgspec.structs.replace(artifact, path=path)
        if artifact and artifact.path == program.path
        else artifact,
        facts=facts,
        stamp=program.stamp and stamp_of(path),
        original=program.path,
        links=tuple(_copied(link, target) for link in program.links),
    )


def _built(
    experiment: Experiment,
    every: BuildContext,
    subjects: Mapping[tuple[str, str], Subject],
    variants: Mapping[str, Variant],
    *,
    recipes: VariantRecipes,
    progress: Callable[[int, int, str], None],
) -> tuple[dict[Key, Program], dict[Key, str]]:
    """Build each subject for each variant; return the programs, and why some can't be built.

    Args:
        experiment: whose programs they are.
        every: what all builds share.
        subjects: what is built.
        variants: for which.
        recipes: resolved.
        progress: as of `prepare`.
    """
    programs: dict[Key, Program] = {}
    refused: dict[Key, str] = {}
    built = {label: variant for label, variant in variants.items() if label != experiment.earlier}
    total, done = len(subjects) * len(built), 0
    for (suite, name), subject in subjects.items():
        known = recipes.by_label(subject)
        for label, variant in built.items():
            progress(done, total, f"{name} {label}")
            context = msgspec.structs.replace(
                every,
                suite=suite,
                layout_seeds=plan.layout_seeds(experiment, variant.copy),
                progress=functools.partial(progress, done, total),
            )
            done += 1
            if label not in known:
                refused[suite, name, label] = recipes.impossible(subject, variant)
                continue
            try:
                programs[suite, name, label] = subject.build(variant, known[label], context)
            except UserError as error:
                here = isinstance(error, UnavailableError) or is_of_machine(error)
                refused[suite, name, label] = f"{'' if here else NOT_BUILT}{subject.build_failure(error)}"
    progress(total, total, "")
    return programs, refused


def _equalized(subjects: Mapping[tuple[str, str], Subject], programs: Mapping[Key, Program]) -> dict[Key, Program]:
    """Let each subject make its variants' programs start with an equally large stack."""
    equalized: dict[Key, Program] = {}
    for (suite, name), subject in subjects.items():
        own = {label: program for (s, n, label), program in programs.items() if (s, n) == (suite, name)}
        equalized |= {(suite, name, label): program for label, program in subject.equalize(own).items()}
    return equalized


def refuse_incomparable(
    workloads: Iterable[tuple[str, str]],
    variants: Mapping[str, Variant],
    programs: dict[Key, Program],
    refused: dict[Key, str],
) -> None:
    """Refuse a workload on every variant where its baseline, or every candidate, is refused: there is nothing to compare.

    Args:
        workloads: pairs (suite, workload).
        variants: by label, the baseline first.
        programs: those of the refused workloads are removed.
        refused: gains the reasons.
    """
    baseline, *others = variants
    candidates = [label for label in others if variants[label].copy is Copy.FIRST]
    for suite, name in workloads:
        keys = [(suite, name, label) for label in candidates]
        why = refused.get((suite, name, baseline))
        if why is None and candidates and all(key in refused for key in keys):
            why = f"{NO_CANDIDATE_BUILDS}{keys[0][2]}: {refused[keys[0]]}"
        elif why is not None:
            why = f"the baseline {baseline} can't be built: {why}"
        if why is not None:
            for label in variants:
                refused.setdefault((suite, name, label), why)
                programs.pop((suite, name, label), None)


def manifest_of(
    prepared: Prepared, target: Target, passes: Mapping[tuple[str, str], int], seen: MappedFiles | None = None
) -> Manifest:
    """Return the manifest: what an experiment is made of."""
    programs = [program for program in prepared.programs.values() if program.artifact]
    every = [each for program in programs for each in (program, *program.links)]
    then = prepared.earlier.artifacts if prepared.earlier else ()
    artifacts = (*then, *(program.artifact for program in every if program.artifact), *prepared.empty)
    return Manifest(
        machine=target.describe().facts(),
        tools=(*builder().tools(programs), *target.tools()),
        artifacts=artifacts,
        passes=tuple((suite, workload, count) for (suite, workload), count in passes.items()),
        image_differences=target.image_differences(),
        mapped=seen.files if seen else (),
        resident=seen.resident if seen else (),
        earlier=prepared.earlier,
    )
