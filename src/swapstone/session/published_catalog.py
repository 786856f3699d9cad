# SPDX-License-Identifier: MIT OR Apache-2.0
"""What this program can measure, as the coverage of the published figures reads it."""

from __future__ import annotations

from collections.abc import Iterator

from swapstone.factors import FACTORS
from swapstone.published.coverage import Catalog, Coverage, Part, coverage
from swapstone.report.published_coverage import SECTIONS, SERIES
from swapstone.session.defaults import default_suites
from swapstone.session.study_file import BadStudy, ExperimentKeys, StudyPart, list_studies
from swapstone.workloads import LOADS, SUITES, find_workloads


def published_coverage() -> Coverage:
    """Return which published figures this program has a row for."""
    return coverage(catalog())


def catalog() -> Catalog:
    """Return what this program can measure and print."""
    return Catalog(
        metrics={
            (suite.name, workload.name): frozenset(metric.name for metric in workload.metrics)
            for suite in SUITES
            for workload in suite.workloads
        },
        loads=frozenset(load.name for load in LOADS),
        levels=frozenset((factor.name, level.name) for factor in FACTORS for level in factor.levels),
        sections=SECTIONS,
        series=SERIES,
        parts=tuple(_parts()),
    )


def _parts() -> Iterator[Part]:
    for name, study in list_studies():
        if isinstance(study, BadStudy):
            continue
        for each in study.experiments():
            yield _part(f"{name}/{each.name}" if isinstance(each, StudyPart) else name, each)


def _part(name: str, keys: ExperimentKeys) -> Part:
    wanted, loads = keys.settings.workloads, keys.settings.place.loads
    suites = wanted.suites or default_suites(keys.factors, wanted.only)
    return Part(
        name=name,
        published=wanted.published,
        workloads=frozenset((suite, workload.name) for suite, workload in find_workloads(suites, wanted.only)),
        loads=frozenset(loads),
        levels=frozenset((choice.factor, level) for choice in keys.factors for level in choice.levels),
    )
