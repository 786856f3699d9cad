"""Options for a server of the user's own, and how it is driven."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from pathlib import Path

import click

from swapstone.cli.options import Chain
from swapstone.model import Experiment, LoadGenerator, UserError
from swapstone.model.load_generator import CONNECTIONS, PORT
from swapstone.session.values import parse_duration_ns
from swapstone.workloads import workloads_of
from swapstone.workloads.load_generators import LOAD_GENERATORS, PACE, PATTERN_EXAMPLE, check_reader, is_closed
from swapstone.workloads.server_metrics import closed_loop_note

MOST_CONNECTIONS = 10_000
SERVER_EXAMPLE = (
    "--server './my-server --port {port}' "
    "--drive 'wrk -c {connections} -t 1 -d 10s --latency http://127.0.0.1:{port}/' --connections 1,10"
)

serving_options = Chain(
    click.option(
        "--server",
        metavar="COMMAND",
        help="A server of your own instead of what follows --; {port} stands for a port that is free.",
    ),
    click.option(
        "--drive",
        metavar="COMMAND",
        help="What drives it: wrk, ab, redis-benchmark, swapstone-pace or your own; knows {port} and {connections}.",
    ),
    click.option(
        "--connections", metavar="N[,N...]", help="How many connections; each number is a workload of its own."
    ),
    click.option(
        "--read",
        "reader",
        metavar="NAME|regex:PATTERN",
        help="How to read what the driver prints: as that of a driver, or by a pattern with named groups.  [by --drive]",
    ),
    click.option("--warm-up", metavar="TIME", help="Drive it for so long before measuring; 0 for not at all.  [300ms]"),
    click.option("--ready-timeout", metavar="TIME", help="The server must accept connections within this.  [10s]"),
)


def server_notes(experiment: Experiment) -> tuple[str, ...]:
    """Return what a reader of the report should know of the drivers of servers: what those of a closed loop hide."""
    found: list[LoadGenerator] = []
    with contextlib.suppress(UserError):  # a record of another version may name what this one doesn't know
        found = [work.load_generator for work in workloads_of(experiment).values() if work.load_generator is not None]
    names = dict.fromkeys(Path(drive.command[0]).name for drive in found if is_closed(drive.reader))
    return (closed_loop_note(" and ".join(names)),) if names else ()


def server_words(text: str) -> tuple[str, ...]:
    """Return the words of the command of --server.

    Raises:
        UserError: it is empty, its quotes don't match, or it is told no port.
    """
    return _words("--server", text)


def load_generators(
    server: tuple[str, ...],
    variables: tuple[str, ...],
    *,
    drive: str | None,
    connections: str | None,
    reader: str | None,
    warm_up: str | None,
    ready_timeout: str | None,
) -> tuple[LoadGenerator, ...]:
    """Return how a server is driven: once for each number of connections.

    Args:
        server: its words.
        variables: of its environment, ``NAME=VALUE``.
        drive: its driver's command, as typed, like all that follow.
        connections: numbers parted by commas.
        reader: how the driver's output is read.
        warm_up: a duration.
        ready_timeout: a duration.

    Raises:
        UserError: something is missing or has the wrong form.
    """
    if not drive:
        raise UserError("--server needs --drive: what sends it requests.", f"For example: {SERVER_EXAMPLE}")
    if not any(PORT in text for text in (*server, *variables)):
        raise UserError(
            "--server is told no port: {port} is neither in its command nor in a --env.",
            "Each trial has a port of its own: --server './my-server --port {port}'",
        )
    words = _words("--drive", drive)
    if not any(PORT in word for word in words):
        raise UserError("--drive is told no port: {port} is not in its command.", f"For example: {SERVER_EXAMPLE}")
    counts = _counts(connections, words)
    program = _driver(words[0])
    how = _reader(reader, words[0])
    _check_words(how, words)
    return tuple(
        LoadGenerator(
            command=(program, *(word.replace(CONNECTIONS, str(count)) for word in words[1:])),
            reader=how,
            connections=count,
            warm_ms=_milliseconds(warm_up, 300),
            ready_ms=max(1, _milliseconds(ready_timeout, 10_000)),
        )
        for count in counts
    )


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"The quotes of {option} don't match: {error}.", f"For example: {SERVER_EXAMPLE}") from error
    if not words or not words[0]:
        raise UserError(f"{option} is empty.", f"For example: {SERVER_EXAMPLE}")
    return words


def _counts(text: str | None, words: tuple[str, ...]) -> tuple[int, ...]:
    used = any(CONNECTIONS in word for word in words)
    if text is None:
        if used:
            raise UserError("--drive has {connections}, and --connections is missing.", "Add: --connections 1,10,100")
        return (0,)
    if not used:
        raise UserError(
            "--connections is given, and --drive has no {connections}: every number would drive alike.",
            f"For example: {SERVER_EXAMPLE}",
        )
    counts = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if not all(1 <= count <= MOST_CONNECTIONS for count in counts) or len(set(counts)) < len(counts):
        raise UserError(
            f"--connections {text!r} is no list of different numbers from 1 to {MOST_CONNECTIONS}.",
            "For example: --connections 1,10,100,250",
        )
    return tuple(counts)


def _driver(word: str) -> str:
    """Return a driver as it is kept: its absolute path, but for ours, which is built."""
    if word == PACE:
        return word
    found = os.path.normpath(Path.cwd() / word) if "/" in word else shutil.which(word)
    if found and os.access(found, os.X_OK) and Path(found).is_file():
        return found
    known = LOAD_GENERATORS.get(word)
    raise UserError(
        f"The driver {word} is not {'there' if '/' in word else 'installed'}.",
        f"On Debian: sudo apt-get install {known.package}"
        if known
        else f"Name it by its path, or take one of {', '.join(LOAD_GENERATORS)}.",
    )


def _reader(text: str | None, program: str) -> str:
    if text:
        return check_reader(text)
    name = Path(program).name
    if name not in LOAD_GENERATORS:
        raise UserError(f"What {name} prints is read by no reader that is known.", f"Say how: {PATTERN_EXAMPLE}")
    return name


def _check_words(reader: str, words: tuple[str, ...]) -> None:
    """Refuse options with which a driver prints what its reader can't read."""
    unfit = {"redis-benchmark": ("--csv", "-q"), "ab": ("-q", "-w", "-d", "-S")}.get(reader, ())
    if wrong := next((word for word in words if word in unfit), None):
        raise UserError(f"With {wrong}, {reader} doesn't print what is read of it.", f"Leave {wrong} out.")


def _milliseconds(text: str | None, usual: int) -> int:
    if text is None:
        return usual
    return 0 if text.strip() == "0" else max(1, parse_duration_ns(text) // 1_000_000)
