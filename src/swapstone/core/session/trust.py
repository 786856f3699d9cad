# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the commands in a record may run: in a record that this user made here, or by the user's word.

A record is data, and an experiment in it is a program: to resume, repeat or explain it runs the commands that it contains. See
docs/security.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from swapstone.core.model import COMMAND, CommandLine, Experiment, FactorLevels, LoadGenerator, RecordError, grouped
from swapstone.core.model.safe_text import safe
from swapstone.core.record import RecordView, foreign_reason, load
from swapstone.core.session.option_table import given_of
from swapstone.core.session.study_file import StudyPart
from swapstone.core.targets import target_kinds

_SHELL = "by /bin/sh -c"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
"""A level that no option follows and that is no path: one of Swapstone's own, or of an installed program."""

_OF_THE_USER = {COMMAND, "program"}
"""Factors whose levels are names of command lines, which are listed themselves."""


_NOT_RUN = {
    "name",
    "names",
    "numbers",
    "metrics",
    "cpus",
    "pin",
    "waits",
    "cpu_bound",
    "timeout_ms",
    "timeout",
    "build_timeout_ms",
} | {
    *(
        "build_timeout",
        "ignore_failure",
        "output_may_differ",
        "memory_bytes",
        "memory",
        "rebuild",
        "connections",
        "read",
    ),
    *("warm_up", "ready_timeout"),
}
"""Fields of an own program, and options, that name nothing that is run, read or written."""

_WORDS = {
    "source": "copy for each variant the folder",
    "build": f"build for each variant, {_SHELL}",
    "libraries": "build the library",
    "setup": f"run once for each variant, {_SHELL}",
    "prepare": f"run before each trial, {_SHELL}",
    "conclude": f"run after each trial, {_SHELL}",
    "arguments": "run",
    "command": "run",
    "commands": "run",
    "programs": "run",
    "shell": f"run commands {_SHELL}",
    "load_generator": "run as the load generator",
    "load_generators": "run as the load generator",
    "directory": "run all of these in the folder",
    "environment": "set the environment variable",
    "inherited": "set the environment variable",
    "env": "set the environment variable",
    "stdin": "read standard input from",
    "input": "read standard input from",
    "output": "empty, and write standard output in each trial to",
    "artifacts": "read what the program should have written to",
    "files": "copy into a virtual machine",
    "parameters": "replace the placeholder",
    "against": "compare with the record",
}


def planned_commands(experiment: Experiment) -> tuple[str, ...]:
    """Return a line for each command, file and value of an experiment that a record contains."""
    own = experiment.own
    lines = [*_target_lines(experiment.target, experiment.modules, experiment.module_files)]
    if own is None:
        suites = grouped(experiment.workloads, lambda each: each[0])
        names = {suite: ", ".join(name for _, name in found) for suite, found in suites.items()}
        lines += (f"run Swapstone's own workloads of {suite}: {found}" for suite, found in names.items())
    else:
        lines += _program_lines({name: getattr(own, name) for name in own.__struct_fields__})
    lines += _level_lines(experiment.applied_factors)
    return tuple(map(safe, lines))


def _program_lines(program: Mapping[str, object]) -> Iterator[str]:
    """Yield the lines of an own program, from its fields or its options by name."""
    for name, value in program.items():
        if value and name not in _NOT_RUN:
            words = name in {"arguments", "command"} and cast("tuple[str, ...]", value)
            each = cast("tuple[object, ...]", value if isinstance(value, tuple) else (value,))
            texts = [shlex.join(words)] if words else map(_text, each)
            yield from (f"{_WORDS.get(name, name)}: {text}" for text in texts)


def _text(value: object) -> str:
    """Return a value in one line: words as a shell takes them, pairs as ``NAME=VALUE``."""
    match value:
        case str():
            return value
        case CommandLine(words=words, environment=environment):
            return shlex.join((*("=".join(pair) for pair in environment), *words))
        case LoadGenerator(command=words):
            return shlex.join(words)
        case (str() as name, tuple() as values):
            return f"{name}={_values(values)}"
        case (name, value):
            return f"{name}={value}"
    return str(value)


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
    machine = settings.machine
    kernels = (text.partition("=") for text in machine.modules)
    yield from _target_lines(target, ((kernel, folder) for kernel, _, folder in kernels), machine.module_files)
    if part.own is None:
        yield f"run Swapstone's own workloads of {', '.join(settings.workloads.suites) or 'the suites that suit its factors'}"
    else:
        yield from _program_lines(given_of(settings.program))
    held = (text.partition("=") for text in settings.workloads.hold)
    levels = [FactorLevels(factor=name, levels=(level,)) for name, _, level in held]
    yield from _level_lines((*(FactorLevels(factor=each.name, levels=each.levels) for each in part.factor), *levels))


_TRUNCATED = "the line is truncated"
"""The problem of a last line that a signal cut: no sign of an edit (`swapstone.core.record.run_lines.read_lines`)."""


class UntrustedRecordError(RecordError):
    """A record contains commands, and another user, another machine or an edit may have put them there.

    Attributes:
        commands: what would run, one line each, as the message has it.
    """

    def __init__(self, path: Path, reason: str, action: str, commands: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in commands)
        super().__init__(
            f"{safe(str(path))} is not trusted: {safe(reason)}. Nothing was run. To {action} it would:{lines}",
            "Read these lines. If all of it may happen on this machine, as you, add --trust (in Python: trust=True). "
            "`swapstone docs security` explains it.",
        )
        self.commands = tuple(commands)


def distrust_reason(view: RecordView) -> str:
    """Return why a record's commands are not run without the user's word, as a clause; empty if they are.

    A last line that a signal cut is no damage here.
    """
    reason = foreign_reason(view.path, view.experiment, view.manifest)
    damages = [damage for damage in view.damages if damage.problem != _TRUNCATED]
    if not reason and damages:
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        reason = f"it is damaged or was edited ({damages[0]}{more})"
    return reason


def refuse_untrusted(
    path: Path, action: str, reason: Callable[[], str], commands: Callable[[], Sequence[str]], *, trust: bool
) -> None:
    """Check that the commands of a record or of a study's folder may run.

    Args:
        path: its folder.
        action: for the message: a verb, such as ``repeat``.
        reason: returns why they are not run without the user's word, as a clause; empty if they are.
        commands: returns a line for each command that would run.
        trust: whether the user accepts the commands.

    Raises:
        UntrustedRecordError: there is a reason, and the user does not accept them.
    """
    if not trust and (found := reason()):
        raise UntrustedRecordError(path, found, action, commands())


def require_trust(view: RecordView, action: str, *, trust: bool, more: Iterable[str] = ()) -> None:
    """Check that the commands of a record may run.

    Args:
        view: the record.
        action: for the message: a verb, such as ``repeat``.
        trust: whether the user accepts the commands of this record.
        more: further lines of what would run.

    Raises:
        UntrustedRecordError: the user did not make it on this machine, or it was damaged or edited.
    """
    refuse_untrusted(
        view.path,
        action,
        lambda: distrust_reason(view),
        lambda: (*planned_commands(view.experiment), *more),
        trust=trust,
    )


def require_own_record(path: Path, action: str, *, trust: bool) -> None:
    """Check, before anything is written into a record, that its commands may run. Its runs are not read.

    Raises:
        UntrustedRecordError: the user did not make it on this machine, or the experiment was edited.
        RecordError: it is no record.
    """
    refuse_untrusted(
        path, action, lambda: foreign_reason(path), lambda: planned_commands(load(path).experiment), trust=trust
    )
