# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program as one variant of one workload runs it: its command line chosen, its placeholders replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core import plan
from swapstone.core.artifacts.placeholders import fill
from swapstone.core.factors import Stage, find_factor
from swapstone.core.model import (
    COMMAND,
    Copy,
    Experiment,
    OwnProgram,
    UnavailableError,
    UserError,
    Variant,
    Workload,
    filled_text,
    refuse,
)
from swapstone.core.targets import Capabilities

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


_BUILD_EXAMPLE = "--build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR"


def check_started(
    own: OwnProgram, workload: Workload, experiment: Experiment, target: Capabilities
) -> list[OwnProgram]:
    """Raise if a user's own program can't be started with these options on this target.

    Args:
        own: with its placeholders.
        workload: one of its workloads.
        experiment: its factors are used.
        target: where it runs.

    Returns:
        The program `as_run`, for each variant.

    Raises:
        UserError: the message states what is wrong, and the hint what to try.
    """
    _check_target(own, target)
    every = [as_run(own, workload, variant) for variant in plan.variants(experiment) if variant.copy is Copy.FIRST]
    for path in dict.fromkeys(each.stdin for each in every if each.stdin):
        if not os.access(path, os.R_OK) or not Path(path).is_file():
            raise UserError(f"--input {path} can't be read.", "Name a file that exists and that you may read.")
    return every


def _check_target(own: OwnProgram, target: Capabilities) -> None:
    hint = "Leave --target out: your program runs on this machine."
    refuse(
        (
            "runs_programs" not in target.offers,
            f"The target {target.name} makes up the answers of the workloads of this project; it can't simulate a program of yours.",
            hint,
        ),
        (
            target.offers.isdisjoint({"shares_files", "carries_files"}),
            f"A program of yours can't run on the target {target.name}: it may need files that are missing there.",
            hint,
        ),
    )
    if "shares_files" not in target.offers:
        _check_options(own, target)
    refuse(
        *(
            (
                given and "boots" not in target.offers,
                f"{option} is for virtual machines; on the target {target.name} the program finds this machine's files and memory.",
                f"Leave {option} out, or add --target vm.",
            )
            for given, option in ((own.files, "--files"), (own.memory_bytes, "--memory"))
        )
    )


def _check_options(own: OwnProgram, target: Capabilities) -> None:
    """Refuse options that need this machine's files or a shell.

    Raises:
        UnavailableError: one is given; the message gives the reason.
    """
    bare = "each trial has a machine of its own, which has no shell"
    same = "Each trial starts from the same files: name them with --files."
    gone, printed = "the files of a machine are gone with it", "Let the program print what is to be compared."
    programs = "the machine has no shell, and not the programs that it would start"
    for given, option, why, hint in (
        (own.setup, "--setup", bare, f"Leave --setup out. {same}"),
        (own.prepare, "--prepare", bare, f"Leave --prepare out. {same}"),
        (own.conclude, "--conclude", bare, f"Leave --conclude out. {same}"),
        (own.shell, "--shell", programs, "Name the program itself."),
        (own.output not in {"", os.devnull}, "--output FILE", gone, printed),
        (own.artifacts, "--artifact", gone, printed),
    ):
        if given:
            raise UnavailableError(f"{option} is unavailable on the target {target.name}: {why}.", hint)


def check_built(own: OwnProgram, every: Sequence[OwnProgram], experiment: Experiment) -> None:
    """Raise if a program that is not built here can't be measured.

    Args:
        own: with its placeholders.
        every: `as_run`, for each variant.
        experiment: its factors are used.

    Raises:
        UserError: the message states what is wrong, and the hint what to try.
    """
    if experiment.layouts:
        raise UserError(
            "--layouts links a program anew, and yours is not built here.", f"Let it be built: {_BUILD_EXAMPLE}"
        )
    for choice in experiment.applied_factors:
        factor = find_factor(choice.factor)
        if factor.stage in {Stage.COMPILE, Stage.LINK}:
            raise UserError(
                f"The factor {choice.factor} acts when a program is built, and yours is not built here.",
                f"Let it be built: {_BUILD_EXAMPLE}. "
                + getattr(
                    factor, "of_built", "Factors whose stage is launch (swapstone list factors) work on built programs."
                ),
            )
    for path in dict.fromkeys(each.arguments[0] for each in every):
        _check_program(path)
    if not Path(own.directory).is_dir():
        raise UserError(f"The folder {own.directory}, in which the program runs, is not there any more.")


def _check_program(path: str) -> None:
    file = Path(path)
    hint = "Name it by its path, or build it: --build COMMAND --source DIR"
    if any(character.isspace() for character in file.name):
        hint = "--program takes a path, and -- its arguments. To compare command lines: swapstone compare 'COMMAND' 'COMMAND'"
    refuse(
        (not file.exists(), f"There is no program {path}.", hint),
        (not file.is_file(), f"{path} is no file that can be executed.", "Name the program itself."),
        (not os.access(file, os.X_OK), f"{path} can't be executed.", f"If it is a program: chmod +x {path}"),
    )
