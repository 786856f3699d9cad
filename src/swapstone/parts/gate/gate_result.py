# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a gate found."""

from __future__ import annotations

from typing import Literal

from swapstone.core.model import FrozenStruct
from swapstone.core.model.safe_text import safe
from swapstone.exit_status import ExitStatus, Finding
from swapstone.parts.gate.gate_file import with_keys

State = Literal["worse", "accepted", "more", "fewer", "same"]


class Row(FrozenStruct, frozen=True, kw_only=True):
    """A metric of a run, or the size of a program.

    Attributes:
        run: its name; of a size, the program's path.
        metric: one of `swapstone.parts.gate.gate_file.UNITS`.
        detail: which system call; else empty.
        unit: of the numbers.
        base, head: medians of the replicates.
        difference: median of the differences within the replicates; of `instructions`, of the parts that differ.
        floor: differences of up to three of it are not stated.
        limit: as in the file; empty for a row that can't fail.
        state: ``worse`` than the limit allows; ``accepted`` though it is; ``more`` or ``fewer`` within it; ``same`` within three floors.
    """

    run: str
    metric: str
    detail: str = ""
    unit: str
    base: float
    head: float
    difference: float
    floor: float
    limit: str = ""
    state: State

    @property
    def name(self) -> tuple[str, str, str]:
        """Return what tells it from other rows."""
        return self.run, self.metric, self.detail

    @property
    def share(self) -> float:
        """Return the size of the difference as a share of the base; 0 where that is 0."""
        return abs(self.difference) / self.base if self.base else 0.0

    @property
    def ratio(self) -> float:
        """Return by which factor the difference changes the base; 0 if a side is 0."""
        return 1 + self.difference / self.base if self.base and self.head else 0.0


class RunFinding(FrozenStruct, frozen=True, kw_only=True):
    """What is wrong with a run itself, or with a side.

    Attributes:
        run: its name; empty for a side.
        status: of the gate, if it is not accepted.
        text: a clause.
        finding: in the table of exit statuses, in small letters, e.g. ``not_built``; empty for those of a gate alone.
        metric: of the acceptance that accepts it; empty if none does.
        share: how much of the work is lost, as a ratio; 0 for other findings.
        entry: name of the store's run that is not the one made here; empty for other findings.
    """

    run: str
    status: ExitStatus
    text: str
    finding: str = ""
    metric: str = ""
    share: float = 0.0
    entry: str = ""

    @property
    def clause(self) -> str:
        """Return it with the run's name."""
        joint = " " if self.text.startswith("is ") else ": "
        return f"{self.run}{joint}{self.text}" if self.run else self.text


def finding_of_run(run: str, finding: Finding, reason: str) -> RunFinding:
    """Return a finding of the table of exit statuses with the first line of its reason; of a run, or of a side if the name is empty."""
    first = with_keys(safe(reason.strip().partition("\n")[0].rstrip(".")))
    text = finding.text.replace("the candidate", "the head").replace("the baseline", "the base")
    return RunFinding(run=run, status=finding.status, finding=finding.name.lower(), text=f"{text}: {first}")


class Cause(FrozenStruct, frozen=True, kw_only=True):
    """A function that has a part in a run's difference.

    Attributes:
        run: its name.
        function: its name.
        object: the file that has it, e.g. ``program``.
        difference: of its own instructions.
        source: its file in the repository, from debug information; empty where that does not name one.
        edited: whether the change edits that file; None without a source.
        line: where the function begins in that file; 0 if that is not known.
    """

    run: str
    function: str
    object: str
    difference: float
    source: str = ""
    edited: bool | None = None
    line: int = 0


class GateResult(FrozenStruct, frozen=True, kw_only=True):
    """The result of a gate.

    Attributes:
        answer: one sentence.
        status: as decided; ``--report-only`` does not change it.
        base, head: commits.
        base_reason: why it is this base.
        measured: number of rows that were compared.
        rows: those that changed, and those with a limit.
        findings: what decides beside rows.
        accepted: a sentence for each acceptance that was used.
        causes: why, by function.
        notes: limits of the result, and what is different from what one might expect.
        records: pairs (name of a run, folder of its record).
        repeat: the command.
    """

    answer: str
    status: ExitStatus
    base: str
    head: str
    base_reason: str
    measured: int
    rows: tuple[Row, ...] = ()
    findings: tuple[RunFinding, ...] = ()
    accepted: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    records: tuple[tuple[str, str], ...] = ()
    repeat: str
