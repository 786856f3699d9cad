# SPDX-License-Identifier: MIT OR Apache-2.0
"""What to do next: commands that follow from a result."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from swapstone.core.comparison.pairs import interval_pairs
from swapstone.core.model import MEDIAN_DIFFERS, Comparison, Scale, Verdict
from swapstone.core.model.metric import TIMES
from swapstone.core.plan import variants
from swapstone.core.report.context import ReportContext

_LONGER = 2.0
_MOST_PAIRS = 200
"""As many blocks as an experiment makes at most."""


def commands_for(context: ReportContext, rows: Sequence[Comparison]) -> tuple[tuple[str, str], ...]:
    """Return pairs (purpose, command): to explain the row that differs most, and to measure inconclusive rows for longer.

    Args:
        context: gives the experiment, and the command that explains a row where the target can run one under instruments.
        rows: those to read first.
    """
    found = []
    explained = [
        row
        for row in rows
        if row.verdict in MEDIAN_DIFFERS and row.scale is Scale.RATIO and row.effect
        if row.metric.name in TIMES or not context.experiment.virtual
    ]
    if explained and context.explain:
        row = max(explained, key=lambda row: max(row.effect or 1.0, 1 / (row.effect or 1.0)))
        what = f"{context.explain} {row.metric.name} --only {shlex.quote(row.workload)}"
        if len({each.candidate for each in rows}) > 1:
            what += f" --candidate {shlex.quote(row.candidate.label)}"
        found.append(("why it differs", what))
    undecided = [each for each in rows if each.verdict is Verdict.INCONCLUSIVE]
    if undecided and (longer := longer_command(context, undecided)):
        found.append(("measure longer", longer))
    return tuple(found)


def longer_command(context: ReportContext, rows: Sequence[Comparison]) -> str:
    """Return the command that continues the record until rows are decided: with all its options, and the time that they need.

    The half-width of an interval is proportional to 1 / sqrt(pairs). A row without one gets the pairs that an interval needs, and a
    quarter more, at least twice its pairs.

    Args:
        context: gives the record, the margin and the time that it took.
        rows: undecided.

    Returns:
        Empty where more time would not help: the largest number of blocks is reached, or an earlier session made half of the runs.
    """
    experiment = context.experiment
    works = {work.name: work for _, work in context.workloads}
    described = all(name in works for _, name in experiment.workloads)
    needed = 1.25 * interval_pairs(experiment, variants(experiment), works) if described else 0
    factors = [_factor(row, experiment.margin, needed) for row in rows if len(row.baseline_values) < _MOST_PAIRS]
    if not factors or experiment.earlier:
        return ""
    took_ns = max(context.finished_unix_ns - context.started_unix_ns, 0)
    used_ns = took_ns if experiment.blocks and took_ns else experiment.budget_ns
    return shlex.join(
        ["swapstone", "compare", "--resume", context.record_path, "--budget", _time(max(factors) * used_ns)]
    )


def _factor(row: Comparison, margin: float, needed: float) -> float:
    """Return how many times as many pairs a row needs, of which an interval needs `needed`."""
    pairs = max(1, len(row.baseline_values))
    most = max(_LONGER, _MOST_PAIRS / pairs)
    if row.low is None or row.high is None or row.low <= 0 or row.scale is not Scale.RATIO or margin <= 0:
        return min(max(_LONGER, needed / pairs), most)
    return min(max(_LONGER, ((math.sqrt(row.high / row.low) - 1) / margin) ** 2), most)


def _time(nanoseconds: float) -> str:
    seconds = max(1, math.ceil(nanoseconds / 1e9 - 1e-3))  # widths are rounded numbers
    minutes = -(-seconds // 60)
    return (
        f"{seconds}s" if seconds < 120 and seconds % 60 else f"{minutes}m" if minutes < 120 else f"{-(-minutes // 60)}h"
    )
