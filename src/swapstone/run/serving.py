"""One trial of a server: how it and its driver are asked for, and what their answer amounts to."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

import msgspec

from swapstone.model import Cpus, LoadGenerator, Sample, UnavailableError, WireError
from swapstone.model.load_generator import filled
from swapstone.wire import AgentAnswer, Ended, LoadGeneratorRequest, TrialRequest
from swapstone.workloads import server_samples
from swapstone.workloads.server_metrics import check_whole

_PORTS = range(20_000, 32_768)
"""Five digits each, so that the stack doesn't move with the port, and below those that the kernel gives to clients of their own accord."""

_TRIES = 200


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens.

    Raises:
        UnavailableError: there is none among many.
    """
    for _ in range(_TRIES):
        port = random.choice(_PORTS)  # noqa: S311 - any will do
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise UnavailableError("No port from 20000 to 32767 is free.", "End the programs that listen there.")


def as_server(
    request: TrialRequest,
    generator: LoadGenerator,
    *,
    driver: str,
    cpus: Sequence[int],
    pinned: Cpus,
    environment: Sequence[tuple[str, str]],
) -> TrialRequest:
    """Turn the request for a program into one for a server and its driver.

    Args:
        request: of the program alone; its processors are chosen anew.
        generator: what sends the requests.
        driver: the driver's path on the target.
        cpus: the target's processors.
        pinned: with `Cpus.ONE` the server has the last of them, and the driver the others; where there is one alone, they share it.
        environment: the driver's: nothing that is preloaded into the server.
    """
    port = free_port()
    apart = pinned is Cpus.ONE and len(cpus) > 1
    return msgspec.structs.replace(
        request,
        arguments=filled(request.arguments, port),
        environment=tuple((name, *filled((value,), port)) for name, value in request.environment),
        cpus=(max(cpus),) if apart else (),
        load_generator=LoadGeneratorRequest(
            port=port,
            arguments=(driver, *generator.with_port(port)[1:]),
            environment=tuple(environment),
            cpus=tuple(cpu for cpu in cpus if cpu != max(cpus)) if apart else (),
            ready_ms=generator.ready_ms,
            warm_ms=generator.warm_ms,
            drain_ms=generator.drain_ms,
            stop_ms=generator.stop_ms,
        ),
    )


def trouble_of_server(answer: AgentAnswer) -> str:
    """Say what was wrong with a server's run that only a server's can be; empty if nothing was."""
    if answer.how is Ended.UNREADY:
        return f"the server accepted no connection on its port in time; {_words(answer.stderr, answer.stdout)}"
    if answer.how is Ended.UNDRIVEN:
        why = next(
            (note for note in answer.notes if note.startswith("the load generator: ")), "the load generator: it failed"
        )
        hint = "; is it installed?" if why.endswith("could not execute it") else ""
        return f"{why}{hint}; {_words(answer.driver_stderr, answer.driver_stdout)}"
    if answer.how in {Ended.EXITED, Ended.SIGNALED, Ended.ORPHANS}:
        why = next(
            (note for note in answer.notes if note.startswith("the server ended ")), "the server ended by itself"
        )
        end = f"signal {answer.code}" if answer.how is Ended.SIGNALED else f"status {answer.code}"
        return f"{why}, with {end}; {_words(answer.stderr, answer.stdout)}"
    return ""


def _words(*outputs: bytes) -> str:
    for data in outputs:
        lines = [line for line in data[-4096:].decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return f"its last words: {lines[-1][:200]!r}"
    return "it said nothing"


def samples_of_server(generator: LoadGenerator, answer: AgentAnswer) -> tuple[Sample, ...]:
    """Return the samples of a server's run that went well.

    Raises:
        WireError: the driver's output is not whole, or it met errors.
    """
    samples = server_samples(generator, dict(answer.facts), answer.driver_stdout)
    check_whole(samples)
    return samples


__all__ = ["WireError", "as_server", "free_port", "samples_of_server", "trouble_of_server"]
