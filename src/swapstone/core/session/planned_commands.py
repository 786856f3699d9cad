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


def _own_lines(own: OwnProgram) -> Iterator[str]:
    if own.build:
        yield f"build for each variant, in a copy of {own.source}, {_SHELL}: {own.build}"
    if own.libraries:
        yield f"build libraries: {', '.join(own.libraries)}"
    if own.setup:
        yield f"run once for each variant, {_SHELL}: {own.setup}"
    if own.prepare:
        yield f"run before each trial, {_SHELL}: {own.prepare}"
    what = "run as the server" if own.load_generators else "run"
    for line in _command_lines(own):
        words = line.words[0] if own.shell and line.words else shlex.join(line.words)
        variables = "".join(f"{name}={shlex.quote(value)} " for name, value in line.environment)
        yield f"{what}{f', {_SHELL}' if own.shell else ''}: {variables}{words}"
    for generator in own.load_generators:
        yield f"run as the load generator: {shlex.join(generator.command)}"
    if own.conclude:
        yield f"run after each trial, {_SHELL}: {own.conclude}"
    yield from (f"set the environment variable {name}={value}" for name, value in own.environment)
    if own.directory:
        yield f"run all of these in the folder {own.directory}"
    if own.stdin:
        yield f"read standard input from {own.stdin}"
    if own.output:
        yield f"empty the file {own.output} and write standard output to it, in each trial"
    yield from (f"read the file {path}, which the program should write" for path in own.artifacts)
    yield from (f"copy into a virtual machine: {path}" for path in own.files)
    yield from (f"replace {{{name}}} by {_values(values)}" for name, values in own.parameters)


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
        if program.build:
            yield f"build for each variant, in a copy of {program.source}, {_SHELL}: {program.build}"
        if program.libraries:
            yield f"build libraries: {', '.join(program.libraries)}"
        commands = (
            ("run once for each variant", program.setup),
            ("run before each trial", program.prepare),
            ("run after each trial", program.conclude),
        )
        yield from (f"{what}, {_SHELL}: {command}" for what, command in commands if command)
        if program.command is not None:
            yield f"run: {shlex.join(program.command)}"
        shell = f", {_SHELL}" if program.shell else ""
        yield from (f"run{shell}: {command}" for command in program.commands)
        yield from (f"run: {text.partition('=')[2]}" for text in program.programs)
        if program.server:
            yield f"run as the server: {program.server}"
        if program.load_generator:
            yield f"run as the load generator: {program.load_generator}"
        yield from (f"set the environment variable {text}" for text in program.env)
        if program.input:
            yield f"read standard input from {program.input}"
        if program.output:
            yield f"empty the file {program.output} and write standard output to it, in each trial"
        yield from (f"read the file {path}, which the program should write" for path in program.artifacts)
        yield from (f"copy into a virtual machine: {path}" for path in program.files)
        values: dict[str, list[str]] = {}
        for text in program.parameters:
            name, _, value = text.partition("=")
            values.setdefault(name, []).append(value)
        yield from (
            f"replace {{{name}}} by {each[0] if len(each) == 1 else _values(each)}" for name, each in values.items()
        )
    held = (text.partition("=") for text in settings.workloads.hold)
    levels = [FactorLevels(factor=name, levels=(level,)) for name, _, level in held]
    yield from _level_lines((*(FactorLevels(factor=each.name, levels=each.levels) for each in part.factor), *levels))
