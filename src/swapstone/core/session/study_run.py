# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file `study.json` in a study's folder, from which the study is resumed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

import msgspec

from swapstone.core.model import FrozenStruct, RecordError
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.model.safe_text import safe
from swapstone.core.record import FileProblemError, origin_reason, read_regular
from swapstone.core.session.study_file import STUDY_FILE, Study, StudyPart, is_part_name
from swapstone.core.session.trust import planned_study_commands, refuse_untrusted, require_own_record

STUDY = "study.json"
_MOST_BYTES = 16 << 20

_START = (
    "`swapstone study` prints the folder of a study when it starts; `swapstone list studies` lists what can be started."
)


class StudyRun(FrozenStruct, frozen=True, kw_only=True):
    """A study with the options of its run: `study.json` in its folder, from which it is resumed.

    Attributes:
        format, schema: of this file.
        created: when, in UTC.
        name: of the study.
        study: the content of its file.
        parts: names of the parts to run, in order.
        only: patterns of workloads; none for all.
        budget_ns: of all parts together; 0 for the parts' own.
        seed: of every random order of a part without a seed of its own.
        blocks: an exact number of blocks for every part; 0 for the parts' own.
        target: a target for every part; empty for the parts' own.
        directory: where relative paths in the study start; empty for the current folder.
    """

    format: str = "swapstone-study"
    schema: Literal[3] = 3
    created: str
    name: str
    study: Study
    parts: tuple[str, ...]
    only: tuple[str, ...] = ()
    budget_ns: int = 0
    seed: int
    blocks: int = 0
    target: str = ""
    directory: str = ""

    @property
    def chosen(self) -> tuple[StudyPart, ...]:
        """Return the parts to run, each with the keys that it inherits."""
        return tuple(part for part in self.study.parts() if part.name in self.parts)


_FILE: Any = msgspec.defstruct("StudyRun", [("study", STUDY_FILE)], bases=(StudyRun,), frozen=True, kw_only=True)


def _study_bytes(folder: Path) -> bytes:
    try:
        return read_regular(folder / STUDY, _MOST_BYTES)
    except FileNotFoundError as error:
        raise _not_a_study(folder) from error
    except FileProblemError as error:
        if folder.is_file():
            raise _not_a_study(folder) from error
        raise RecordError(f"{folder / STUDY} can't be read: {error}.") from error


def _not_a_study(folder: Path) -> RecordError:
    """Return the error for a folder without `study.json`, with the command that was probably meant."""
    shown, above = shlex.quote(str(folder)), folder.absolute().parent
    found = sorted(each.parent for each in folder.glob(f"*/{STUDY}"))
    meant = (
        (not folder.exists(), f"There is no folder {safe(str(folder))}.", _START),
        (not folder.is_dir(), f"{safe(str(folder))} is a file, not a study's folder.", _START),
        (
            (above / STUDY).is_file(),
            f"{safe(str(folder))} is a part of a study, or a file beside them.",
            f"Resume the whole study: swapstone study --resume {shlex.quote(str(above))}",
        ),
        (
            (folder / "record.json").is_file(),
            f"{safe(str(folder))} is a record, not a study.",
            f"Resume it: swapstone compare --resume {shown}",
        ),
        (
            found,
            f"{safe(str(folder))} is no study's folder; {len(found)} in it {'is' if len(found) == 1 else 'are'}.",
            f"Name one: swapstone study --resume {shlex.quote(str(found[-1] if found else ''))}",
        ),
        (True, f"{safe(str(folder))} is no study's folder: it has no {STUDY}.", _START),
    )
    return next(RecordError(message, hint) for condition, message, hint in meant if condition)


def _decoded(folder: Path, data: bytes) -> StudyRun:
    if problem := amount_problem(data):
        raise RecordError(f"{folder / STUDY} can't be read: {problem}.")
    try:
        run: StudyRun = msgspec.json.decode(data, type=_FILE)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{folder / STUDY} can't be read: {error}.") from error
    names = [part.name for part in run.study.part]
    if wrong := next((name for name in names if not is_part_name(name)), None):
        raise RecordError(f"{folder / STUDY} can't be read: {wrong!r} is no name of a part.")
    return run


def load_trusted_run(folder: Path, *, trust: bool) -> StudyRun:
    """Read `study.json`, and check, before names are resolved, that the commands of the study and of its parts' records may run.

    Args:
        folder: of the study.
        trust: whether the user accepts the commands.

    Raises:
        UntrustedRecordError: the user did not start the study on this machine, or its file or a part's record was edited.
        RecordError: a part's folder is a symbolic link, or there is no study that can be read.
    """
    if "\n" in str(folder):  # messages would have lines that the name forges
        raise RecordError(f"The name of this folder has a line break: {safe(str(folder))}", "Rename it.")
    data = _study_bytes(folder)
    run = _decoded(folder, data)
    refuse_untrusted(
        folder,
        "resume",
        lambda: origin_reason(folder, "", [(STUDY, data)]),
        lambda: planned_study_commands(run.chosen, run.target, run.directory),
        trust=trust,
    )
    for part in run.chosen:
        path = folder / part.name
        if path.is_symlink():
            raise RecordError(f"{path} is a symbolic link: a part's record must be inside its study's folder.")
        if (path / "record.json").exists():
            require_own_record(path, "resume", trust=trust)
    return run
