# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which records this user made on this machine: those whose files carry a mark by the user's key.

The key is 32 random bytes in ``$XDG_STATE_HOME/swapstone/key`` (by default ``~/.local/state``), which only the user can read. A record's
`ORIGIN` holds an HMAC-SHA256 (RFC 2104) by the key for each file from which commands, paths and arguments of a later `rerun`, `resume`
or `explain` come: the experiment and the manifest. It is written before the file that it marks: after a crash, the old and the new
file are both marked. The marks show nothing to others, and a copy without the key can't be given new ones.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swapstone.core.model import Experiment, FrozenStruct
from swapstone.core.record import record_format
from swapstone.core.record.files import FileProblemError, limit_of, read_regular, reason_of
from swapstone.core.record.replace_file import replace_file

ORIGIN = "origin.json"
KEY_BYTES = 32

_UNREADABLE = (FileNotFoundError, FileProblemError)
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Origin(FrozenStruct, frozen=True, kw_only=True):
    """The file `ORIGIN`.

    Attributes:
        key: which key: the first 16 hexadecimal digits of a SHA-256 of it.
        marks: pairs (file, HMAC of its name, the record's identity and the SHA-256 of its content).
    """

    format: str = "swapstone-origin"
    schema: int = 1
    key: str
    marks: tuple[tuple[str, str], ...]


class KeyUnavailableError(Exception):
    """The user's key can't be used; the text gives the reason."""


def key_path() -> Path:
    """Return the path of the user's key.

    Raises:
        KeyUnavailableError: the user has no home folder.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:  # the XDG Base Directory Specification ignores relative paths
        folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise KeyUnavailableError("this user has no home folder for a key") from error
    return folder / "swapstone" / "key"


def read_key() -> bytes:
    """Return the user's key.

    Raises:
        KeyUnavailableError: there is none, it is a link, of another user, readable by others, or damaged.
    """
    path = key_path()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise KeyUnavailableError(f"this user has no key yet ({path})") from error
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise KeyUnavailableError(f"the key {path} can't be read: {reason}") from error
    try:
        found = os.fstat(handle)
        wrong = (
            "it is no regular file"
            if not stat.S_ISREG(found.st_mode)
            else "it belongs to another user"
            if found.st_uid != os.geteuid()
            else "other users can read or write it (chmod 600)"
            if found.st_mode & 0o077
            else f"it has {found.st_size} bytes, not {KEY_BYTES}"
            if found.st_size != KEY_BYTES
            else ""
        )
        if wrong:
            raise KeyUnavailableError(f"the key {path} can't be used: {wrong}")
        return os.read(handle, KEY_BYTES)
    finally:
        os.close(handle)


def own_key() -> bytes:
    """Return the user's key; the first call makes it.

    Raises:
        KeyUnavailableError: it can't be made, or as `read_key`.
    """
    if not os.path.lexists(path := key_path()):
        _make_key(path)
    return read_key()


def _make_key(path: Path) -> None:
    temporary = path.with_name(f".key.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):  # another process has made one meanwhile
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise KeyUnavailableError(f"the key {path} can't be made: {error.strerror}") from error


def file_bytes(content: FrozenStruct) -> bytes:
    """Return the bytes of a record's file: its canonical encoding, indented."""
    return msgspec.json.format(content.encoded(), indent=1) + b"\n"


def mark_file(folder: Path, identity: str, name: str, content: FrozenStruct) -> None:
    """Mark a file as written by this user, before it is written. Without a usable key nothing is marked.

    The file that is there stays marked if it was, however often it could not be replaced.

    Args:
        folder: of the record.
        identity: of the record.
        name: of the file.
        content: of the file, which is then written as `file_bytes`.

    Raises:
        OSError: the folder can't be written.
    """
    try:
        key = own_key()
    except KeyUnavailableError:
        return
    earlier = _read(folder)
    marks = list(earlier.marks) if earlier is not None and earlier.key == _name_of(key) else []
    made = (name, _mark_of(key, identity, name, file_bytes(content)))
    if made in marks:
        return
    try:
        present = _mark_of(key, identity, name, _bytes_of(folder, name))
    except _UNREADABLE:
        present = ""
    kept = [each for each in marks if each[0] != name or each[1] == present]
    origin = Origin(key=_name_of(key), marks=(*kept, made))
    replace_file(folder / ORIGIN, file_bytes(origin))


def identity_of(folder: Path) -> str:
    """Return the identity of a record; empty if its file can't be read."""
    try:
        return msgspec.json.decode(_bytes_of(folder, record_format.META), type=_Identity).id
    except (*_UNREADABLE, *_UNDECODABLE):
        return ""


class _Identity(msgspec.Struct):
    id: str


def foreign_reason(
    folder: Path, experiment: Experiment | None = None, manifest: record_format.Manifest | None = None
) -> str:
    """Return why a record is not one that this user made on this machine, as a clause; empty if it is one.

    Args:
        folder: of the record.
        experiment: as it was decoded from the record. What would run must be the content that has the mark.
        manifest: likewise.
    """
    contents: list[tuple[str, bytes]] = []
    try:
        with os.scandir(folder) as entries:
            links = sorted(entry.name for entry in entries if entry.is_symlink())
        if links:
            return f"its {links[0]} is a symbolic link, through which a writer would leave the record"
        contents.append((record_format.EXPERIMENT, _bytes_of(folder, record_format.EXPERIMENT)))
        with contextlib.suppress(FileNotFoundError):
            contents.append((record_format.MANIFEST, _bytes_of(folder, record_format.MANIFEST)))
        used = {record_format.EXPERIMENT: experiment, record_format.MANIFEST: manifest}
        for name, data in contents:
            noun = used[name]
            if noun is not None and msgspec.json.decode(data, type=type(noun)) != noun:
                return f"its {name} changed while it was read"
    except OSError as error:
        return f"its files can't be read: {reason_of(error)}"
    except (FileProblemError, *_UNDECODABLE) as error:
        return f"its files can't be read: {error}"
    return origin_reason(folder, identity_of(folder), contents)


def origin_reason(folder: Path, identity: str, contents: Iterable[tuple[str, bytes]]) -> str:
    """Return why files are not ones that this user wrote on this machine; empty if they are.

    Args:
        folder: where `ORIGIN` is.
        identity: of the record.
        contents: pairs (name, content) of the files.
    """
    origin = _read(folder)
    if origin is None:
        return f"it has no {ORIGIN}: another user or machine made it, or an earlier version of Swapstone"
    try:
        key = read_key()
    except KeyUnavailableError as error:
        return str(error)
    if origin.key != _name_of(key):
        return "another user made it, or it was made on another machine"
    for name, content in contents:
        made = _mark_of(key, identity, name, content)
        if not any(each == name and hmac.compare_digest(_bytes(value), _bytes(made)) for each, value in origin.marks):
            return f"its {name} is not the one that was written here: it was edited or replaced"
    return ""


def has_origin(folder: Path) -> bool:
    """Return whether a folder has a readable file of marks."""
    return _read(folder) is not None


def _read(folder: Path) -> Origin | None:
    try:
        return msgspec.json.decode(_bytes_of(folder, ORIGIN), type=Origin)
    except (*_UNREADABLE, *_UNDECODABLE):
        return None


def _bytes_of(folder: Path, name: str) -> bytes:
    return read_regular(folder / name, limit_of(name))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"swapstone key\n" + key).hexdigest()[:16]


def _mark_of(key: bytes, identity: str, name: str, content: bytes) -> str:
    message = f"swapstone origin 1\n{name}\n{identity}\n{hashlib.sha256(content).hexdigest()}\n"
    return hmac.new(key, _bytes(message), hashlib.sha256).hexdigest()
