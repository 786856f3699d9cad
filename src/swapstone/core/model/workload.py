# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads and suites: what is measured, and where its program comes from."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

import msgspec

from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.load import LoadGenerator, MachineNeeds
from swapstone.core.model.metric import Metric


class Cpus(enum.Enum):
    """How many processors a workload may use: pinned to one, or free on all that the target offers."""

    ONE = "one"
    ALL = "all"


ALL_PROCESSORS = 0
"""As many threads as there are processors."""

UNKNOWN_THREADS = -1
"""The number of threads is not declared: it follows from the runs."""


class Source(FrozenStruct, frozen=True, kw_only=True, tag="source"):
    """A C program of this project, built for each variant. ``native/workloads.toml`` has what it is linked with.

    Attributes:
        file: its name under ``native/workloads/``, e.g. ``b_string_strstr.c``; or the absolute path of a part's own, which finds the
            headers of that folder.
        harness: whether it is linked with ``harness.c``, which repeats the work and prints one line for each pass (docs/wire.md,
            section 3). Without the harness it prints named figures (section 4), or it is a server and prints nothing.
        reader: ``cyclictest`` for a program that prints, without the harness, what cyclictest writes; empty for named figures.
    """

    file: str
    harness: bool = True
    reader: str = ""


class PrintedNumber(FrozenStruct, frozen=True, kw_only=True):
    """A number in the output of a user's program.

    Attributes:
        metric: its name, unit and direction.
        pattern: regular expression with one group; it must match the output exactly once.
    """

    metric: Metric
    pattern: str


ROOT_FILES = "/swapstone"
"""Where a program in a root file system of its own finds the user's working folder (native/agent/root.h)."""

OWN_SUITE = "own"
"""The suite of own programs."""

COMMAND = "command"
"""The factor whose levels are command lines."""


class CommandLine(FrozenStruct, frozen=True, kw_only=True):
    """One of several command lines that are compared: a level of the factor ``command``.

    Attributes:
        name: the level.
        words: the program, by its absolute path or its path inside the sources, and its arguments.
        environment: pairs (name, value) that the command line sets before the program, as in ``NAME=1 ./prog``.
    """

    name: str
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


class OwnProgram(FrozenStruct, frozen=True, kw_only=True):
    """A user's own program, measured instead of the workloads of this project. ``/bin/sh -c`` runs its commands.

    Attributes:
        name: as reports print it; the workload's name in the suite `OWN_SUITE`.
        arguments: the program and its arguments, as typed. With `programs`, the arguments alone; with `commands`, nothing.
        source: absolute path of the folder that is copied for each variant and built there; empty if nothing is built.
        build: command with placeholders such as ``{cc}`` that builds the copy; empty if nothing is built.
        programs: pairs (level of the factor ``program``, absolute path), the baseline first; empty unless that factor is varied.
        commands: the command lines of the factor ``command``, the baseline first. A single one is no level of that factor.
        shell: whether `commands` are texts for ``/bin/sh -c``: then each has one word.
        parameters: pairs (name, values): each combination of values is a workload of its own. ``{name}`` stands for the value in
            `arguments`, `commands`, `environment`, `setup`, `prepare`, `conclude`, `stdin`, `output`, `artifacts`, `files` and in load
            generators.
        directory: absolute path of the working directory if nothing is built; a built program runs in its copy.
        environment: pairs (name, value) added to the base environment.
        inherited: pairs (name, value) of the shell that started the experiment, which `environment` may replace: locale, time zone and
            home folder on the wall clock of this machine. Resuming and repeating use these. Empty elsewhere, and in older records.
        setup: command run once for each variant before its first trial; empty for none, like the next two.
        prepare: command run before each trial, not measured.
        conclude: command run after each trial, not measured.
        stdin: absolute path of the file for standard input; empty for /dev/null.
        output: absolute path of the file for standard output; empty if the output is read and kept.
        ignore_failure: whether a run with another exit status than 0 counts.
        numbers: numbers that it prints.
        cpus: whether it is pinned to one processor.
        waits: whether elapsed time, not CPU time, decides the verdict.
        timeout_ms: time limit of a trial.
        build_timeout_ms: time limit of a build.
        libraries: names of the libraries that are built for each variant and found by the build command.
        output_may_differ: whether variants may print different outputs and have different exit statuses.
        artifacts: files that a run writes; their contents are compared between variants as the output is. A relative path starts from
            the folder in which the program runs.
        files: files and folders that the program reads and that a virtual machine gets beside it; a relative path starts from the folder
            in which the program runs.
        memory_bytes: of the virtual machine, whole MiB; 0 for the usual memory.
        load_generators: of a server; each makes a workload of its own. ``{port}`` in `arguments` and `environment` then stands for the
            port of the trial. With `Cpus.ONE` server and load generator are pinned to different processors.
    """

    name: str
    arguments: tuple[str, ...]
    source: str = ""
    build: str = ""
    programs: tuple[tuple[str, str], ...] = ()
    commands: tuple[CommandLine, ...] = ()
    shell: bool = False
    parameters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    directory: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    inherited: tuple[tuple[str, str], ...] = ()
    setup: str = ""
    prepare: str = ""
    conclude: str = ""
    stdin: str = ""
    output: str = ""
    ignore_failure: bool = False
    numbers: tuple[PrintedNumber, ...] = ()
    cpus: Cpus = Cpus.ALL
    waits: bool = True
    timeout_ms: int = 600_000
    build_timeout_ms: int = 3_600_000
    libraries: tuple[str, ...] = ()
    output_may_differ: bool = False
    artifacts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    memory_bytes: int = 0
    load_generators: tuple[LoadGenerator, ...] = msgspec.field(default=(), name="drives")  # as records store it

    @property
    def command(self) -> tuple[str, ...]:
        """Return the program and its arguments as typed; of several, the baseline's."""
        if self.commands:
            return self.commands[0].words
        return (self.programs[0][1], *self.arguments) if self.programs else self.arguments

    @property
    def launch_texts(self) -> tuple[str, ...]:
        """Return what a process receives: every word of the command lines, and every value of the environment."""
        lines = self.commands or (CommandLine(name="", words=self.arguments),)
        words = [word for line in lines for word in (*line.words, *(value for _, value in line.environment))]
        return (*words, *(path for _, path in self.programs), *(value for _, value in self.environment))

    def command_of(self, levels: Mapping[str, str]) -> CommandLine:
        """Return the command line of a variant, with its placeholders.

        Args:
            levels: level by factor.
        """
        if len(self.commands) == 1:
            return self.commands[0]
        if self.commands:
            return next(each for each in self.commands if each.name == levels[COMMAND])
        paths = dict(self.programs)
        program = (paths.get(levels.get("program", ""), self.programs[0][1]),) if self.programs else ()
        return CommandLine(name="", words=(*program, *self.arguments))


class UserSupplied(FrozenStruct, frozen=True, kw_only=True, tag="user_supplied"):
    """A program that the user supplies, built from sources or run unchanged."""

    program: OwnProgram


class PartOrigin(FrozenStruct, frozen=True, kw_only=True, tag="part"):
    """The origin of the works of a part, which builds, runs and reads them. A part may derive a class with further fields from it.

    Attributes:
        part: name of the part.
        subject: where its `swapstone.core.run.subject.Subject` is, ``package.module:CLASS``.
        reader: where its `swapstone.core.wire.output_reading.OutputReader` is, in a module that imports nothing that builds or runs.
    """

    part: str
    subject: str
    reader: str = "swapstone.core.wire.output_reading:NamedFigures"


Origin = Source | UserSupplied | PartOrigin
"""Where a workload's program comes from: it decides the class in `swapstone.core.run.subject_kinds`."""


class WorkSpec(FrozenStruct, frozen=True, kw_only=True):
    """What an analysis and a report need of a work: a record has it of each of its workloads.

    Attributes:
        name: as reports print it, e.g. ``b_string_strstr(abcd)``.
        description: one line: what one pass does.
        parameters: pairs (parameter, value) that distinguish it from similar workloads, e.g. ``("block_bytes", "1024")``.
        metrics: what each run of it measures.
        cpus: whether it is pinned to one processor.
        threads: the processors that it needs: how many of its threads and processes, with its load generator's, run at once; or
            `ALL_PROCESSORS` or `UNKNOWN_THREADS`. Fewer processors change what is measured.
        waits: true if the work sleeps, blocks or crosses processes, so that elapsed time is the verdict and CPU time is not.
    """

    name: str
    description: str
    parameters: tuple[tuple[str, str], ...] = ()
    metrics: tuple[Metric, ...]
    cpus: Cpus = Cpus.ONE
    threads: int = 1
    waits: bool = False

    def parameter(self, name: str) -> str | None:
        """Return the value of a parameter, or None if the workload does not have it."""
        return dict(self.parameters).get(name)


class Workload(WorkSpec, frozen=True, kw_only=True):
    """Fixed work with parameters and metrics. Workloads are declared in code; records store their `WorkSpec`.

    Attributes:
        origin: where its program comes from.
        arguments: the program's arguments; with the harness, those after the number of passes.
        timeout_ms: time limit of a trial.
        operation_bytes: bytes that one operation moves, for the metric ``bandwidth``; 0 without that metric.
        machine: what a virtual machine must have for it; None if it also runs elsewhere.
        parts: names of `swapstone.parts.vm.artifacts.image_catalog.PARTS` that it uses and that other machines have anyway, such as a
            shell. Unlike `machine`, they don't keep it from running elsewhere.
        elsewhere: whether it is left out on targets that boot machines unless the user names it.
        unchanged: whether nothing is built for it: its program is the same for each level of a factor that acts before its start.
        bare: whether it runs on a machine without an operating system, and nowhere else.
        real_time: whether its threads have a real-time priority unless a level is another one.
        load_generator: of a server, what sends it requests; ``{port}`` in `arguments` then stands for the port of the trial.
    """

    origin: Origin
    arguments: tuple[str, ...] = ()
    timeout_ms: int = 60_000
    operation_bytes: int = 0
    machine: MachineNeeds | None = None
    parts: tuple[str, ...] = ()
    elsewhere: bool = False
    unchanged: bool = False
    bare: bool = False
    real_time: bool = False
    load_generator: LoadGenerator | None = None


class Suite(FrozenStruct, frozen=True, kw_only=True):
    """A named list of workloads that share one index.

    Attributes:
        name: as users type it.
        description: one line.
        workloads: in the order in which they are listed.
        factors: it is the default suite of an experiment that varies one of these.
        factors_unbooted: the same on a target that starts no machine for each trial, where they take precedence over `factors`.
        replaces: names of the default suites that are left out where this one is.
        is_default: whether it is the suite of an experiment for which no factor names one.
        with_wakeups: returns one of its workloads with another number of wake-ups, and workloads without them unchanged; None where it
            has none.
    """

    name: str
    description: str
    workloads: tuple[Workload, ...]
    factors: tuple[str, ...] = ()
    factors_unbooted: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    is_default: bool = False
    with_wakeups: Callable[[Workload, int], Workload] | None = None
