# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether the commands in a record may run: in a record that this user made here, or by the user's word.

A record is data, and an experiment in it is a program: to resume, repeat or explain it runs the commands that it contains. See
docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from swapstone.core.model import RecordError
from swapstone.core.model.safe_text import safe
from swapstone.core.record import RecordView, foreign_reason, load, origin_reason
from swapstone.core.session.planned_commands import planned_commands

_TRUNCATED = "the line is truncated"
"""The problem of a last line that a signal cut: no sign of an edit (`swapstone.core.record.run_lines.read_lines`)."""


class UntrustedRecordError(RecordError):
    """A record contains commands, and another user, another machine or an edit may have put them there.

    Attributes:
        commands: what would run, one line each, as the message has it.
    """

    def __init__(self, path: Path, reason: str, action: str, commands: Sequence[str]) -> None:
        lines = "".join(f"\n  {line}" for line in commands)
        super().__init__(
            f"{safe(str(path))} is not trusted: {safe(reason)}. Nothing was run. To {action} it would:{lines}",
            "Read these lines. If all of it may happen on this machine, as you, add --trust (in Python: trust=True). "
            "`swapstone docs security` explains it.",
        )
        self.commands = tuple(commands)


def distrust_reason(view: RecordView) -> str:
    """Return why a record's commands are not run without the user's word, as a clause; empty if they are.

    A last line that a signal cut is no damage here.
    """
    reason = foreign_reason(view.path, view.experiment, view.manifest)
    damages = [damage for damage in view.damages if damage.problem != _TRUNCATED]
    if not reason and damages:
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        reason = f"it is damaged or was edited ({damages[0]}{more})"
    return reason


def require_trust(view: RecordView, action: str, *, trust: bool, more: Iterable[str] = ()) -> None:
    """Check that the commands of a record may run.

    Args:
        view: the record.
        action: for the message: a verb, such as ``repeat``.
        trust: whether the user accepts the commands of this record.
        more: further lines of what would run.

    Raises:
        UntrustedRecordError: the user did not make it on this machine, or it was damaged or edited.
    """
    if trust:
        return
    if reason := distrust_reason(view):
        raise UntrustedRecordError(view.path, reason, action, (*planned_commands(view.experiment), *more))


def require_own_record(path: Path, action: str, *, trust: bool) -> None:
    """Check, before anything is written into a record, that its commands may run. Its runs are not read.

    Raises:
        UntrustedRecordError: the user did not make it on this machine, or the experiment was edited.
        RecordError: it is no record.
    """
    if trust:
        return
    if reason := foreign_reason(path):
        raise UntrustedRecordError(path, reason, action, planned_commands(load(path).experiment))


def require_trusted_study(
    folder: Path, name: str, content: bytes, commands: Callable[[], Sequence[str]], *, trust: bool
) -> None:
    """Check that the commands of a study's folder may run.

    Args:
        folder: of the study.
        name: of its file.
        content: of that file.
        commands: returns a line for each command that would run.
        trust: whether the user accepts the commands.

    Raises:
        UntrustedRecordError: the user did not start the study on this machine, or the file was edited.
    """
    if trust:
        return
    if reason := origin_reason(folder, "", [(name, content)]):
        raise UntrustedRecordError(folder, reason, "resume", commands())
