# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mistakes in a user's own program that show before anything is built."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from swapstone.core.factors import Stage, find_factor
from swapstone.core.model import (
    Experiment,
    OwnProgram,
    UnavailableError,
    UserError,
    Variant,
    Workload,
    refuse,
)
from swapstone.core.subjects.own_program_variant import as_run
from swapstone.core.targets import Capabilities

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
    every = [as_run(own, workload, variant) for variant in _variants(experiment)]
    for path in dict.fromkeys(each.stdin for each in every if each.stdin):
        if not os.access(path, os.R_OK) or not Path(path).is_file():
            raise UserError(f"--input {path} can't be read.", "Name a file that exists and that you may read.")
    return every


def _variants(experiment: Experiment) -> Iterator[Variant]:
    names = [choice.factor for choice in experiment.factors]
    for levels in itertools.product(*(choice.levels for choice in experiment.factors)):
        yield Variant(levels=tuple(zip(names, levels, strict=True)))


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
        if find_factor(choice.factor).stage in {Stage.COMPILE, Stage.LINK}:
            raise UserError(
                f"The factor {choice.factor} acts when a program is built, and yours is not built here.",
                f"Let it be built: {_BUILD_EXAMPLE}. "
                "Factors whose stage is launch (swapstone list factors) work on built programs.",
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
