# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decode and check the lines of `runs.jsonl`, each with a run and the chain value of all lines up to it."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from swapstone.core.model import Experiment, Run
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.record import record_format, validation
from swapstone.core.record.files import LONGEST_LINE_BYTES, FileProblemError, RecordFolder

MOST_DAMAGED_LINES = 1000
"""After so many damaged lines the rest of `runs.jsonl` is not read."""


Add: TypeAlias = Callable[[Run, int, int], object]
"""Receives an undamaged run, where its line begins in the file, and the length of the line with its newline, both in bytes."""


class RunLines(msgspec.Struct):
    """What the lines of `runs.jsonl` hold.

    Attributes:
        runs: of the undamaged lines.
        damages: of the others.
        chain: chain value of the last line, or empty.
        whole: number of lines that end with a newline.
        complete: whether every line was read.
    """

    runs: Sequence[Run] = ()
    damages: list[record_format.Damage] = msgspec.field(default_factory=list)
    chain: str = ""
    whole: int = 0
    complete: bool = True

    def damage(self, line: int, problem: str) -> None:
        """Add a damage."""
        self.damages.append(record_format.Damage(file=record_format.RUNS, line=line, problem=problem))


def read_lines(texts: Iterable[bytes], experiment: Experiment, add: Add) -> RunLines:
    """Decode and check the lines of `runs.jsonl`.

    Args:
        texts: each with its newline. May raise `FileProblemError`.
        experiment: of the runs.
        add: receives the runs of the undamaged lines; `RunLines.runs` stays empty.
    """
    problem_of = validation.run_check(experiment)
    found, seen, start, expected = RunLines(), set[str](), 0, 1
    try:
        for text in texts:
            if why := _why_stop(text, found):
                found.damage(found.whole + 1, f"{why}: from here on, nothing is read")
                found.complete = False
                break
            if not text.endswith(b"\n"):
                found.damage(found.whole + 1, "the line is truncated")
                break
            found.whole += 1
            line, run, problem = decode_line(text)
            if line is not None:
                # Continue from this line's own chain value, so that one damaged line doesn't invalidate those after it.
                problem = problem or _out_of_chain(line, expected, found.chain)
            found.chain, expected = (line.chain, line.number + 1) if line is not None else ("", expected + 1)
            if run is not None:
                key = run.trial.key
                if key in seen:
                    problem = f"the trial {safe_excerpt(key)} occurs twice; the first occurrence counts"
                elif unfit := problem_of(run):
                    problem = f"{unfit}; it is left out"
                else:
                    seen.add(key)
                    add(run, start, len(text))
            if problem:
                found.damage(found.whole, problem)
            start += len(text)
    except FileProblemError as error:
        found.complete = False
        found.damages.insert(0, record_format.Damage(file=record_format.RUNS, line=0, problem=str(error)))
    return found


def _why_stop(text: bytes, found: RunLines) -> str:
    if len(text) > LONGEST_LINE_BYTES:
        return f"it is longer than {LONGEST_LINE_BYTES} bytes"
    too_many = len(found.damages) >= MOST_DAMAGED_LINES and text.endswith(b"\n")
    return f"{MOST_DAMAGED_LINES} lines before it are damaged" if too_many else ""


class _DoubledError(Exception):
    """A key that an object has twice."""


def _no_doubled(pairs: list[tuple[str, object]]) -> None:
    seen = set[str]()
    for key, _ in pairs:
        if key in seen:
            raise _DoubledError(key)
        seen.add(key)


_UNIQUE = json.JSONDecoder(object_pairs_hook=_no_doubled, parse_int=str, parse_float=str)


def doubled_keys(path: Path) -> list[record_format.Damage]:
    """Return a damage for each line or file of a record in which an object has a key twice: readers differ in which value they take.

    Args:
        path: the record's folder. What can't be read or decoded is left to `load`.
    """
    found = []
    names = (record_format.META, record_format.EXPERIMENT, record_format.MANIFEST, record_format.SEAL)
    with contextlib.suppress(FileProblemError), RecordFolder(path) as folder:
        files = ((name, 0, folder.read(name) or b"null") for name in names)
        lines = ((record_format.RUNS, number, line) for number, line in enumerate(folder.lines(record_format.RUNS), 1))
        for name, number, data in itertools.chain(files, lines):
            try:
                _UNIQUE.decode(data.decode())
            except _DoubledError as error:
                problem = f"it has the key {safe_excerpt(str(error), 60)} twice"
                found.append(record_format.Damage(file=name, line=number, problem=problem))
            except (ValueError, RecursionError):
                continue
            if len(found) >= MOST_DAMAGED_LINES:
                break
    return found


_TEXTS = b',"raw":['
"""Between the run of a line and the texts that the line keeps; a string has no quotation mark without a backslash before it."""

_LINE = msgspec.json.Decoder(record_format.Line)
_RUN = msgspec.json.Decoder(Run)
_STRINGS = msgspec.json.Decoder(record_format.KeptTexts)


def decode_line(text: bytes) -> tuple[record_format.Line | None, Run | None, str]:
    """Decode one line; return what can be read, and the problem."""
    line = None
    try:
        line = _LINE.decode(text)
        if line.chain != record_format.chain_value(line.number, line.previous, bytes(line.run)):
            return line, None, "its content does not match its checksum: it was edited"
        return line, _RUN.decode(line.run), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return line, None, f"not a run: {safe_excerpt(str(error))}"


def kept_texts(line: bytes) -> tuple[bytes, ...]:
    """Return the raw outputs and answers that a line of `runs.jsonl` keeps; none if the line is not whole."""
    begin = line.rfind(_TEXTS)
    if begin < 0:
        return ()
    try:
        return tuple(text.encode() for text in _STRINGS.decode(line[begin + len(_TEXTS) - 1 : -2]))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()


def _out_of_chain(line: record_format.Line, expected: int, previous: str) -> str:
    if line.number != expected:
        return f"it has the number {line.number}, expected {expected}: lines are missing or out of order"
    if previous and line.previous != previous:
        return "it does not follow the line before it: that line was replaced"
    return ""
