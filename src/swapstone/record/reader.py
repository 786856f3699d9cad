# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read a record: strict decoding, line by line; undamaged lines are read despite damage elsewhere.

A record may come from a stranger. `swapstone.record.files` opens its files, `swapstone.record.validation` checks what they mean, and
whatever is wrong is a damage or a `RecordError`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from swapstone.model import Experiment, FrozenStruct, RecordError, Run
from swapstone.model.safe_text import safe_excerpt
from swapstone.record import record_format, validation
from swapstone.record.files import LONGEST_LINE_BYTES, FileProblemError, RecordFolder

FrozenStructType = TypeVar("FrozenStructType", bound=FrozenStruct)

MOST_DAMAGED_LINES = 1000
"""After so many damaged lines the rest of `runs.jsonl` is not read."""

_RESTORE = "The record is damaged; restore it from a copy."


@dataclasses.dataclass(frozen=True)
class RecordView:
    """The contents of a record.

    Attributes:
        path: its folder.
        meta, experiment: identity and the experiment.
        manifest: the programs, tools and machine; None if the session ended before the first build.
        runs: every run whose line is undamaged, in order; with a `RunStore`, they may be decoded when they are read.
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


class RunCollector(Protocol):
    """Receives the undamaged runs of `runs.jsonl` in their order, and keeps them."""

    def add(self, run: Run, start: int, length: int) -> None:
        """Receive a run.

        Args:
            run: the run.
            start: where its line begins in the file, in bytes.
            length: of the line with its newline, in bytes.
        """

    def runs(self) -> Sequence[Run]:
        """Return all runs."""


@dataclasses.dataclass(frozen=True)
class RunLines:
    """What the lines of `runs.jsonl` hold.

    Attributes:
        runs: of the undamaged lines.
        damages: of the others.
        chain: chain value of the last line, or empty.
        whole: number of lines that end with a newline.
        complete: whether every line was read.
    """

    runs: Sequence[Run]
    damages: tuple[record_format.Damage, ...]
    chain: str
    whole: int
    complete: bool


class RunStore(Protocol):
    """Keeps what was read of a `runs.jsonl`, so that it need not be read again."""

    def lines(
        self, path: Path, folder: RecordFolder, experiment: bytes, read: Callable[[RunCollector | None], RunLines]
    ) -> RunLines:
        """Return what the lines of a record hold.

        Args:
            path: of the record's folder.
            folder: the same, open.
            experiment: the bytes of `experiment.json`, on which depends what is a damage.
            read: reads and checks the whole file; without a collector, all runs stay in memory.
        """


def load(path: Path, store: RunStore | None = None) -> RecordView:
    """Read a record.

    Args:
        path: its folder.
        store: of runs that were read before; None to decode and check every line now, and to keep all runs in memory.

    Returns:
        The undamaged contents; `RecordView.damages` lists the damage.

    Raises:
        RecordError: it is no record, has another schema version, or its experiment can't be read.
    """
    try:
        with RecordFolder(path) as folder:
            return _load(path, folder, store)
    except FileProblemError as error:
        raise RecordError(
            f"{safe_excerpt(str(path), 1000)} is not a record: {error}.",
            "`swapstone list records` lists the existing records.",
        ) from error


def _load(path: Path, folder: RecordFolder, store: RunStore | None) -> RecordView:
    meta_data, meta = _load_meta(path, folder)
    experiment_data, experiment = _experiment(path, folder)
    damages: list[record_format.Damage] = []
    manifest_data, manifest = _optional(
        folder, record_format.MANIFEST, record_format.Manifest, validation.manifest_problem, damages
    )
    seal_data, seal = _optional(folder, record_format.SEAL, record_format.Seal, validation.seal_problem, damages)

    def read(collector: RunCollector | None) -> RunLines:
        return _read_lines(folder, experiment, collector or _RunList())

    lines = read(None) if store is None else store.lines(path, folder, experiment_data, read)
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


class _RunList:
    """Keeps runs in memory."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def add(self, run: Run, start: int, length: int) -> None:
        del start, length
        self._runs.append(run)

    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs)


def _read_lines(folder: RecordFolder, experiment: Experiment, collector: RunCollector) -> RunLines:
    lines = _Lines(validation.RunCheck(experiment).problem, collector)
    try:
        for line in folder.lines(record_format.RUNS):
            if not lines.add(line):
                break
    except FileProblemError as error:
        lines.complete = False
        lines.damages.insert(0, record_format.Damage(file=record_format.RUNS, line=0, problem=str(error)))
    return RunLines(collector.runs(), tuple(lines.damages), lines.chain, lines.whole, lines.complete)


def read_runs(
    data: bytes, problem_of: Callable[[Run], str] | None = None
) -> tuple[tuple[Run, ...], str, list[record_format.Damage]]:
    """Decode the bytes of a `runs.jsonl`.

    Args:
        data: the whole file.
        problem_of: returns what is wrong with a run, which is then left out; None for no check.

    Returns:
        The runs of all undamaged lines, the chain value of the last of them, and the damage of the others.
    """
    collector = _RunList()
    lines = _Lines(problem_of or (lambda _: ""), collector)
    *whole, rest = data.split(b"\n")
    for line in (*(each + b"\n" for each in whole), *([rest] if rest else ())):
        if not lines.add(line):
            break
    return collector.runs(), lines.chain, lines.damages


class _Lines:
    """Decodes the lines of `runs.jsonl` one by one.

    Args:
        problem_of: returns what is wrong with a run, which is then left out.
        collector: receives the runs of the undamaged lines.

    Attributes:
        damages: of the other lines.
        chain: chain value of the last line, or empty.
        whole: number of lines that end with a newline.
        complete: whether every line was read.
    """

    def __init__(self, problem_of: Callable[[Run], str], collector: RunCollector) -> None:
        self._collector = collector
        self._start = 0
        self.damages: list[record_format.Damage] = []
        self.chain = ""
        self.whole = 0
        self.complete = True
        self._problem_of = problem_of
        self._seen: set[str] = set()
        self._expected = 1

    def add(self, text: bytes) -> bool:
        """Decode a line with its newline; return whether to go on."""
        if len(text) > LONGEST_LINE_BYTES:
            self._stop(f"it is longer than {LONGEST_LINE_BYTES} bytes")
        elif not text.endswith(b"\n"):
            self._damage(self.whole + 1, "the line is truncated")
        elif len(self.damages) >= MOST_DAMAGED_LINES:
            self._stop(f"{MOST_DAMAGED_LINES} lines before it are damaged")
        else:
            self._decode(text)
            self._start += len(text)
        return self.complete

    def _decode(self, text: bytes) -> None:
        self.whole += 1
        line, run, problem = decode_line(text)
        if line is not None:
            # Continue from this line's own chain value, so that one damaged line doesn't invalidate those after it.
            problem = problem or _out_of_chain(line, self._expected, self.chain)
            self.chain, self._expected = line.chain, line.number + 1
        else:
            self.chain, self._expected = "", self._expected + 1
        if run is not None:
            key = run.trial.key
            if key in self._seen:
                problem = f"the trial {safe_excerpt(key)} occurs twice; the first occurrence counts"
            elif unfit := self._problem_of(run):
                problem = f"{unfit}; it is left out"
            else:
                self._seen.add(key)
                self._collector.add(run, self._start, len(text))
        if problem:
            self._damage(self.whole, problem)

    def _stop(self, why: str) -> None:
        self._damage(self.whole + 1, f"{why}: from here on, nothing is read")
        self.complete = False

    def _damage(self, line: int, problem: str) -> None:
        self.damages.append(record_format.Damage(file=record_format.RUNS, line=line, problem=problem))


_HEAD = re.compile(
    rb'\{"number":(0|[1-9][0-9]{0,17}),"previous":"([0-9a-f]{0,32})","chain":"([0-9a-f]{32})","run":(?=\{)'
)
"""How `RecordWriter` begins a line. Of an undamaged one the run is decoded alone, without reading the line twice."""

_LINE = msgspec.json.Decoder(record_format.Line)
_RUN = msgspec.json.Decoder(Run)


def decode_line(text: bytes) -> tuple[record_format.Line | None, Run | None, str]:
    """Decode one line; return what can be read, and the problem."""
    found = _decode_written(text)
    if found is not None:
        return *found, ""
    line = None
    try:
        line = _LINE.decode(text)
        if line.chain != record_format.chain_value(line.number, line.previous, bytes(line.run)):
            return line, None, "its content does not match its checksum: it was edited"
        return line, _RUN.decode(line.run), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return line, None, f"not a run: {safe_excerpt(str(error))}"


def _decode_written(text: bytes) -> tuple[record_format.Line, Run] | None:
    """Decode an undamaged line as `RecordWriter` writes it; None for any other one, which may be damaged or not."""
    head = _HEAD.match(text)
    if head is None or not text.endswith(b"}}\n"):
        return None
    data = text[head.end() : -2]
    number, previous, chain = int(head[1]), head[2].decode(), head[3].decode()
    if chain != record_format.chain_value(number, previous, data):
        return None
    try:
        run = _RUN.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record_format.Line(number=number, previous=previous, chain=chain, run=msgspec.Raw(data)), run


def _out_of_chain(line: record_format.Line, expected: int, previous: str) -> str:
    if line.number != expected:
        return f"it has the number {line.number}, expected {expected}: lines are missing or out of order"
    if previous and line.previous != previous:
        return "it does not follow the line before it: that line was replaced"
    return ""


def raw_bytes(path: Path, digest: str, most_bytes: int | None = None) -> bytes | None:
    """Return the content of a file in a record's folder of raw outputs.

    Args:
        path: the record's folder.
        digest: of the content; the name of the file.
        most_bytes: a larger file is not read; None for the limit of raw outputs.

    Returns:
        None if the file is missing, is no regular file, is too large, or does not match its name.
    """
    if not record_format.DIGEST.fullmatch(digest):
        return None
    try:
        with RecordFolder(path) as folder:
            data = folder.read(_raw_name(digest), most_bytes)
    except FileProblemError:
        return None
    return data if data is not None and record_format.file_sha256(data) == digest else None


def _raw_name(digest: str) -> str:
    return f"{record_format.RAW}/{digest}.txt"


def check_raw(view: RecordView) -> list[record_format.Damage]:
    """Compare each run's raw output, and the agent's answer beside it, with their digests.

    Returns:
        A damage for each file that is missing, altered, or no regular file.
    """
    damages = []
    with RecordFolder(view.path) as folder:
        for digest in sorted({digest for run in view.runs for digest in (run.output, run.answer) if digest}):
            if not record_format.DIGEST.fullmatch(digest):
                problem = "a run names a raw output that is no SHA-256"
                damages.append(record_format.Damage(file=record_format.RUNS, line=0, problem=problem))
            elif problem := _raw_problem(folder, digest):
                damages.append(record_format.Damage(file=_raw_name(digest), line=0, problem=problem))
    return damages


def _raw_problem(folder: RecordFolder, digest: str) -> str:
    try:
        data = folder.read(_raw_name(digest))
    except FileProblemError as error:
        return str(error)
    if not data:
        return "it is missing" if data is None else "it is empty"
    if record_format.file_sha256(data) != digest:
        return "its content does not match its name: it was edited"
    return ""


def _load_meta(path: Path, folder: RecordFolder) -> tuple[bytes, record_format.Meta]:
    try:
        data = folder.read(record_format.META)
    except FileProblemError as error:
        raise _unreadable(path, record_format.META, str(error)) from error
    if data is None:
        raise RecordError(
            f"{path} is not a record: it has no {record_format.META}.",
            "`swapstone list records` lists the existing records.",
        )
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
    meta, problem = _decoded(data, record_format.Meta)
    if meta is not None:
        problem = validation.meta_problem(meta)
    if meta is None or problem:
        raise _unreadable(path, record_format.META, problem)
    return data, meta


def _experiment(path: Path, folder: RecordFolder) -> tuple[bytes, Experiment]:
    try:
        data = folder.read(record_format.EXPERIMENT)
    except FileProblemError as error:
        raise _unreadable(path, record_format.EXPERIMENT, str(error)) from error
    if data is None:
        raise _unreadable(path, record_format.EXPERIMENT, "it is missing")
    experiment, problem = _decoded(data, Experiment)
    if experiment is not None:
        problem = validation.experiment_problem(experiment)
    if experiment is None or problem:
        raise _unreadable(path, record_format.EXPERIMENT, problem)
    return data, experiment


def _unreadable(path: Path, name: str, problem: str) -> RecordError:
    advice = "Install a newer Swapstone to read it, if a newer one wrote it. Otherwise restore it from a copy."
    newer = "unknown field" in problem or "rules up to" in problem
    return RecordError(f"{path / name} can't be read: {problem}.", advice if newer else _RESTORE)


def _decoded(data: bytes, kind: type[FrozenStructType]) -> tuple[FrozenStructType | None, str]:
    """Decode a file; return its content, or else the problem."""
    if problem := validation.amount_problem(data):
        return None, problem
    try:
        return msgspec.json.decode(data, type=kind), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, safe_excerpt(str(error))


def _optional(
    folder: RecordFolder,
    name: str,
    kind: type[FrozenStructType],
    check: Callable[[FrozenStructType], str],
    damages: list[record_format.Damage],
) -> tuple[bytes | None, FrozenStructType | None]:
    """Read a file that a record may lack; return its bytes and its content, and add what is wrong with it to the damages."""
    data: bytes | None = None
    noun: FrozenStructType | None = None
    try:
        data = folder.read(name)
    except FileProblemError as error:
        problem = str(error)
    else:
        if data is None:
            return None, None
        noun, problem = _decoded(data, kind)
        if noun is not None and (problem := check(noun)):
            noun = None
    if problem:
        damages.append(record_format.Damage(file=name, line=0, problem=f"can't be read: {problem}"))
    return data, noun


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
