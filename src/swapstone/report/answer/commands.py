# SPDX-License-Identifier: MIT OR Apache-2.0
"""What to do next: commands that follow from a result."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from swapstone.model import Comparison, Scale, Verdict
from swapstone.report.answer.places import IDLE, differs
from swapstone.report.context import ReportContext

_MOST_WORKLOADS = 2
_LONGER = 2


def commands_for(context: ReportContext, rows: Sequence[Comparison]) -> tuple[tuple[str, str], ...]:
    """Return pairs (purpose, command): to explain the row that differs most, and to measure inconclusive rows for longer.

    Args:
        context: gives the experiment, and the command that explains a row where the target can run one under instruments.
        rows: those to read first.
    """
    found = []
    if (row := _largest(rows)) is not None and context.explain:
        what = f"{context.explain} {row.metric.name} --only {shlex.quote(row.workload)}"
        if len({each.candidate for each in rows}) > 1:
            what += f" --candidate {shlex.quote(row.candidate.label)}"
        found.append(("why it differs", what))
    undecided = [each for each in rows if each.verdict is Verdict.INCONCLUSIVE]
    if undecided and (longer := longer_command(context, undecided)):
        found.append(("measure longer", longer))
    return tuple(found)


def _largest(rows: Sequence[Comparison]) -> Comparison | None:
    found = [row for row in rows if differs(row) and row.scale is Scale.RATIO and row.effect]
    return max(found, key=lambda row: max(row.effect or 1.0, 1 / (row.effect or 1.0)), default=None)


def longer_command(context: ReportContext, rows: Sequence[Comparison]) -> str:
    """Return the command that measures rows again, with twice the experiment's time.

    Returns:
        Empty for an own program: its command line is longer than a hint, and ``rerun`` has no budget.
    """
    experiment = context.experiment
    if experiment.own is not None:
        return ""
    names = list(dict.fromkeys(row.workload for row in rows))
    suites = list(dict.fromkeys(row.suite for row in rows))
    words = ["swapstone", "compare", *(f"{each.factor}={','.join(each.levels)}" for each in experiment.factors)]
    for suite in suites:
        words += ["--suite", suite]
    if len(names) <= _MOST_WORKLOADS:
        for name in names:
            words += ["--only", _pattern(name)]
    if not context.explain:  # a target that can't run instruments is not the default of every experiment
        words += ["--target", experiment.target]
    if experiment.loads != (IDLE,):
        words += ["--load", ",".join(experiment.loads)]
    words += ["--blocks", str(_LONGER * experiment.blocks)] if experiment.blocks else ["--budget", _time(context)]
    return shlex.join(words)


def _pattern(name: str) -> str:
    """Return a pattern of fnmatch that matches a name alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _time(context: ReportContext) -> str:
    seconds = max(1, round(_LONGER * context.experiment.budget_ns / 1e9))
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
