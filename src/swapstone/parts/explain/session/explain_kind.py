# SPDX-License-Identifier: MIT OR Apache-2.0
"""What this part provides to explain rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swapstone.core.model import Analysis, Experiment
from swapstone.core.model.metric import TIMES
from swapstone.core.record import RecordView
from swapstone.core.report.context import ExplanationSummary
from swapstone.core.session.explainer import Explainer, RowExplanation
from swapstone.parts.explain.session.wakeups import measures_wakeups

if TYPE_CHECKING:
    from swapstone.core.session.progress import Progress


def _explains(experiment: Experiment, metrics: Collection[str], instrumented: bool) -> bool:
    """Return whether rows can be explained by this machine's instruments, by instructions, or by the paths of wake-ups."""
    if instrumented or (experiment.virtual and not set(TIMES).isdisjoint(metrics)):
        return True
    return measures_wakeups(experiment)


def _summaries(view: RecordView, beside: Path | None) -> tuple[ExplanationSummary, ...]:
    from swapstone.parts.explain.report.explanations import FOLDER  # noqa: PLC0415 - imports what reports, and trials begin without it

    if not (view.path / FOLDER).is_dir():
        return ()
    from swapstone.parts.explain.session.explanation_files import reasons_of  # noqa: PLC0415 - few records have explanations

    return reasons_of(view, beside)


def _explain(view: RecordView, analysis: Analysis, options: Mapping[str, Any], progress: Progress) -> RowExplanation:
    from swapstone.parts.explain.session.explain import (  # noqa: PLC0415 - imports what runs trials
        ExplainOptions,
        explain_record,
    )

    return explain_record(view, analysis, ExplainOptions(**options), progress)


EXPLAINER = Explainer(explains=_explains, summaries=_summaries, explain=_explain)
