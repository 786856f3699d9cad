# SPDX-License-Identifier: MIT OR Apache-2.0
"""Describe an experiment: what its names mean in this version. A new record stores it; of an older record it is derived when it is read.

This module imports suites, factors and targets. `swapstone.core.session.report_context`, which reads records, imports it for older
records alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from swapstone.core import workloads
from swapstone.core.factors import all_factors, is_root_factor
from swapstone.core.model import SESSION, Experiment, Metric, UserError, WorkSpec
from swapstone.core.model.parts import parts_of, provided
from swapstone.core.record import Description, Meta
from swapstone.core.record.record_format import PlaceFacts, StoredLevel, StoredWork
from swapstone.core.run.builder import builder
from swapstone.core.run.variant_program import ProgramRoots
from swapstone.core.session.explainer import explainers
from swapstone.core.session.own_program_request import report_notes
from swapstone.core.session.server_program import server_notes
from swapstone.core.targets import driver_of, target_kinds


def describe(experiment: Experiment, earlier: Meta | None = None) -> Description:
    """Return the description of an experiment.

    Args:
        experiment: that is described.
        earlier: header of the record whose runs are the baseline; None for no such record.

    Raises:
        UserError: this version of Swapstone has no such workload.
    """
    found = workloads.workloads_of(experiment)
    metrics = tuple(dict.fromkeys(metric for work in found.values() for metric in work.metrics))
    places = {metric: place for place, metric in enumerate(metrics)}
    works = [*((suite, work) for (suite, _), work in found.items()), *builder().empty]
    return Description(
        metrics=metrics,
        works=tuple(_stored(suite, work, (places[metric] for metric in work.metrics)) for suite, work in works),
        sizes=(*builder().sizes, *_root_sizes(experiment)),
        levels=tuple(_levels(experiment)),
        place=_place(experiment, (metric for work in found.values() for metric in work.metrics)),
        notes=(
            *report_notes(experiment),
            *server_notes(experiment),
            *([f"Before: the record {earlier.id} of {earlier.created}."] if earlier else []),
        ),
        parts=_parts(experiment),
    )


def _root_sizes(experiment: Experiment) -> tuple[Metric, ...]:
    rooted = experiment.own and any(is_root_factor(each.factor) for each in experiment.factors)
    return tuple(metric for roots in provided("root", ProgramRoots) for metric in roots.sizes) if rooted else ()


def _parts(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    names = {("target", experiment.target.partition(":")[0]), *(("suite", suite) for suite, _ in experiment.workloads)}
    names |= {("factor", choice.factor) for choice in experiment.applied_factors}
    return tuple((part.name, part.version) for part in parts_of(names))


def _stored(suite: str, work: WorkSpec, metrics: Iterable[int]) -> StoredWork:
    return StoredWork(
        suite=suite,
        name=work.name,
        description=work.description,
        parameters=work.parameters,
        metrics=tuple(metrics),
        cpus=work.cpus,
        threads=work.threads,
        waits=work.waits,
    )


def _levels(experiment: Experiment) -> Iterator[StoredLevel]:
    texts = {(factor.name, level.name): level.description for factor in all_factors() for level in factor.levels}
    for choice in experiment.applied_factors:
        for level in choice.levels:
            yield StoredLevel(factor=choice.factor, level=level, description=texts.get((choice.factor, level), ""))


def _place(experiment: Experiment, metrics: Iterable[Metric]) -> PlaceFacts:
    """Return the facts of a target; of one that this version does not have, that it boots and explains nothing."""
    name = experiment.target.partition(":")[0]
    kind = next((each.opens for each in target_kinds() if each.name == name), None)
    if kind is None:
        return PlaceFacts(exact=experiment.virtual)
    driver = "unknown"
    with contextlib.suppress(UserError):  # of a record that someone edited
        driver = driver_of(experiment.target)
    names = {metric.name for metric in metrics}
    compares = experiment.factors[0].factor != SESSION
    here = not experiment.virtual and "runs_instruments" in kind.offers and not driver
    return PlaceFacts(
        exact=experiment.virtual,
        boots="boots" in kind.offers,
        bare="bare" in kind.offers,
        explains=compares and any(each.explains(experiment, names, here) for each in explainers()),
    )
