# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an experiment would run, read and write if its record were resumed, repeated or explained: a list to read beforehand.

Each entry is one line, in which control characters are visible. Texts stand as the record has them: placeholders are not replaced, and
the values that replace them follow. Nothing is looked up, resolved or run to make the list.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from swapstone.core.model import COMMAND, CommandLine, Experiment, FactorLevels, OwnProgram
from swapstone.core.model.safe_text import safe
from swapstone.core.session.settings import Program
from swapstone.core.session.study_file import StudyPart
from swapstone.core.targets import target_kinds

_SHELL = "by /bin/sh -c"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
"""A level that no option follows and that is no path: one of Swapstone's own, or of an installed program."""

_OF_THE_USER = {COMMAND, "program"}
"""Factors whose levels are names of command lines, which are listed themselves."""


def planned_commands(experiment: Experiment) -> tuple[str, ...]:
    """Return a line for each command, file and value of an experiment that a record contains."""
    own = experiment.own
    lines = [*_target_lines(experiment.target, experiment.modules, experiment.module_files)]
    if own is None:
        names: dict[str, list[str]] = {}
        for suite, name in experiment.workloads:
            names.setdefault(suite, []).append(name)
        lines += (f"run Swapstone's own workloads of {suite}: {', '.join(found)}" for suite, found in names.items())
    else:
        lines += _own_lines(own)
    lines += _level_lines(experiment.applied_factors)
    return tuple(map(safe, lines))


def _program_lines(
    own: OwnProgram | Program,
    runs: Iterable[str],
    *,
    environment: Iterable[str],
    stdin: str | None,
    values: Iterable[tuple[str, str]],
    directory: str = "",
) -> Iterator[str]:
    """Yield the lines of an own program, as a record or a study has it.

    Args:
        own: the program.
        runs: a line for each command line, and for each load generator.
        environment: texts ``NAME=VALUE``.
        stdin: the file of standard input.
        values: the name and the values of each parameter.
        directory: where all of it runs; empty for a record's copy of the sources, and for a study.
    """
    if own.build:
        yield f"build for each variant, in a copy of {own.source}, {_SHELL}: {own.build}"
    if own.libraries:
        yield f"build libraries: {', '.join(own.libraries)}"
    if own.setup:
        yield f"run once for each variant, {_SHELL}: {own.setup}"
    if own.prepare:
        yield f"run before each trial, {_SHELL}: {own.prepare}"
    yield from runs
    if own.conclude:
        yield f"run after each trial, {_SHELL}: {own.conclude}"
    yield from (f"set the environment variable {text}" for text in environment)
    if directory:
        yield f"run all of these in the folder {directory}"
    if stdin:
        yield f"read standard input from {stdin}"
    if own.output:
        yield f"empty the file {own.output} and write standard output to it, in each trial"
    yield from (f"read the file {path}, which the program should write" for path in own.artifacts)
    yield from (f"copy into a virtual machine: {path}" for path in own.files)
    yield from (f"replace {{{name}}} by {text}" for name, text in values)


def _run_line(own: OwnProgram | Program, text: str) -> str:
    return f"run{f', {_SHELL}' if own.shell else ''}: {text}"


def _own_lines(own: OwnProgram) -> Iterator[str]:
    runs = []
    for line in _command_lines(own):
        words = line.words[0] if own.shell and line.words else shlex.join(line.words)
        text = "".join(f"{name}={shlex.quote(value)} " for name, value in line.environment) + words
        runs.append(f"run as the server: {text}" if own.load_generators else _run_line(own, text))
    runs += [f"run as the load generator: {shlex.join(generator.command)}" for generator in own.load_generators]
    return _program_lines(
        own,
        runs,
        environment=("=".join(pair) for pair in own.environment),
        stdin=own.stdin,
        values=((name, _values(values)) for name, values in own.parameters),
        directory=own.directory,
    )


def _command_lines(own: OwnProgram) -> tuple[CommandLine, ...]:
    if own.commands:
        return own.commands
    if own.programs:
        return tuple(CommandLine(name=name, words=(path, *own.arguments)) for name, path in own.programs)
    return (CommandLine(name="", words=own.arguments),)


def _level_lines(factors: Iterable[FactorLevels]) -> Iterator[str]:
    for choice in factors:
        if choice.factor.startswith("{"):
            yield f"replace {choice.factor} by {_values(choice.levels)}"
        elif choice.factor.startswith("env:"):
            name = choice.factor.removeprefix("env:")
            yield f"set the environment variable {name} to {_values(choice.levels)}"
        elif choice.factor not in _OF_THE_USER:
            texts = [level for level in choice.levels if not _NAME.fullmatch(level)]  # paths, and names with options
            yield from (f"use as the {choice.factor}, which is run or loaded: {text}" for text in texts)


def _target_lines(target: str, modules: Iterable[tuple[str, str]], files: Iterable[str]) -> Iterator[str]:
    name, _, detail = target.partition(":")
    yield from (does for kind in target_kinds() if kind.name == name and (does := kind.does(detail)))
    yield from (f"load the modules of the kernel {kernel} from {folder}" for kernel, folder in modules)
    yield from (f"load in the virtual machine the kernel module {path}" for path in files)


def _values(values: Iterable[str]) -> str:
    return ", ".join(map(shlex.quote, values))


def planned_study_commands(parts: Iterable[StudyPart], target: str = "", directory: str = "") -> tuple[str, ...]:
    """Return a line for each command, file and value of the parts of a study.

    Args:
        parts: that would run.
        target: for every part; empty for the parts' own.
        directory: where relative paths start; empty for the current folder.
    """
    where = (f"relative paths start in the folder {directory}",) if directory else ()
    lines = (
        f"{part.name}: {line}"
        for part in parts
        for line in _part_lines(part, target or part.settings.place.target or "")
    )
    return tuple(map(safe, (*where, *lines)))


def _part_lines(part: StudyPart, target: str) -> Iterator[str]:
    settings = part.settings
    program, machine = settings.program, settings.machine
    kernels = (text.partition("=") for text in machine.modules)
    yield from _target_lines(target, ((kernel, folder) for kernel, _, folder in kernels), machine.module_files)
    if part.own is None:
        yield f"run Swapstone's own workloads of {', '.join(settings.workloads.suites) or 'the suites that suit its factors'}"
    else:
        commands = [shlex.join(program.command)] if program.command is not None else []
        commands += [*program.commands, *(text.partition("=")[2] for text in program.programs)]
        runs = [_run_line(program, command) for command in commands]
        served = (("server", program.server), ("load generator", program.load_generator))
        runs += [f"run as the {what}: {text}" for what, text in served if text]
        values: dict[str, list[str]] = {}
        for text in program.parameters:
            name, _, value = text.partition("=")
            values.setdefault(name, []).append(value)
        replaced = ((name, each[0] if len(each) == 1 else _values(each)) for name, each in values.items())
        yield from _program_lines(program, runs, environment=program.env, stdin=program.input, values=replaced)
    held = (text.partition("=") for text in settings.workloads.hold)
    levels = [FactorLevels(factor=name, levels=(level,)) for name, _, level in held]
    yield from _level_lines((*(FactorLevels(factor=each.name, levels=each.levels) for each in part.factor), *levels))
