"""The plan: what an agent is told (docs/wire.md, section 1)."""

from __future__ import annotations

import re

from swapstone.model import FrozenStruct, WireError
from swapstone.wire.text import MAX_NUMBER, encode_text

MAX_TIMEOUT_MS = 1000 * 86400 * 365
MAX_OUTPUT_BYTES = 16 << 20
MAX_CPU = 4095
MAX_PHASE_MS = 3_600_000
MAX_WORDS = 4096
MAX_TEXT_BYTES = 1 << 20
MAX_LINE_BYTES = 400 << 10

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class DriveRequest(FrozenStruct, frozen=True, kw_only=True):
    """How the program of a trial, which is a server, is driven.

    Attributes:
        port: on which it will accept connections at 127.0.0.1.
        arguments: the driver (absolute path) and its arguments.
        environment: the driver's, pairs (name, value); the whole of it.
        cpus: processors that the driver is pinned to; empty leaves the affinity alone.
        ready_ms: the server must accept connections within so long.
        warm_ms: the driver runs for so long before it is measured, and is killed then; 0 for no such time.
        drain_ms: how long the server is left alone after each of the driver's ends.
        stop_ms: how long it may take to end after SIGTERM.
    """

    port: int
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cpus: tuple[int, ...] = ()
    ready_ms: int = 10_000
    warm_ms: int = 0
    drain_ms: int = 0
    stop_ms: int = 5_000


class TrialRequest(FrozenStruct, frozen=True, kw_only=True):
    """One trial as an agent is asked for it.

    Attributes:
        id: 1 to 64 characters of ``A-Z a-z 0-9 . _ -``.
        arguments: the program (absolute path) and its arguments.
        environment: pairs (name, value); the whole of it, nothing is inherited.
        cwd: working directory, an absolute path on the target.
        stdin: absolute path of a file that is its standard input; empty for /dev/null.
        stdout: absolute path of a file that its standard output goes to, made or emptied; empty for the agent to keep it.
        cpus: processors to pin to; empty leaves the affinity alone.
        nice: -20 to 19, or None to leave it alone.
        timeout_ms: the agent stops the trial after so long.
        output_bytes: how much of each of standard output and error is kept; more ends the trial.
        disk_bytes: a larger file, or so much less free space in `cwd`, ends the trial.
        drive: where the program is a server.
    """

    id: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str
    stdin: str = ""
    stdout: str = ""
    cpus: tuple[int, ...] = ()
    nice: int | None = None
    timeout_ms: int
    output_bytes: int = 65_536
    disk_bytes: int = 1 << 30
    drive: DriveRequest | None = None


def encode_plan_header() -> bytes:
    """Return the first line of every plan."""
    return b"swapstone-plan 2\n"


def encode_request(request: TrialRequest) -> bytes:
    """Return the lines that ask an agent for a trial, ``run`` included.

    Args:
        request: what to ask for.

    Returns:
        ASCII lines, each with its newline.

    Raises:
        WireError: the request can't be carried out as it stands; the text says why.
    """
    _check(request)
    lines = [b"trial " + request.id.encode()]
    lines += [b"arg " + encode_text(argument) for argument in request.arguments]
    lines += [b"env " + encode_text(f"{name}={value}") for name, value in request.environment]
    lines.append(b"cwd " + encode_text(request.cwd))
    lines.append(b"cpus " + (",".join(map(str, request.cpus)) or "all").encode())
    if request.nice is not None:
        lines.append(b"nice %d" % request.nice)
    lines.append(b"timeout-ms %d" % request.timeout_ms)
    lines.append(b"output-bytes %d" % request.output_bytes)
    lines.append(b"disk-bytes %d" % request.disk_bytes)
    files = ((b"stdin ", request.stdin), (b"stdout ", request.stdout))
    lines += [word + encode_text(path) for word, path in files if path]
    lines += _drive_lines(request.drive) if request.drive else []
    if max(map(len, lines)) >= MAX_LINE_BYTES:
        raise WireError(f"Trial {request.id} has an argument or variable that is longer than an agent can read.")
    return b"\n".join([*lines, b"run", b""])


def _drive_lines(drive: DriveRequest) -> list[bytes]:
    first = (("port", drive.port), ("ready-ms", drive.ready_ms), ("warm-ms", drive.warm_ms))
    times = (*first, ("drain-ms", drive.drain_ms), ("stop-ms", drive.stop_ms))
    return [
        *(f"{name} {value}".encode() for name, value in times),
        *(b"driver-arg " + encode_text(argument) for argument in drive.arguments),
        *(b"driver-env " + encode_text(f"{name}={value}") for name, value in drive.environment),
        b"driver-cpus " + (",".join(map(str, drive.cpus)) or "all").encode(),
    ]


def _check(request: TrialRequest) -> None:
    """Raise what makes a request impossible."""
    texts = [*request.arguments, *(f"{name}={value}" for name, value in request.environment), request.cwd]
    paths = [*request.arguments[:1], request.cwd, *filter(None, (request.stdin, request.stdout))]
    texts += paths[2:]
    drive = request.drive
    variables = [*request.environment, *(drive.environment if drive else ())]
    if drive:
        texts += [*drive.arguments, *(f"{name}={value}" for name, value in drive.environment)]
        paths += drive.arguments[:1]
    limits = (
        ("time-out", request.timeout_ms, 1, MAX_TIMEOUT_MS),
        ("output limit", request.output_bytes, 1, MAX_OUTPUT_BYTES),
        ("disk limit", request.disk_bytes, 1, MAX_NUMBER),
        ("nice value", request.nice or 0, -20, 19),
        *(("processor", cpu, 0, MAX_CPU) for cpu in (*request.cpus, *(drive.cpus if drive else ()))),
        *(_drive_limits(drive) if drive else ()),
    )
    faults = [
        (not _ID.fullmatch(request.id), f"{request.id!r} is no trial identifier: it has 1 to 64 of A-Z a-z 0-9 . _ -"),
        (not request.arguments, "there is no program to run"),
        (drive is not None and not drive.arguments, "there is no driver to run"),
        (not all(path.startswith("/") for path in paths), "a path is not absolute"),
        (any("\0" in text for text in texts), "an argument, variable or path holds a zero byte"),
        (any(not n or "=" in n for n, _ in variables), "a variable's name is empty or holds '='"),
        (max(map(len, _lists(request))) > MAX_WORDS, "it has more than 4096 words"),
        (sum(len(encode_text(text)) for text in texts) > MAX_TEXT_BYTES, "its texts are longer than 1 MiB together"),
        *((not low <= v <= high, f"the {what} is {v}, outside {low} to {high}") for what, v, low, high in limits),
    ]
    for wrong, text in faults:
        if wrong:
            raise WireError(f"Trial {request.id} can't be asked for: {text}.")


def _lists(request: TrialRequest) -> tuple[tuple[object, ...], ...]:
    drive = request.drive
    return (request.arguments, request.environment, *((drive.arguments, drive.environment) if drive else ()))


def _drive_limits(drive: DriveRequest) -> tuple[tuple[str, int, int, int], ...]:
    return (
        ("port", drive.port, 1, 65535),
        ("time to be ready", drive.ready_ms, 1, MAX_PHASE_MS),
        ("time to warm up", drive.warm_ms, 0, MAX_PHASE_MS),
        ("time to drain", drive.drain_ms, 0, MAX_PHASE_MS),
        ("time to stop", drive.stop_ms, 1, MAX_PHASE_MS),
    )
