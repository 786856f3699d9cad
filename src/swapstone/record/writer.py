# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a record: each run is appended and synced; a lock allows one writer."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from swapstone.model import Experiment, FrozenStruct, RecordError, Run
from swapstone.record import record_format
from swapstone.record.reader import RecordView, load
from swapstone.version import __version__


class RecordWriter:
    """The writer of a record, which holds its lock. A context manager; leaving it releases the lock.

    `create` and `resume` construct it. After each `append` the run is on disk: a SIGKILL at any time loses at most the current trial.
    """

    def __init__(self, path: Path, lock: IO[bytes], number: int, chain: str, sessions: int) -> None:
        self.path = path
        self._lock = lock
        self._number = number
        self._chain = chain
        self._sessions = sessions
        # Unbuffered: a failed write must not be retried later by a buffer.
        self._runs = (path / record_format.RUNS).open("ab", buffering=0)

    @classmethod
    def create(cls, path: Path, experiment: Experiment) -> Self:
        """Create the folder of a new record.

        Args:
            path: a folder that does not exist yet, or is empty.
            experiment: of the record.

        Raises:
            RecordError: the folder is not empty or can't be written, or the disk is full.
        """
        with _user_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise RecordError(
                    f"{path} is not empty.", "Name another folder with --out, or continue a record with --resume."
                )
            lock = _locked(path)
            (path / record_format.RAW).mkdir()
            now = datetime.datetime.now(datetime.UTC)
            meta = record_format.Meta(
                id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
                created=now.isoformat(timespec="seconds"),
                swapstone=__version__,
            )
            _write(path / record_format.EXPERIMENT, experiment)
            _write(path / record_format.META, meta)
            return cls(path, lock, 0, "", 1)

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, RecordView]:
        """Open an existing record to continue it.

        A last line that a crash truncated is moved to ``runs.jsonl.torn``; its trial will be made again.

        Returns:
            The writer, and the record's contents.

        Raises:
            RecordError: another process is writing it, it was altered, or it has another schema version.
        """
        with _user_errors(path):
            if not (path / record_format.META).is_file():
                raise RecordError(f"{path} is not a record.", "`swapstone list records` lists the existing records.")
            with contextlib.ExitStack() as undo:
                lock = undo.enter_context(_locked(path))
                _set_torn_line_aside(path / record_format.RUNS)
                view = load(path)
                if view.damages:
                    lines = "; ".join(str(damage) for damage in view.damages[:3])
                    raise RecordError(
                        f"{path} has been altered, so it can't be continued: {lines}.",
                        "`swapstone show` reads the undamaged lines; `swapstone rerun` makes the experiment again.",
                    )
                sessions = view.seal.sessions + 1 if view.seal else 2
                writer = cls(path, lock, len(view.runs), view.last_chain, sessions)
                undo.pop_all()
                return writer, view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and release the lock. Calling it twice is allowed."""
        self._runs.close()
        self._lock.close()

    @property
    def sessions(self) -> int:
        """Return the number of writing sessions, with this one."""
        return self._sessions

    def write_manifest(self, manifest: record_format.Manifest) -> None:
        """Replace `manifest.json` atomically."""
        with _user_errors(self.path):
            _write(self.path / record_format.MANIFEST, manifest)

    def write_experiment(self, experiment: Experiment) -> None:
        """Write `experiment.json` again, for the budget of a resumed experiment. All other fields must be unchanged."""
        with _user_errors(self.path):
            _write(self.path / record_format.EXPERIMENT, experiment)

    def keep_raw(self, output: bytes) -> str:
        """Store the raw output of a trial, or the agent's answer to it.

        Returns:
            Its SHA-256; empty for no output.
        """
        if not output:
            return ""
        digest = record_format.file_sha256(output)
        target = self.path / record_format.RAW / f"{digest}.txt"
        if not target.exists():
            with _user_errors(self.path):
                _write_bytes(target, output)
        return digest

    def keep_log(self, label: str, log: bytes) -> str:
        """Store the build log of a variant; replaces that of an earlier session.

        Args:
            label: of the variant. Characters unsuitable for file names are replaced, and a digest keeps the names distinct.
            log: the whole log.

        Returns:
            The file's path.
        """
        plain = re.sub(r"[^A-Za-z0-9=.,_-]+", "-", label).strip("-.")[:80]
        if plain != label:
            plain = f"{plain}-{record_format.file_sha256(label.encode())[:6]}"
        target = self.path / record_format.BUILDS / f"{plain}.log"
        with _user_errors(self.path):
            target.parent.mkdir(exist_ok=True)
            _write_bytes(target, log)
        return str(target)

    def append(self, run: Run) -> None:
        """Append a run and sync it to disk.

        Raises:
            RecordError: the disk is full or the folder is gone; the earlier lines are unchanged.
        """
        encoded = run.encoded()
        chain = record_format.chain_value(self._number + 1, self._chain, encoded)
        line = record_format.Line(number=self._number + 1, previous=self._chain, chain=chain, run=msgspec.Raw(encoded))
        end = os.fstat(self._runs.fileno()).st_size
        try:
            rest = memoryview(msgspec.json.encode(line) + b"\n")
            while rest:
                rest = rest[self._runs.write(rest) :]
            os.fsync(self._runs.fileno())
        except OSError as error:
            # Truncate a partly written line, so that the record stays readable.
            with contextlib.suppress(OSError):
                os.ftruncate(self._runs.fileno(), end)
            raise _as_user_error(self.path, error) from error
        self._number, self._chain = self._number + 1, chain

    def seal(self, state: str, why: str, verdicts: str) -> None:
        """Write `seal.json` at the end of this session.

        Args:
            state: ``complete`` or ``interrupted``.
            why: reason for the end, in a few words.
            verdicts: digest of the verdicts as printed, or empty.
        """
        with _user_errors(self.path):
            seal = record_format.Seal(
                runs=self._number,
                chain=self._chain,
                state=state,
                why=why,
                verdicts=verdicts,
                manifest=_digest_of(self.path / record_format.MANIFEST),
                experiment=_digest_of(self.path / record_format.EXPERIMENT),
                sessions=self._sessions,
                record=_digest_of(self.path / record_format.META),
                sealed_unix_ns=time.time_ns(),
            )
            _write(self.path / record_format.SEAL, seal)


def _locked(path: Path) -> IO[bytes]:
    handle = (path / record_format.LOCK).open("ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise RecordError(
            f"Another process is writing {path}.", "Wait for it to end, or write another record with --out."
        ) from error
    return handle


def _set_torn_line_aside(runs: Path) -> None:
    data = runs.read_bytes() if runs.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        runs.with_suffix(".jsonl.torn").write_bytes(data[whole:])
        with runs.open("r+b") as handle:
            handle.truncate(whole)


def _write(path: Path, noun: FrozenStruct) -> None:
    _write_bytes(path, msgspec.json.format(noun.encoded(), indent=1) + b"\n")


def _write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash it is the old or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _digest_of(path: Path) -> str:
    return record_format.file_sha256(path.read_bytes()) if path.exists() else ""


@contextlib.contextmanager
def _user_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _as_user_error(path, error) from error


def _as_user_error(path: Path, error: OSError) -> RecordError:
    hints = {
        errno.ENOSPC: "The disk is full: free some space, then continue with --resume.",
        errno.EDQUOT: "Your disk quota is used up: free some space, then continue with --resume.",
        errno.EACCES: "Name a writable folder with --out.",
        errno.EPERM: "Name a writable folder with --out.",
        errno.EROFS: "That file system is read-only: name another folder with --out.",
        errno.ENOTDIR: "A part of that path is a file: name another folder with --out.",
        errno.EEXIST: "That is a file: name another folder with --out.",
    }
    return RecordError(
        f"The record {path} can't be written: {error.strerror}.",
        hints.get(error.errno or 0, "Name another folder with --out."),
    )
