# SPDX-License-Identifier: MIT OR Apache-2.0
"""The keys of a virtual board: a pair for its ssh server, a pair for its user, and an ssh configuration that knows both and no others."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

from swapstone.core.model import UnavailableError

_ALIAS = "swapstone-virtual-board"
_KIND = b"\0\0\0\x0bssh-ed25519"
"""The name of the kind as a string of RFC 4251."""

_PUBLIC, _PRIVATE = 4 + 32, 4 + 64
"""Bytes of a key as a string of RFC 4251."""

_KEYGEN_S = 30


class BoardKeys:
    """Two new pairs of Ed25519 keys in a folder, without passphrases.

    Args:
        folder: private and empty. Another user who can write there can replace the keys.

    Attributes:
        config: an ssh configuration with which ssh reads no other: it offers the user's key, and accepts the server's key alone.

    Raises:
        UnavailableError: ssh-keygen is missing or fails.
    """

    def __init__(self, folder: Path) -> None:
        self._server, self._user = folder / "server", folder / "user"
        self.config = folder / "config"
        for path in (self._server, self._user):
            _make(path)
        known = folder / "known_hosts"
        known.write_text(f"{_ALIAS} {_public(self._server)}")
        self.config.write_text(
            f'HostKeyAlias {_ALIAS}\nUserKnownHostsFile "{known}"\nGlobalKnownHostsFile /dev/null\n'
            f'IdentityFile "{self._user}"\nIdentitiesOnly yes\nIdentityAgent none\n'
        )

    def server_key(self) -> bytes:
        """Return the server's private key as dropbear reads it: two strings of RFC 4251, the name of the kind and the 64 bytes of the key.

        OpenSSH's form is that of its PROTOCOL.key: the kind's name comes last before the private key, and the public half after it.
        Dropbear's is that of its function ``buf_put_ed25519_priv_key``.
        """
        pair = base64.b64decode("".join(self._server.read_text().splitlines()[1:-1])).rpartition(_KIND)[2]
        return _KIND + pair[_PUBLIC : _PUBLIC + _PRIVATE]

    def authorized(self) -> bytes:
        """Return the user's public key, as a line of ``authorized_keys``."""
        return _public(self._user).encode()


def _make(path: Path) -> None:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UnavailableError("ssh-keygen is not installed.", "On Debian: sudo apt-get install openssh-client")
    made = subprocess.run(
        (program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_KEYGEN_S,
    )
    if made.returncode != 0:
        raise UnavailableError(f"ssh-keygen made no key: {(made.stderr.strip().splitlines() or ['no message'])[-1]}.")


def _public(path: Path) -> str:
    return path.with_suffix(".pub").read_text().strip() + "\n"
