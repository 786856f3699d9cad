# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is run: one class for each kind of workload, all with the contract `Subject`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from swapstone.core.model import PartOrigin, UserError, Workload
from swapstone.core.model.parts import load, provided
from swapstone.core.model.workload import Origin
from swapstone.core.run.own_program import UserProgram
from swapstone.core.run.subject import BuildContext, Judgement, KeepLog, Outcome, Subject, TrialSpec
from swapstone.core.run.variant_program import Program
from swapstone.core.wire.kept_answer import raw_output

__all__ = [
    "BuildContext",
    "Judgement",
    "KeepLog",
    "Outcome",
    "Program",
    "Subject",
    "TrialSpec",
    "raw_output",
    "subject_of",
    "subjects_of",
]

Key = TypeVar("Key")


def subjects_of(workloads: Mapping[Key, Workload]) -> dict[Key, Subject]:
    """Return the subject of each workload of one experiment. The workloads of one own program share its build and its set-up."""
    first: dict[Origin, Subject] = {}
    return {key: subject_of(workload, first) for key, workload in workloads.items()}


def subject_of(workload: Workload, first: dict[Origin, Subject] | None = None) -> Subject:
    """Return the subject of a workload.

    Args:
        workload: its origin decides the class, and its load generator whether it is a server.
        first: the first subject of each origin, with which further ones share what `Subject.join` names; extended.

    Raises:
        UserError: no part runs such a program.
    """
    origin, generator = workload.origin, workload.load_generator
    if isinstance(origin, PartOrigin):
        subject: Subject = load(origin.part, origin.subject, type)(workload)
    else:
        subject = _made(workload, origin)
        subject.join(({} if first is None else first).setdefault(origin, subject))
    return _made(subject, generator) if generator else subject


def _made(what: Workload | Subject, of: object) -> Subject:
    for kind in _kinds():
        if isinstance(of, kind.runs):
            return kind(what, of)  # type: ignore[no-any-return]
    raise UserError(f"No installed part runs programs of the kind {type(of).__name__}.")


@functools.cache
def _kinds() -> tuple[Any, ...]:
    """Return classes of subjects. Each names in `runs` what it runs: a type of origin, or `LoadGenerator`."""
    return (*provided("subject", type), UserProgram)
