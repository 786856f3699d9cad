"""Options for a program of the user's own, and from what was typed to the program as it is kept in the record."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from swapstone.artifacts import Amount, count_sources
from swapstone.cli.options import Chain
from swapstone.cli.serving import SERVER_EXAMPLE, load_generators, server_words
from swapstone.cli.tables import plain
from swapstone.model import (
    Cpus,
    Experiment,
    FactorLevels,
    FrozenStruct,
    LoadGenerator,
    OwnProgram,
    PrintedNumber,
    UserError,
)
from swapstone.session.values import parse_duration_ns
from swapstone.workloads import METRIC_EXAMPLE, parse_metric, undirected

HUGE_BYTES = 1 << 30
HUGE_FILES = 50_000
"""Sources from so much on are told of before they are copied: a Linux kernel is about this large."""

BUILD_EXAMPLE = "--build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --source DIR -- ./prog ARG"

building_options = Chain(
    click.option(
        "--build",
        metavar="COMMAND",
        help="Shell command that builds it in a copy of the sources; knows {cc}, {cflags}, {ldflags}, {jobs}.",
    ),
    click.option("--source", metavar="DIR", help="Folder that is copied for each variant and built there."),
    click.option("--build-timeout", metavar="TIME", help="Stop a build after this long.  [1h]"),
    click.option("--rebuild", is_flag=True, help="Build anew what was built before from the same sources."),
    click.option(
        "--program",
        "programs",
        multiple=True,
        metavar="NAME=PATH",
        help="A program as it is, the baseline first; repeat for each. ARGs after -- are for all.",
    ),
)

running_options = Chain(
    click.option("--input", "stdin", metavar="FILE", help="Its standard input.  [/dev/null]"),
    click.option(
        "--output", metavar="FILE", help="Send its standard output to a file, or to null, and don't look at it."
    ),
    click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Add to its environment; repeatable."),
    click.option("--setup", metavar="COMMAND", help="Run once for each variant before its first trial."),
    click.option("--prepare", metavar="COMMAND", help="Run before each trial; not measured."),
    click.option("--conclude", metavar="COMMAND", help="Run after each trial; not measured."),
    click.option("--timeout", metavar="TIME", help="Stop a trial after this long.  [10m]"),
    click.option("--pin", is_flag=True, help="Pin it to one processor.  [all processors]"),
    click.option("--ignore-failure", is_flag=True, help="Let runs count that end with another exit status than 0."),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME[UNIT,DIRECTION]=regex:PATTERN",
        help="A number that it prints; repeatable. DIRECTION is higher, lower or neither.",
    ),
    click.option("--cpu-bound", is_flag=True, help="It only computes: CPU time decides, not elapsed time."),
)


class Typed(FrozenStruct, frozen=True, kw_only=True):
    """What a user typed of a program of their own; texts as `--help` describes them.

    Attributes:
        command: what stood after ``--``; None where there was no ``--``.
    """

    command: tuple[str, ...] | None = None
    build: str | None = None
    source: str | None = None
    build_timeout: str | None = None
    rebuild: bool = False
    programs: tuple[str, ...] = ()
    stdin: str | None = None
    output: str | None = None
    variables: tuple[str, ...] = ()
    setup: str | None = None
    prepare: str | None = None
    conclude: str | None = None
    timeout: str | None = None
    pin: bool = False
    ignore_failure: bool = False
    metrics: tuple[str, ...] = ()
    cpu_bound: bool = False
    server: str | None = None
    drive: str | None = None
    connections: str | None = None
    reader: str | None = None
    warm_up: str | None = None
    ready_timeout: str | None = None


_OPTION_NAMES = {"stdin": "input", "variables": "env", "programs": "program", "metrics": "metric", "reader": "read"}


def own_program(typed: Typed) -> OwnProgram | None:
    """Turn what a user typed into the program as the record keeps it: every path absolute.

    Returns:
        The program; None where Swapstone's own workloads are asked for.

    Raises:
        UserError: something is missing, contradicts something else, or has the wrong form.
    """
    if typed.server is not None:
        typed = _as_server(typed)
    if typed.command is None and not typed.programs:
        _refuse_without_program(typed)
        return None
    programs = _programs(typed)
    arguments = _arguments(typed, named=bool(programs))
    wrong = next((text for text in _texts(typed) if not _is_text(text)), None)
    if wrong is not None:
        raise UserError(
            f"{plain(repr(wrong))} is not UTF-8, so that it can't be kept in a record.",
            "Wrap the program in a script, or rename the file.",
        )
    first = programs[0][1] if programs else arguments[0]
    return OwnProgram(
        name=Path(first).name or first,
        arguments=arguments,
        source=_absolute(typed.source) if typed.source else "",
        build=typed.build or "",
        programs=programs,
        directory="" if typed.build else str(Path.cwd()),
        environment=_environment(typed.variables),
        setup=typed.setup or "",
        prepare=typed.prepare or "",
        conclude=typed.conclude or "",
        stdin=_input(typed.stdin),
        output=_output(typed.output),
        ignore_failure=typed.ignore_failure,
        numbers=_numbers(typed),
        cpus=Cpus.ONE if typed.pin else Cpus.ALL,
        waits=not typed.cpu_bound,
        timeout_ms=_milliseconds(typed.timeout or "10m"),
        build_timeout_ms=_milliseconds(typed.build_timeout or "1h"),
        load_generators=_load_generators(typed, arguments),
    )


def _as_server(typed: Typed) -> Typed:
    """Put the command of --server in the place of what follows ``--``.

    Raises:
        UserError: there is another program, or an option that can't be for a server.
    """
    if typed.command is not None or typed.programs:
        raise UserError(
            "--server names the program; so there is none after --, and no --program.", f"For example: {SERVER_EXAMPLE}"
        )
    for given, option in (
        (typed.output, "--output"),
        (typed.cpu_bound, "--cpu-bound"),
        (typed.ignore_failure, "--ignore-failure"),
    ):
        if given:
            raise UserError(f"{option} is not for a server.", f"Leave {option} out.")
    return msgspec.structs.replace(typed, command=server_words(typed.server or ""))


def _load_generators(typed: Typed, arguments: tuple[str, ...]) -> tuple[LoadGenerator, ...]:
    if typed.server is not None:
        return load_generators(
            arguments,
            typed.variables,
            drive=typed.drive,
            connections=typed.connections,
            reader=typed.reader,
            warm_up=typed.warm_up,
            ready_timeout=typed.ready_timeout,
        )
    for name in ("drive", "connections", "reader", "warm_up", "ready_timeout"):
        if getattr(typed, name) is not None:
            option = _OPTION_NAMES.get(name, name).replace("_", "-")
            raise UserError(f"--{option} is for a server, and there is none.", f"For example: {SERVER_EXAMPLE}")
    return ()


def program_factor(own: OwnProgram) -> tuple[FactorLevels, ...]:
    """Return the factor ``program`` where several programs are compared as they are; else nothing."""
    levels = tuple(level for level, _ in own.programs)
    return (FactorLevels(factor="program", levels=levels),) if levels else ()


def command_line(experiment: Experiment) -> str:
    """Return the user's own program as it was typed, e.g. ``-- ./prog -n 5``; empty where there is none."""
    own = experiment.own
    if own is None:
        return ""
    if own.load_generators:
        return f"--server {shlex.quote(shlex.join(own.arguments))}"
    programs = " ".join(f"--program {shlex.quote(f'{level}={path}')}" for level, path in own.programs)
    rest = f"-- {shlex.join(own.arguments)}" if own.arguments else ""
    return " ".join(filter(None, (programs, rest)))


def notes_of(experiment: Experiment) -> tuple[str, ...]:
    """Return what a reader of the report should know of a program of the user's own."""
    own = experiment.own
    if own is None:
        return ()
    notes = [f"What is measured: {command_line(experiment)}" + (f", built by {own.build!r}" if own.build else "") + "."]
    names = ", ".join(undirected(own))
    if names:
        notes.append(f"No direction was given for {names}: it can only be said to have changed. E.g. {METRIC_EXAMPLE}.")
    if experiment.null:
        notes.append("The null has one copy, the program again: how it is linked is its build's affair.")
    return tuple(notes)


def tell_of_huge_sources(own: OwnProgram) -> None:
    """Say on standard error how much is going to be copied, where that is much."""
    if not own.source or not Path(own.source).is_dir():
        return
    amount: Amount = count_sources(Path(own.source))
    if amount.size_bytes >= HUGE_BYTES or amount.files >= HUGE_FILES:
        click.echo(
            f"The sources are large: {amount.files} files, {amount.size_bytes / 2**20:.0f} MiB. "
            "They are copied twice for each variant; name a smaller folder with --source if it holds what isn't needed.",
            err=True,
        )


def _refuse_without_program(typed: Typed) -> None:
    given = [name for name, value in msgspec.structs.asdict(typed).items() if value not in {None, False, ()}]
    if given:
        option = _OPTION_NAMES.get(given[0], given[0]).replace("_", "-")
        raise UserError(
            f"--{option} is for a program of your own, and there is none.",
            f"Name it after --, for example: {BUILD_EXAMPLE}",
        )


def _programs(typed: Typed) -> tuple[tuple[str, str], ...]:
    """Read the --program options.

    Raises:
        UserError: one has another form, there is only one, or one is there twice.
    """
    pairs = []
    for text in typed.programs:
        name, equals, path = text.partition("=")
        if not equals or not path or not re.fullmatch(r"[A-Za-z0-9_.+-]+", name, re.ASCII):
            raise UserError(
                f"--program {text!r} is not NAME=PATH.",
                "A name has letters, digits and _ . + -: --program baseline=./old",
            )
        pairs.append((name, _found(path)))
    if not pairs:
        return ()
    if typed.build or typed.source:
        raise UserError(
            "--program takes programs as they are; --build and --source make one.", "Give one or the other."
        )
    if len(pairs) == 1:
        raise UserError(
            "One --program alone has nothing to be compared with.",
            "Name another: --program baseline=./old --program candidate=./new. To vary a factor: swapstone compare FACTOR=... -- ./prog",
        )
    for what, values in (("name", [name for name, _ in pairs]), ("program", [path for _, path in pairs])):
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise UserError(
                f"Two --program options have the same {what} {twice}.",
                "To see how often a program seems to differ from itself, add --null instead.",
            )
    return tuple(pairs)


def _arguments(typed: Typed, *, named: bool) -> tuple[str, ...]:
    """Return the program and its arguments; of programs that are named by options, the arguments alone.

    Raises:
        UserError: there is no program, or --build and --source don't come together.
    """
    command = typed.command or ()
    if named:
        return command
    if not command or not command[0]:
        raise UserError("There is no program after --.", f"For example: {BUILD_EXAMPLE}")
    if typed.build and not typed.source:
        raise UserError(
            "--build needs --source: the folder in whose copies it builds.", f"For example: {BUILD_EXAMPLE}"
        )
    if typed.source and not typed.build:
        raise UserError("--source needs --build: the command that builds it.", f"For example: {BUILD_EXAMPLE}")
    if typed.build is not None and not typed.build.strip():
        raise UserError("--build is empty.", f"For example: {BUILD_EXAMPLE}")
    return command if typed.build else (_found(command[0]), *command[1:])


def _found(program: str) -> str:
    """Return a program's absolute path: as a shell would find it. One that isn't there is named by its path all the same."""
    if "/" not in program:
        return shutil.which(program) or _absolute(program)
    return _absolute(program)


def _absolute(path: str) -> str:
    """Return a path from the current folder on, without following links: a link's name may decide what a program does."""
    return os.path.normpath(Path.cwd() / path)


def _environment(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
            raise UserError(f"--env {text!r} is not NAME=VALUE.", "For example: --env HOME=/tmp")
        pairs.append((name, value))
    return tuple(pairs)


def _input(text: str | None) -> str:
    if text is None:
        return ""
    path = _absolute(text)
    if not Path(path).is_file():
        what = "no file" if Path(path).exists() else "not there"
        raise UserError(f"--input {text} is {what}.", "Name a file; a pipe could be read only once.")
    return path


def _output(text: str | None) -> str:
    if text is None:
        return ""
    path = "/dev/null" if text == "null" else _absolute(text)
    if Path(path).is_dir() or not Path(path).parent.is_dir():
        raise UserError(f"--output {text} can't be written.", "Name a file in a folder that is there, or null.")
    return path


def _numbers(typed: Typed) -> tuple[PrintedNumber, ...]:
    numbers = tuple(map(parse_metric, typed.metrics))
    names = [number.metric.name for number in numbers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"Two --metric options have the name {twice}.", "Give each its own name.")
    return numbers


def _milliseconds(text: str) -> int:
    return max(1, parse_duration_ns(text) // 1_000_000)


def _texts(typed: Typed) -> list[str]:
    """Return all that goes into the record as text: what was typed, and the folder where."""
    texts = [str(Path.cwd())]
    for value in msgspec.structs.asdict(typed).values():
        texts += [value] if isinstance(value, str) else value if isinstance(value, tuple) else []
    return texts


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
