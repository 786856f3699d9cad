# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plan that an agent reads (docs/wire.md, section 1)."""

from __future__ import annotations

import functools
import re

import msgspec

from swapstone.core.model import FrozenStruct, Observation, ObservationKind, WireError
from swapstone.core.wire.protocol_text import MAX_NUMBER, encode_text
from swapstone.core.wire.protocol_words import PLAN_HEADER

MAX_TIMEOUT_MS = 1000 * 86400 * 365
MAX_OUTPUT_BYTES = 16 << 20
MAX_CPU = 4095
MAX_PHASE_MS = 3_600_000
MAX_WORDS = 4096
MAX_TEXT_BYTES = 1 << 20
MAX_LINE_BYTES = 400 << 10
MAX_OBSERVATIONS = 64
MAX_CGROUPS = 2

_OPTION_CHARACTERS = ",:\\"
"""Characters with a meaning in the mount options of an overlay."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
NONCE_BYTES = 16
_NONCE = re.compile(r"(?:[0-9a-f]{32})?", re.ASCII)


class LoadGeneratorRequest(FrozenStruct, frozen=True, kw_only=True):
    """The load generator of a trial whose program is a server.

    Attributes:
        port: on which the server listens at 127.0.0.1.
        arguments: the load generator (absolute path) and its arguments.
        environment: its whole environment, pairs (name, value).
        cpus: processors that it is pinned to; empty for no pinning.
        ready_ms: time limit for the server to accept its first connection.
        warm_ms: the load generator runs this long before the measurement and is then killed; 0 for no warm-up.
        drain_ms: pause after each run of the load generator.
        stop_ms: time limit for the server to exit after SIGTERM.
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
    """A request for one trial.

    Attributes:
        id: 1 to 64 characters of ``A-Z a-z 0-9 . _ -``.
        arguments: the program (absolute path) and its arguments.
        environment: pairs (name, value); nothing is inherited.
        cwd: working directory, an absolute path on the target; in its root file system, if it has one.
        root: folder of the program's root file system, an absolute path; empty for that of the target. `arguments` and `cwd` are then
            paths in it, `stdin` and `stdout` are not.
        root_layer: an empty folder, over which the layer is mounted for what the program writes; empty: it writes to the root itself.
        root_files: folder that the program finds at `swapstone.core.model.ROOT_FILES`, read-only; empty for none.
        stdin: absolute path of a file that is its standard input; empty for /dev/null.
        stdout: absolute path of a file for its standard output, created or truncated; empty: the answer contains the output.
        cpus: processors to pin to; empty for no pinning.
        nice: -20 to 19, or None for no change.
        timeout_ms: the agent kills the trial after this time.
        output_bytes: limit of standard output and of standard error; more ends the trial.
        disk_bytes: limit of a file's size, and of the loss of free space in `cwd`; more ends the trial.
        observe: values to read at the end of the process, each once.
        cgroups: files to which the process writes ``0`` before it executes the program: up to 2, ``cgroup.procs`` of cgroups or, of
            version 1, ``tasks``.
        counted: whether CPU time and memory of all its processes together are wanted, of a target that can count them. Not part of the
            protocol.
        load_generator: what sends requests to the program; None if the program is no server.
    """

    id: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str
    root: str = ""
    root_layer: str = ""
    root_files: str = ""
    stdin: str = ""
    stdout: str = ""
    cpus: tuple[int, ...] = ()
    nice: int | None = None
    timeout_ms: int
    output_bytes: int = 65_536
    disk_bytes: int = 1 << 30
    observe: tuple[Observation, ...] = ()
    cgroups: tuple[str, ...] = ()
    counted: bool = False
    load_generator: LoadGeneratorRequest | None = None


def encode_plan_header() -> bytes:
    """Return the first line of every plan."""
    return PLAN_HEADER + b"\n"


def encode_request(request: TrialRequest, nonce: str = "") -> bytes:
    """Return the lines of a plan for one trial, including ``run``.

    Args:
        request: the trial.
        nonce: that the answer must repeat: 32 lower-case hexadecimal digits; empty for none.

    Returns:
        ASCII lines, each with its newline.

    Raises:
        WireError: no agent could carry out the request; the text names the reason.
    """
    try:
        if not _ID.fullmatch(request.id):
            raise _InvalidError(
                f"is invalid: {request.id!r} is no trial identifier: it has 1 to 64 of A-Z a-z 0-9 . _ -."
            )
        groups = b"".join(b"cgroup " + encode_text(path) + b"\n" for path in request.cgroups)
        rest = groups + _lines_after_nonce(msgspec.structs.replace(request, id="any", cgroups=()))
        if len(request.cgroups) > MAX_CGROUPS or not all(path.startswith("/") for path in request.cgroups):
            raise _InvalidError(
                f"is invalid: it has more than {MAX_CGROUPS} cgroups, or a path of one is not absolute."
            )
        if not _NONCE.fullmatch(nonce):
            raise _InvalidError("is invalid: its nonce has not 32 lower-case hexadecimal digits.")
    except _InvalidError as error:
        raise WireError(f"Trial {request.id} {error}") from None
    return b"trial %s\n%s%s" % (request.id.encode(), b"nonce %s\n" % nonce.encode() if nonce else b"", rest)


class _InvalidError(Exception):
    """No agent could carry out a request. The text follows the identifier."""


@functools.lru_cache(maxsize=64)  # the trials of a variant differ in their identifiers only
def _lines_after_nonce(request: TrialRequest) -> bytes:
    """Return the lines of a plan for one trial after ``trial`` and ``nonce``.

    Raises:
        _InvalidError: no agent could carry it out.
        WireError: a text can't be written.
    """
    _check(request)
    lines = [b"arg " + encode_text(argument) for argument in request.arguments]
    lines += [b"env " + encode_text(f"{name}={value}") for name, value in request.environment]
    lines.append(b"cwd " + encode_text(request.cwd))
    roots = ((b"root ", request.root), (b"root-layer ", request.root_layer), (b"root-files ", request.root_files))
    lines += [word + encode_text(path) for word, path in roots if path]
    lines.append(b"cpus " + (",".join(map(str, request.cpus)) or "all").encode())
    if request.nice is not None:
        lines.append(b"nice %d" % request.nice)
    lines.append(b"timeout-ms %d" % request.timeout_ms)
    lines.append(b"output-bytes %d" % request.output_bytes)
    lines.append(b"disk-bytes %d" % request.disk_bytes)
    files = ((b"stdin ", request.stdin), (b"stdout ", request.stdout))
    lines += [word + encode_text(path) for word, path in files if path]
    lines += [f"observe {each.kind.value} ".encode() + encode_text(each.name) for each in request.observe]
    lines += _load_generator_lines(request.load_generator) if request.load_generator else []
    if max(map(len, lines)) >= MAX_LINE_BYTES:
        raise _InvalidError("has an argument or variable that is longer than an agent can read.")
    return b"\n".join([*lines, b"run", b""])


def _load_generator_lines(generator: LoadGeneratorRequest) -> list[bytes]:
    first = (("port", generator.port), ("ready-ms", generator.ready_ms), ("warm-ms", generator.warm_ms))
    times = (*first, ("drain-ms", generator.drain_ms), ("stop-ms", generator.stop_ms))
    return [
        *(f"{name} {value}".encode() for name, value in times),
        *(b"driver-arg " + encode_text(argument) for argument in generator.arguments),
        *(b"driver-env " + encode_text(f"{name}={value}") for name, value in generator.environment),
        b"driver-cpus " + (",".join(map(str, generator.cpus)) or "all").encode(),
    ]


def _check(request: TrialRequest) -> None:
    """Raise `_InvalidError` if no agent could carry out a request; its identifier is not checked."""
    texts = [*request.arguments, *(f"{name}={value}" for name, value in request.environment), request.cwd]
    others = (request.stdin, request.stdout, request.root, request.root_layer, request.root_files)
    paths = [*request.arguments[:1], request.cwd, *filter(None, others)]
    texts += filter(None, others)
    texts += [each.name for each in request.observe]
    generator = request.load_generator
    variables = [*request.environment, *(generator.environment if generator else ())]
    lists: list[tuple[object, ...]] = [request.arguments, request.environment]
    if generator:
        lists += [generator.arguments, generator.environment]
        texts += [*generator.arguments, *(f"{name}={value}" for name, value in generator.environment)]
        paths += generator.arguments[:1]
    limits = (
        ("time-out", request.timeout_ms, 1, MAX_TIMEOUT_MS),
        ("output limit", request.output_bytes, 1, MAX_OUTPUT_BYTES),
        ("disk limit", request.disk_bytes, 1, MAX_NUMBER),
        ("nice value", request.nice or 0, -20, 19),
        *(("processor", cpu, 0, MAX_CPU) for cpu in (*request.cpus, *(generator.cpus if generator else ()))),
        *(
            (
                ("port", generator.port, 1, 65535),
                ("time to be ready", generator.ready_ms, 1, MAX_PHASE_MS),
                ("time to warm up", generator.warm_ms, 0, MAX_PHASE_MS),
                ("time to drain", generator.drain_ms, 0, MAX_PHASE_MS),
                ("time to stop", generator.stop_ms, 1, MAX_PHASE_MS),
            )
            if generator
            else ()
        ),
    )
    faults = [
        (not request.arguments, "there is no program to run"),
        (generator is not None and not generator.arguments, "there is no load generator to run"),
        (not all(path.startswith("/") for path in paths), "a path is not absolute"),
        (
            any(character in request.root + request.root_layer for character in _OPTION_CHARACTERS),
            "the path of a root has a comma, a colon or a backslash",
        ),
        (
            not request.root and bool(request.root_layer or request.root_files),
            "it has root_layer or root_files without root",
        ),
        (any("\0" in text for text in texts), "an argument, variable or path holds a zero byte"),
        (any(not n or "=" in n for n, _ in variables), "a variable's name is empty or holds '='"),
        (len(request.observe) > MAX_OBSERVATIONS, f"it has more than {MAX_OBSERVATIONS} observations"),
        (len(set(request.observe)) < len(request.observe), "it has an observation twice"),
        *((not _is_observable(each), f"{str(each)!r} can't be observed") for each in request.observe),
        (max(map(len, lists)) > MAX_WORDS, "it has more than 4096 words"),
        # In the agent each text ends with a zero byte.
        (
            sum(len(encode_text(text)) + 1 for text in texts) > MAX_TEXT_BYTES,
            "its texts are longer than 1 MiB together",
        ),
        *((not low <= v <= high, f"the {what} is {v}, outside {low} to {high}") for what, v, low, high in limits),
    ]
    for wrong, text in faults:
        if wrong:
            raise _InvalidError(f"is invalid: {text}.")


def _is_observable(observation: Observation) -> bool:
    """Return whether an observation's name has the form that its kind needs."""
    name = observation.name
    if observation.kind is ObservationKind.ENV:
        return bool(name) and "=" not in name
    if observation.kind is ObservationKind.FILE:
        return name.startswith("/")
    return name not in {"", ".", ".."} and "/" not in name
