"""Before the first trial of a program of the user's own: what may be wrong with it, and its program on each variant."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.artifacts import OWN_RECIPE, OwnBuilder, environment_padding, own_sizes, placeholders, sha256_of, wrapped
from swapstone.factors import Evidence, Recipe, Stage, find_factor, read_facts
from swapstone.factors.libc import LIBC
from swapstone.model import (
    OWN_SUITE,
    Experiment,
    FactorLevels,
    OwnProgram,
    UnavailableError,
    UserError,
    Variant,
)
from swapstone.model.directories import cache_dir
from swapstone.record import Artifact
from swapstone.run.program import Program, stamp_of
from swapstone.targets import Target

KeepLog = Callable[[str, bytes], str]
"""Keeps the log of a variant's build, given the variant's label, and returns where."""

Key = TypeVar("Key")

PADDING = "SWAPSTONE_PADDING"
"""The variable that makes every variant's environment equally large."""

_PLACEHOLDERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cc", ("libc", "compiler", "command")),
    ("cflags", ("cflags",)),
    ("ldflags", ("linking", "ldflags")),
)
"""Each placeholder with the parts of a recipe that reach a build through it."""


def check_own(experiment: Experiment, target: Target) -> None:
    """Find what is wrong with a program of the user's own, before anything is made.

    Raises:
        UserError: something is; says what, and what to try.
    """
    own = experiment.own
    if own is None:
        return
    if not target.needs_build:
        raise UserError(
            f"The target {target.name} makes up the answers of Swapstone's own workloads; it can't pretend a program of yours.",
            "Leave --target out: your program runs on this machine.",
        )
    if not target.shares_files:
        raise UserError(
            f"A program of yours can't be run on the target {target.name}: it may need files that are not there.",
            "Leave --target out: your program runs on this machine.",
        )
    if own.stdin and not os.access(own.stdin, os.R_OK):
        raise UserError(f"--input {own.stdin} can't be read.", "Name a file that is there and that you may read.")
    if own.build:
        _check_source(own)
        _check_placeholders(own, experiment.factors)
    else:
        if experiment.layouts:
            raise UserError(
                "--layouts links a program anew, and yours is taken as it is.",
                "Let it be built: --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR",
            )
        _check_stages(experiment.factors)
        for path in own_paths(own):
            _check_program(path)
        if not Path(own.directory).is_dir():
            raise UserError(f"The folder {own.directory}, in which the program runs, is not there any more.")


def own_paths(own: OwnProgram) -> tuple[str, ...]:
    """Return the paths of the programs that are taken as they are, the baseline first; none where one is built."""
    if own.build:
        return ()
    return tuple(path for _, path in own.programs) or own.arguments[:1]


def _check_source(own: OwnProgram) -> None:
    source, typed = Path(own.source), Path(own.arguments[0])
    hint = "--source names the folder that holds the sources; it is copied, and stays as it is."
    if not source.is_dir():
        raise UserError(f"The source folder {source} is {'no folder' if source.exists() else 'not there'}.", hint)
    if not os.access(source, os.R_OK | os.X_OK):
        raise UserError(f"The source folder {source} can't be read.", hint)
    if not any(source.iterdir()):
        raise UserError(f"The source folder {source} is empty.", hint)
    if not typed.is_absolute() and ".." in typed.parts:
        raise UserError(
            f"{typed} leads out of the copy in which it is built.", "Name the program by its path inside the sources."
        )


def _check_stages(factors: Iterable[FactorLevels]) -> None:
    for choice in factors:
        if find_factor(choice.factor).stage in {Stage.COMPILE, Stage.LINK}:
            raise UserError(
                f"The factor {choice.factor} acts when a program is built, and yours is taken as it is.",
                "Let it be built: --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR. "
                "Factors whose stage is launch (swapstone list factors) work on built programs.",
            )


def _check_program(path: str) -> None:
    file = Path(path)
    if not file.exists():
        raise UserError(
            f"There is no program {path}.", "Name it by its path, or build it: --build COMMAND --source DIR"
        )
    if not file.is_file():
        raise UserError(f"{path} is no file that can be executed.", "Name the program itself.")
    if not os.access(file, os.X_OK):
        raise UserError(f"{path} can't be executed.", f"If it is a program: chmod +x {path}")


def _check_placeholders(own: OwnProgram, factors: Iterable[FactorLevels]) -> None:
    """Check by the names that factors put in a recipe; `check_recipes` looks again at what was provided for them."""
    used = placeholders(own.build)
    for choice in factors:
        factor = find_factor(choice.factor)
        first, *others = (factor.apply(level, OWN_RECIPE) for level in choice.levels)
        for other in others:
            _require(used, choice.factor, first, other)


def check_recipes(own: OwnProgram, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> None:
    """Check that what distinguishes the variants reaches the build.

    Args:
        own: says how it is built.
        variants: all of the experiment.
        recipes: by label; provided. Variants that can't be had are missing.

    Raises:
        UserError: two variants would be built by the same command though their recipes differ.
    """
    used = placeholders(own.build)
    for one, other in itertools.combinations([v for v in variants if v.label in recipes], 2):
        differing = [name for name, level in one.levels if other.level(name) != level]
        if len(differing) == 1:
            _require(used, differing[0], recipes[one.label], recipes[other.label])


def _require(used: frozenset[str], factor: str, one: Recipe, other: Recipe) -> None:
    for placeholder, parts in _PLACEHOLDERS:
        if placeholder not in used and any(getattr(one, part) != getattr(other, part) for part in parts):
            variable = placeholder.upper()
            raise UserError(
                f"The levels of {factor} differ in {{{placeholder}}}, and --build doesn't use it: it would build the same program twice.",
                f"Add it where the build takes it, for make: {variable}={{{placeholder}}}",
            )


class OwnPrograms:
    """Makes the user's program ready for one variant after another.

    Args:
        own: the program.
        keep_log: where the logs of builds go.
        seeds: of the layouts that take turns; none for the program as it comes.
        rebuild: whether to build anew what was built before.

    Raises:
        UserError: a source can't be read.
    """

    def __init__(self, own: OwnProgram, keep_log: KeepLog, *, seeds: Sequence[str] = (), rebuild: bool = False) -> None:
        self._own = own
        self._seeds = seeds
        self._keep_log = keep_log
        self._builder = OwnBuilder(own, rebuild=rebuild) if own.build else None

    def base_recipe(self, variant: Variant) -> Recipe:
        """Return the recipe to which a variant's levels are applied. A program that is there already has its C library already."""
        environment = {**dict(OWN_RECIPE.environment), **dict(self._own.environment)}
        recipe = msgspec.structs.replace(OWN_RECIPE, environment=tuple(environment.items()))
        if self._builder is None:
            facts = read_facts(Path(self._path(variant)))
            seen = LIBC.observe(Evidence(interp=facts.interp, objects=())) if facts else None
            recipe = msgspec.structs.replace(recipe, libc=seen or recipe.libc)
        return recipe

    def program(
        self,
        workload: str,
        variant: Variant,
        recipe: Recipe,
        target: Target,
        tell: Callable[[str], object] = lambda _: None,
    ) -> Program:
        """Build a variant's program, and its layouts, where it is to be built, and bring it to the target.

        Args:
            workload: its name.
            variant: whose program it is.
            recipe: compiler and flags, the levels applied and provided.
            target: where it goes.
            tell: called with the name of each layout before it is built.

        Raises:
            UserError: it can't be built, or a level can't be applied to it.
        """
        program = self._program(workload, variant, recipe, target)
        links = []
        for number, seed in enumerate(self._seeds, start=1):
            tell(f"{workload} {variant.label} layout {number} of {len(self._seeds)}")
            link = self._program(workload, variant, wrapped(recipe, seed, cache_dir()), target, number)
            links.append(dataclasses.replace(link, added=(environment_padding(seed),)))
        digests = [link.artifact.sha256 for link in links if link.artifact]
        if len(set(digests)) < len(digests):
            raise UserError(
                f"Of {len(digests)} layouts of {variant.label}, only {len(set(digests))} differ: the order of functions is shuffled in the "
                "objects that {cc} compiles with -c, and this build seems to make none.",
                "Let the build compile each source with -c and link the objects, or leave --layouts out.",
            )
        return dataclasses.replace(program, links=tuple(links))

    def _program(self, workload: str, variant: Variant, recipe: Recipe, target: Target, layout: int = 0) -> Program:
        artifact = Artifact(
            suite=OWN_SUITE,
            workload=workload,
            variant=variant.label,
            path="",
            sha256="",
            command="",
            sources=(),
            sizes=(),
            layout=layout,
        )
        if self._builder is None:
            path, folder = self._path(variant), self._own.directory
            digest, sizes = sha256_of(Path(path)), own_sizes(Path(path).resolve())
            artifact = msgspec.structs.replace(artifact, path=path, sha256=digest, sizes=sizes)
        else:
            label = f"{variant.label} layout {layout}" if layout else variant.label
            built = self._builder.build(recipe, lambda log: self._keep_log(label, log))
            path, folder = str(built.path), str(built.folder)
            artifact = msgspec.structs.replace(
                artifact,
                path=path,
                sha256=built.sha256,
                command=built.command,
                sources=built.sources,
                sizes=() if layout else built.sizes,
            )
        facts = read_facts(Path(path).resolve())
        _check_preload(path, recipe, static=facts is not None and facts.interp is None)
        return Program(target.put(Path(path)), recipe, artifact, facts, folder, stamp_of(path))

    def _path(self, variant: Variant) -> str:
        return dict(self._own.programs)[variant.level("program")] if self._own.programs else self._own.arguments[0]


def _check_preload(path: str, recipe: Recipe, *, static: bool) -> None:
    if not recipe.preload:
        return
    if static:
        raise UnavailableError(f"{path} is linked statically: no loader would load {recipe.preload[0]} into it.")
    if "LD_PRELOAD" in dict(recipe.environment):
        raise UserError("--env LD_PRELOAD would take the place of what a factor preloads.", "Leave it out.")


def with_additions(programs: Mapping[Key, Program]) -> dict[Key, Program]:
    """Give every program what is preloaded into it, and padding, so that the stack doesn't move with the length of a path.

    Args:
        programs: of one workload, by anything.

    Returns:
        The same, each with equally many additions to its environment: none at all where no variant needs any.
    """
    preloads = any(program.recipe.preload for program in programs.values())
    sizes = {key: _stack_bytes(program) for key, program in programs.items()}
    most = max(sizes.values(), default=0)
    uneven = any(size != most for size in sizes.values())

    def added(key: Key, program: Program) -> tuple[tuple[str, str], ...]:
        preload = (("LD_PRELOAD", _preloaded(program.recipe)),) if preloads else ()
        return (*preload, *(((PADDING, "x" * (most - sizes[key])),) if uneven else ()))

    def with_added(key: Key, program: Program) -> Program:
        more = added(key, program)
        # A layout's own padding is what it varies: it comes on top of what makes the variants equal.
        links = tuple(dataclasses.replace(link, added=(*more, *link.added)) for link in program.links)
        return dataclasses.replace(program, added=more, links=links)

    return {key: with_added(key, program) for key, program in programs.items()}


def _stack_bytes(program: Program) -> int:
    """Count what a variant puts on the stack: the path twice (the first argument, and what was executed), and what is preloaded."""
    return 2 * len(os.fsencode(program.path)) + len(os.fsencode(_preloaded(program.recipe)))


def _preloaded(recipe: Recipe) -> str:
    return ":".join(recipe.preload)
