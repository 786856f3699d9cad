# SPDX-License-Identifier: MIT OR Apache-2.0
"""Do runs of an own program change what later runs find: files, and the page cache?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from swapstone.core.comparison.rows import Findings
from swapstone.core.comparison.run_table import ABSENT, OK, RunTable
from swapstone.core.model import Caveat, CaveatKind, Experiment, Variant, WorkSpec
from swapstone.core.stats import Ints

SMALL_BYTES = 64 << 10
"""Runs that read and write less than this are not reported: a log file, the pages of a program that was evicted."""

_MIB = 1 << 20
_FACTS = (("read", "read_bytes"), ("write", "write_bytes"))


def check(
    experiment: Experiment, variants: Sequence[Variant], _workloads: Mapping[str, WorkSpec], table: RunTable
) -> Findings:
    """Return a caveat for each workload that uses storage or leaves files; arguments as `swapstone.core.comparison.checks.check`.

    On the virtual clock there is none: each run starts from the same state, with the same files and the same page cache.
    """
    if experiment.own is None or experiment.own.load_generators or experiment.virtual:
        return Findings()
    caveats: list[Caveat] = []
    for workload in dict.fromkeys(name for _, name in experiment.workloads):
        places = np.array([place[1] == workload for place in table.places], dtype=np.bool_)
        of_it = np.flatnonzero(places[table.place] & (table.status == OK)) if len(table) else table.place
        caveats += [*_storage(workload, variants, table, of_it), *_left(workload, table, of_it)]
    return Findings(caveats=tuple(caveats))


def _storage(workload: str, variants: Sequence[Variant], table: RunTable, rows: Ints) -> Iterator[Caveat]:
    measured = rows[(table.block[rows] > 0) & (table.prime[rows] == 0)]
    clauses = []
    for verb, fact in _FACTS:
        means = [_mean(table, measured, variant, fact) for variant in variants]
        known = [(mean, variant) for mean, variant in zip(means, variants, strict=True) if mean is not None]
        if known and max(mean for mean, _ in known) >= SMALL_BYTES:
            shown = ", ".join(f"{mean / _MIB:.3g} ({variant.shown_label})" for mean, variant in known[:4])
            clauses.append(f"{verb} {shown}{' and others' if len(known) > 4 else ''} MiB a run")
    if clauses:
        yield Caveat(
            kind=CaveatKind.WRITES_FILES,
            message=f"{workload} uses storage: on average, its variants {' and '.join(clauses)}. "
            "What a run leaves in the page cache and on the disk can change the next one.",
            hint="Restore the state before each run: --prepare COMMAND. Or discard a run of the same variant before each measured one: "
            "--prime 1",
        )


def _mean(table: RunTable, rows: Ints, variant: Variant, fact: str) -> float | None:
    if variant.label not in table.labels:
        return None
    mine = rows[table.label[rows] == table.labels.index(variant.label)]
    values = table.fact(fact)[mine]
    known = values[values != ABSENT]
    return float(np.mean(known)) if known.size else None


def _left(workload: str, table: RunTable, rows: Ints) -> Iterator[Caveat]:
    found, first = np.unique(table.found[rows], return_index=True)
    lists = [table.left[number] for number in found[np.argsort(first)].tolist()]
    names = list(dict.fromkeys(name for files in lists for name in files))
    outside = [name for name in names if name.startswith("/")]
    for chosen, what, hint in (
        (
            [name for name in names if name not in outside],
            f"Runs of {workload} leave files in their working folder, which later runs of all variants find",
            "Remove or restore them before each run: --prepare 'rm -f FILE'",
        ),
        (
            outside,
            f"While runs of {workload} were measured, files outside their working folder grew (who wrote to them is not observed)",
            "If the program writes to them, each run finds another state than the one before. Restore it: --prepare COMMAND",
        ),
    ):
        if shown := [repr(name[:80]) for name in chosen if name != "..."]:
            yield Caveat(
                kind=CaveatKind.WRITES_FILES,
                message=f"{what}: {', '.join(shown)}{', ...' if '...' in chosen else ''}.",
                hint=hint,
            )
