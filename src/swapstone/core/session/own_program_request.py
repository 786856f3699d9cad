# SPDX-License-Identifier: MIT OR Apache-2.0
"""Own programs: from the settings `Program` to the `OwnProgram` that a record stores."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

import attrs

from swapstone.core.model import (
    COMMAND,
    CommandLine,
    Cpus,
    Experiment,
    FactorLevels,
    OwnProgram,
    PrintedNumber,
    UserError,
    check_distinct,
    placeholders_in,
    refuse,
)
from swapstone.core.model.substitution import NAME
from swapstone.core.run.builder import builder
from swapstone.core.session.command_lines import command_lines, executable
from swapstone.core.session.command_text import PROGRAM, command_line
from swapstone.core.session.option_table import flag_of, given_of
from swapstone.core.session.option_values import duration_ms, pairs_of
from swapstone.core.session.options import Program
from swapstone.core.session.parameters import parse_parameters
from swapstone.core.session.server_program import SERVER_EXAMPLE, load_generators, split_command
from swapstone.core.workloads import METRIC_EXAMPLE, parse_metric, undirected

BUILD_EXAMPLE = "--build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR -- ./prog ARG"

WITH_EXAMPLE = "--with zlib,openssl --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR -- ./prog ARG"
COMMANDS_EXAMPLE = "swapstone compare './old --fast' './new --fast'"
SHELL = "/bin/sh"


_NOT_ARTIFACTS = ("stdout", "stderr", "exit_status")
_NOT_ARTIFACT_STARTS = ("shape:", "sections:", "columns:")
"""What names other digests of a run (`swapstone.core.model.Run.digests`)."""

_LEAST_MEMORY_BYTES = 128 << 20
"""The kernels of the image catalog start in less; the files of a program need some of it."""

_MOST_MEMORY_BYTES = 64 << 30

_PROGRAM_FACTOR = "program"

_WORD = re.compile(r"[^-_.]+|[-_.]+(?:\d[^-_]*)?")
"""A word of a file name, or what separates two; a version such as ``-1.22`` is one."""


def own_program(request: Program, directory: str = "", *, rooted: bool = False) -> OwnProgram | None:
    """Resolve the options of an own program. Every path in the result is absolute.

    Args:
        request: the options.
        directory: where relative paths start; empty for the current folder.
        rooted: whether it runs in root file systems: its program is then looked up there, and stays as typed.

    Returns:
        The program; None if the options name none.

    Raises:
        UserError: an option is missing, contradicts another one, or has the wrong form.
    """
    if request.server is not None:
        request = _server_command(request)
    if request.command is None and not request.programs and not request.commands:
        _check_no_options(request)
        return None
    folder = Path(directory) if directory else Path.cwd()
    programs = _programs(request, folder)
    commands = _commands(request, folder, rooted=rooted)
    arguments = () if commands else _arguments(request, folder, named=bool(programs), rooted=rooted)
    hint = "Wrap the program in a script, or rename the file."
    refuse(
        *(
            (text.encode(errors="ignore").decode() != text, f"{text!a} is not UTF-8: a record can't store it.", hint)
            for text in _texts(request, folder)
        )
    )
    return OwnProgram(
        name=_workload_name(commands, request.names, programs, arguments),
        arguments=arguments,
        source=_absolute(request.source, folder) if request.source else "",
        build=request.build or "",
        programs=programs,
        commands=commands,
        shell=request.shell,
        parameters=parse_parameters(request.parameters),
        directory="" if request.build else str(folder),
        environment=tuple(
            pairs_of(
                request.env,
                rf"({NAME})=(.*)",
                lambda text: UserError(f"--env {text!r} is not NAME=VALUE.", "For example: --env HOME=/tmp"),
            )
        ),
        setup=request.setup or "",
        prepare=request.prepare or "",
        conclude=request.conclude or "",
        stdin=_input(request.input, folder),
        output=_output(request.output, folder),
        artifacts=_artifacts(request),
        files=_files(request),
        memory_bytes=_memory_bytes(request),
        output_may_differ=request.output_may_differ,
        ignore_failure=request.ignore_failure,
        numbers=_numbers(request),
        cpus=Cpus.ONE if request.pin else Cpus.ALL,
        waits=not request.cpu_bound,
        timeout_ms=duration_ms(request.timeout or "10m"),
        build_timeout_ms=duration_ms(request.build_timeout or "1h"),
        libraries=_libraries(request),
        load_generators=load_generators(request, arguments, folder),
    )


def _workload_name(
    commands: Sequence[CommandLine],
    given: Sequence[str],
    programs: Sequence[tuple[str, str]],
    arguments: Sequence[str],
) -> str:
    """Return the name of the workload: what the file names of all programs have in common, else ``command`` or ``program``.

    It stands beside the results of all variants, so that of the first program alone would be wrong for the others. In common are whole
    words from the start: ``nginx`` of ``nginx-1.22`` and ``nginx-1.24``.

    Args:
        commands: command lines that are compared.
        given: names of the command lines.
        programs: name and path of the programs that --program names.
        arguments: of --program; otherwise the program and its arguments.
    """
    if len(commands) == 1 and given:
        return given[0]
    paths = [line.words[0].split()[0] for line in commands] or [path for _, path in programs] or list(arguments[:1])
    names = [Path(path).name or path for path in paths]
    if len(set(names)) == 1:
        return names[0]
    words = zip(*(_WORD.findall(name) for name in names), strict=False)
    common = "".join(each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, words))
    return common.rstrip("-_.") or (COMMAND if commands else _PROGRAM_FACTOR)


def _commands(request: Program, folder: Path, *, rooted: bool) -> tuple[CommandLine, ...]:
    """Return the command lines that are compared.

    Raises:
        UserError: there is also another program, or an option belongs to command lines and there are none.
    """
    example = f"For example: {COMMANDS_EXAMPLE}"
    if not request.commands:
        refuse(
            (request.names, "--name is for command lines, and there are none.", example),
            (request.shell, "--shell is for command lines, and there are none.", example),
        )
        return ()
    named = "The command lines name the programs: {} can't be given too."
    instead = f"Write the arguments into the command lines, for example: {COMMANDS_EXAMPLE}"
    built, sources = bool(request.build), bool(request.source)
    refuse(
        (request.server, named.format("--server"), instead),
        (request.programs, named.format("--program"), instead),
        (request.command is not None, named.format("the program after --"), instead),
        (built != sources, "--build and --source belong together.", f"For example: {BUILD_EXAMPLE}"),
        (
            built and request.shell,
            "--shell runs commands that are there already; --build builds a program.",
            "Leave one of them out.",
        ),
    )
    built = bool(request.build) or rooted
    return command_lines(request.commands, request.names, folder, shell=request.shell, built=built)


def _server_command(request: Program) -> Program:
    """Use the command of --server as the program; of programs that --program names, its arguments.

    Raises:
        UserError: there is another program, or an option that a server does not have.
    """
    if request.command is not None:
        raise UserError("--server names the program: leave out the program after --.", f"For example: {SERVER_EXAMPLE}")
    words = split_command("--server", request.server or "")
    refuse(
        (
            request.programs and words[0] != PROGRAM,
            "With --program, the command of --server starts with {program}, which stands for each of the programs.",
            "For example: --server '{program} --port {port}' --program old=./old --program new=./new",
        ),
        *(
            (getattr(request, name), f"{option} is not for a server.", f"Leave {option} out.")
            for name in ("output", "artifacts", "output_may_differ", "cpu_bound", "ignore_failure")
            for option in (flag_of(Program, name),)
        ),
    )
    return attrs.evolve(request, command=words[1:] if request.programs else words)


def program_factor(own: OwnProgram) -> tuple[FactorLevels, ...]:
    """Return the factor ``command`` or ``program`` if several command lines or programs are compared, else an empty tuple."""
    if len(own.commands) > 1:
        return (FactorLevels(factor=COMMAND, levels=tuple(line.name for line in own.commands)),)
    levels = tuple(level for level, _ in own.programs)
    return (FactorLevels(factor=_PROGRAM_FACTOR, levels=levels),) if levels else ()


def report_notes(experiment: Experiment) -> tuple[str, ...]:
    """Return the notes on an own program that a report prints."""
    own = experiment.own
    if own is None:
        return ()
    built = f", built by {own.build!r}" if own.build else ""
    libraries = f", with {', '.join(own.libraries)} built for each variant" if own.libraries else ""
    notes = [f"What is measured: {command_line(experiment)}{built}{libraries}."]
    if own.shell:
        notes.append(f"{SHELL} -c runs each command: its start is measured too, and it is what is observed.")
    names = ", ".join(undirected(own))
    if names:
        notes.append(f'{names} has no direction: its verdict can only be "changed". For example: {METRIC_EXAMPLE}.')
    if experiment.null:
        notes.append(
            "The null has one copy: the program again, from a copy of its file unless that is a script. Its build decides how it is linked."
        )
    return tuple(notes)


def _check_no_options(request: Program) -> None:
    """Raise a `UserError` for an option of an own program where there is no program."""
    given = [name for name in given_of(request) if name != "vary"]
    if given:
        raise UserError(
            f"{flag_of(Program, given[0])} needs an own program, and there is none.",
            f"Name it after --, for example: {BUILD_EXAMPLE}\nor write command lines: {COMMANDS_EXAMPLE}",
        )


def _programs(request: Program, folder: Path) -> tuple[tuple[str, str], ...]:
    """Parse the --program options.

    Raises:
        UserError: one has another form, there is only one, or two are the same.
    """
    typed = pairs_of(
        request.programs,
        r"([A-Za-z0-9_.+-]+)=(.+)",
        lambda text: UserError(
            f"--program {text!r} is not NAME=PATH.",
            "A name has letters, digits and _ . + -: --program baseline=./old",
        ),
    )
    pairs = [(name, executable(path, folder)) for name, path in typed]
    if not pairs:
        return ()
    refuse(
        (
            request.build or request.source,
            "--program takes programs that are built already; --build and --source build one.",
            "Give one or the other.",
        ),
        (
            len(pairs) == 1,
            "One --program alone has nothing to be compared with.",
            "Name another: --program baseline=./old --program candidate=./new. To vary a factor: swapstone compare FACTOR=... -- ./prog",
        ),
    )
    for what, values in (("name", [name for name, _ in pairs]), ("program", [path for _, path in pairs])):
        hint = "To see how often a program seems to differ from itself, add --null instead."
        check_distinct(values, f"Two --program options have the same {what} {{}}.", hint)
    return tuple(pairs)


def _arguments(request: Program, folder: Path, *, named: bool, rooted: bool) -> tuple[str, ...]:
    """Return the program and its arguments; for programs that --program names, the arguments alone.

    Raises:
        UserError: there is no program, or only one of --build and --source is given.
    """
    command = request.command or ()
    if named:
        return command
    built, sources, example = bool(request.build), bool(request.source), f"For example: {BUILD_EXAMPLE}"
    refuse(
        (not command or not command[0], "There is no program after --.", example),
        (built and not sources, "--build needs --source: the folder that it builds a copy of.", example),
        (sources and not built, "--source needs --build: the command that builds it.", example),
        (request.build is not None and not request.build.strip(), "--build is empty.", example),
    )
    return command if request.build or rooted else (executable(command[0], folder), *command[1:])


def _absolute(path: str, folder: Path) -> str:
    """Return an absolute path without following links: some programs act by the name of the link."""
    return os.path.normpath(folder / path)


def _libraries(request: Program) -> tuple[str, ...]:
    if not request.libraries:
        return ()
    if not request.build:
        raise UserError("--with builds libraries for a program that --build builds.", f"For example: {WITH_EXAMPLE}")
    return builder().parse_libraries(",".join(request.libraries))


def _input(text: str | None, folder: Path) -> str:
    if text is None:
        return ""
    path = _absolute(text, folder)
    if not placeholders_in(text) and not Path(path).is_file():
        what = "no file" if Path(path).exists() else "not there"
        raise UserError(f"--input {text} is {what}.", "Name a file; a pipe could be read only once.")
    return path


def _output(text: str | None, folder: Path) -> str:
    if text is None:
        return ""
    path = "/dev/null" if text == "null" else _absolute(text, folder)
    if not placeholders_in(text) and (Path(path).is_dir() or not Path(path).parent.is_dir()):
        raise UserError(f"--output {text} can't be written.", "Name a file in a folder that exists, or null.")
    return path


def _artifacts(request: Program) -> tuple[str, ...]:
    """Return the files that a run writes, as typed: with --build they are in the variant's copy of the sources.

    Raises:
        UserError: one is empty, is named twice, or has the name of an output.
    """
    for text in request.artifacts:
        refuse(
            (
                not text or text.endswith("/") or "\0" in text,
                f"--artifact {text!r} is no file.",
                "Name a file that each run writes: --artifact out.txt",
            ),
            (
                text in _NOT_ARTIFACTS or text.startswith(_NOT_ARTIFACT_STARTS),
                f"--artifact {text} is the name of an output.",
                f"Write it as a path: --artifact ./{text}",
            ),
            (request.artifacts.count(text) > 1, f"Two --artifact options name {text}.", "Leave one out."),
        )
    return request.artifacts


def _files(request: Program) -> tuple[str, ...]:
    """Return the files that a machine gets, as typed: with --build they are in the variant's copy of the sources."""
    for text in request.files:
        if not text or "\0" in text:
            raise UserError(f"--files {text!r} is no path.", "Name a file or a folder: --files data.txt")
    return tuple(dict.fromkeys(request.files))


def _memory_bytes(request: Program) -> int:
    """Return the memory of the machine in bytes; 0 if it is not given.

    Raises:
        UserError: it has another form, or is out of range.
    """
    if request.memory is None:
        return 0
    found = re.fullmatch(r"([1-9][0-9]{0,5})([MG])", request.memory, re.ASCII)
    size = int(found[1]) << (20 if found[2] == "M" else 30) if found else 0
    if not _LEAST_MEMORY_BYTES <= size <= _MOST_MEMORY_BYTES:
        raise UserError(
            f"--memory {request.memory!r} is no size from {_LEAST_MEMORY_BYTES >> 20}M to {_MOST_MEMORY_BYTES >> 30}G.",
            "For example: --memory 512M",
        )
    return size


def _numbers(request: Program) -> tuple[PrintedNumber, ...]:
    numbers = tuple(map(parse_metric, request.metrics))
    names = (number.metric.name for number in numbers)
    check_distinct(names, "Two --metric options have the name {}.", "Give each its own name.")
    return numbers


def _texts(request: Program, folder: Path) -> list[str]:
    """Return every text that the record stores."""
    texts = [str(folder)]
    for value in given_of(request).values():
        texts += [value] if isinstance(value, str) else value if isinstance(value, tuple) else []
    return texts
