# SPDX-License-Identifier: MIT OR Apache-2.0
"""A trial that was attempted, and the run that the record keeps of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from swapstone.core.answers import first_lines
from swapstone.core.model import CONSOLE, Run, Trial
from swapstone.core.subjects import Outcome
from swapstone.core.targets import MachineConfigError, TargetError


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A trial that was attempted: its outcome, or the error of the target instead.

    Attributes:
        outcome: None if the target broke, or could not make the machine.
        error: None if there is an outcome.
        times: ``started_unix_ns`` and ``elapsed_ns``, as in `Run`.
    """

    outcome: Outcome | None
    error: TargetError | MachineConfigError | None
    times: Mapping[str, int]


_LONGEST_LINE = 200


def reason_of_break(error: TargetError) -> str:
    """Return the reason of a run whose target broke: with the last lines of the machine's console, if it has one."""
    lines = " | ".join(line.strip()[:_LONGEST_LINE] for line in error.console.splitlines())
    return f"the target broke: {error.message}" + (CONSOLE + lines if lines else "")


def failure_text(run: Run, output: bytes, again: str) -> str:
    """Return the reason of a failed run for an error message: with its machine's last console lines, or else what it printed.

    Args:
        run: which.
        output: what it printed.
        again: how often it failed; empty for once.
    """
    reason, _, console = run.reason.partition(CONSOLE)
    lines = CONSOLE.strip() + "\n" + console.replace(" | ", "\n") if console else first_lines(output)
    return f"{reason}{again}\n{lines}"


def run_of(trial: Trial, outcome: Outcome, *, passes: int, times: Mapping[str, int], output: str) -> Run:
    """Return the run of a trial.

    Args:
        trial: which.
        outcome: what it amounts to.
        passes: how many were requested.
        times: ``started_unix_ns`` and ``elapsed_ns``.
        output: digest of the raw output.
    """
    judgement, answer = outcome.judgement, outcome.answer
    return Run(
        trial=trial,
        status=judgement.status,
        reason=judgement.reason,
        samples=judgement.measured.samples,
        observed=judgement.observed,
        facts=answer.facts if answer else (),
        passes=passes,
        check=judgement.measured.check,
        histogram=judgement.measured.histogram,
        by_processor=judgement.measured.by_processor,
        series=judgement.measured.series,
        seen=judgement.measured.seen,
        started_unix_ns=times["started_unix_ns"],
        elapsed_ns=times["elapsed_ns"],
        output=output,
        name=answer.name if answer else "",
        digests=judgement.digests,
        found_files=judgement.found_files,
    )
