# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program as workloads: their names, metrics and samples."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from swapstone.core.factors import is_root_factor
from swapstone.core.model import (
    OWN_SUITE,
    REFERENCE_SUITE,
    UNKNOWN_THREADS,
    Cpus,
    Experiment,
    LoadGenerator,
    MachineNeeds,
    Metric,
    OwnProgram,
    Sample,
    UserError,
    UserSupplied,
    Workload,
    filled_text,
)
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.executed_counts import COUNT_METRICS
from swapstone.core.workloads.load_generators import check_reader
from swapstone.core.workloads.metrics import EXIT_STATUS, PROCESS_METRICS, process_samples
from swapstone.core.workloads.printed_numbers import printed_samples
from swapstone.core.workloads.server_metrics import READY, server_metrics

Parameters: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs (name, value)."""


def own_names(own: OwnProgram) -> tuple[str, ...]:
    """Return the names of an own program's workloads: one for each combination of parameters and each load generator."""
    return tuple(_combinations(own))


def own_workload(experiment: Experiment, name: str = "") -> Workload:
    """Return a workload of an experiment's own program.

    Args:
        experiment: has the program.
        name: one of `own_names`; the first if left out.

    Raises:
        UserError: the experiment has no own program, it has no such workload, or there is no reader for its load generator.
    """
    own = experiment.own
    if own is None:
        raise UserError(f"The experiment {experiment.name} has workloads of the suite {OWN_SUITE} and no own program.")
    combinations = _combinations(own)
    name = name or next(iter(combinations))
    if name not in combinations:
        raise UserError(f"The own program {own.name} has no workload {name}.")
    parameters, generator = combinations[name]
    if generator is not None:
        rooted = any(is_root_factor(choice.factor) for choice in experiment.applied_factors)
        return _server(own, name, parameters, generator, (READY,) if rooted else ())
    leading = "wall" if own.waits else "cpu"
    counts = COUNT_METRICS if experiment.virtual else ()
    if taken := {number.metric.name for number in own.numbers} & {metric.name for metric in counts}:
        raise UserError(f"On the virtual clock {min(taken)} is counted.", "Give the number of --metric another name.")
    measured = (msgspec.structs.replace(metric, leads=metric.name == leading) for metric in (*PROCESS_METRICS, *counts))
    return Workload(
        name=name,
        origin=UserSupplied(program=own),
        arguments=own.arguments,
        description=f"the user's own program: {_described(own, parameters)}",
        parameters=parameters,
        metrics=(
            *measured,
            *((EXIT_STATUS,) if own.ignore_failure else ()),
            *(number.metric for number in own.numbers),
        ),
        cpus=own.cpus,
        threads=1 if own.cpus is Cpus.ONE else UNKNOWN_THREADS,
        waits=own.waits,
        timeout_ms=own.timeout_ms,
        machine=_machine(own),
    )


def _machine(own: OwnProgram) -> MachineNeeds | None:
    """Return what the user requested of the machine; None if that is nothing."""
    return MachineNeeds(memory_bytes=own.memory_bytes) if own.memory_bytes else None


@functools.lru_cache(maxsize=8)
def _combinations(own: OwnProgram) -> Mapping[str, tuple[Parameters, LoadGenerator | None]]:
    """Return parameters and load generator of each workload by its name."""
    found: dict[str, tuple[Parameters, LoadGenerator | None]] = {}
    names = [name for name, _ in own.parameters]
    several = len(own.load_generators) > 1
    for values in itertools.product(*(values for _, values in own.parameters)):
        parameters = tuple(zip(names, values, strict=True))
        for generator in own.load_generators or (None,):
            connections = (("c", str(generator.connections)),) if generator and several else ()
            shown = ",".join(f"{key}={value}" for key, value in (*parameters, *connections))
            found[f"{own.name}({shown})" if shown else own.name] = (parameters, generator)
    return found


def _described(own: OwnProgram, parameters: Parameters) -> str:
    return shlex.join(filled_text(word, dict(parameters)) for word in own.command)


def _server(
    own: OwnProgram, name: str, parameters: Parameters, generator: LoadGenerator, more: tuple[Metric, ...]
) -> Workload:
    check_reader(generator.reader)
    words = tuple(filled_text(word, dict(parameters)) for word in generator.command)
    generator = msgspec.structs.replace(generator, command=words)
    return Workload(
        name=name,
        origin=UserSupplied(program=own),
        arguments=own.arguments,
        description=f"the user's own server: {_described(own, parameters)}, under the load of {shlex.join(words)}",
        parameters=(*parameters, ("connections", str(generator.connections))),
        metrics=(*server_metrics(generator), *more, *(number.metric for number in own.numbers)),
        cpus=own.cpus,
        threads=2 if own.cpus is Cpus.ONE else UNKNOWN_THREADS,  # with the load generator
        waits=True,
        timeout_ms=own.timeout_ms,
        machine=_machine(own),
        load_generator=generator,
    )


def own_samples(
    own: OwnProgram, facts: Mapping[str, int], status: int, stdout: bytes, stderr: bytes
) -> tuple[Sample, ...]:
    """Return the samples of one run, one value for each metric.

    Args:
        own: the program; defines the numbers that it prints.
        facts: the agent's facts by name. A metric is left out if its facts are missing.
        status: exit status.
        stdout: its standard output.
        stderr: searched for numbers that standard output does not hold.

    Raises:
        UserError: a number's pattern does not match exactly once.
    """
    samples = [*process_samples(facts)]
    if own.ignore_failure:
        samples.append(Sample(metric=EXIT_STATUS.name, values=(float(status),)))
    return (*samples, *printed_samples(own, stdout, stderr))


SOURCE = "native/reference/reference.c"
FILE = "swapstone-reference"

REFERENCE = (REFERENCE_SUITE, FILE)
"""Suite and name of its workload, which no program of a user is likely to have."""


@functools.cache
def reference_program() -> Path:
    """Return where the program is, or is built once: by the digest of its source, so that another compiler does not change it."""
    carried = share_dir() / "agents" / os.uname().machine / FILE
    if os.access(carried, os.X_OK):
        return carried
    digest = hashlib.sha256((share_dir() / SOURCE).read_bytes()).hexdigest()[:16]
    return cache_dir() / "agents" / f"reference-{digest}" / FILE


def reference_workload(experiment: Experiment) -> Workload:
    """Return the workload of the reference program: run and read as the experiment's own program is.

    Raises:
        UserError: the experiment has no own program.
    """
    if experiment.own is None:
        raise UserError(f"The experiment {experiment.name} has a reference program and no own program.")
    shared = {name: getattr(experiment.own, name) for name in ("inherited", "cpus", "waits", "timeout_ms")}
    own = OwnProgram(name=REFERENCE[1], arguments=(str(reference_program()),), directory="/", **shared)
    work = own_workload(msgspec.structs.replace(experiment, own=own))
    return msgspec.structs.replace(work, description="the reference program: equal work in every session")
