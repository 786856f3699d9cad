# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read a record: strict decoding, line by line; undamaged lines are read despite damage elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.model import Experiment, FrozenStruct, RecordError, Run
from swapstone.record import record_format

FrozenStructType = TypeVar("FrozenStructType", bound=FrozenStruct)


@dataclasses.dataclass(frozen=True)
class RecordView:
    """The contents of a record.

    Attributes:
        path: its folder.
        meta, experiment: identity and the experiment.
        manifest: the programs, tools and machine; None if the session ended before the first build.
        runs: every run whose line is undamaged, in order.
        damages: damaged places.
        seal: how the last session ended; None if it was killed.
        last_chain: chain value of the last line.
        digest: of the whole record: the SHA-256 of `seal.json`, which names the digests of all else; empty without a seal.
    """

    path: Path
    meta: record_format.Meta
    experiment: Experiment
    manifest: record_format.Manifest | None
    runs: tuple[Run, ...]
    damages: tuple[record_format.Damage, ...]
    seal: record_format.Seal | None
    last_chain: str
    digest: str = ""


class _Version(msgspec.Struct):
    """The fields of `record.json` that every schema has."""

    format: str
    schema: int


def load(path: Path) -> RecordView:
    """Read a record.

    Args:
        path: its folder.

    Returns:
        The undamaged contents; `RecordView.damages` lists the damage.

    Raises:
        RecordError: it is no record, has another schema version, or its experiment can't be read.
    """
    meta = _load_meta(path)
    experiment = _decode(path / record_format.EXPERIMENT, Experiment)
    damages: list[record_format.Damage] = []
    manifest = _optional(path / record_format.MANIFEST, record_format.Manifest, damages)
    seal = _optional(path / record_format.SEAL, record_format.Seal, damages)
    data = _bytes_of(path / record_format.RUNS)
    runs, last_chain, bad_lines = read_runs(data)
    damages += bad_lines
    digest = ""
    if seal is not None:
        damages += _against_seal(path, seal, data.count(b"\n"), last_chain)
        digest = record_format.file_sha256(_bytes_of(path / record_format.SEAL))
        if experiment.rules > 1 and not seal.record:
            damages.append(
                record_format.Damage(file=record_format.SEAL, line=0, problem="it lacks the digest of record.json")
            )
    return RecordView(path, meta, experiment, manifest, runs, tuple(damages), seal, last_chain, digest)


def read_runs(data: bytes) -> tuple[tuple[Run, ...], str, list[record_format.Damage]]:
    """Decode the bytes of a `runs.jsonl`.

    Args:
        data: the whole file.

    Returns:
        The runs of all undamaged lines, the chain value of the last of them, and the damage of the others.
    """
    runs: list[Run] = []
    damages: list[record_format.Damage] = []
    seen: set[str] = set()
    previous, expected = "", 1
    lines = data.split(b"\n")
    torn = lines.pop()
    for index, text in enumerate(lines, start=1):
        line, run, problem = _decode_line(text)
        if line is not None:
            # Continue from this line's own chain value, so that one damaged line doesn't invalidate those after it.
            problem = problem or _out_of_chain(line, expected, previous)
            previous, expected = line.chain, line.number + 1
        else:
            previous, expected = "", expected + 1
        if run is not None and run.trial.key in seen:
            problem = f"the trial {run.trial.key} occurs twice; the first occurrence counts"
        elif run is not None:
            seen.add(run.trial.key)
            runs.append(run)
        if problem:
            damages.append(record_format.Damage(file=record_format.RUNS, line=index, problem=problem))
    if torn:
        damages.append(
            record_format.Damage(file=record_format.RUNS, line=len(lines) + 1, problem="the line is truncated")
        )
    return tuple(runs), previous, damages


def _decode_line(text: bytes) -> tuple[record_format.Line | None, Run | None, str]:
    """Decode one line; return what can be read, and the problem."""
    line = None
    try:
        line = msgspec.json.decode(text, type=record_format.Line)
        if line.chain != record_format.chain_value(line.number, line.previous, bytes(line.run)):
            return line, None, "its content does not match its checksum: it was edited"
        return line, msgspec.json.decode(line.run, type=Run), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return line, None, f"not a run: {str(error)[:200]}"


def _out_of_chain(line: record_format.Line, expected: int, previous: str) -> str:
    if line.number != expected:
        return f"it has the number {line.number}, expected {expected}: lines are missing or out of order"
    if previous and line.previous != previous:
        return "it does not follow the line before it: that line was replaced"
    return ""


def raw_bytes(path: Path, digest: str) -> bytes | None:
    """Return the content of a file in a record's folder of raw outputs; None if it is missing, or does not match its name.

    Args:
        path: the record's folder.
        digest: of the content; the name of the file.
    """
    if not record_format.DIGEST.fullmatch(digest):
        return None
    data = _bytes_of(path / record_format.RAW / f"{digest}.txt")
    return data if record_format.file_sha256(data) == digest else None


def check_raw(view: RecordView) -> list[record_format.Damage]:
    """Compare each run's raw output, and the agent's answer beside it, with their digests.

    Returns:
        A damage for each file that is missing or altered.
    """
    damages = []
    for digest in sorted({digest for run in view.runs for digest in (run.output, run.answer) if digest}):
        if not record_format.DIGEST.fullmatch(digest):
            problem = "a run names a raw output that is no SHA-256"
            damages.append(record_format.Damage(file=record_format.RUNS, line=0, problem=problem))
            continue
        name = f"{record_format.RAW}/{digest}.txt"
        data = _bytes_of(view.path / name)
        if not data:
            damages.append(record_format.Damage(file=name, line=0, problem="it is missing"))
        elif record_format.file_sha256(data) != digest:
            damages.append(
                record_format.Damage(file=name, line=0, problem="its content does not match its name: it was edited")
            )
    return damages


def _load_meta(path: Path) -> record_format.Meta:
    meta_path = path / record_format.META
    if not meta_path.is_file():
        raise RecordError(
            f"{path} is not a record: it has no {record_format.META}.",
            "`swapstone list records` lists the existing records.",
        )
    try:
        version = msgspec.json.decode(_bytes_of(meta_path), type=_Version)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(
            f"{meta_path} can't be read: {error}.", "The record is damaged; restore it from a copy."
        ) from error
    if version.format != record_format.FORMAT:
        raise RecordError(f"{path} is not a Swapstone record: its format is {version.format!r}.")
    if version.schema != record_format.SCHEMA:
        advice = (
            "Install a newer Swapstone to read it."
            if version.schema > record_format.SCHEMA
            else "Read it with the version of Swapstone that wrote it."
        )
        raise RecordError(
            f"{path} has schema version {version.schema}; this Swapstone reads version {record_format.SCHEMA}.", advice
        )
    return _decode(meta_path, record_format.Meta)


def _decode(path: Path, kind: type[FrozenStructType]) -> FrozenStructType:
    try:
        return msgspec.json.decode(_bytes_of(path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(
            f"{path} can't be read: {error}.", "The record is damaged; restore it from a copy."
        ) from error


def _optional(path: Path, kind: type[FrozenStructType], damages: list[record_format.Damage]) -> FrozenStructType | None:
    if not path.is_file():
        return None
    try:
        return _decode(path, kind)
    except RecordError as error:
        damages.append(record_format.Damage(file=path.name, line=0, problem=error.message))
        return None


def _against_seal(path: Path, seal: record_format.Seal, lines: int, last_chain: str) -> list[record_format.Damage]:
    """Return what is missing or altered according to the seal. Lines after the seal are valid: a resumed session may have been killed."""
    damages = []
    if lines < seal.runs:
        damages.append(
            record_format.Damage(
                file=record_format.RUNS, line=lines + 1, problem=f"{seal.runs} runs were written, only {lines} are left"
            )
        )
    elif lines == seal.runs and last_chain != seal.chain:
        damages.append(
            record_format.Damage(
                file=record_format.RUNS, line=lines, problem="it is not the last line of the sealed record"
            )
        )
    sealed = [(record_format.MANIFEST, seal.manifest), (record_format.EXPERIMENT, seal.experiment)]
    sealed += [(record_format.META, seal.record)] if seal.record else []
    for name, digest in sealed:
        data = _bytes_of(path / name)
        if (record_format.file_sha256(data) if data else "") != digest:
            damages.append(record_format.Damage(file=name, line=0, problem="it was edited after the record was sealed"))
    return damages


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}.") from error
