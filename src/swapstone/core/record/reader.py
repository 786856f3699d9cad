# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read a record: strict decoding, line by line; undamaged lines are read despite damage elsewhere.

A record is untrusted input. `swapstone.core.record.files` opens its files, `swapstone.core.record.validation` checks what they mean, and
whatever is wrong is a damage or a `RecordError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core.model import Experiment, FrozenStruct, RecordError, Run
from swapstone.core.model.frozen_struct import amount_problem
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import record_format, validation
from swapstone.core.record.files import FileProblemError, RecordFolder
from swapstone.core.record.run_lines import Add, RunLines, read_lines

FrozenStructType = TypeVar("FrozenStructType", bound=FrozenStruct)

_RESTORE = "The record is damaged; restore it from a copy."


class RecordView(msgspec.Struct, frozen=True):
    """The contents of a record.

    Attributes:
        path: its folder.
        meta, experiment: identity and the experiment.
        manifest: the programs, tools and machine; None if the session ended before the first build.
        runs: every run whose line is undamaged, in order; they may be decoded when they are read.
        damages: damaged places.
        seal: how the last session ended; None if it was killed.
        last_chain: chain value of the last line.
        digest: of the whole record: the SHA-256 of `seal.json`, which names the digests of all else; empty without a seal.
    """

    path: Path
    meta: record_format.Meta
    experiment: Experiment
    manifest: record_format.Manifest | None
    runs: Sequence[Run]
    damages: tuple[record_format.Damage, ...]
    seal: record_format.Seal | None
    last_chain: str
    digest: str = ""


class _Version(msgspec.Struct):
    """The fields of `record.json` that every schema has."""

    format: str
    schema: int


class OpenedRecord(msgspec.Struct, frozen=True):
    """A record whose lines are to be read.

    Attributes:
        path: of the record's folder.
        folder: the same, open.
        header: the bytes of `record.json` and `experiment.json`, on which depends what is a damage.
        meta, experiment: their content.
    """

    path: Path
    folder: RecordFolder
    header: bytes
    meta: record_format.Meta
    experiment: Experiment

    def read_each(self, add: Add) -> RunLines:
        """Decode and check every line; `add` receives the runs."""
        return read_lines(self.folder.lines(record_format.RUNS), self.experiment, add)

    def read(self) -> RunLines:
        """Decode and check every line; the runs stay in memory."""
        runs: list[Run] = []
        found = self.read_each(lambda run, _start, _length: runs.append(run))
        found.runs = tuple(runs)
        return found


def load(path: Path, read: Callable[[OpenedRecord], RunLines] = OpenedRecord.read) -> RecordView:
    """Read a record.

    Args:
        path: its folder.
        read: returns what the lines of `runs.jsonl` hold; by default each is decoded and checked now, and all runs stay in memory.

    Returns:
        The undamaged contents; `RecordView.damages` lists the damage.

    Raises:
        RecordError: it is no record, has another schema version, or its experiment can't be read.
    """
    try:
        with RecordFolder(path) as folder:
            return _load(path, folder, read)
    except FileProblemError as error:
        raise RecordError(
            f"{safe_excerpt(str(path), 1000)} is not a record: {error}.",
            "`swapstone list records` lists the existing records.",
        ) from error


def _load(path: Path, folder: RecordFolder, read: Callable[[OpenedRecord], RunLines]) -> RecordView:
    meta_data, meta = _load_meta(path, folder)
    experiment_data, experiment, problem = _read(
        folder, record_format.EXPERIMENT, Experiment, validation.experiment_problem
    )
    if experiment_data is None or experiment is None:
        raise _unreadable(path, record_format.EXPERIMENT, problem or "it is missing")
    if meta.description is not None and (problem := validation.description_problem(meta.description, experiment)):
        raise _unreadable(path, record_format.META, problem)
    manifest_data, manifest, of_manifest = _read(
        folder, record_format.MANIFEST, record_format.Manifest, validation.manifest_problem
    )
    seal_data, seal, of_seal = _read(folder, record_format.SEAL, record_format.Seal, validation.seal_problem)
    damages = [
        record_format.Damage(file=name, line=0, problem=f"can't be read: {problem}")
        for name, problem in ((record_format.MANIFEST, of_manifest), (record_format.SEAL, of_seal))
        if problem
    ]

    lines = read(OpenedRecord(path, folder, meta_data + experiment_data, meta, experiment))
    damages += lines.damages
    digest = ""
    if seal is not None and seal_data is not None:
        sealed = {record_format.MANIFEST: manifest_data, record_format.EXPERIMENT: experiment_data}
        damages += _against_seal(seal, lines, {**sealed, record_format.META: meta_data})
        digest = record_format.file_sha256(seal_data)
        if experiment.rules > 1 and not seal.record:
            damages.append(
                record_format.Damage(file=record_format.SEAL, line=0, problem="it lacks the digest of record.json")
            )
    return RecordView(path, meta, experiment, manifest, lines.runs, tuple(damages), seal, lines.chain, digest)


def _load_meta(path: Path, folder: RecordFolder) -> tuple[bytes, record_format.Meta]:
    data, meta, problem = _read(folder, record_format.META, record_format.Meta, validation.meta_problem)
    if data is None:
        missing = RecordError(
            f"{path} is not a record: it has no {record_format.META}.",
            "`swapstone list records` lists the existing records.",
        )
        raise _unreadable(path, record_format.META, problem) if problem else missing
    try:
        version = msgspec.json.decode(data, type=_Version)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(path, record_format.META, safe_excerpt(str(error))) from error
    if version.format != record_format.FORMAT:
        raise RecordError(f"{path} is not a Swapstone record: its format is {safe_excerpt(version.format, 60)!r}.")
    if version.schema != record_format.SCHEMA:
        advice = (
            "Install a newer Swapstone to read it."
            if version.schema > record_format.SCHEMA
            else "Read it with the version of Swapstone that wrote it."
        )
        raise RecordError(
            f"{path} has schema version {version.schema}; this Swapstone reads version {record_format.SCHEMA}.", advice
        )
    if meta is None:
        raise _unreadable(path, record_format.META, problem)
    return data, meta


def _unreadable(path: Path, name: str, problem: str) -> RecordError:
    advice = "Install a newer Swapstone to read it, if a newer one wrote it. Otherwise restore it from a copy."
    newer = "unknown field" in problem or "rules up to" in problem
    return RecordError(f"{path / name} can't be read: {problem}.", advice if newer else _RESTORE)


def _read(
    folder: RecordFolder, name: str, kind: type[FrozenStructType], check: Callable[[FrozenStructType], str]
) -> tuple[bytes | None, FrozenStructType | None, str]:
    """Return the bytes of a file, its content, and what is wrong with it. Of a missing file there is nothing, and nothing is wrong.

    Args:
        folder: of the record.
        name: of the file.
        kind: the type of its content.
        check: returns what is wrong with the content; then it is not returned.
    """
    try:
        data = folder.read(name)
    except FileProblemError as error:
        return None, None, str(error)
    if data is None:
        return None, None, ""
    if problem := amount_problem(data):
        return data, None, problem
    try:
        noun = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return data, None, safe_excerpt(str(error))
    problem = check(noun)
    return data, None if problem else noun, problem


def _against_seal(
    seal: record_format.Seal, lines: RunLines, contents: Mapping[str, bytes | None]
) -> list[record_format.Damage]:
    """Return what is missing or altered according to the seal. Lines after the seal are valid: a resumed session may have been killed.

    Args:
        seal: of the record.
        lines: of `runs.jsonl`.
        contents: of the other files by name; None for a file that is missing or can't be read.
    """
    damages = []
    if lines.complete and lines.whole < seal.runs:
        problem = f"{seal.runs} runs were written, only {lines.whole} are left"
        damages.append(record_format.Damage(file=record_format.RUNS, line=lines.whole + 1, problem=problem))
    elif lines.complete and lines.whole == seal.runs and lines.chain != seal.chain:
        problem = "it is not the last line of the sealed record"
        damages.append(record_format.Damage(file=record_format.RUNS, line=lines.whole, problem=problem))
    sealed = {record_format.MANIFEST: seal.manifest, record_format.EXPERIMENT: seal.experiment}
    sealed |= {record_format.META: seal.record} if seal.record else {}
    for name, digest in sealed.items():
        data = contents[name]
        if (record_format.file_sha256(data) if data else "") != digest:
            damages.append(record_format.Damage(file=name, line=0, problem="it was edited after the record was sealed"))
    return damages
