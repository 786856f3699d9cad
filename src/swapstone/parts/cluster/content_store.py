# SPDX-License-Identifier: MIT OR Apache-2.0
"""A store that several machines share: inputs of runs by their SHA-256, and runs by their names (docs/many-machines.md).

Its content is untrusted: a process that can write to it can write anything. So nothing that is read from it is used before its digest was
checked, links and special files are not opened, and every name is built here from hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import urlsplit

import msgspec

from swapstone.core.model import (
    CLOCK_SCALES,
    MOST_PROCESSORS,
    FrozenStruct,
    UnavailableError,
    UserError,
    WireError,
    undone_on_error,
)
from swapstone.core.model.directories import mark_used, write_whole
from swapstone.core.model.regular_file import read_regular_file
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.targets.agent_build import sha256_of
from swapstone.parts.vm.machine.emulator import EmulatedMachine, check_cpu, find_emulator
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Setup
from swapstone.parts.vm.machine.run_cache import NamedRun, decode_run, digest_of, encode_run, run_inputs
from swapstone.version import __version__

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Result = TypeVar("Result")

OBJECTS, TRIALS, RUNS, PLANS = "objects", "trials", "runs", "plans"
"""The folders of a store."""

MOST_BYTES = {OBJECTS: 2 << 30, TRIALS: 1 << 20, RUNS: 256 << 20, PLANS: 256 << 20}
"""The largest entry of each folder that is read: several times the largest image, and what a machine may write, in base64."""

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PASSWORD = re.compile(r"(?<=://)[^/@]*:[^/@]*@")
_OF_THIS_MACHINE = frozenset({"file", "local"})
_OF_SSH = frozenset({"sftp", "ssh"})
_OF_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""File systems without folders: to make one would make a bucket, whose name may be a mistake."""

_WRITE_AGAIN = "The command that wrote it writes it again: swapstone plan, or swapstone compare, with this --store."
_KINDS = (
    "A store is a folder or a URL of fsspec, for example --store file:///srv/swapstone. s3:// needs: pip install s3fs; "
    "sftp:// needs: pip install paramiko"
)
_BY_HAND = (
    "This must work without a question: ssh ssh://{place} true. Connect once by hand, and compare the server's key; give the server "
    "yours by ssh-copy-id, or load it into ssh-agent."
)
_KEPT = "Nothing that was measured is lost. Name a store that you can read and write: --store URL (swapstone docs many-machines)"


class DamagedEntryError(UserError):
    """An entry of a store is not what its name promises: truncated, altered, or of another kind. It is not used.

    Args:
        entry: its path in the store.
        why: in a few words.
    """

    def __init__(self, entry: str, why: str) -> None:
        super().__init__(f"The store's entry {entry} is refused: {why}.", _WRITE_AGAIN)
        self.entry = entry
        self.args = (entry, why)  # from which it is made again in another process


class ContentStore:
    """A folder on this machine or elsewhere, by any URL that fsspec opens. Several threads may use it.

    Args:
        url: a path, ``file://PATH``, ``sftp://HOST/PATH``, ``s3://BUCKET/PREFIX``, or another URL of fsspec.

    Raises:
        UserError: there is no such kind of store, a package that it needs is missing, or its server can't be used.
    """

    def __init__(self, url: str) -> None:
        import fsspec  # noqa: PLC0415 - 50 ms, for a shared store alone

        for name in _OF_SSH:
            ours = f"{__package__}.sftp_files.SftpFiles"
            fsspec.register_implementation(name, ours, clobber=True, errtxt="paramiko is not installed")
        self.url = url
        self.shown = safe_excerpt(_PASSWORD.sub("...@", url))
        kind = fsspec.core.split_protocol(url)[0] or "file"
        try:
            opened = fsspec.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
        except (ImportError, ValueError) as error:
            raise self._unusable("opened", error, _KINDS) from error
        except Exception as error:
            place = safe(re.sub(":[^@]*@", "@", urlsplit(url).netloc))
            raise self._unusable("opened", error, _BY_HAND.format(place=place) if kind in _OF_SSH else _KEPT) from error
        self._files: AbstractFileSystem = opened[0]
        self._root: str = opened[1]
        self._local = kind in _OF_THIS_MACHINE
        self._ssh = kind in _OF_SSH
        self._has_folders = kind not in _OF_OBJECTS
        self._written: set[str] = set()
        self._turn = threading.RLock() if self._ssh else contextlib.nullcontext()

    def put_object(self, digest: str, read: Callable[[], bytes]) -> str:
        """Store bytes by their SHA-256, unless an entry of that name and size is there.

        Args:
            digest: of the bytes: 64 hexadecimal digits.
            read: returns them; called unless this object has stored them.

        Returns:
            The digest.

        Raises:
            UserError: the store can't be written.
        """
        if digest not in self._written:
            content = read()
            if self.size(OBJECTS, digest) != len(content):
                self.put(OBJECTS, digest, content)
            self._written.add(digest)
        return digest

    def get_object(self, digest: str, kind: str = OBJECTS) -> bytes:
        """Return the bytes of a digest.

        Raises:
            DamagedEntryError: the entry is missing, or its content has another digest.
            UserError: the store can't be read.
        """
        content = self.get(kind, digest)
        if content is None:
            raise DamagedEntryError(self.path_of(kind, digest), "it is missing")
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedEntryError(self.path_of(kind, digest), "its content has another digest")
        return content

    def remove(self, kind: str, name: str) -> None:
        """Remove an entry that was found to be damaged, so that it is written anew. One that can't be removed is found again."""
        self._written.discard(name)
        with contextlib.suppress(UserError):
            path = self._path(kind, name)
            self._do("written", lambda: self._files.rm_file(path))

    def path_of(self, kind: str, name: str) -> str:
        """Return the path of an entry in the store, for messages.

        Raises:
            UserError: `name` is not made of 64 hexadecimal digits.
        """
        if not _NAME.fullmatch(name):
            raise UserError(f"{safe_excerpt(name)} is no name of a store's entry.", "It has 64 hexadecimal digits.")
        return f"{kind}/{name[:2]}/{name}"

    def size(self, kind: str, name: str) -> int | None:
        """Return the size of an entry in bytes; None if there is none.

        Raises:
            DamagedEntryError: it is a link, a folder or a special file, or too large.
            UserError: the store can't be read.
        """
        path = self._path(kind, name)
        found = self._do("read", lambda: self._files.info(path))
        if found is None:
            return None
        if found.get("type") != "file" or found.get("islink"):
            raise DamagedEntryError(self.path_of(kind, name), "it is no regular file")
        size = found.get("size")
        if not isinstance(size, int) or not 0 <= size <= MOST_BYTES[kind]:
            raise DamagedEntryError(self.path_of(kind, name), "it is too large")
        return size

    def get(self, kind: str, name: str) -> bytes | None:
        """Return an entry's content, unchecked; None if there is none.

        Raises:
            DamagedEntryError: it is a link, a folder or a special file, or too large.
            UserError: the store can't be read.
        """
        if self.size(kind, name) is None:
            return None
        path = self._path(kind, name)
        return self._do("read", lambda: self._read(path, MOST_BYTES[kind]))

    def put(self, kind: str, name: str, content: bytes) -> None:
        """Write an entry: on a file system under another name first, so that it is whole or missing.

        Raises:
            UserError: the store can't be written.
        """
        path = self._path(kind, name)
        self._do("written", lambda: self._write(path, content))

    def _read(self, path: str, most_bytes: int) -> bytes:
        """Return the bytes of a file, which may have been exchanged since it was checked."""
        if not self._local:
            return bytes(self._files.cat_file(path))
        if Path(path).is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link", path)
        return read_regular_file(Path(path), most_bytes)

    def _write(self, path: str, content: bytes) -> None:
        folder = path.rpartition("/")[0]
        if self._has_folders and not self._files.exists(folder):
            self._files.makedirs(folder, exist_ok=True)
        if not (self._local or self._ssh):
            self._files.pipe_file(path, content)
            return
        draft = f"{path}.{secrets.token_hex(8)}.part"
        with undone_on_error(lambda: self._files.rm_file(draft)):
            self._files.pipe_file(draft, content)
            (os.replace if self._local else self._files.mv)(draft, path)

    def _do(self, what: str, act: Callable[[], Result]) -> Result | None:
        """Do something with the files; on an ssh server again by another connection, if it fails. Each act may be repeated.

        Returns:
            Its result; None if there is nothing to be read.

        Raises:
            UserError: it failed.
        """
        try:
            with self._turn:
                try:
                    return act()
                except Exception as error:
                    if not self._ssh or isinstance(error, FileNotFoundError):
                        raise
                    self._files.reconnect()
                    return act()
        except Exception as error:
            if what == "read" and isinstance(error, FileNotFoundError | NotADirectoryError):
                return None
            raise self._unusable(what, error) from error

    def _path(self, kind: str, name: str) -> str:
        """Return the path of an entry for fsspec.

        Raises:
            DamagedEntryError: a folder of this machine is a link, so that it is outside the store.
        """
        path = f"{self._root.rstrip('/')}/{self.path_of(kind, name)}"
        if self._local and any(folder.is_symlink() for folder in list(Path(path).parents)[:2]):
            raise DamagedEntryError(self.path_of(kind, name), "its folder is a symbolic link")
        return path

    def _unusable(self, what: str, error: Exception, hint: str = _KEPT) -> UserError:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        reason = "the server gives no reason; its disk may be full" if reason == "Failure" else reason
        return UserError(f"The store {self.shown} can't be {what}: {safe(reason)[:300]}.", hint)


MOST_MEMORY_BYTES = 64 << 30
Digest = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class StoredTrial(FrozenStruct, frozen=True, kw_only=True):
    """The inputs of a run, as a store has them.

    Attributes:
        swapstone: the version that wrote it, for messages.
        emulator: SHA-256 of QEMU with its firmware.
        emulator_version: for messages.
        machine: the emulated machine.
        kernel: digest of an object.
        initrd: digest of an object.
        order: digest of an object.
        received: digest of the object with the trial's files.
        points: the same of what the plugin watches; empty where the program is not counted.
    """

    swapstone: str
    emulator: str
    emulator_version: str
    machine: EmulatedMachine
    kernel: Digest
    initrd: Digest
    order: Digest
    received: Digest
    points: Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""


def put_trial(store: ContentStore, named: NamedRun) -> None:
    """Store the inputs of a run, unless they are there.

    Raises:
        UserError: the store can't be written, or a file of the run can't be read.
    """
    setup = named.setup
    trial = StoredTrial(
        swapstone=__version__,
        emulator=setup.emulator.build,
        emulator_version=setup.emulator.version,
        machine=setup.machine,
        kernel=store.put_object(named.inputs["kernel"].hex(), setup.kernel.read_bytes),
        initrd=store.put_object(named.inputs["initrd"].hex(), setup.initrd.read_bytes),
        order=store.put_object(hashlib.sha256(setup.order).hexdigest(), lambda: setup.order),
        received=store.put_object(named.inputs["received"].hex(), setup.received.read_bytes),
        points=store.put_object(hashlib.sha256(setup.points).hexdigest(), lambda: setup.points) if setup.points else "",
    )
    encoded = trial.encoded()
    if store.size(TRIALS, named.name) != len(encoded):
        store.put(TRIALS, named.name, encoded)


def get_trial(store: ContentStore, name: str, folder: Path) -> tuple[Setup, dict[str, bytes]]:
    """Read the inputs of a run, check that they have this name, and write its files.

    Args:
        store: where it is.
        name: of the run.
        folder: for kernel, initrd and the trial's files, by their digests.

    Returns:
        The run's setup on this machine, and its inputs.

    Raises:
        DamagedEntryError: an entry is missing or damaged, or the inputs have another name.
        UnavailableError: this machine would make another run: its QEMU or its Swapstone differs. The message has both.
        UserError: the store can't be read, or `folder` can't be written.
    """
    entry = store.path_of(TRIALS, name)
    data = store.get(TRIALS, name)
    if data is None:
        raise DamagedEntryError(entry, "it is missing")
    trial = decode_trial(data, entry)
    machine = trial.machine
    emulator = find_emulator(machine)
    if emulator.build != trial.emulator:
        raise UnavailableError(
            f"This machine would make another run than {name}: its QEMU is {emulator.version}, SHA-256 {emulator.build}, and the run "
            f"needs {safe_excerpt(trial.emulator_version, 100)}, SHA-256 {safe_excerpt(trial.emulator, 64)}.",
            "Install the same package of QEMU on both machines, or set SWAPSTONE_QEMU to a folder with it.",
        )
    order = store.get_object(trial.order)
    points = store.get_object(trial.points) if trial.points else b""
    kernel, initrd, received = files = (trial.kernel, trial.initrd, trial.received)
    setup = Setup(emulator, machine, folder / kernel, folder / initrd, order, received=folder / received, points=points)
    inputs = run_inputs(setup, *map(bytes.fromhex, files))
    if digest_of(inputs) != name:
        if trial.swapstone == __version__:
            raise DamagedEntryError(entry, "its inputs have another name")
        raise UnavailableError(
            f"The run {name} is another one here: Swapstone {safe_excerpt(trial.swapstone, 40)} named it, and this is {__version__}.",
            "Install that version of Swapstone on this machine.",
        )
    if machine.cpu:
        check_cpu(emulator, machine)
    for path in (setup.kernel, setup.initrd, setup.received):
        if not path.exists() or _digest_at(path) != path.name:  # files are replaced, never changed
            write_whole(path, store.get_object(path.name))
            _digest_at.cache_clear()
        mark_used(path)
    return setup, inputs


def decode_trial(data: bytes, entry: str) -> StoredTrial:
    """Decode the inputs of a run, and check that its machine can be one of an experiment.

    Args:
        data: of the entry.
        entry: its path, for messages.

    Raises:
        DamagedEntryError: it is none.
    """
    try:
        trial = msgspec.json.decode(data, type=StoredTrial)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedEntryError(entry, f"it is no trial ({safe_excerpt(str(error), 100)})") from error
    machine = trial.machine
    counts = not machine.wall and machine.ns_per_instruction in CLOCK_SCALES
    if not (counts and 0 < machine.memory_bytes <= MOST_MEMORY_BYTES and 1 <= machine.processors <= MOST_PROCESSORS):
        raise DamagedEntryError(entry, "its machine is none on the virtual clock")
    return trial


_digest_at = functools.cache(sha256_of)


def put_run(store: ContentStore, name: str, run: GuestRun) -> None:
    """Store a finished run.

    Raises:
        UserError: the store can't be written.
    """
    store.put(RUNS, name, encode_run(name, run))


def get_run(store: ContentStore, name: str) -> GuestRun | None:
    """Return a finished run; None if the store has none of this name.

    Raises:
        DamagedEntryError: it is truncated, altered, or another run's.
        UserError: the store can't be read.
    """
    data = store.get(RUNS, name)
    try:
        run = decode_run(data, name) if data is not None else None
    except WireError as error:
        raise DamagedEntryError(store.path_of(RUNS, name), error.message) from error
    if run is not None and run.end is not GuestEnd.FINISHED:
        raise DamagedEntryError(store.path_of(RUNS, name), "the run did not finish")
    return run


def usable_run(store: ContentStore, name: str, note: Callable[[str], None], then: str = "") -> GuestRun | None:
    """Return a finished run; None if the store has none of this name, or a damaged one.

    Args:
        store: where it is.
        name: of the run.
        note: called with a warning about a damaged one.
        then: what follows, a sentence for the warning.

    Raises:
        UserError: the store can't be read.
    """
    try:
        return get_run(store, name)
    except DamagedEntryError as error:
        note(f"warning: {error.message} {then}".rstrip())
        return None
