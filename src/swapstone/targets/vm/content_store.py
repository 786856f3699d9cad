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
from pathlib import Path
from typing import TYPE_CHECKING

from swapstone.model import UserError
from swapstone.model.regular_file import read_regular_file
from swapstone.model.safe_text import safe, safe_excerpt
from swapstone.targets.vm.sftp_files import INSTALL, SftpFiles, open_sftp

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

OBJECTS, TRIALS, RUNS, PLANS = "objects", "trials", "runs", "plans"
"""The folders of a store."""

MOST_BYTES = {OBJECTS: 2 << 30, TRIALS: 1 << 20, RUNS: 256 << 20, PLANS: 256 << 20}
"""The largest entry of each folder that is read: several times the largest image, and what a machine may write, in base64."""

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PASSWORD = re.compile(r"(?<=://)[^/@]*:[^/@]*@")
_OF_THIS_MACHINE = frozenset({"file", "local"})
_OF_SSH = ("sftp://", "ssh://")
_OF_OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})
"""File systems without folders: to make one would make a bucket, whose name may be a mistake."""


_WRITE_AGAIN = "The command that wrote it writes it again: swapstone plan, or swapstone compare, with this --store."


class DamagedEntryError(UserError):
    """An entry of a store is not what its name promises: truncated, altered, or of another kind. It is not used.

    Args:
        entry: its path in the store.
        why: in a few words.
    """

    def __init__(self, entry: str, why: str) -> None:
        super().__init__(f"The store's entry {entry} is refused: {why}.", _WRITE_AGAIN)
        self.entry = entry


def _read_entry(path: str, most_bytes: int) -> bytes:
    """Return the bytes of an entry on this machine, which may have been exchanged since it was checked.

    Raises:
        OSError: it can't be read, is a link or no regular file, or is larger.
    """
    if Path(path).is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", path)
    return read_regular_file(Path(path), most_bytes)


class ContentStore:
    """A folder on this machine or elsewhere, by any URL that fsspec opens.

    Args:
        url: a path, ``file://PATH``, ``sftp://HOST/PATH``, ``s3://BUCKET/PREFIX``, or another URL of fsspec.

    Raises:
        UserError: there is no such kind of store, or a package that it needs is missing.
    """

    def __init__(self, url: str) -> None:
        import fsspec.core  # noqa: PLC0415 - 50 ms, for a shared store alone

        self.url = url
        self.shown = safe_excerpt(_PASSWORD.sub("...@", url))
        try:
            found: tuple[AbstractFileSystem | SftpFiles, str]
            found = open_sftp(url) if url.startswith(_OF_SSH) else fsspec.core.url_to_fs(url, use_listings_cache=False)
        except UserError as error:
            raise UserError(f"The store {self.shown} can't be opened. {error.message}", error.hint) from error
        except (ImportError, ValueError) as error:
            raise UserError(
                f"The store {self.shown} can't be opened: {safe_excerpt(str(error))}.",
                "A store is a folder or a URL of fsspec, for example --store file:///srv/swapstone. s3:// needs: pip install s3fs; "
                f"sftp:// needs: {INSTALL}",
            ) from error
        except Exception as error:
            raise self._unusable("opened", error) from error
        self._files: AbstractFileSystem | SftpFiles = found[0]
        self._root: str = found[1]
        names = {self._files.protocol} if isinstance(self._files.protocol, str) else set(self._files.protocol)
        self._local = bool(_OF_THIS_MACHINE & names)
        self._has_folders = not _OF_OBJECTS & names
        self._written: set[str] = set()
        self._lock = threading.Lock()

    def put_object(self, content: bytes, digest: str = "") -> str:
        """Store bytes by their SHA-256, unless an entry of that name and size is there.

        Args:
            content: to store.
            digest: of it, if it is known: 64 hexadecimal digits.

        Returns:
            The digest.

        Raises:
            UserError: the store can't be written.
        """
        digest = digest or hashlib.sha256(content).hexdigest()
        if self.has_put(digest):
            return digest
        if self.size(OBJECTS, digest) != len(content):
            self.put(OBJECTS, digest, content)
        with self._lock:
            self._written.add(digest)
        return digest

    def has_put(self, digest: str) -> bool:
        """Return whether this object has stored the bytes of a digest."""
        with self._lock:
            return digest in self._written

    def get_object(self, digest: str) -> bytes:
        """Return the bytes of a digest.

        Raises:
            DamagedEntryError: the entry is missing, or its content has another digest.
            UserError: the store can't be read.
        """
        content = self.get(OBJECTS, digest)
        if content is None:
            raise DamagedEntryError(self.path_of(OBJECTS, digest), "it is missing")
        if hashlib.sha256(content).hexdigest() != digest:
            raise DamagedEntryError(self.path_of(OBJECTS, digest), "its content has another digest")
        return content

    def forget(self, digest: str) -> None:
        """Remove an object that was found to be damaged, so that it is written anew."""
        with self._lock:
            self._written.discard(digest)
        self.remove(OBJECTS, digest)

    def remove(self, kind: str, name: str) -> None:
        """Remove an entry that was found to be damaged. One that can't be removed is found again."""
        with contextlib.suppress(Exception):
            self._check_folders(kind, name)
            self._files.rm_file(self._path(kind, name))

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
        self._check_folders(kind, name)
        try:
            found = self._files.info(self._path(kind, name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Exception as error:
            raise self._unusable("read", error) from error
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
        try:
            content = _read_entry(path, MOST_BYTES[kind]) if self._local else self._files.cat_file(path)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._unusable("read", error) from error
        return content

    def put(self, kind: str, name: str, content: bytes) -> None:
        """Write an entry: on a file system under another name first, so that it is whole or missing.

        Raises:
            UserError: the store can't be written.
        """
        self._check_folders(kind, name)
        path = self._path(kind, name)
        draft = f"{path}.{secrets.token_hex(8)}.part" if self._local else path
        try:
            try:
                self._files.pipe_file(draft, content)
            except FileNotFoundError:
                if not self._has_folders:
                    raise
                self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._files.pipe_file(draft, content)
            if draft != path:
                os.replace(draft, path)  # noqa: PTH105 - a text of fsspec
        except Exception as error:
            if draft != path:
                with contextlib.suppress(OSError):
                    self._files.rm_file(draft)
            raise self._unusable("written", error) from error

    def _check_folders(self, kind: str, name: str) -> None:
        """Refuse folders of this machine that are links: an entry would be written, or removed, outside the store.

        Raises:
            DamagedEntryError: one is.
        """
        if self._local:
            folder = Path(self._path(kind, name)).parent
            if folder.is_symlink() or folder.parent.is_symlink():
                raise DamagedEntryError(self.path_of(kind, name), "its folder is a symbolic link")

    def _path(self, kind: str, name: str) -> str:
        return f"{self._root.rstrip('/')}/{self.path_of(kind, name)}"

    def _unusable(self, what: str, error: Exception) -> UserError:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        reason = error.message if isinstance(error, UserError) else reason
        return UserError(
            f"The store {self.shown} can't be {what}: {safe(reason)[:300]}.",
            "Nothing that was measured is lost. Name a store that you can read and write: --store URL (swapstone docs many-machines)",
        )
