# SPDX-License-Identifier: MIT OR Apache-2.0
"""A store that several machines share: inputs of runs by their SHA-256, and runs by their names (docs/many-machines.md).

Its content is untrusted: a process that can write to it can write anything. So nothing that is read from it is used before its digest was
checked, links and special files are not opened, and every name is built here from hexadecimal digits.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from swapstone.core.model import UserError
from swapstone.core.model.regular_file import read_regular_file
from swapstone.core.model.safe_text import safe, safe_excerpt

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
        try:
            self._files.pipe_file(draft, content)
            (os.replace if self._local else self._files.mv)(draft, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(draft)
            raise

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
