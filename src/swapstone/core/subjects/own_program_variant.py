# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program as one variant of one workload runs it: its command line chosen, its placeholders replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from swapstone.core.artifacts.placeholders import fill
from swapstone.core.model import COMMAND, OwnProgram, Variant, Workload, filled_text

SHELL = "/bin/sh"


def values_of(own: OwnProgram, workload: Workload, variant: Variant) -> dict[str, str]:
    """Return the value of each placeholder: the workload's parameters and the variant's levels of free factors."""
    names = {name for name, _ in own.parameters}
    parameters = {name: value for name, value in workload.parameters if name in names}
    free = {name[1:-1]: level for name, level in variant.levels if name.startswith("{")}
    return {**parameters, **free}


def as_run(own: OwnProgram, workload: Workload, variant: Variant) -> OwnProgram:
    """Return an own program with one command line and without placeholders but in `OwnProgram.build`.

    Args:
        own: as the record stores it.
        workload: its parameters are used.
        variant: its levels are used.

    Returns:
        A program whose `arguments` begin with its path; `programs`, `commands` and `parameters` are empty.
    """
    values, line = values_of(own, workload, variant), own.command_of(dict(variant.levels))
    environment = {**dict(own.environment), **dict(line.environment)}
    return msgspec.structs.replace(
        own,
        arguments=_shell_words(line.words[0], values) if own.shell else _words(own, line.words, values),
        programs=(),
        commands=(),
        parameters=(),
        environment=tuple((name, filled_text(value, values)) for name, value in environment.items()),
        setup=_command(own.setup, values),
        prepare=_command(own.prepare, values),
        conclude=_command(own.conclude, values),
        stdin=filled_text(own.stdin, values),
        output=filled_text(own.output, values),
        artifacts=tuple(filled_text(name, values) for name in own.artifacts),
        files=tuple(filled_text(name, values) for name in own.files),
    )


def _words(own: OwnProgram, words: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    program, *arguments = (filled_text(word, values) for word in words)
    if program != words[0] and not own.build and not Path(program).is_absolute():  # its name was not known before
        program = (shutil.which(program) if "/" not in program else None) or os.path.normpath(
            Path(own.directory) / program
        )
    return (program, *arguments)


def _shell_words(command: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of a shell that runs a command.

    Without the last line, shells execute a last program in their place, so that the process would have another command line at its end.
    """
    return (SHELL, "-c", f"{_command(command, values)}\nexit $?")


def _command(command: str, values: Mapping[str, str]) -> str:
    return fill(command, {}, values) if values and command else command


def other_arguments(own: OwnProgram, workload: Workload, variant: Variant) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of the command lines that a variant does not run."""
    levels = dict(variant.levels)
    others = (line.name for line in own.commands if line.name != levels.get(COMMAND, line.name))
    variants = (Variant(levels=tuple({**levels, COMMAND: name}.items())) for name in others)
    return tuple(as_run(own, workload, each).arguments for each in variants)
