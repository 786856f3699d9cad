# SPDX-License-Identifier: MIT OR Apache-2.0
"""Own servers: from options as text to the load generators that send their requests."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import packages_of
from swapstone.core.model import Experiment, LoadGenerator, UserError, refuse
from swapstone.core.model.load import CONNECTIONS, PORT, TEMPLATE
from swapstone.core.session.option_table import flag_of
from swapstone.core.session.option_values import duration_ms
from swapstone.core.session.options import Program
from swapstone.core.targets import driver_of
from swapstone.core.workloads import workloads_of
from swapstone.core.workloads.load_generators import LOAD_GENERATORS, PACE, PATTERN_EXAMPLE, check_reader, is_closed
from swapstone.core.workloads.server_metrics import WRK, closed_loop_notes

MOST_BYTES = 64 << 10
TEMPLATE_EXAMPLE = "--server 'nginx -c {template}' --template nginx.conf"


def template_text(name: str | None, folder: Path, server: tuple[str, ...], variables: tuple[str, ...]) -> str:
    """Return the text of the file that --template names; empty without the option.

    Args:
        name: of the file.
        folder: where relative paths start.
        server: the server's command, which receives the filled file's path.
        variables: of its environment, ``NAME=VALUE``.

    Raises:
        UserError: the file can't be read, is too large or no UTF-8 text, or has no ``{port}``; or the server doesn't receive it, or
            receives one without the option.
    """
    used = any(TEMPLATE in text for text in (*server, *variables))
    example = f"For example: {TEMPLATE_EXAMPLE}"
    refuse(
        (name is None and used, "--server has {template}, and --template is missing.", example),
        (
            name is not None and not used,
            "--server receives no {template}: the path of the filled file is neither in its command nor in an --env.",
            example,
        ),
    )
    if name is None:
        return ""
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise UserError(f"The template {path} can't be read: {why}.", example) from error
    refuse(
        (
            len(content) > MOST_BYTES,
            f"The template {path} has more than {MOST_BYTES >> 10} KiB.",
            "Include other files by their paths.",
        ),
        (
            PORT not in text,
            f"The template {path} has no {{port}}.",
            "Write it where the port of the server is, for example: listen {port};",
        ),
    )
    return text


MOST_CONNECTIONS = 10_000

_OPTIONS = ("load_generator", "connections", "read", "warm_up", "ready_timeout", "template")
"""Those of a server alone."""

SERVER_EXAMPLE = (
    "--server './my-server --port {port}' "
    "--load-generator 'wrk -c {connections} -t 1 -d 10s --latency http://127.0.0.1:{port}/' --connections 1,10"
)


def server_notes(experiment: Experiment) -> tuple[str, ...]:
    """Return the notes on load generators that a report prints: what a closed loop hides, and that another machine ran them."""
    found = [work.load_generator for work in workloads_of(experiment).values() if work.load_generator is not None]
    apart = _apart_note(experiment.target) if found else ()
    names = dict.fromkeys(
        WRK if each.reader == WRK else Path(each.command[0]).name for each in found if is_closed(each.reader)
    )
    return (*apart, *closed_loop_notes(list(names)))


def _apart_note(target: str) -> tuple[str, ...]:
    """Return the note on a load generator that another machine ran; none if none did."""
    with contextlib.suppress(UserError):  # of a record that someone edited
        if name := driver_of(target):
            return (
                f"The load generators ran on another machine ({name}). Latencies contain the network between the two. The processor time "
                "of the load generators is not measured there.",
            )
    return ()


def load_generators(request: Program, server: tuple[str, ...], folder: Path) -> tuple[LoadGenerator, ...]:
    """Return the load generators of a server: one for each number of connections; none without a server.

    Args:
        request: the options.
        server: the server's command.
        folder: where relative paths start.

    Raises:
        UserError: an option is missing, has the wrong form, or is for a server, and there is none.
    """
    example = f"For example: {SERVER_EXAMPLE}"
    if request.server is None:
        why = "is for a server, and there is none."
        refuse(*((getattr(request, name) is not None, f"{flag_of(Program, name)} {why}", example) for name in _OPTIONS))
        return ()
    if not request.load_generator:
        raise UserError("--server needs --load-generator, which sends the requests.", example)
    configuration = template_text(request.template, folder, server, request.env)
    words = split_command("--load-generator", request.load_generator)
    refuse(
        (
            not any(PORT in text for text in (*server, *request.env, configuration)),
            "--server receives no port: {port} is neither in its command nor in an --env.",
            "Each trial has a port of its own: --server './my-server --port {port}', or --template FILE for a configuration file.",
        ),
        (
            not any(PORT in word for word in words),
            "--load-generator receives no port: {port} is not in its command.",
            example,
        ),
    )
    counts = _counts(request.connections, words)
    program = _program(words[0], folder)
    how = _reader(request.read, words[0])
    _check_words(how, words)
    warm_ms, ready_ms = (
        0 if text.strip() == "0" else duration_ms(text)
        for text in (
            "300ms" if request.warm_up is None else request.warm_up,
            "10s" if request.ready_timeout is None else request.ready_timeout,
        )
    )
    return tuple(
        LoadGenerator(
            command=(program, *(word.replace(CONNECTIONS, str(count)) for word in words[1:])),
            reader=how,
            connections=count,
            warm_ms=warm_ms,
            ready_ms=max(1, ready_ms),
            template=configuration,
        )
        for count in counts
    )


def split_command(option: str, text: str) -> tuple[str, ...]:
    """Split the command of an option into arguments.

    Raises:
        UserError: it is empty, or its quotes don't match.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"The quotes of {option} don't match: {error}.", f"For example: {SERVER_EXAMPLE}") from error
    if not words or not words[0]:
        raise UserError(f"{option} is empty.", f"For example: {SERVER_EXAMPLE}")
    return words


def _counts(text: str | None, words: tuple[str, ...]) -> tuple[int, ...]:
    used = any(CONNECTIONS in word for word in words)
    counts = [int(part) if part.strip().isdecimal() else 0 for part in ("1" if text is None else text).split(",")]
    refuse(
        (
            text is None and used,
            "--load-generator has {connections}, and --connections is missing.",
            "Add: --connections 1,10,100",
        ),
        (
            text is not None and not used,
            "--connections is given, and --load-generator has no {connections}: every number would give the same load.",
            f"For example: {SERVER_EXAMPLE}",
        ),
        (
            not all(1 <= count <= MOST_CONNECTIONS for count in counts) or len(set(counts)) < len(counts),
            f"--connections {text!r} is no list of different numbers from 1 to {MOST_CONNECTIONS}.",
            "For example: --connections 1,10,100,250",
        ),
    )
    return (0,) if text is None else tuple(counts)


def _program(word: str, folder: Path) -> str:
    """Return the absolute path of a load generator. `PACE` stays a name, because Swapstone builds it."""
    if word == PACE:
        return word
    found = os.path.normpath(folder / word) if "/" in word else shutil.which(word)
    if found and os.access(found, os.X_OK) and Path(found).is_file():
        return found
    raise UserError(
        f"The load generator {word} is not {'an executable file' if '/' in word else 'installed'}.",
        f"On Debian: sudo apt-get install {packages_of((word,))}"
        if word in LOAD_GENERATORS
        else f"Name it by its path, or take one of {', '.join(LOAD_GENERATORS)}.",
    )


def _reader(text: str | None, program: str) -> str:
    if text:
        return check_reader(text)
    name = Path(program).name
    if name not in LOAD_GENERATORS:
        raise UserError(f"Swapstone has no reader for the output of {name}.", f"Describe the output: {PATTERN_EXAMPLE}")
    return name


def _check_words(reader: str, words: tuple[str, ...]) -> None:
    """Raise a `UserError` for an option that changes the output so that the reader can't read it."""
    unfit = {"redis-benchmark": ("--csv", "-q"), "ab": ("-q", "-w", "-d", "-S")}.get(reader, ())
    if wrong := next((word for word in words if word in unfit), None):
        raise UserError(f"With {wrong}, {reader} does not print the figures that are read.", f"Leave {wrong} out.")
