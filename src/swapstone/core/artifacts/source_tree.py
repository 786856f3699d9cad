# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure, digest and copy a folder of sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from swapstone.core.artifacts.cache_folder import sha256_of as file_sha256
from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.regular_file import readable

_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", "CVS", "_darcs", ".jj"})
_HINT = "Make every file under --source readable."
_RECORD = frozenset({"record.json", "experiment.json", "runs.jsonl"})


def digest_tree(folder: Path, *, everything: bool = False) -> str:
    """Return the SHA-256 of a folder's content: names, contents, link targets and execute permissions, without times.

    Args:
        folder: to digest.
        everything: include what `copy_sources` leaves out.

    Raises:
        UserError: a file can't be read; names it.
    """
    digest = hashlib.sha256()
    for path in _walk(folder, everything=everything):
        name = os.fsencode(path.relative_to(folder))
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            kind, content = b"link", os.fsencode(path.readlink())
        elif stat.S_ISDIR(status.st_mode):
            kind, content = b"folder", b""
        else:
            kind = b"program" if status.st_mode & stat.S_IXUSR else b"file"
            content = sha256_of(path).encode()
        digest.update(b"%s %d %s %d %s\n" % (kind, len(name), name, len(content), content))
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        UserError: it can't be read.
    """
    with readable(str(path), _HINT):
        return file_sha256(path)


def copy_sources(folder: Path, target: Path, *, everything: bool = False) -> None:
    """Copy a folder; links and modification times are preserved.

    Folders of version control, sockets, devices, Swapstone's cache and its records are left out.

    Args:
        folder: to copy.
        target: a folder that does not exist yet.
        everything: leave out only sockets and devices.

    Raises:
        UserError: a file can't be read, or the disk is full.
    """
    target.mkdir(parents=True)
    folders = []
    for path in _walk(folder, everything=everything):
        copy = target / path.relative_to(folder)
        try:
            if path.is_dir() and not path.is_symlink():
                copy.mkdir(exist_ok=True)
                folders.append((path, copy))
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy, follow_symlinks=False)
        except OSError as error:
            raise UserError(
                f"{path} can't be copied to {copy}: {error.strerror}.", "Check its permissions and the free space."
            ) from error
    for path, copy in reversed(folders):  # last, because adding a file changes the time of its folder
        shutil.copystat(path, copy)
        copy.chmod(copy.stat().st_mode | stat.S_IRWXU)


def _walk(folder: Path, *, everything: bool = False) -> Iterator[Path]:
    """Yield everything to be copied, sorted, folders before their contents."""
    own = cache_dir().resolve()
    with readable(str(folder), _HINT):
        entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        path = Path(entry.path)
        if entry.is_symlink():
            yield path
        elif entry.is_dir():
            if not everything and _is_left_out(path, own):
                continue
            yield path
            yield from _walk(path, everything=everything)
        elif entry.is_file() and (everything or entry.name not in _VERSION_CONTROL):
            yield path


def _is_left_out(folder: Path, own: Path) -> bool:
    """Return whether a folder belongs to version control, is Swapstone's cache, or is a record."""
    if folder.name in _VERSION_CONTROL or folder.resolve() == own:
        return True
    return all((folder / name).is_file() for name in _RECORD)
