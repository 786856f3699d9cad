# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs commands on hostile records, each in a fork with limits of memory and processor time, and judges how it ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

import swapstone
from swapstone.core.record import file_bytes, load
from swapstone.core.session import run_store
from swapstone.core.session.study_file import decode_study
from swapstone.core.session.study_run import StudyRun
from swapstone.parts.explain.model.explanation import Reference, RowKey, RowMeasurements
from swapstone.parts.explain.session import explanation_files
from tests.hostile.forgery import FORGED, Kind
from tests.preloaded import import_all
from tests.raw_outputs import raw_to_files

COMMANDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "RECORD"),
    "show --all": ("show", "RECORD", "--all"),
    "show --json": ("show", "RECORD", "--json"),
    "report --html": ("report", "RECORD", "--html", "--out", "-"),
    "report": ("report", "RECORD"),
    "report --markdown": ("report", "RECORD", "--markdown"),
    "report --format document-json": ("report", "RECORD", "--format", "document-json"),
    "export csv": ("export", "RECORD", "--format", "csv"),
    "export runs": ("export", "RECORD", "--format", "runs"),
    "export junit": ("export", "RECORD", "--format", "junit"),
    "export kcidb": ("export", "RECORD", "--format", "kcidb"),
    "export hyperfine": ("export", "RECORD", "--format", "hyperfine"),
    "export lava": ("export", "RECORD", "--format", "lava"),
    "export benchstat": ("export", "RECORD", "--format", "benchstat"),
    "verify": ("verify", "RECORD"),
    "verify --recompute": ("verify", "RECORD", "--recompute", "1"),
    "agree": ("agree", "RECORD", "OTHER"),
    "agree --csv": ("agree", "OTHER", "RECORD", "--csv"),
    "agree three": ("agree", "RECORD", "OTHER", "THIRD"),
    "agree three --json": ("agree", "THIRD", "OTHER", "RECORD", "--json"),
    "published differences": ("published", "differences", "RECORD", "OTHER"),
    "published differences --json": ("published", "differences", "RECORD", "--json"),
    "published claims": ("published", "claims", "RECORD", "OTHER"),
    "query runs": ("query", "SELECT record, count(*) AS n FROM runs GROUP BY ALL ORDER BY ALL"),
    "query comparisons": ("query", "SELECT DISTINCT record FROM comparisons ORDER BY ALL"),
    "query records": ("query", "SELECT * EXCLUDE (path) FROM records ORDER BY ALL"),
    "list records": ("list", "records"),
    "list records --json": ("list", "records", "--json"),
    "explain": ("explain", "RECORD", "--only", "b_malloc_tiny1"),
    "profile": ("profile", "RECORD", "--only", "b_malloc_tiny2"),
    "rerun": ("rerun", "RECORD", "--out", "again"),
    "resume": ("compare", "--resume", "RECORD"),
    "against": ("compare", "--against", "RECORD", "/bin/true", "--out", "again"),
    "resume study": ("study", "--resume", "STUDY"),
}
"""The commands, by the name that the table has. RECORD is the hostile record, OTHER and THIRD are whole ones, STUDY has RECORD as a part.

The user of the commands has no key, so that the record is another user's: those of `RUNNING` list what they would run, and stop.
"""

RUNNING = frozenset({"profile", "rerun", "resume", "resume study", "verify --recompute"})
"""Commands that run what a record contains: `explain` does too, but for a row whose evidence is stored."""

_MARKUP = frozenset(
    {
        "report --html",
        "show --json",
        "report --format document-json",
        "list records --json",
        "agree three --json",
        "published differences --json",
        "export junit",
        "export kcidb",
        "export hyperfine",
    }
)
"""Commands whose output is XML or JSON: there a text with line breaks can't be taken for another line."""

STATUSES = frozenset({0, 2, 4})
"""Those of docs/exit-statuses.md that a command that only reads a record may have. 1 is a bug."""

LIMIT_S = 900
"""Of one command; the machine may be busy."""

_KEEPING = ("show", "query runs", "query comparisons")
"""Commands that leave columns and rows in the cache."""

_CPU_S, _MEMORY_BYTES = 60, 3 << 29
_LONGEST_OUTPUT_BYTES = 64 << 20
_SPEC = """
seed = 3
[[behaviour]]
wall_ns = 2_000_000
noise = 0.01
[[behaviour]]
variant = "libc=musl*"
wall_ns = 3_000_000
"""
_STUDY = """
title = "t"
question = "q"
[[part]]
name = "one"
title = "One"
suites = ["libc"]
only = ["b_malloc_tiny*"]
budget = "1m"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
"""
_ESCAPES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Cell(NamedTuple):
    """How a command ended on a hostile record.

    Attributes:
        kind, command: which.
        status: the exit status; negative for a signal.
        faults: what is wrong about that; empty if nothing is.
        text: what it printed, both outputs together.
    """

    kind: str
    command: str
    status: int
    faults: tuple[str, ...]
    text: str


def make_records(folder: Path) -> None:
    """Make records of a simulated target in a folder, each with a stored explanation, and a study's file.

    ``other`` and ``third`` are of the same experiment as ``whole``, with other seeds.
    """
    content = decode_study(_STUDY.encode(), "s")
    study = StudyRun(created="2026-11-23T00:00:00+00:00", name="s", study=content, parts=("one",), seed=3)
    (folder / "study.json").write_bytes(file_bytes(study))
    (folder / "fake.toml").write_text(_SPEC)
    for name, seed in (("whole", 3), ("other", 4), ("third", 5)):
        swapstone.compare(
            swapstone.Workloads(only=["b_malloc_tiny1", "b_malloc_tiny2"]),
            swapstone.Measuring(seed=seed, blocks=10),
            swapstone.Place(target=f"fake:{folder / 'fake.toml'}"),
            libc=["glibc", "musl"],
            out=folder / name,
        )
        raw_to_files(folder / name)
        _explain(folder / name)


def _explain(path: Path) -> None:
    """Store evidence of a row, and the explanation that follows from it."""
    record = swapstone.load(path)
    row = next(each for each in record.analysis().comparisons if each.preferred and each.workload == "b_malloc_tiny1")
    place = RowKey(
        suite=row.suite,
        workload=row.workload,
        load=row.load,
        metric=row.metric.name,
        baseline=row.baseline.label,
        candidate=row.candidate.label,
    )
    sides = tuple(
        Reference(variant=label, program_sha256="", recorded=time, time_ns=time, metrics=(("wall", time),), runs=8)
        for label, time in ((place.baseline, 2e6), (place.candidate, 3e6))
    )
    seen = RowMeasurements(
        place=place, unit="ns", ledger_metric="wall", references=(sides[0], sides[1]), runs=(), missing=()
    )
    view = load(path)
    explanation_files.store(explanation_files.folder_of(view, place), explanation_files.evidence_files(view, seen))
    record.reload().explain("b_malloc_tiny1")


def cells(kinds: Iterable[Kind], commands: Iterable[str], folder: Path, in_turn: Sequence[str] = ()) -> Iterator[Cell]:
    """Run commands on hostile records.

    Args:
        kinds: of records.
        commands: names of `COMMANDS`.
        folder: with the records of `make_records`.
        in_turn: further names; each kind takes the next one.

    Yields:
        A cell for each kind and command.
    """
    every = list(commands)
    import_all()
    for number, kind in enumerate(kinds):
        names = [*every, in_turn[number % len(in_turn)]] if in_turn else every
        with tempfile.TemporaryDirectory(prefix="hostile-", dir=folder) as scratch:
            root = Path(scratch)
            record = root / "study" / (kind.folder or "one")
            record.parent.mkdir()
            shutil.copy(folder / "study.json", record.parent)
            copy_record(folder / "whole", record)
            for name in ("other", "third"):
                copy_record(folder / name, root / name)
            before = {name: _cell(kind, name, record, root).text for name in (*_KEEPING, *names)} if kind.keeps else {}
            kind.harm(record)
            with _repeated(kind, record):
                for name in names:
                    if kind.keeps:
                        kind.harm(record)  # a command may have written the file again
                    cell = _cell(kind, name, record, root)
                    same = not kind.keeps or cell.text == before[name]
                    yield cell if same else cell._replace(faults=(*cell.faults, "it printed something else before"))
            _make_removable(record)


@contextlib.contextmanager
def _repeated(kind: Kind, record: Path) -> Iterator[None]:
    """Let another process repeat what a kind does while commands run; it ends with this function."""
    if kind.during is None:
        yield
        return
    child = os.fork()
    if child == 0:
        try:
            while True:
                kind.during(record)
        finally:
            os._exit(1)
    try:
        yield
        os.kill(child, signal.SIGTERM)
    finally:
        status = os.waitpid(child, 0)[1]
    if status != signal.SIGTERM:
        raise RuntimeError(f"{kind.name}: its process ended before the commands: {status}")


def copy_record(old: Path, new: Path) -> None:
    """Copy a record. Raw output, which no harm writes to, is shared by links, because it has many files."""

    def copy(source: str, target: str) -> None:
        if Path(source).parent.name == "raw":
            os.link(source, target)
        else:
            shutil.copyfile(source, target)

    shutil.copytree(old, new, symlinks=True, copy_function=copy)


def _cell(kind: Kind, command: str, record: Path, root: Path) -> Cell:
    """Run one command in a fork; return how it ended."""
    words = {
        "RECORD": str(record),
        "STUDY": str(record.parent),
        "OTHER": str(root / "other"),
        "THIRD": str(root / "third"),
    }
    arguments = [words.get(word, word) for word in COMMANDS[command]]
    status, text = run_limited(arguments, root, keeps=kind.keeps, unprivileged=kind.unprivileged)
    faults = list(_faults(command, status, text))
    outside = root / "outside"
    if outside.exists() and [(each.name, each.read_text()) for each in outside.iterdir()] != [("kept", "kept")]:
        faults.append("a file outside the record was changed")
    if (root / "owned").exists():
        faults.append("shell code in a name was run")
    return Cell(kind.name, command, status, tuple(faults), text)


def run_limited(
    arguments: list[str], root: Path, *, keeps: bool = False, unprivileged: bool = False
) -> tuple[int, str]:
    """Run the command line in a fork of this process, with limits of memory and time.

    Args:
        arguments: of the command.
        root: its current folder, folder of records, cache and state.
        keeps: columns and rows of small records are kept, too.
        unprivileged: the command has no capabilities.

    Returns:
        Its exit status, negative for a signal, and both outputs together.
    """
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            if keeps:
                _keep_everything()
            if unprivileged:
                _drop_capabilities()
            _become(arguments, root, output.fileno())
        status = _wait(child)
        output.seek(0)
        return status, output.read(_LONGEST_OUTPUT_BYTES).decode(errors="replace")


def _keep_everything() -> None:
    """Keep columns and rows of records of any size, number and age."""
    run_store.SMALLEST_BYTES = 0
    run_store.RECENT_NS = -1


def _drop_capabilities() -> None:
    """Drop all capabilities of this process (capset(2)), so that the permissions of files bind root too."""
    library = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    if library.capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")


def _faults(command: str, status: int, text: str) -> Iterator[str]:
    yield from ended_wrongly(status, text)
    if command not in {"report --html", "show --json"} and any(
        unicodedata.category(each) == "Cf" for each in set(text)
    ):
        yield "a character that reorders text"
    if command not in _MARKUP and re.search(rf"^\W*{FORGED}", text, re.MULTILINE):
        yield "a line that a text of the record forged"
    if f"<script>{FORGED}" in text and command == "report --html" and status == 0:
        yield "a script in a page"
    if command in RUNNING and status != 2:
        yield "the record of another user was run"
    if command.startswith("query") and status == 0 and "other" not in text:
        yield "the whole record is not in the answer"


def ended_wrongly(status: int, text: str) -> Iterator[str]:
    """Yield what is wrong about any command's exit status and output."""
    if status == -signal.SIGKILL:
        yield f"it was killed after {LIMIT_S} s"
    elif status == -signal.SIGXCPU:
        yield f"it used more than {_CPU_S} s of processor time"
    elif status not in STATUSES:
        yield f"status {status}"
    if "Traceback" in text or "This is a bug" in text:
        yield "a traceback"
    if status == 2 and "error: " not in text and "altered: " not in text and "Incomplete" not in text:
        yield "status 2 without a message"
    if found := _ESCAPES.search(text):
        yield f"the control character {found[0]!r}"


def _become(arguments: list[str], root: Path, output: int) -> NoReturn:
    """Run a command with limits in this process, which is a fork, and end it."""
    for number in (1, 2):
        os.dup2(output, number)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folders = dict.fromkeys(("SWAPSTONE_RECORDS", "XDG_STATE_HOME", "XDG_CACHE_HOME"), str(root))
    os.environ |= {**folders, "SWAPSTONE_COMMAND": "swapstone"}
    os.chdir(root)
    sys.argv = ["swapstone", *arguments]
    code: object = 1
    try:
        from swapstone.cli.main import main

        main()
    except SystemExit as end:
        code = end.code
    finally:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _wait(child: int) -> int:
    """Wait for a fork to end, and kill it after `LIMIT_S`; return its exit status, negative for a signal."""
    ended = os.pidfd_open(child)
    try:
        if not select.select([ended], [], [], LIMIT_S)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(ended)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _make_removable(record: Path) -> None:
    """Give back the permissions that a kind may have taken away."""
    for top, folders, _ in os.walk(record.parents[1]):
        for path in (Path(top, name) for name in folders):
            if not path.is_symlink():
                with contextlib.suppress(OSError):  # a path that is too long
                    path.chmod(0o700)


def encode(found: Iterable[Cell]) -> bytes:
    """Return cells as JSON."""
    return msgspec.json.encode(list(found))


def decode(data: bytes) -> list[Cell]:
    """Return the cells of `encode`."""
    return msgspec.json.decode(data, type=list[Cell])
