# SPDX-License-Identifier: MIT OR Apache-2.0
"""An ssh server of a test: a real sshd on a high port of 127.0.0.1, with keys that are thrown away, and an ssh that knows it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class SshServer(NamedTuple):
    """A running server.

    Attributes:
        target: value of ``--driver-target``.
        bin: folder with an ``ssh`` that uses only the test's keys; it comes first in PATH.
        known_hosts: the file with the server's key.
    """

    target: str
    bin: Path
    known_hosts: Path


def missing() -> str:
    """Return why no server can be started; empty if one can."""
    lacking = [name for name in ("ssh", "ssh-keygen") if not shutil.which(name)]
    if _sshd() is None:
        lacking.append("sshd (openssh-server), or SWAPSTONE_TEST_SSHD with its path,")
    if os.geteuid() == 0 and not _has_separation() and not shutil.which("unshare"):
        lacking.append("the user sshd or unshare")
    return f"{' and '.join(lacking)} is not installed" if lacking else ""


def _sshd() -> str | None:
    return os.environ.get("SWAPSTONE_TEST_SSHD") or shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


def _has_separation() -> bool:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("sshd") is not None and Path("/run/sshd").is_dir()
    return False


@contextlib.contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run a server until the end of the context."""
    keys, binaries, known = folder / "keys", folder / "bin", folder / "known_hosts"
    keys.mkdir(mode=0o700)
    binaries.mkdir()
    for name in ("host", "user"):
        made = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name))
        subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port = candidate.getsockname()[1]
    known.write_text(f"[127.0.0.1]:{port} {(keys / 'host.pub').read_text()}")
    shutil.copy(keys / "user.pub", keys / "authorized")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\nPidFile none\n"
        "UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    (folder / "ssh_config").write_text(
        f"IdentityFile {keys}/user\nIdentitiesOnly yes\nUserKnownHostsFile {known}\nGlobalKnownHostsFile /dev/null\n"
    )
    real = shutil.which("ssh")
    assert real
    (binaries / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {folder}/ssh_config "$@"\n')
    (binaries / "ssh").chmod(0o755)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(_command(folder), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    try:
        _wait(port, process, folder / "log")
        user = pwd.getpwuid(os.geteuid()).pw_name
        yield SshServer(f"ssh:{user}@127.0.0.1:{port}", binaries, known)
    finally:
        process.terminate()
        process.wait(10)


def _command(folder: Path) -> list[str]:
    sshd = _sshd()
    assert sshd
    command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
    if os.geteuid() != 0 or _has_separation():
        return command
    # As root, sshd needs a user and a folder: they exist in a mount namespace of its own.
    accounts = folder / "passwd"
    accounts.write_text(Path("/etc/passwd").read_text() + "sshd:x:65533:65533::/run/sshd:/bin/false\n")
    script = (
        f"mount --bind {shlex.quote(str(accounts))} /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && "
        f"exec {shlex.join(command)}"
    )
    return ["unshare", "--mount", "sh", "-c", script]


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"sshd does not listen: {log.read_text()}")
