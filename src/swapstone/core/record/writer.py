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
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

import msgspec

from swapstone.core.model import Experiment, FrozenStruct, RecordError, Run
from swapstone.core.model.closing import Closing
from swapstone.core.model.errors import remedy
from swapstone.core.record import origin, record_format, validation
from swapstone.core.record.files import LONGEST_LINE_BYTES, FileProblemError, RecordFolder, limit_of
from swapstone.core.record.kept_outputs import check_raw
from swapstone.core.record.reader import RecordView, load
from swapstone.core.record.record_paths import is_begun_folder, not_a_record
from swapstone.core.record.replace_file import replace_file
from swapstone.core.record.written_files import WrittenFiles
from swapstone.version import __version__

_LEFT = re.compile(r"\..+\.(\d+|[0-9a-f]{16})")
"""A temporary file of a process that was killed."""

_NEW_FILE = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_RUN_BYTES = LONGEST_LINE_BYTES - (1 << 20)
"""The rest of the line has less than 200 bytes and two texts, in which a character takes up to six bytes."""

LONGEST_TEXT_BYTES = 64 << 10
"""A raw output, or an answer, that has more bytes is a file of its own."""

_SETTLE_S = 0.2
"""Until what removes a folder file by file has ended."""

_NOT_CONTINUED = "`swapstone show` reads the undamaged lines; `swapstone rerun` makes the experiment again."

MOST_NOTED = 10_000
"""Digests of texts in the lines so far; then they are forgotten, and a text may be in two lines."""

_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES}
"""Errors of file systems that can't sync a folder, and of folders that this user can't read."""


class RecordWriter(Closing):
    """The writer of a record, which holds its lock. A context manager; leaving it releases the lock.

    `create` and `resume` construct it. After each `append` the run is on disk: a SIGKILL at any time loses at most the current trial.
    A seal exists only between sessions: the first change of a resumed record removes it, and `seal` writes it, once.
    """

    def __init__(self, path: Path, lock: IO[bytes], number: int, chain: str, sessions: int) -> None:
        self.sessions = sessions
        """Number of writing sessions, with this one."""
        self._raw_unsynced = False
        self._texts: list[str] = []
        """What the next line keeps."""
        self._noted: set[str] = set()
        self._unsettled: tuple[record_format.Line, int] | None = None
        """A line that is being written, and the size in bytes that `runs.jsonl` has with it."""
        self._open(path, lock, number, chain)

    def _open(self, path: Path, lock: IO[bytes], number: int, chain: str) -> None:
        self.path = path
        self._lock = lock
        self._number = number
        self._chain = chain
        self._sealed = (path / record_format.SEAL).exists()
        # Unbuffered: a failed write must not be retried later by a buffer. For reading, too: it may be all that is left of the file.
        self._runs = _opened(path / record_format.RUNS, os.O_RDWR | os.O_APPEND)
        self._files = WrittenFiles(path, self._runs.fileno(), lock.fileno())

    @classmethod
    def create(cls, path: Path, experiment: Experiment, description: record_format.Description | None = None) -> Self:
        """Create the folder of a new record. Its last step is `record.json`: only then is the folder a record.

        Args:
            path: a folder that does not exist yet, or is empty, or in which a kill ended this function.
            experiment: of the record.
            description: of its names; without one, readers derive it as for a record before 0.2.

        Raises:
            RecordError: the folder has other content or can't be written, or the disk is full.
            UserError: the experiment could not be read back.
        """
        validation.require_readable(experiment, description)
        with _user_errors(path, _START_AGAIN), contextlib.ExitStack() as undo:
            made = [folder for folder in (path, *path.parents) if not folder.exists()]
            check_unused(path)
            path.mkdir(parents=True, exist_ok=True)
            lock = undo.enter_context(_locked(path))
            check_unused(path)  # under the lock: another process may have used it meanwhile
            _remove_temporary_files(path)
            (path / record_format.RAW).mkdir(exist_ok=True)
            now = datetime.datetime.now(datetime.UTC)
            meta = record_format.Meta(
                id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
                created=now.isoformat(timespec="seconds"),
                swapstone=__version__,
                description=description,
            )
            writer = cls(path, lock, 0, "", 1)
            undo.callback(writer.close)
            origin.mark_file(path, meta.id, record_format.EXPERIMENT, experiment)
            writer._write(record_format.EXPERIMENT, experiment)
            for folder in made:
                _sync_folder(folder.parent)
            undo.callback((path / record_format.META).unlink, missing_ok=True)
            writer._write(record_format.META, meta)
            undo.pop_all()
            return writer

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
                raise not_a_record(path)
            _check_regular(path)
            with contextlib.ExitStack() as undo:
                lock = undo.enter_context(_locked(path))
                _remove_temporary_files(path)
                _set_torn_line_aside(path / record_format.RUNS)
                view = load(path)
                if view.damages:
                    lines = "; ".join(str(damage) for damage in view.damages[:3])
                    raise RecordError(f"{path} has been altered, so it can't be continued: {lines}.", _NOT_CONTINUED)
                sessions = view.seal.sessions + 1 if view.seal else 2
                writer = cls(path, lock, len(view.runs), view.last_chain, sessions)
                undo.pop_all()
                return writer, view

    def close(self) -> None:
        """Close the files and release the lock. Calling it twice is allowed."""
        self._files.close()
        self._runs.close()
        self._lock.close()

    def write_manifest(self, manifest: record_format.Manifest) -> None:
        """Replace `manifest.json` atomically.

        Raises:
            RecordError: the disk is full, or the manifest is too large to be read back.
        """
        size, most = len(origin.file_bytes(manifest)), limit_of(record_format.MANIFEST)
        if size > most:
            raise RecordError(
                f"The list of programs of this experiment has {size} bytes, more than the {most} that are read.",
                "Divide the experiment: fewer variants, layouts or workloads.",
            )
        self._write_marked(record_format.MANIFEST, manifest)

    def write_experiment(self, experiment: Experiment) -> None:
        """Write `experiment.json` again, for the budget of a resumed experiment. All other fields must be unchanged.

        Raises:
            RecordError: the disk is full.
            UserError: the experiment could not be read back.
        """
        validation.require_readable(experiment)
        self._write_marked(record_format.EXPERIMENT, experiment)

    def _write_marked(self, name: str, noun: FrozenStruct) -> None:
        with self._errors():
            self._require_whole()
            origin.mark_file(self.path, origin.identity_of(self.path), name, noun)
            self._unseal()
            self._write(name, noun)

    def _write(self, name: str, noun: FrozenStruct) -> None:
        try:
            _write_bytes(self.path / name, origin.file_bytes(noun))
        finally:  # what a full disk left is no change by something else
            self._files.note(name)
            self._files.note(origin.ORIGIN)

    def keep_raw(self, output: bytes) -> str:
        """Keep the raw output of a trial, or the agent's answer to it: in the line of the next run, or a long one in a file.

        Returns:
            Its SHA-256; empty for no output.
        """
        if not output:
            return ""
        digest = record_format.file_sha256(output)
        if digest in self._noted:
            return digest
        if (text := _text_of(output)) is not None:
            self._texts.append(text)
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted.add(digest)
        elif not (target := self.path / record_format.RAW / f"{digest}.txt").exists():
            with self._errors():
                replace_file(target, output, alone=True)
            self._files.raw.add(target.name)
            self._raw_unsynced = True  # one sync of the folder for all files of a run, before its line
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
        with self._errors():
            target.parent.mkdir(exist_ok=True)
            _write_bytes(target, log)
        return str(target)

    def append(self, run: Run) -> None:
        """Append a run and sync it to disk.

        Raises:
            RecordError: the disk is full or the folder is gone, or the line is too long to be read back; the earlier lines are unchanged.
        """
        encoded, number = run.encoded(), self._number + 1
        chain = record_format.chain_value(number, self._chain, encoded)
        line = record_format.Line(
            number=number, previous=self._chain, chain=chain, run=msgspec.Raw(encoded), raw=tuple(self._texts)
        )
        if len(encoded) > _LONGEST_RUN_BYTES:
            raise RecordError(
                f"A run of {run.trial.workload} has {len(encoded)} bytes, more than the {_LONGEST_RUN_BYTES} that are read.",
                "Let the workload report fewer values in a run.",
            )
        with self._errors():
            if self._files.grown():  # a line after other bytes than this writer's would be out of place
                self._require_whole()
            self._unseal()
            if self._raw_unsynced:
                _sync_folder(self.path / record_format.RAW)
                self._raw_unsynced = False
            rest = memoryview(data := msgspec.json.encode(line) + b"\n")
            self._unsettled = line, self._files.size_bytes + len(data)
            try:
                while rest:
                    rest = rest[self._runs.write(rest) :]
                os.fsync(self._runs.fileno())
            except OSError:
                self._unsettled = line, -1  # whatever the file has of it may not be on the disk
                raise
            finally:
                self._settle()
            self._require_whole()

    def _settle(self) -> None:
        """Count the line that was written last if the file has all of it, or else take its part out of the file.

        Signals may have ended the writing and this function at any step: what the file has decides, and `seal` syncs it.
        """
        if self._unsettled is None:
            return
        line, end = self._unsettled
        if os.fstat(self._runs.fileno()).st_size == end:
            self._number, self._chain, self._texts = line.number, line.chain, []
        else:
            with contextlib.suppress(OSError):
                os.ftruncate(self._runs.fileno(), self._files.size_bytes)
            end = os.fstat(self._runs.fileno()).st_size
        self._files.size_bytes = end
        self._unsettled = None

    def read_back(self) -> RecordView:
        """Read the record, and check that it has all that was written.

        Raises:
            RecordError: something else removed or changed files of it; the message has what is left, and where.
        """
        with self._errors():
            self._require_whole()
        try:
            view = load(self.path)
        except RecordError as error:
            error.hint = f"What was measured is kept. Continue: {_resume_command(self.path)}"
            raise
        complete = (len(view.runs), view.last_chain) == (self._number, self._chain) and not view.damages
        if not complete or self._files.lost_raw():
            what = "; ".join(map(str, view.damages[:3]))
            what = what or (f"{record_format.RAW} lacks files" if complete else f"{record_format.RUNS} has other runs")
            raise self._incomplete(view, self.path, self._number, what)
        return view

    def _require_whole(self) -> None:
        """Check that the files have their names and sizes; if not, write again what this writer still has.

        Raises:
            RecordError: something else removed or changed files; the message has what is left, and where.
        """
        self._settle()
        if not self._files.losses():
            return
        time.sleep(_SETTLE_S)
        if not (found := self._files.losses()):
            return
        written, path, troubles = self._number, self.path, list[str]()
        folder, what = self._files.place(), "; ".join(found)
        elsewhere = Path(tempfile.gettempdir()) / f"{path.name}-{secrets.token_hex(4)}"
        for place in (folder or path, elsewhere):
            try:
                view = self._write_again(place, new=place != folder)
                self._write_seal("interrupted", "something else changed its files", "")
            except (OSError, RecordError) as error:
                troubles.append(str(error))
            else:
                raise self._incomplete(view, path, written, what)
        raise RecordError(
            f"{_changed(path, what)} What is left of its {written} runs can't be written again: {'; '.join(troubles)}.",
            "Measure again, into a folder that nothing else changes: --out FOLDER",
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the operating system: where something else changed the record, that is the cause."""
        with _user_errors(self.path):
            try:
                yield
            except OSError:
                self._require_whole()
                raise

    def _write_again(self, folder: Path, *, new: bool) -> RecordView:
        """Write what this writer has into a folder, where it is missing, and continue there; return what can be read of it.

        Args:
            folder: of the record.
            new: whether it has nothing of the record.
        """
        if new:
            check_unused(folder)
        folder.mkdir(parents=True, exist_ok=True)
        changed = self._files.changed_in(folder)
        for name in changed:
            _set_aside(folder / name)
        lock = _locked(folder) if record_format.LOCK in changed else self._lock
        (folder / record_format.RAW).mkdir(exist_ok=True)
        for name in self._files.contents.keys() & changed:
            replace_file(folder / name, self._files.contents[name], alone=True)
        if record_format.RUNS in changed:
            self._runs.seek(0)
            replace_file(folder / record_format.RUNS, iter(lambda: self._runs.read(1 << 20), b""), alone=True)
        _set_torn_line_aside(folder / record_format.RUNS)
        _sync_folder(folder)
        view = load(folder)
        if lock is not self._lock:
            self._lock.close()
        self._runs.close()
        self._files.close()
        self._open(folder, lock, len(view.runs), view.last_chain)
        return view

    def _incomplete(self, view: RecordView, path: Path, written: int, what: str) -> RecordError:
        """Return the error for a record of which something else changed the files: what happened, what is left and the next step."""
        count = len(view.runs)
        left = f"All {written} runs are" if count == written else f"{count} of its {written} runs are left,"
        lost = len(check_raw(view))
        outputs = f" Outputs of programs in files of their own that are lost: {lost}." if lost else ""
        again = f"Find what changes that folder, then continue: {_resume_command(view.path)}"
        return RecordError(
            f"{_changed(path, what)} {left} in {view.path}.{outputs}", _NOT_CONTINUED if view.damages else again
        )

    def seal(self, state: str, why: str, verdicts: str) -> None:
        """Write `seal.json` at the end of this session.

        Args:
            state: ``complete`` or ``interrupted``.
            why: reason for the end, in a few words.
            verdicts: digest of the verdicts as printed, or empty.

        Raises:
            RecordError: the disk is full, or as `read_back`.
        """
        with self._errors():
            self._require_whole()
            self._write_seal(state, why, verdicts)

    def _write_seal(self, state: str, why: str, verdicts: str) -> None:
        os.fsync(self._runs.fileno())
        digests = {name: record_format.file_sha256(data) for name, data in self._files.contents.items()}
        seal = record_format.Seal(
            runs=self._number,
            chain=self._chain,
            state=state,
            why=why,
            verdicts=verdicts,
            manifest=digests.get(record_format.MANIFEST, ""),
            experiment=digests[record_format.EXPERIMENT],
            sessions=self.sessions,
            record=digests[record_format.META],
            sealed_unix_ns=time.time_ns(),
        )
        _write_bytes(self.path / record_format.SEAL, origin.file_bytes(seal))

    def _unseal(self) -> None:
        """Remove the seal of the session before, which does not hold any more when the record changes."""
        if self._sealed:
            (self.path / record_format.SEAL).unlink(missing_ok=True)
            _sync_folder(self.path)
            self._sealed = False


def _text_of(output: bytes) -> str | None:
    """Return an output as text if a line keeps it."""
    if len(output) > LONGEST_TEXT_BYTES:
        return None
    try:
        return output.decode()
    except UnicodeDecodeError:
        return None


def _check_regular(path: Path) -> None:
    """Check that no file that will be written is a link, a FIFO or a device: the record is untrusted.

    Raises:
        RecordError: one is.
    """
    try:
        with RecordFolder(path) as folder:
            found = folder.irregular()
    except FileProblemError as error:
        raise RecordError(f"{path} can't be read: {error}.") from error
    if found:
        raise RecordError(
            f"{path} has been altered, so it can't be continued: {'; '.join(map(str, found))}.",
            "`swapstone verify` lists all damage.",
        )


def check_unused(path: Path) -> None:
    """Check that a folder is missing or empty, or that a kill ended `RecordWriter.create` there, and that it is not inside a record.

    Raises:
        RecordError: it has other content, or is inside a record.
        OSError: it can't be read.
    """
    if (path.parent / record_format.META).is_file():
        raise RecordError(f"{path} is inside of another record.", "Name another folder with --out.")
    if not path.exists() or not any(path.iterdir()) or is_begun_folder(path):
        return
    if (path / record_format.META).is_file():
        raise RecordError(
            f"{path} is not empty: it is a record.",
            f"Name another folder with --out, or continue it: {_resume_command(path)}",
        )
    raise RecordError(f"{path} is not empty.", "Name another folder with --out.")


def _resume_command(path: Path) -> str:
    return f"swapstone compare --resume {shlex.quote(str(path))}"


def _locked(path: Path) -> IO[bytes]:
    handle = _opened(path / record_format.LOCK, os.O_WRONLY | os.O_APPEND)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        if isinstance(error, BlockingIOError):
            raise RecordError(
                f"Another process is writing {path}.", "Wait for it to end, or write another record with --out."
            ) from error
        raise RecordError(  # ENOLCK of a network file system, for example
            f"{path} can't be locked against a second writer: {error.strerror}.",
            "Write the record to a file system that has locks: --out FOLDER",
        ) from error
    return handle


def _opened(path: Path, flags: int) -> IO[bytes]:
    """Open a file of a record for unbuffered writing, create it if it is missing, and follow no symbolic link."""
    return os.fdopen(os.open(path, _NEW_FILE | flags, 0o666), "rb+" if flags & os.O_RDWR else "wb", buffering=0)


def _remove_temporary_files(path: Path) -> None:
    """Remove the temporary files of writers that were killed. The caller holds the lock, so no other process has any.

    Raises:
        RecordError: a folder of the record is a symbolic link, or a file.
    """
    for folder in (path, path / record_format.RAW, path / record_format.BUILDS):
        try:
            mode = folder.stat(follow_symlinks=folder == path).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            raise RecordError(
                f"{folder} is not a folder, so nothing is written there.", "Restore the record from a copy."
            )
        with os.scandir(folder) as entries:
            left = [
                entry.path for entry in entries if _LEFT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]
        for name in left:
            Path(name).unlink()


def _set_torn_line_aside(runs: Path) -> None:
    try:
        with runs.open("rb") as read:
            size = read.seek(0, os.SEEK_END)
            start = max(0, size - LONGEST_LINE_BYTES)
            read.seek(start)
            data = read.read(size - start)
    except FileNotFoundError:
        return
    whole = data.rfind(b"\n") + 1
    if whole == len(data) or (start and not whole):  # a longer line was not written here: `load` names it
        return
    replace_file(runs.with_suffix(".jsonl.torn"), data[whole:], alone=True)
    with _opened(runs, os.O_WRONLY) as handle:
        handle.truncate(start + whole)
        os.fsync(handle.fileno())


def _write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash it is the old or the new one; after this function it is the new one, also without power."""
    replace_file(path, data, alone=True)
    _sync_folder(path.parent)


def _set_aside(path: Path) -> None:
    """Rename a file or a folder that something else put in the place of one of the record; remove a link or a FIFO."""
    with contextlib.suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            path.rename(path.with_name(f"{path.name}.{secrets.token_hex(4)}"))
        else:
            path.unlink()


def _sync_folder(path: Path) -> None:
    """Sync a folder, so that the names of new files survive a loss of power."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _changed(path: Path, what: str) -> str:
    return f"Something else changed the record {path} while it was written: {what}."


_START_AGAIN = "give the same command again."
_HINTS = {
    errno.EACCES: "Name a writable folder with --out.",
    errno.EPERM: "Name a writable folder with --out.",
    errno.EROFS: "That file system is read-only: name another folder with --out.",
    errno.ENOTDIR: "A part of that path is a file: name another folder with --out.",
    errno.EEXIST: "That is a file: name another folder with --out.",
}


@contextlib.contextmanager
def _user_errors(path: Path, next_step: str = "") -> Iterator[None]:
    """Convert errors of the operating system.

    Args:
        path: the record's folder.
        next_step: what to do after the cause is removed; empty for resuming the record.

    Raises:
        RecordError: with the cause and the next step.
    """
    try:
        yield
    except OSError as error:
        if cause := remedy(error):
            hint = f"{cause}, then {next_step or f'continue: {_resume_command(path)}'}"
        else:
            hint = _HINTS.get(error.errno or 0, "Name another folder with --out.")
        raise RecordError(f"The record {path} can't be written: {error.strerror}.", hint) from error
