# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is run: one class for each kind of workload, all with the contract `Subject`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeVar

from swapstone.model import OwnProgram, PartOrigin, Source, UserSupplied, Workload
from swapstone.model.parts import load, provided
from swapstone.subjects.bundled import Bundled
from swapstone.subjects.own_program import OwnProgramState, UserProgram
from swapstone.subjects.server import Server
from swapstone.subjects.subject import BuildContext, Judgement, KeepLog, Outcome, Subject, SubjectKind, TrialSpec
from swapstone.subjects.variant_program import Program
from swapstone.wire.kept_answer import raw_output

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
    states: dict[OwnProgram, OwnProgramState] = {}
    return {key: subject_of(workload, states) for key, workload in workloads.items()}


def subject_of(workload: Workload, states: dict[OwnProgram, OwnProgramState] | None = None) -> Subject:
    """Return the subject of a workload.

    Args:
        workload: its origin decides the class, and its load generator whether it is a server.
        states: of own programs that other workloads use too; extended.
    """
    subject = _of_origin(workload, {} if states is None else states)
    return Server(subject, workload.load_generator) if workload.load_generator else subject


def _of_origin(workload: Workload, states: dict[OwnProgram, OwnProgramState]) -> Subject:
    match workload.origin:
        case Source() as source:
            return Bundled(workload, source)
        case UserSupplied(program=own):
            return UserProgram(workload, own, states.setdefault(own, OwnProgramState()))
        case PartOrigin(part=part, subject=place):
            found: Subject = load(part, place, type)(workload)
            return found
        case origin:
            return next(kind.make(workload, origin) for kind in _kinds() if isinstance(origin, kind.origin))


@functools.cache
def _kinds() -> tuple[SubjectKind, ...]:
    return provided("subject", SubjectKind)
