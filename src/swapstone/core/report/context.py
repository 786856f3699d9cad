# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a report prints besides the analysis: the experiment, the record, the environment, commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from swapstone.core.model import Experiment, FrozenStruct, Metric, WorkSpec

Found = TypeVar("Found")


ABSENT = "absent"
"""The piece of a part with reasons by metric: why no run of the record has a value."""


class PartContext(FrozenStruct, frozen=True, kw_only=True):
    """What a part adds to the context of a record's report: its objects of the kind ``context`` return one.

    Attributes:
        facts: as `ReportContext.facts`.
        notes: as `ReportContext.notes`.
        pieces: as `ReportContext.pieces`.
    """

    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    pieces: Mapping[str, object] = {}


class ExplanationSummary(FrozenStruct, frozen=True, kw_only=True):
    """An explanation of a row by `swapstone explain`, as texts.

    Attributes:
        title: the row.
        paragraph: what accounts for its difference.
        evidence: pairs (heading, sentences).
        ledger: a table of the difference, its head and its rows, each as cells; empty for none.
        pages: pairs (path, description) of the explanation's page and its flame graphs.
    """

    title: str
    paragraph: str
    evidence: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ledger: tuple[tuple[str, ...], ...] = ()
    pages: tuple[tuple[str, str], ...] = ()


class Selection(FrozenStruct, frozen=True, kw_only=True):
    """Which rows a report prints.

    Attributes:
        every: one full row for every comparison, not only for those that are read first.
        metrics: only these metrics, by name; empty for all.
    """

    every: bool = False
    metrics: tuple[str, ...] = ()

    def admits(self, metric: Metric) -> bool:
        """Return whether a metric is among the selected ones."""
        return not self.metrics or metric.name in self.metrics


class ReportContext(FrozenStruct, frozen=True, kw_only=True):
    """What a report prints besides the analysis.

    Attributes:
        experiment: resolved.
        record_id: identity of the record.
        record_path: of its folder, printed as given.
        started_unix_ns, finished_unix_ns: start of the first and end of the last trial; 0 where unknown.
        facts: pairs (label, value) about machine, tools and programs, in the order in which they are printed.
        rerun: the command that repeats the experiment.
        command: the own program as a command line; empty for the bundled workloads.
        published: name of the published study to print beside the results, or empty.
        notes: sentences printed with the caveats.
        version: of swapstone.
        reasons: of the explained rows.
        explain: the command that explains a row; empty where the target can't.
        workloads: pairs (suite, workload): what was run. Reports group by the workloads' parameters.
        seal_digest: of the whole record, 64 hexadecimal digits: `swapstone verify --against` compares it. Empty for a record without a
            seal.
        pieces: by name, what a part read of the runs for its topic, and for those of other parts.
        selection: which rows to print. The JSON report leaves out this, `pieces`, which topics print, and `workloads`.
    """

    experiment: Experiment
    record_id: str
    record_path: str
    started_unix_ns: int = 0
    finished_unix_ns: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    rerun: str = ""
    command: str = ""
    published: str = ""
    notes: tuple[str, ...] = ()
    version: str = ""
    reasons: tuple[ExplanationSummary, ...] = ()
    explain: str = ""
    workloads: tuple[tuple[str, WorkSpec], ...] = ()
    seal_digest: str = ""
    pieces: Mapping[str, object] = {}
    selection: Selection = Selection()

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the names of the metrics that the user asked for: selected ones, and numbers that the user's program prints."""
        return tuple(dict.fromkeys((*self.selection.metrics, *self.experiment.printed_metrics)))

    @property
    def quoted_path(self) -> str:
        """Return the record's path for a command."""
        return shlex.quote(self.record_path)

    def piece(self, name: str, of: type[Found]) -> Found | None:
        """Return the piece of a name; None without one of that class."""
        found = self.pieces.get(name)
        return found if isinstance(found, of) else None

    def parameters(self, suite: str, workload: str) -> dict[str, str]:
        """Return the parameters of a workload; none where it is unknown or has none."""
        found = (dict(each.parameters) for place, each in self.workloads if (place, each.name) == (suite, workload))
        return next(found, {})
