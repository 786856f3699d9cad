# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files of a store on an ssh server, by the library paramiko. Host keys are checked, as ssh does.

fsspec's own file system for ``sftp://`` accepts any host key by default, follows links, and its connection may not be used by two threads.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import secrets
import stat
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from swapstone.model import UserError
from swapstone.model.safe_text import safe, safe_excerpt

Result = TypeVar("Result")

INSTALL = "pip install paramiko"
_CONNECT_S, _ANSWER_S, _ALIVE_S = 20, 120, 15
_ACCOUNT_FILES = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


class SftpFiles:
    """The calls of fsspec's file systems that a store makes. There is one connection, and calls take turns.

    A connection that was lost is made again, once for each call.

    Args:
        url: ``sftp://[USER[:PASSWORD]@]HOST[:PORT]/PATH``. What it leaves out is as in ``~/.ssh/config``.

    Attributes:
        protocol: the names of the kind of file system.

    Raises:
        ImportError: paramiko is not installed.
        ValueError: the URL has another form.
        UserError: the server can't be reached, or its key is not known, or it refuses the user.
    """

    protocol = ("sftp", "ssh")

    def __init__(self, url: str) -> None:
        self._paramiko: Any = importlib.import_module("paramiko")
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)  # what it logs is raised as an error too
        parts = urllib.parse.urlsplit(url)
        if not parts.hostname:
            raise ValueError("it names no host")
        self._password = urllib.parse.unquote(parts.password) if parts.password else None
        self._config = self._configured(parts.hostname)
        self._host = str(self._config.get("hostname", parts.hostname))
        self._port = parts.port or int(self._config.get("port", 22))
        user = urllib.parse.unquote(parts.username) if parts.username else self._config.get("user")
        self._user = str(user) if user else None
        self._lock = threading.RLock()
        self._client: Any = None
        self._ftp: Any = None
        self._connect()

    def _configured(self, host: str) -> dict[str, Any]:
        """Return what the user's configuration of ssh has of a host."""
        try:
            text = Path("~/.ssh/config").expanduser().read_text()
        except (OSError, UnicodeDecodeError, RuntimeError):
            return {}
        try:
            return dict(self._paramiko.SSHConfig.from_text(text).lookup(host))
        except Exception as error:  # it has a key that paramiko can't read
            raise ValueError(f"~/.ssh/config can't be read: {error}") from error

    def _connect(self) -> None:
        """Connect, unless there is a connection."""
        if self._client is not None and self._is_alive():
            return
        self._close()
        client = self._paramiko.SSHClient()
        own = str(self._config.get("userknownhostsfile", "")).split()
        for name in own or _ACCOUNT_FILES:
            with contextlib.suppress(OSError):
                client.load_host_keys(str(Path(name).expanduser()))
        client.set_missing_host_key_policy(self._paramiko.RejectPolicy())
        proxy = self._config.get("proxycommand")
        try:
            client.connect(
                self._host,
                port=self._port,
                username=self._user,
                password=self._password,
                key_filename=[str(Path(name).expanduser()) for name in self._config.get("identityfile", ())] or None,
                sock=self._paramiko.ProxyCommand(proxy) if proxy else None,
                timeout=_CONNECT_S,
                banner_timeout=_CONNECT_S,
                auth_timeout=_CONNECT_S,
            )
            client.get_transport().set_keepalive(_ALIVE_S)
            self._ftp = client.open_sftp()
            self._ftp.get_channel().settimeout(_ANSWER_S)
        except Exception as error:
            client.close()
            raise self._unreachable(error) from error
        self._client = client

    def _unreachable(self, error: Exception) -> UserError:
        where = f"{f'{self._user}@' if self._user else ''}{self._host}"
        by_hand = f"ssh {f'-p {self._port} ' if self._port != 22 else ''}{safe(where)}"
        hint = f"This must work without a question: {by_hand} true"
        if isinstance(error, self._paramiko.BadHostKeyException) or "known_hosts" in str(error):
            hint = f"Connect once by hand, and compare the server's key: {by_hand}"
        elif isinstance(error, self._paramiko.AuthenticationException):
            hint = f"Give the server your key (ssh-copy-id {safe(where)}), or load it into ssh-agent. {hint}"
        reason = safe_excerpt(str(error) or type(error).__name__, 200)
        return UserError(f"The ssh server {safe(where)}, port {self._port}, can't be used: {reason}.", hint)

    def _is_alive(self) -> bool:
        transport = self._client.get_transport()
        return transport is not None and transport.is_active() and not self._ftp.get_channel().closed

    def _close(self) -> None:
        client, self._client, self._ftp = self._client, None, None
        if client is not None:
            with contextlib.suppress(Exception):
                client.close()

    def _do(self, act: Callable[[Any], Result]) -> Result:
        """Do something on the server. If the connection is lost meanwhile, do it again on another one: each act may be repeated."""
        with self._lock:
            self._connect()
            try:
                return act(self._ftp)
            except FileNotFoundError:
                raise
            except Exception as error:
                if isinstance(error, TimeoutError):
                    self._close()
                    raise
                if self._client is not None and self._is_alive():
                    raise
            self._connect()
            return act(self._ftp)

    def info(self, path: str) -> dict[str, object]:
        """Return size and type of an entry, without following a link."""
        found = self._do(lambda ftp: ftp.lstat(path))
        return {"size": found.st_size, "type": "file" if stat.S_ISREG(found.st_mode or 0) else "other"}

    def cat_file(self, path: str) -> bytes:
        """Return the content of a file."""

        def read(ftp: Any) -> bytes:  # noqa: ANN401 - paramiko has no types
            with ftp.open(path, "rb") as file:
                size = ftp.lstat(path).st_size
                file.prefetch(size)
                content: bytes = file.read(size + 1)
            return content

        return self._do(read)

    def pipe_file(self, path: str, content: bytes) -> None:
        """Write a file: under another name first, so that it is whole or missing."""

        def write(ftp: Any) -> None:  # noqa: ANN401 - as above
            draft = f"{path}.{secrets.token_hex(8)}.part"
            try:
                with ftp.open(draft, "wb") as file:
                    file.set_pipelined(True)
                    file.write(content)
                if ftp.lstat(draft).st_size != len(content):
                    raise OSError("the server did not store all of it; its disk may be full")
                self._rename(ftp, draft, path)
            except BaseException:
                with contextlib.suppress(Exception):
                    ftp.remove(draft)
                raise

        try:
            self._do(write)
        except OSError as error:
            if error.errno is None and str(error) == "Failure":
                raise OSError("the server gives no reason; its disk may be full") from error
            raise

    def _rename(self, ftp: Any, draft: str, path: str) -> None:  # noqa: ANN401 - as above
        try:
            ftp.posix_rename(draft, path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) or "nsupported" not in str(error):
                raise
            with contextlib.suppress(OSError):
                ftp.remove(path)
            ftp.rename(draft, path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a folder, with those that contain it."""
        del exist_ok

        def make(ftp: Any) -> None:  # noqa: ANN401 - as above
            folders = [path[:end] for end, letter in enumerate(f"{path}/") if letter == "/" and end]
            missing = []
            for folder in reversed(folders):
                try:
                    ftp.stat(folder)
                    break
                except FileNotFoundError:
                    missing.append(folder)
            for folder in reversed(missing):
                try:
                    ftp.mkdir(folder)
                except OSError:
                    ftp.stat(folder)  # another process has made it

        self._do(make)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self._do(lambda ftp: ftp.remove(path))


def open_sftp(url: str) -> tuple[SftpFiles, str]:
    """Return the files of a server, and the path in them that a URL names. A process has one connection for each URL.

    Raises:
        ImportError, ValueError, UserError: as of `SftpFiles`.
    """
    return _files_of(url, os.getpid()), urllib.parse.unquote(urllib.parse.urlsplit(url).path) or "/"


@functools.lru_cache(maxsize=8)
def _files_of(url: str, process: int) -> SftpFiles:
    del process
    return SftpFiles(url)
