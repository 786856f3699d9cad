# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do runs of an own program change what later runs find: files, and the page cache?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swapstone.comparison.findings import Findings
from swapstone.model import Caveat, CaveatKind, Experiment, Run, Status, Variant, Workload

SMALL_BYTES = 64 << 10
"""Runs that read and write less than this are not reported: a log file, the pages of a program that was evicted."""

_MIB = 1 << 20
_FACTS = (("read", "read_bytes"), ("write", "write_bytes"))


def check(
    experiment: Experiment, variants: Sequence[Variant], workloads: Mapping[str, Workload], runs: Sequence[Run]
) -> Findings:
    """Return a caveat for each workload that uses storage or leaves files; arguments as `swapstone.comparison.checks.check`."""
    del workloads
    if experiment.own is None or experiment.own.load_generators:
        return Findings()
    caveats: list[Caveat] = []
    for workload in dict.fromkeys(name for _, name in experiment.workloads):
        of_it = [run for run in runs if run.trial.workload == workload and run.status is Status.OK]
        caveats += [*_storage(workload, variants, of_it), *_left(workload, of_it)]
    return Findings(caveats=tuple(caveats))


def _storage(workload: str, variants: Sequence[Variant], runs: Sequence[Run]) -> Iterator[Caveat]:
    measured = [run for run in runs if run.trial.block > 0 and not run.trial.prime]
    clauses = []
    for verb, fact in _FACTS:
        means = [_mean(measured, variant, fact) for variant in variants]
        known = [(mean, variant) for mean, variant in zip(means, variants, strict=True) if mean is not None]
        if known and max(mean for mean, _ in known) >= SMALL_BYTES:
            shown = ", ".join(f"{mean / _MIB:.3g} ({variant.label})" for mean, variant in known[:4])
            clauses.append(f"{verb} {shown}{' and others' if len(known) > 4 else ''} MiB a run")
    if clauses:
        yield Caveat(
            kind=CaveatKind.WRITES_FILES,
            message=f"{workload} uses storage: on average, its variants {' and '.join(clauses)}. "
            "What a run leaves in the page cache and on the disk can change the next one.",
            hint="Restore the state before each run: --prepare COMMAND. Or discard a run of the same variant before each measured one: "
            "--prime 1",
        )


def _mean(runs: Sequence[Run], variant: Variant, fact: str) -> float | None:
    values = [dict(run.facts).get(fact) for run in runs if run.trial.variant == variant.label]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _left(workload: str, runs: Sequence[Run]) -> Iterator[Caveat]:
    names = list(dict.fromkeys(name for run in runs for name in run.found_files))
    if names:
        shown = ", ".join(repr(name[:80]) for name in names if name != "...") + (", ..." if "..." in names else "")
        yield Caveat(
            kind=CaveatKind.WRITES_FILES,
            message=f"Runs of {workload} leave files in their working folder, which later runs of all variants find: {shown}.",
            hint="Remove or restore them before each run: --prepare 'rm -f FILE'",
        )
