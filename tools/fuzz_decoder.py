# SPDX-License-Identifier: MIT OR Apache-2.0
"""A decoder of outside input for tools/fuzz, and what the tables of decoders share.

An `Outcome` is what a fuzzer finds: numbers of a decoder, the files of its defects; `show` prints the table of all.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import shlex
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.core.model import UserError
from swapstone.core.model.temporary_folder import TemporaryFolder

TOP = Path(__file__).resolve().parent.parent
RECORDED = TOP / "tests" / "recorded"


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder of outside input.

    Attributes:
        name: short, for the command line and the table.
        origin: who writes the input.
        decode: returns a value, or raises one of `errors`.
        seeds: returns valid inputs; each is accepted, and its value is not empty.
        repair: makes checksums of a changed input valid, so that what they protect is reached.
        errors: what it raises for an invalid input.
        refused: seeds that are error messages of the other side, which raise an error by design.
    """

    name: str
    origin: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], tuple[bytes, ...]]
    repair: Callable[[bytes], bytes] | None = None
    errors: tuple[type[Exception], ...] = (UserError,)
    refused: tuple[bytes, ...] = ()


@functools.cache
def _made() -> TemporaryFolder:
    shared = Path("/dev/shm")  # noqa: S108 # memory, if there is any; the folder in it has a random name
    return TemporaryFolder("fuzz", shared if shared.is_dir() else None)


def scratch_folder() -> Path:
    """Return a folder for decoders that read files: one for this process and its forks, which leave it when they end."""
    return _made().path


def in_file(data: bytes, name: str = "file") -> Path:
    """Write a file into the scratch folder; return its path."""
    path = scratch_folder() / name
    path.write_bytes(data)
    return path


def in_folder(name: str, files: Mapping[str, bytes]) -> Path:
    """Write files into a new folder of the scratch folder; return its path."""
    folder = scratch_folder() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    return folder


def text_of(data: bytes) -> str:
    """Return bytes as text, with replacement characters."""
    return data.decode(errors="replace")


def recorded(*names: str) -> Callable[[], tuple[bytes, ...]]:
    """Return files of tests/recorded."""
    return lambda: tuple((RECORDED / name).read_bytes() for name in names)


def constant(*seeds: bytes) -> Callable[[], tuple[bytes, ...]]:
    """Return inputs that are written out."""
    return lambda: seeds


def sections(data: bytes, names: Iterable[str]) -> dict[str, bytes]:
    """Return the parts of an input by their names: each begins with a line ``--- NAME``."""
    found: dict[str, bytes] = {}
    name = ""
    known = set(names)
    for line in data.splitlines(keepends=True):
        mark, _, rest = line.partition(b" ")
        if mark == b"---":
            name = text_of(rest).strip()
        elif name in known:
            found[name] = found.get(name, b"") + line
    return found


def repair_figures(data: bytes) -> bytes:
    """Return named figures with a valid last line."""
    lines = [line for line in data.split(b"\n") if line and not line.startswith(b"end ")]
    text = b"".join(line + b"\n" for line in lines) + b"end %d" % len(lines)
    return text + b" %08x\n" % zlib.crc32(text)


FOLDER = TOP / "build" / "fuzz"
LIMIT_S = 10.0
"""Processor time of one execution. A pattern with quadratic time takes longer for 100,000 characters."""


@dataclasses.dataclass(frozen=True)
class Defect:
    """An input that a decoder neither accepted nor rejected: the last line of the traceback, and the command that repeats it."""

    decoder: str
    summary: str
    command: str


@dataclasses.dataclass
class Outcome:
    """What a decoder did: number of executions, and of inputs with a value that is not empty; seconds; defects."""

    name: str
    origin: str
    executions: int = 0
    accepted: int = 0
    seconds: float = 0.0
    defects: tuple[Defect, ...] = ()


def keep(decoder: Decoder, data: bytes, report: str) -> Defect:
    """Write an input to the folder of defects."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{decoder.name.replace(' ', '-')}-{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    path.with_name(f"{path.name}.txt").write_text(report)
    summary = (report.strip().splitlines() or ["?"])[-1][:200]
    shown = path.relative_to(TOP) if path.is_relative_to(TOP) else path
    return Defect(
        decoder.name, summary, f"tools/fuzz --only {shlex.quote(decoder.name)} --input {shlex.quote(str(shown))}"
    )


def show(outcomes: Sequence[Outcome], how: str) -> int:
    """Print the answer, the defects and the table; return the exit status."""
    executions, seconds = sum(one.executions for one in outcomes), sum(one.seconds for one in outcomes)
    defects = [defect for one in outcomes for defect in one.defects]
    answer = f"{len(defects)} defects" if len(defects) != 1 else "1 defect"
    print(f"{answer} in {len(outcomes)} decoders: {executions:,} executions in {seconds:.0f} s, {how}.")
    for defect in defects:
        print(f"\n{defect.decoder}: {defect.summary}\n    {defect.command}")
    width = max(len(one.name) for one in outcomes)
    origin = max(len(one.origin) for one in outcomes)
    print(
        f"\n{'decoder':{width}}  {'input of':{origin}} {'executions':>11} {'accepted':>9} {'per second':>11} {'defects':>8}"
    )
    for one in outcomes:
        percent = 100 * one.accepted / one.executions if one.executions else 0.0
        share = f"{percent:.0f} %" if percent >= 1 or not one.accepted else f"{percent:.2g} %"
        rate = f"{one.executions / one.seconds:,.0f}" if one.seconds else "-"
        print(
            f"{one.name:{width}}  {one.origin:{origin}} {one.executions:>11,} {share:>9} {rate:>11} {len(one.defects):>8}"
        )
    return 1 if defects else 0
