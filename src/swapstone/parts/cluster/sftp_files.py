# SPDX-License-Identifier: MIT OR Apache-2.0
"""fsspec's files of an ssh server, by the library paramiko, with host keys checked and links not followed."""

from __future__ import annotations

import contextlib
import io
import logging
import stat
import urllib.parse
from pathlib import Path

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem

from swapstone.core.model import undone_on_error

_CONNECT_S, _ANSWER_S, _ALIVE_S = 20, 120, 15
_KNOWN_HOSTS = "~/.ssh/known_hosts /etc/ssh/ssh_known_hosts"


class SftpFiles(SFTPFileSystem):  # type: ignore[misc] # fsspec has no types
    """The files of ``sftp://[USER[:PASSWORD]@]HOST[:PORT]/PATH``. What the URL leaves out is as in ``~/.ssh/config``.

    One thread may use it at a time.
    """

    def _connect(self) -> None:
        """Connect; called by fsspec."""
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)  # what it logs is raised as an error too
        ssh = paramiko.SSHConfig()
        with contextlib.suppress(OSError, UnicodeDecodeError, RuntimeError):
            ssh = paramiko.SSHConfig.from_text(Path("~/.ssh/config").expanduser().read_text())
        config, given = ssh.lookup(self.host), self.ssh_kwargs
        proxy, password = config.get("proxycommand"), given.get("password")
        client = paramiko.SSHClient()
        for name in config.get("userknownhostsfile", _KNOWN_HOSTS).split():
            with contextlib.suppress(OSError):
                client.load_host_keys(str(Path(name).expanduser()))
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        with undone_on_error(client.close):
            client.connect(
                config["hostname"],
                port=given.get("port") or int(config.get("port", 22)),
                username=urllib.parse.unquote(given.get("username") or config.get("user", "")) or None,
                password=urllib.parse.unquote(password) if password else None,
                key_filename=[str(Path(name).expanduser()) for name in config.get("identityfile", ())] or None,
                sock=paramiko.ProxyCommand(proxy) if proxy else None,
                timeout=_CONNECT_S,
                banner_timeout=_CONNECT_S,
                auth_timeout=_CONNECT_S,
            )
            client.get_transport().set_keepalive(_ALIVE_S)
            ftp = client.open_sftp()
        ftp.get_channel().settimeout(_ANSWER_S)
        self.client, self.ftp = client, ftp

    def reconnect(self) -> None:
        """Connect again."""
        self.client.close()
        self._connect()

    def info(self, path: str) -> dict[str, object]:
        """Return size and type of an entry, without following a link."""
        found = self.ftp.lstat(path)
        return {"name": path, "size": found.st_size, "type": _TYPES.get(stat.S_IFMT(found.st_mode or 0), "other")}

    def cat_file(self, path: str, **_: object) -> bytes:
        """Return the content of a file."""
        self.ftp.getfo(path, content := io.BytesIO())
        return content.getvalue()

    def pipe_file(self, path: str, value: bytes, **_: object) -> None:
        """Write a file, and check its size."""
        self.ftp.putfo(io.BytesIO(value), path)


_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
