# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of a subject, which checks, builds, runs and judges one workload.

Each kind of origin (`Workload.origin`) has one class. `swapstone.core.run` calls only the methods of `Subject`, in this order: `check`,
`base_recipe`, `check_recipes`, `build` for each variant, `equalize`, then `run` for each trial.

`DeclaredProgram` is what bundled programs, packages, crates and image tools have in common: artifacts, environments and requests.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Evidence, ProgramFacts, Recipe, find_factor
from swapstone.core.model import (
    DID_OTHER_WORK,
    IDLE,
    Cpus,
    Experiment,
    Load,
    Status,
    UnavailableError,
    UserError,
    Variant,
    Workload,
)
from swapstone.core.model.observation import changed_conditions, describe_conditions
from swapstone.core.record import Artifact
from swapstone.core.run.builder import builder
from swapstone.core.run.evidence import evidence_of, missing_load, observed_levels, wrong_level
from swapstone.core.run.machine_config import machine_config_for, on_board
from swapstone.core.run.variant_program import LONGEST_PADDING, PADDING, Program, environment_bytes
from swapstone.core.targets import Capabilities, MachineConfig, Target
from swapstone.core.targets.hints import target_hint
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.core.wire.kept_answer import kept_files
from swapstone.core.wire.output_reading import Measured, reader_of

KeepLog = Callable[[str, bytes], str]
"""Stores the log of a variant's build, given the variant's label, and returns where."""

Inspect = Callable[[str], ProgramFacts | None]
"""Reads the file of a program or shared object on the target: `Target.inspect`."""


class BuildContext(msgspec.Struct, frozen=True):
    """What a subject needs to build a variant's program.

    Attributes:
        suite: through which the workload was requested.
        target: where the program goes.
        layout_seeds: one for each further link of the program; empty unless the experiment has layouts.
        notify: called with one line before something takes its time.
        progress: called with the name of each further link before it is built.
        keep_log: stores the logs of builds.
        rebuild: whether to build what was built before once more.
    """

    suite: str
    target: Target
    layout_seeds: tuple[str, ...] = ()
    notify: Callable[[str], None] = lambda _: None
    progress: Callable[[str], None] = lambda _: None
    keep_log: KeepLog = lambda _label, _log: ""
    rebuild: bool = False


class TrialSpec(msgspec.Struct, frozen=True):
    """One trial, ready to run.

    Attributes:
        identity: unique within the session.
        variant: the levels that must be in force.
        program: the variant's program.
        scratch: the target's scratch folder, where programs without a folder of their own run.
        cpus: processors of the target. A pinned workload runs on the last one, which on most machines does not serve the interrupts.
        passes: how often the program repeats its work, if it has passes.
        check: checksum that equal work must have; empty if unknown.
        load: what else the machine does.
        memory_bytes: as `MachineConfig.memory_bytes`, instead of what the workload needs; 0 for that.
        timeout_ms: limit of the trial's time, instead of the program's own; 0 for that.
    """

    identity: str
    variant: Variant
    program: Program
    scratch: str
    cpus: tuple[int, ...]
    passes: int = 1
    check: str = ""
    load: Load = IDLE
    memory_bytes: int = 0
    timeout_ms: int = 0

    def pinned(self, cpus: Cpus) -> tuple[int, ...]:
        """Return the processors that the program is pinned to; none means no pinning."""
        return (max(self.cpus),) if cpus is Cpus.ONE and self.cpus else ()


NOTHING = Measured()


class Judgement(msgspec.Struct, frozen=True):
    """What a trial's answer amounts to: a status with its reason, or what was measured. Fields are those of `Run`."""

    status: Status
    reason: str = ""
    measured: Measured = NOTHING
    observed: tuple[tuple[str, str], ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    found_files: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """A trial that was run.

    Attributes:
        judgement: what it amounts to.
        answer: the agent's answer; None if the program was not started.
        output: what is kept of all that was printed.
        kept_answer: what is kept of the answer beside the output (`swapstone.core.wire.kept_answer`); empty if there is none.
    """

    judgement: Judgement
    answer: AgentAnswer | None
    output: bytes
    kept_answer: bytes = b""


class Subject(abc.ABC):
    """Checks, builds, runs and judges one workload.

    Class attributes that a kind may change:
        max_passes: the largest number of passes that calibration may choose; 0 if the program takes no number of passes.
        needs_compiler: whether a C compiler builds it for each variant.
        empty_programs: whether the report compares the sizes of empty programs built by the same recipes.
        aborts_early: whether the session ends if the first block shows that there is nothing to compare.
        carries_files: whether `build` gives a target without shared files what the program needs
            (`swapstone.core.targets.Target.put_files`).
        output_is_evidence: whether its output, unless it is a server, also reports which levels were in force. Such a trial fails if its
            output is unreadable; any other is refused first if a wrong level was in force.
    """

    max_passes: int = 0
    needs_compiler: bool = True
    empty_programs: bool = False
    aborts_early: bool = False
    carries_files: bool = False
    output_is_evidence: ClassVar[bool] = False

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.reader = reader_of(workload)

    def join(self, first: Subject) -> None:  # noqa: B027 - most kinds share nothing
        """Share what the workloads of one program have in common with the first of them, which may be this one."""

    # Before anything is made

    def check(self, experiment: Experiment, target: Capabilities) -> None:
        """Raise if the workload can't be measured with this experiment on this target.

        Raises:
            UserError: it can't; the message states why, and the hint what to try.
        """
        if not self.workload.machine or "boots" in target.offers:
            return
        needs = self.workload.machine
        only_memory = needs.memory_bytes and not (needs.modules or needs.own_modules or needs.prepare)
        limited = any(getattr(find_factor(each.factor), "limits_memory", False) for each in experiment.applied_factors)
        if "sets_swap" in target.offers and only_memory and limited:
            return
        raise UnavailableError(
            f"The target {target.name} starts no machine of its own, and the workload {self.workload.name} needs one.",
            "Compare swap devices, which come with a limit of the memory: swap=file,zram:lzo-rle"
            if "sets_swap" in target.offers and only_memory
            else target_hint("boots", "Measure on {}."),
        )

    def programs(self, experiment: Experiment, recipes: Iterable[Recipe]) -> tuple[str, ...]:  # noqa: ARG002 - some kinds need it
        """Return the programs of this machine that build and run the workload, beside those of the target; as `Builder.programs`.

        Args:
            experiment: of which it is a workload.
            recipes: of its variants.
        """
        return tuple(name for recipe in recipes if self.needs_compiler for name in builder().programs(recipe))

    def notes(self) -> tuple[str, ...]:
        """Return what the user reads before anything is built: one line each."""
        return ()

    # Building

    def base_recipe(self, variant: Variant, default: Recipe) -> Recipe:
        """Return the recipe to which a variant's levels are applied.

        Args:
            variant: whose program it is.
            default: for C programs of this project, for the experiment's architecture.
        """
        del variant
        return default

    def check_recipes(self, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> None:  # noqa: B027 - most kinds accept all
        """Raise if the variants' recipes can't make a difference to this program.

        Args:
            variants: all of the experiment.
            recipes: by label, resolved. Variants that are unavailable here are missing.

        Raises:
            UserError: two variants would be built alike though their recipes differ.
        """

    @abc.abstractmethod
    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build a variant's program and put it on the target.

        Args:
            variant: whose program it is.
            recipe: compiler and flags, the levels applied and resolved.
            context: target, layouts and callbacks.

        Raises:
            UserError: it does not build, or the variant is impossible for it.
        """

    def equalize(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Return the variants' programs by label, each with an equally large stack at its start."""
        return dict(programs)

    def build_failure(self, error: UserError) -> str:
        """Return what the report prints for a variant that `build` refused."""
        return error.message

    def with_symbols(self, program: Program, folder: Path, *, like: str) -> Path | None:
        """Build a program again with symbols, to name the addresses of the stripped one that runs.

        Args:
            program: as `build` returned it.
            folder: for the output; created.
            like: path of the stripped program.

        Returns:
            The file; None if there is none whose stripped form is the program.
        """
        del program, folder, like
        return None

    # Running

    @abc.abstractmethod
    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request to the agent for a trial."""

    def before(self, _trial: TrialSpec, _target: Target) -> Outcome | None:
        """Do what comes before a trial and is not measured. Return an outcome only if the trial must not run."""
        return None

    def after(self, _trial: TrialSpec, _target: Target, outcome: Outcome) -> Outcome:
        """Do what comes after a trial and is not measured. Return the trial's outcome, changed if this failed."""
        return outcome

    def run(
        self, trial: TrialSpec, target: Target, change: Callable[[TrialRequest], TrialRequest] = lambda request: request
    ) -> Outcome:
        """Run a trial and judge its answer. Several threads may call this at once if the target runs several trials at once.

        Args:
            trial: to run.
            target: where.
            change: of the request. No trial of an experiment has one.

        Raises:
            TargetError: the target broke.
            MachineConfigError: the trial's machine could not be made.
        """
        if (refused := self.before(trial, target)) is not None:
            return refused
        config = self.machine_config(trial)
        if "sets_swap" in target.offers:
            config = on_board(config, trial.program.recipe)
        if "reboots" in target.offers:
            config = msgspec.structs.replace(config, root=trial.program.recipe.root)
        answer = target.run(change(self.request(trial)), config)
        judgement = self.judge(trial, answer, target.inspect)
        return self.after(trial, target, Outcome(judgement, answer, *kept_files(answer, self.kept(answer))))

    def machine_config(self, trial: TrialSpec) -> MachineConfig:
        """Return the machine that a trial runs in."""
        return machine_config_for(self.workload, trial.program.recipe, trial.load, trial.memory_bytes)

    def kept(self, answer: AgentAnswer) -> AgentAnswer:
        """Return an answer with as much of its outputs as the record keeps."""
        return answer

    # Judging

    def advice(self, _answer: AgentAnswer) -> str:
        """Return what the user can try after a failure; empty if unknown."""
        return ""

    def file_change(self, _program: Program) -> str:
        """Return a sentence if the program's file is not the one whose digest was recorded; empty if it is, or can't change."""
        return ""

    def evidence(self, trial: TrialSpec, answer: AgentAnswer, inspect: Inspect) -> Evidence:
        """Return what was observed of the process from outside."""
        return evidence_of(answer, trial.program, trial.variant, inspect)

    def explain_wrong_level(self, _program: Program) -> str:
        """Return what to add to the reason when another level was in force than requested."""
        return ""

    def wrong_files(self, _trial: TrialSpec, _evidence: Evidence) -> str:
        """Return a sentence if the process used other files than those that were built for it; empty if not."""
        return ""

    def judge(self, trial: TrialSpec, answer: AgentAnswer, inspect: Inspect) -> Judgement:
        """Decide what an answer amounts to.

        Args:
            trial: what was requested.
            answer: what the agent reports.
            inspect: reads the files of mapped objects.

        Returns:
            Failed if the program was interrupted, did not end well, or its output is unreadable. Refused if another level was in force,
            the load was not in force, the program's file or the conditions of later trials were changed, or other work was done. Else
            ok with its samples.
        """
        if trouble := self.reader.trouble(answer, self.advice):
            return Judgement(Status.FAILED, trouble)
        if change := self.file_change(trial.program):
            return Judgement(Status.REFUSED, change)
        measured, unreadable = self._read(answer)
        if unreadable and self.output_is_evidence and not self.workload.load_generator:
            return Judgement(Status.FAILED, unreadable)
        evidence = self.evidence(trial, answer, inspect)
        evidence = msgspec.structs.replace(evidence, mapped=measured.mapped, malloc=measured.malloc, seen=measured.seen)
        observed = observed_levels(evidence, trial.variant)
        if wrong := self._wrong_conditions(trial, evidence, observed):
            return Judgement(Status.REFUSED, wrong, observed=observed)
        if (facts := dict(answer.facts)).get("changed_conditions"):
            changed = describe_conditions(changed_conditions(facts), facts)
            reason = f"what later trials inherit changed while it ran: {changed}"
            return Judgement(Status.REFUSED, reason, observed=observed)
        if unreadable:
            return Judgement(Status.FAILED, unreadable, observed=observed)
        if trial.check and measured.check != trial.check:
            reason = f"{DID_OTHER_WORK}: its checksum is {measured.check or 'missing'}, not {trial.check}"
            return Judgement(Status.REFUSED, reason, Measured(check=measured.check), observed)
        return Judgement(Status.OK, measured=measured, observed=observed)

    def _read(self, answer: AgentAnswer) -> tuple[Measured, str]:
        try:
            return self.reader.read(answer), ""
        except UserError as error:
            return Measured(), "; ".join(filter(None, (error.message, error.hint)))

    def _wrong_conditions(self, trial: TrialSpec, evidence: Evidence, observed: tuple[tuple[str, str], ...]) -> str:
        if wrong := wrong_level(observed, trial.variant):
            return wrong + self.explain_wrong_level(trial.program)
        if wrong := self.wrong_files(trial, evidence):
            return wrong
        return missing_load(trial.load, evidence)


def artifact_of(suite: str, workload: Workload, variant: Variant, built: Built) -> Artifact:
    """Return the manifest's entry of a built program."""
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


def whole_environment(recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the whole environment of a program: its recipe's, and the list of objects to preload.

    Colons, which separate its entries, pad the list to `Recipe.preload_bytes`. A variant that preloads nothing gets an unused variable
    of the same length. So the address of the stack does not depend on the length of an object's path.
    """
    preload = ":".join(recipe.preload)
    if not preload and not recipe.preload_bytes:
        return recipe.environment
    name = "LD_PRELOAD" if preload else "NO_PRELOAD"
    return (*recipe.environment, (name, preload.ljust(recipe.preload_bytes, ":")))


def _padded(program: Program, count: int) -> Program:
    environment = (*program.recipe.environment, (PADDING, "x" * min(count, LONGEST_PADDING)))
    recipe = msgspec.structs.replace(program.recipe, environment=environment)
    links = tuple(_padded(link, count) for link in program.links)
    return dataclasses.replace(program, recipe=recipe, links=links)


class DeclaredProgram(Subject):
    """The program of a workload that this project declares: bundled, a package, a crate or a tool of an image."""

    def equalize(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Add padding to the environments if a factor sets variables of different length."""
        sizes = {key: environment_bytes(program.recipe) for key, program in programs.items()}
        most = max(sizes.values(), default=0)
        if all(size == most for size in sizes.values()):
            return dict(programs)
        return {key: _padded(program, most - sizes[key]) for key, program in programs.items()}

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request: the number of passes, if it has passes, comes before the workload's arguments."""
        passes = (str(trial.passes),) if self.max_passes else ()
        return TrialRequest(
            id=trial.identity,
            arguments=(trial.program.path, *passes, *self.workload.arguments),
            environment=whole_environment(trial.program.recipe),
            cwd=trial.scratch,
            cpus=trial.pinned(self.workload.cpus),
            nice=trial.program.recipe.nice,
            timeout_ms=self.workload.timeout_ms,
            output_bytes=self.reader.output_bytes,
            disk_bytes=self.reader.disk_bytes,
            observe=trial.program.recipe.observe,
        )


class BuiltProgram(DeclaredProgram):
    """A declared program that is built for each variant."""

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program; on a target that needs no build, only name it."""
        if "runs_programs" not in context.target.offers:
            path = context.target.path_of(variant.applied_label, self.workload.name)
            return Program(path, recipe, None, context.target.inspect(path))
        return self.installed(variant, recipe, context, self.compile(variant, recipe, context))

    @abc.abstractmethod
    def compile(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Built:
        """Build the program in the cache.

        Raises:
            UserError: it does not build, or the variant is impossible for it.
        """

    def installed(
        self, variant: Variant, recipe: Recipe, context: BuildContext, built: Built, layout: int = 0
    ) -> Program:
        """Put a built program on the target. `layout` is the number of its link, or 0 for the plain one."""
        artifact = artifact_of(context.suite, self.workload, variant, built)
        if layout:
            artifact = msgspec.structs.replace(artifact, layout=layout, sizes=())
        return Program(context.target.put(built.path, built.beside), recipe, artifact, built.facts)
