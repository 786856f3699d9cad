# SPDX-License-Identifier: MIT OR Apache-2.0
"""Why a run differs: the functions that account for it, and whether the change edits their files."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from swapstone.core.comparison.profile_difference import SMALLEST_SHARE
from swapstone.core.model import UserError
from swapstone.core.model.profile import OWN_OBJECT
from swapstone.core.session.progress import Progress
from swapstone.core.session.record_handle import Record
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.explain.instruments.perf import demangled
from swapstone.parts.gate.builds import TREE, BuiltSide
from swapstone.parts.gate.gate_result import Cause

MOST_FUNCTIONS = 5


def causes_of(
    name: str, record: Record, after: BuiltSide, changed: Collection[str], progress: Progress
) -> tuple[Cause, ...]:
    """Return the functions with the largest differences of own instructions: `SMALLEST_SHARE` of all or more, at most `MOST_FUNCTIONS`.

    Args:
        name: of the run.
        record: of the run.
        after: the built head.
        changed: paths that the change edits.
        progress: receives events.

    Raises:
        UserError: the run can't be explained.
    """
    (_, workload), *_ = record.experiment.workloads
    difference = record.explain(workload, metric="wall", paths=False, progress=progress).compare()
    if difference is None:
        return ()
    least = SMALLEST_SHARE * abs(difference.total.difference)
    frames = [one for one in difference.frames if one.own.difference and abs(one.own.difference) >= least][
        :MOST_FUNCTIONS
    ]
    sources, names = _sources(after), demangled(one.frame.symbol for one in frames)
    built = {OWN_OBJECT, *(Path(each).name for each in after.loadable)}
    made = []
    for one in frames:
        source, line = sources.get(one.frame.symbol, ("", 0)) if one.frame.object in built else ("", 0)
        edited = source in changed if source else None
        made.append(
            Cause(
                run=name,
                function=names.get(one.frame.symbol, one.frame.symbol),
                object=one.frame.object,
                difference=one.own.difference,
                source=source,
                edited=edited,
                line=line,
            )
        )
    return tuple(made)


def _sources(after: BuiltSide) -> dict[str, tuple[str, int]]:
    """Return file and line of each function of programs and shared objects, from debug information; none of names that several have."""
    found: dict[str, set[str]] = {}
    tree = str(after.folder.parent / TREE)
    for path in (each for each in after.loadable if each in after.sizes or ".so" in each):
        try:
            lines = run_tool(("nm", "--line-numbers", str(after.folder / path)), "Reading symbols", timeout_s=60)
        except UserError:  # no binutils
            continue
        for text in lines.splitlines():
            symbol, _, where = text.partition("\t")
            words = symbol.split(None, 2)
            if len(words) == 3 and words[1] in {"T", "t", "W", "w"} and where:
                found.setdefault(words[2], set()).add(where)
    places = {name: min(where).rpartition(":") for name, where in found.items() if len(where) == 1}
    inside = {name: (os.path.relpath(file, tree), line) for name, (file, _, line) in places.items()}
    return {
        name: (file, int(line) if line.isdecimal() else 0)
        for name, (file, line) in inside.items()
        if not Path(file).is_absolute() and not file.startswith("..")
    }
