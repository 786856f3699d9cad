# SPDX-License-Identifier: MIT OR Apache-2.0
"""A user's own program as workloads: their names, metrics and samples."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from swapstone.model import OWN_SUITE, Experiment, OwnProgram, Sample, UserError, UserSupplied, Workload
from swapstone.workloads.printed_numbers import printed_samples
from swapstone.workloads.process_metrics import EXIT_STATUS, PROCESS_METRICS, process_samples
from swapstone.workloads.server_metrics import server_metrics


def own_names(own: OwnProgram) -> tuple[str, ...]:
    """Return the names of an own program's workloads: a server is one workload for each of its load generators."""
    if len(own.load_generators) < 2:
        return (own.name,)
    return tuple(f"{own.name}(c={generator.connections})" for generator in own.load_generators)


def own_workload(experiment: Experiment, name: str = "") -> Workload:
    """Return a workload of an experiment's own program.

    Args:
        experiment: has the program.
        name: one of `own_names`; the first if left out.

    Raises:
        UserError: the experiment has no own program.
    """
    own = experiment.own
    if own is None:
        raise UserError(f"The experiment {experiment.name} has workloads of the suite {OWN_SUITE} and no own program.")
    if own.load_generators:
        return _server(own, name)
    leading = "wall" if own.waits else "cpu"
    measured = (msgspec.structs.replace(metric, leads=metric.name == leading) for metric in PROCESS_METRICS)
    return Workload(
        name=own.name,
        origin=UserSupplied(program=own),
        arguments=own.arguments,
        description=f"the user's own program: {shlex.join(own.command)}",
        metrics=(
            *measured,
            *((EXIT_STATUS,) if own.ignore_failure else ()),
            *(number.metric for number in own.numbers),
        ),
        cpus=own.cpus,
        waits=own.waits,
        timeout_ms=own.timeout_ms,
    )


def _server(own: OwnProgram, name: str) -> Workload:
    generator = dict(zip(own_names(own), own.load_generators, strict=True)).get(name, own.load_generators[0])
    return Workload(
        name=name or own.name,
        origin=UserSupplied(program=own),
        arguments=own.arguments,
        description=f"the user's own server: {shlex.join(own.command)}, under the load of {shlex.join(generator.command)}",
        parameters=(("connections", str(generator.connections)),),
        metrics=(*server_metrics(generator), *(number.metric for number in own.numbers)),
        cpus=own.cpus,
        waits=True,
        timeout_ms=own.timeout_ms,
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
