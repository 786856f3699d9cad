# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program: the commands around its trials, its request, and what its answer amounts to."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.program_size import stripped_sizes
from swapstone.core.artifacts.source_tree import sha256_of
from swapstone.core.factors import NOT_OBSERVED, Evidence, Recipe, is_root_factor, read_facts
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import (
    Experiment,
    OwnProgram,
    Status,
    UnavailableError,
    UserError,
    UserSupplied,
    Variant,
    Workload,
)
from swapstone.core.model.parts import provided
from swapstone.core.record import Artifact
from swapstone.core.run.own_program_levels import (
    Expected,
    FileState,
    FolderWatch,
    file_state,
    levels_seen,
    own_factors,
    own_observations,
    received_variables,
)
from swapstone.core.run.own_program_variant import SHELL, as_run, check_built, check_started, other_arguments
from swapstone.core.run.subject import BuildContext, Inspect, Judgement, Outcome, Subject, TrialSpec
from swapstone.core.run.variant_program import (
    LONGEST_PADDING,
    PADDING,
    POINTER_BYTES,
    Program,
    ProgramRoots,
    environment_bytes,
    stamp_of,
)
from swapstone.core.targets import Capabilities, Target
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest
from swapstone.core.wire.kept_answer import raw_output
from swapstone.core.wire.output_reading import shortened, trouble_of
from swapstone.core.wire.own_program_output import LARGEST_BYTES, STDOUT, OutputDigests, without_name, without_paths


def own_recipe(own: OwnProgram) -> Recipe:
    """Return the recipe of a program that is not built here, with the user's environment."""
    environment = {**dict(SOURCE_RECIPE.environment), **dict(own.inherited), **dict(own.environment)}
    return msgspec.structs.replace(SOURCE_RECIPE, environment=tuple(environment.items()))


def new_artifact(suite: str, workload: str, variant: Variant, layout: int = 0) -> Artifact:
    """Return the manifest's entry of a variant's program, whose file is not known yet."""
    return Artifact(
        suite=suite,
        workload=workload,
        variant=variant.label,
        path="",
        sha256="",
        command="",
        sources=(),
        sizes=(),
        layout=layout,
    )


_LOADER = re.compile(r"ld(64)?-.*\.so(\.\d+)*|libc\.so")
"""A dynamic loader that is given a program: its own size is not the program's."""


def taken(own: OwnProgram, artifact: Artifact) -> Artifact:
    """Return the artifact of a program that is not built here."""
    path = own.arguments[0]
    digest = sha256_of(Path(path))
    sizes = () if _LOADER.fullmatch(Path(path).resolve().name) else stripped_sizes(Path(path).resolve())
    return msgspec.structs.replace(artifact, path=path, sha256=digest, sizes=sizes)


def program_file(own: OwnProgram, recipe: Recipe, artifact: Artifact, folder: str, target: Target) -> Program:
    """Return the program of a file of this machine, which is put on a target that has the files of this machine.

    Args:
        own: the program.
        recipe: the levels applied and resolved.
        artifact: of the file.
        folder: in which it runs.
        target: where it runs.

    Raises:
        UserError: a level can't be applied to it.
    """
    facts = read_facts(Path(artifact.path).resolve())
    check_preload(artifact.path, recipe, static=facts is not None and facts.interp is None)
    path = target.put(Path(artifact.path)) if "shares_files" in target.offers else artifact.path
    return Program(
        path, recipe, artifact, facts, folder, stamp_of(artifact.path), launch_bytes=launch_bytes(own, recipe)
    )


def launch_bytes(own: OwnProgram, recipe: Recipe) -> int:
    """Count what arguments and environment put on the stack: each text with its zero byte, and a pointer to it (execve(2))."""
    arguments = sum(len(os.fsencode(text)) + 1 + POINTER_BYTES for text in own.arguments[1:])
    return arguments + environment_bytes(recipe)


def check_preload(path: str, recipe: Recipe, *, static: bool) -> None:
    """Raise a `UserError` if the objects of a recipe can't be preloaded into a program."""
    if not recipe.preload:
        return
    if static:
        raise UnavailableError(f"{path} is linked statically: no loader would load {recipe.preload[0]} into it.")
    if "LD_PRELOAD" in dict(recipe.environment):
        raise UserError("--env LD_PRELOAD would replace what a factor preloads.", "Leave it out.")


def with_equal_environments(programs: Mapping[str, Program]) -> dict[str, Program]:
    """Add to each variant's environment what is preloaded, and padding, so that the stack's address does not depend on a path's length.

    Args:
        programs: of one workload, by label.

    Returns:
        The same programs, each with equally many additions; none if no variant needs any.
    """
    preloads = any(program.recipe.preload for program in programs.values())
    sizes = {key: _stack_bytes(program) for key, program in programs.items()}
    most = max(sizes.values(), default=0)
    uneven = any(size != most for size in sizes.values())

    def with_added(key: str, program: Program) -> Program:
        preload = (("LD_PRELOAD", _preloaded(program.recipe)),) if preloads else ()
        added = (*preload, *(((PADDING, "x" * min(most - sizes[key], LONGEST_PADDING)),) if uneven else ()))
        # The padding of a layout is what the layout varies: it comes on top.
        links = tuple(dataclasses.replace(link, added=(*added, *link.added)) for link in program.links)
        return dataclasses.replace(program, added=added, links=links)

    return {key: with_added(key, program) for key, program in programs.items()}


def _stack_bytes(program: Program) -> int:
    """Count what a variant puts on the stack: the path twice (argv[0] and AT_EXECFN), preloaded objects, arguments and environment."""
    return 2 * len(os.fsencode(program.path)) + len(os.fsencode(_preloaded(program.recipe))) + program.launch_bytes


def _preloaded(recipe: Recipe) -> str:
    return ":".join(recipe.preload)


def _first_line(path: str) -> str:
    """Return the interpreter that a file names in its first line; empty if it names none."""
    try:
        with Path(path).open("rb") as handle:
            head = handle.readline(256)
    except OSError:
        return ""
    return head[2:].strip().decode(errors="replace") if head.startswith(b"#!") else ""


KEPT_BYTES = 64 << 10
"""How much of each output the record keeps: half from the beginning, half from the end."""

TIMESTAMP_NS = 20_000_000
"""Time stamps of files advance with the timer interrupt, at most 10 ms apart (100 Hz); twice that."""

_NEEDS_TERMINAL = re.compile(
    rb"not a (tty|terminal)|[Ii]nappropriate ioctl for device|ENOTTY|TERM environment variable|[Ee]rror opening terminal"
    rb"|[Uu]nknown terminal|(needs?|requires?) a (tty|terminal)|must be (a|connected to a) (tty|terminal)"
)
_WITHOUT_TERMINAL = (
    "give it a file with --input, use its option for batches, or wrap it: -- script -qec 'PROGRAM ARG' /dev/null"
)
TERMINAL_HINT = f"it seems to need a terminal and finds none: {_WITHOUT_TERMINAL}"
SILENT_HINT = f"if it needs a terminal, it finds none: {_WITHOUT_TERMINAL}"

OTHER_COMMAND_HINT = (
    "it executed another program in its place, or changed its arguments, which does not show what was started: name the program itself, "
    "set variables as in 'NAME=VALUE ./prog', or add --shell, so that the shell stays and is observed"
)

_ADVICE = {
    ProcessOutcome.OVERFLOW: "; send its output away with --output null, or to a file with --output FILE",
    ProcessOutcome.TIMEOUT: "; --timeout allows more",
    ProcessOutcome.ORPHANS: "; it must end with all processes that it started: keep it in the foreground",
}


class BeforeRun(msgspec.Struct, frozen=True):
    """The files that matter to a run, just before it.

    Attributes:
        artifacts: state by path of the files that it should write.
        found_files: as `swapstone.core.model.Run.found_files`.
    """

    artifacts: Mapping[str, FileState | None]
    found_files: tuple[str, ...]


class OwnProgramState:
    """What the workloads of one own program share: there is one for each load generator and each value of a parameter."""

    def __init__(self) -> None:
        self.set_up: set[tuple[tuple[tuple[str, str], ...], str]] = set()
        self.outputs = OutputDigests()
        self.folders = FolderWatch()
        self.before: dict[str, BeforeRun] = {}


class UserProgram(Subject):
    """A user's own program.

    Args:
        workload: its name and metrics.
        origin: the program.
    """

    runs = UserSupplied
    aborts_early = True
    carries_files = True

    def __init__(self, workload: Workload, origin: UserSupplied) -> None:
        super().__init__(workload)
        self._own = origin.program
        self._state = OwnProgramState()
        self._runs: dict[tuple[tuple[str, str], ...], OwnProgram] = {}
        """By the levels of a variant."""
        self._expected: dict[tuple[tuple[tuple[str, str], ...], str], Expected] = {}
        """By the levels of a variant and the path of its program."""

    def join(self, first: Subject) -> None:
        """Share the set-up and what was found in folders."""
        assert isinstance(first, UserProgram)
        self._state = first._state

    def check(self, experiment: Experiment, target: Capabilities) -> None:
        """Raise if the program can't be measured."""
        every = check_started(self._own, self.workload, experiment, target)
        rooted = any(is_root_factor(choice.factor) for choice in experiment.applied_factors)
        in_root = rooted and any(roots.check(self._own, every, experiment, target) for roots in roots_of_parts())
        if self._own.build or not in_root:
            self.check_program(every, experiment, target)

    def check_program(self, every: Sequence[OwnProgram], experiment: Experiment, target: Capabilities) -> None:
        """Raise if the program can't be measured as a file of the target, which a part may build.

        Args:
            every: the program as each variant runs it.
            experiment: its factors are used.
            target: where it runs.

        Raises:
            UserError: it can't.
        """
        if self._own.build or "shares_files" not in target.offers:
            raise UnavailableError("No installed part builds a program of yours, or carries it to another machine.")
        check_built(self._own, every, experiment)

    def programs(self, experiment: Experiment, recipes: Iterable[Recipe]) -> tuple[str, ...]:
        """Return those of its build."""
        return super().programs(experiment, recipes if self._own.build else ())

    def notes(self) -> tuple[str, ...]:
        """Return a note for each program that is a script: its interpreter, and what it executes, are measured too."""
        paths = () if self._own.build or self._own.shell else [line.words[0] for line in self._own.commands]
        heads = {path: _first_line(path) for path in dict.fromkeys(paths)}
        return tuple(
            f"{path} is a script for {head}: what it executes is measured too." for path, head in heads.items() if head
        )

    def base_recipe(self, variant: Variant, _default: Recipe) -> Recipe:
        """Return the recipe with the user's environment."""
        return own_recipe(self._as_run(variant))

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Take the program without building, or the one in its root file system."""
        own = self._as_run(variant)
        if not recipe.root:
            return self.started(own, variant, recipe, context)
        own, artifact = self.made(own, variant, recipe, context)
        program = roots_of_parts()[0].program(own, recipe, artifact, context.target)
        return dataclasses.replace(program, launch_bytes=launch_bytes(own, recipe))

    def made(
        self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext
    ) -> tuple[OwnProgram, Artifact]:
        """Return what is started in a root file system, and its artifact, which a part may build; arguments and errors as `started`."""
        del recipe
        return own, new_artifact(context.suite, self.workload.name, variant)

    def started(self, own: OwnProgram, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Return the program as a file of the target; arguments and errors as `build`, `own` as the variant runs it."""
        artifact = taken(own, new_artifact(context.suite, self.workload.name, variant))
        return program_file(own, recipe, artifact, own.directory, context.target)

    def equalize(self, programs: Mapping[str, Program]) -> dict[str, Program]:
        """Add what is preloaded, and padding, to the environments."""
        return with_equal_environments(programs)

    def build_failure(self, error: UserError) -> str:
        """Return the message and the hint, which names the log of the build."""
        return str(error)

    def before(self, trial: TrialSpec, target: Target) -> Outcome | None:
        """Run ``--setup`` once for each variant, and ``--prepare``; refuse a program whose file was changed."""
        own = self._as_run(trial.variant)
        if own.setup and (trial.variant.levels, own.setup) not in self._state.set_up:
            if (failed := self._helper("setup", own.setup, trial, target)) is not None:
                return failed
            self._state.set_up.add((trial.variant.levels, own.setup))
        if (failed := self._helper("prepare", own.prepare, trial, target)) is not None:
            return failed
        if change := self.file_change(trial.program):
            return Outcome(Judgement(Status.REFUSED, change), None, b"")
        if not own.load_generators and ("shares_files" not in target.offers or trial.program.root):
            self._state.before[trial.identity] = BeforeRun({}, ())
        elif not own.load_generators:
            paths = _artifact_paths(own, trial)
            found = self._state.folders.before_run(trial.program.folder, frozenset((*paths, own.output)))
            artifacts = {path: file_state(path) for path in paths}
            self._state.before[trial.identity] = BeforeRun(artifacts, found)
            _wait_for_other_timestamps(artifacts.values())
        return None

    def after(self, trial: TrialSpec, target: Target, outcome: Outcome) -> Outcome:
        """Digest what the run printed and wrote, then run ``--conclude``. Its failure counts only if the program itself ended well."""
        before = self._state.before.pop(trial.identity, None)
        if before is not None and outcome.judgement.status is Status.OK and outcome.answer is not None:
            outcome = self._with_digests(trial, target, outcome, outcome.answer, before)
        failed = self._helper("conclude", self._as_run(trial.variant).conclude, trial, target)
        if failed is None or outcome.judgement.status is not Status.OK:
            return outcome
        return msgspec.structs.replace(outcome, judgement=failed.judgement, output=outcome.output + failed.output)

    def _with_digests(
        self, trial: TrialSpec, target: Target, outcome: Outcome, answer: AgentAnswer, before: BeforeRun
    ) -> Outcome:
        """Add the digests of standard output and of the files named with ``--artifact``; a file that can't be read fails the run."""
        own, outputs = self._as_run(trial.variant), self._state.outputs
        stdout, stderr = (
            without_paths(each, trial.program.path, trial.program.folder) for each in (answer.stdout, answer.stderr)
        )
        path = trial.program.artifact.path if trial.program.artifact else ""
        digests = outputs.of_printed(own, stdout, without_name(stderr, path))
        if own.output and own.output != os.devnull:
            with contextlib.suppress(UserError, OSError), target.open_file(own.output) as file:
                digests += outputs.of_file(STDOUT, file)
        trouble = ""
        for name, path in zip(self._own.artifacts, _artifact_paths(own, trial), strict=True):
            try:
                with target.open_file(path) as file:
                    found = outputs.of_file(name, file)
            except (UserError, OSError) as error:
                trouble = error.message if isinstance(error, UserError) else f"can't be read: {error.strerror}"
            else:
                trouble = "" if found else f"is larger than {LARGEST_BYTES >> 30} GiB: it can't be compared"
                digests += found
            if not trouble and file_state(path) == before.artifacts[path]:
                trouble = "was not written by this run: it is as it was before (remove it in --prepare)"
            if trouble:
                judgement = Judgement(
                    Status.FAILED, f"its artifact {path} {trouble}", observed=outcome.judgement.observed
                )
                return msgspec.structs.replace(outcome, judgement=judgement)
        judgement = msgspec.structs.replace(outcome.judgement, digests=digests, found_files=before.found_files)
        return msgspec.structs.replace(outcome, judgement=judgement)

    def _helper(self, name: str, command: str, trial: TrialSpec, target: Target) -> Outcome | None:
        """Run one of the commands around the program; return an outcome only if it failed."""
        if not command:
            return None
        folder = self._as_run(trial.variant).directory if trial.program.root else trial.program.folder
        request = msgspec.structs.replace(
            self.request(trial),
            id=f"{trial.identity}-{name}",
            cwd=folder,  # helpers run outside of a root file system
            root="",
            root_layer="",
            root_files="",
            arguments=(SHELL, "-c", command),
            environment=trial.program.recipe.environment,  # nothing is preloaded into helpers
            cpus=(),
            nice=None,
            stdin="",
            stdout="",
            observe=(),
            counted=False,
        )
        answer = target.run(request)
        trouble = trouble_of(answer, self.reader.output_bytes, self.reader.disk_bytes)
        if not trouble:
            return None
        reason = f"its --{name} command failed: {trouble}"
        return Outcome(Judgement(Status.FAILED, reason), None, raw_output(self.kept(answer)))

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request, with the arguments as typed."""
        own = self._as_run(trial.variant)
        received, root = self._received(trial.variant, own), trial.program.root
        return TrialRequest(
            id=trial.identity,
            arguments=(trial.program.path, *own.arguments[1:]),
            environment=(*trial.program.recipe.environment, *trial.program.added),
            cwd=trial.program.folder,
            root=root.folder if root else "",
            root_layer=root.layer if root else "",
            root_files=root.files if root else "",
            cpus=trial.pinned(own.cpus),
            nice=trial.program.recipe.nice,
            timeout_ms=trial.timeout_ms or own.timeout_ms,
            output_bytes=self.reader.output_bytes,
            disk_bytes=self.reader.disk_bytes,
            stdin=own.stdin,
            stdout=own.output,
            observe=tuple(dict.fromkeys((*trial.program.recipe.observe, *own_observations(received)))),
            counted=True,
        )

    def _as_run(self, variant: Variant) -> OwnProgram:
        """Return what a variant runs: it is looked up on PATH once, so that no later trial runs another program."""
        found = self._runs.get(variant.levels)
        if found is None:
            found = self._runs[variant.levels] = as_run(self._own, self.workload, variant)
        return found

    def _received(self, variant: Variant, own: OwnProgram) -> tuple[tuple[str, str], ...]:
        """Return the variables of the environment that a factor of the user determines."""
        names = received_variables(self._own, variant)
        return tuple(pair for pair in own.environment if pair[0] in names)

    def kept(self, answer: AgentAnswer) -> AgentAnswer:
        """Return the answer without the middle of long outputs: there may be thousands of trials."""
        return shortened(answer, KEPT_BYTES)

    def advice(self, answer: AgentAnswer) -> str:
        """Return what to try after a failure, if that is known."""
        if answer.outcome is ProcessOutcome.EXITED and _NEEDS_TERMINAL.search(answer.stderr + answer.stdout):
            return f"; {TERMINAL_HINT}"
        # Without a terminal, some programs such as top exit without any output.
        silent = answer.outcome is ProcessOutcome.EXITED and not answer.stderr + answer.stdout
        return f"; {SILENT_HINT}" if silent else _ADVICE.get(answer.outcome, "")

    def file_change(self, program: Program) -> str:
        """Return a sentence if the file is not the one whose digest was recorded."""
        now = stamp_of(program.file or program.path)
        if now == program.stamp:
            return ""
        return f"its file {program.path} {'is gone' if now is None else 'was changed'} since the comparison began"

    def evidence(self, trial: TrialSpec, answer: AgentAnswer, inspect: Inspect) -> Evidence:
        """Return what was observed; of a script, the facts of its interpreter or of what it executed instead."""
        program, root = trial.program, trial.program.root
        inspect = root.view.facts if root else inspect
        evidence = super().evidence(trial, answer, inspect)
        evidence = msgspec.structs.replace(evidence, root=root.folder if root else "")
        if program.facts is None and answer.objects:
            evidence = msgspec.structs.replace(evidence, program=inspect(answer.objects[0]))
        if self._own.programs:
            evidence = msgspec.structs.replace(
                evidence, started=program.original or program.path, named=self._own.programs
            )
        if not own_factors(trial.variant):
            return evidence
        return msgspec.structs.replace(evidence, levels=levels_seen(self._expected_of(trial), evidence))

    def _expected_of(self, trial: TrialSpec) -> Expected:
        """Return how a variant's program is started: all its trials are started alike."""
        variant, program = trial.variant, trial.program
        key = (variant.levels, program.path)
        if (found := self._expected.get(key)) is None:
            own = self._as_run(variant)
            found = self._expected[key] = Expected(
                own=self._own,
                variant=variant,
                arguments=(program.path, *own.arguments[1:]),
                environment=self._received(variant, own),
                others=other_arguments(self._own, self.workload, variant),
                script=program.facts is None,
                folder=program.folder,
            )
        return found

    def _wrong_conditions(self, trial: TrialSpec, evidence: Evidence, observed: tuple[tuple[str, str], ...]) -> str:
        reason = super()._wrong_conditions(trial, evidence, observed)
        own = own_factors(trial.variant)
        if reason and any(name in own and seen not in {own[name], "unknown", NOT_OBSERVED} for name, seen in observed):
            return f"{reason}; {OTHER_COMMAND_HINT}"
        return reason


def roots_of_parts() -> tuple[ProgramRoots, ...]:
    """Return how parts start programs in root file systems."""
    return provided("root", ProgramRoots)


def _artifact_paths(own: OwnProgram, trial: TrialSpec) -> tuple[str, ...]:
    """Return the absolute paths of the files that a run writes."""
    return tuple(os.path.join(trial.program.folder, name) for name in own.artifacts)  # noqa: PTH118 # ".." is kept


def _wait_for_other_timestamps(states: Iterable[FileState | None]) -> None:
    """Wait until a write would change the time stamp of each file: else a run that writes nothing looks like one that does."""
    ages_ns = [time.time_ns() - state.changed_ns for state in states if state is not None]
    wait_ns = TIMESTAMP_NS - min((age for age in ages_ns if age >= 0), default=TIMESTAMP_NS)
    if wait_ns > 0:
        time.sleep(wait_ns / 1e9)
