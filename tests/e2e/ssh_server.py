# SPDX-License-Identifier: MIT OR Apache-2.0
"""An ssh server of a test: a real sshd on a high port of 127.0.0.1, with keys that are thrown away, and an ssh that knows it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pwd
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cli import TOP


class SshServer(NamedTuple):
    """A running server.

    Attributes:
        target: value of ``--driver-target``.
        bin: folder with an ``ssh`` that uses only the test's keys; it comes first in PATH.
        known_hosts: the file with the server's key.
        pid: its process.
        folder: its folder, with the keys and ``ssh_config``.
    """

    target: str
    bin: Path
    known_hosts: Path
    pid: int = 0
    folder: Path = Path()

    def sessions(self) -> list[int]:
        """Return the processes of its connections."""
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
                if int(fields["PPid"]) == self.pid:
                    found.append(int(fields["Pid"]))
        return found


def missing() -> str:
    """Return why no server can be started; empty if one can."""
    lacking = [name for name in ("ssh", "ssh-keygen") if not shutil.which(name)]
    if not _installed_sshd() and not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        lacking.append("sshd (openssh-server), or SWAPSTONE_TEST_SSHD with its path,")
    if os.geteuid() == 0 and not _has_separation() and not shutil.which("unshare"):
        lacking.append("the user sshd or unshare")
    return f"{' and '.join(lacking)} is not installed" if lacking else ""


def _installed_sshd() -> str | None:
    return os.environ.get("SWAPSTONE_TEST_SSHD") or shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@functools.cache
def _sshd() -> tuple[str, str]:
    """Return the path of a server, and the folder with its libraries; skip the test if there is none.

    A server of Debian would be started, and would be reached from outside, if its package were installed. So the package and the libraries
    that this machine lacks are only unpacked, in ``.venv``.
    """
    if installed := _installed_sshd():
        return installed, os.environ.get("LD_LIBRARY_PATH", "")
    folder = TOP / ".venv" / "openssh-server"
    with (TOP / ".venv" / "openssh-server.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=TOP / ".venv") as scratch:
                _unpack(Path(scratch))
                (Path(scratch) / "root").rename(folder)
    if (folder / "usr/lib/openssh/sshd-session").exists():  # OpenSSH 9.8 starts it by an absolute path
        pytest.skip("this sshd works where it is installed only: install openssh-server")
    libraries = {str(path.parent) for path in folder.rglob("lib*.so*")}
    return str(folder / "usr/sbin/sshd"), ":".join(sorted(libraries))


def _unpack(scratch: Path) -> None:
    def run(*command: str) -> str:
        found = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if found.returncode:
            pytest.skip(f"openssh-server can't be fetched: {found.stderr.strip()[-200:]}")
        return found.stdout

    listed = run("apt-get", "install", "--print-uris", "-qq", "--no-install-recommends", "openssh-server")
    names = [line.split()[1].partition("_")[0] for line in listed.splitlines()]
    run("apt-get", "download", "-qq", *(name for name in names if name == "openssh-server" or name.startswith("lib")))
    for package in scratch.glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(scratch / "root"))


def _has_separation() -> bool:
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("sshd") is not None and Path("/run/sshd").is_dir()
    return False


HERE, THERE = "198.18.77.1", "198.18.77.2"
"""Addresses of this machine and of a network namespace: of the network for benchmarks (RFC 2544)."""


@contextlib.contextmanager
def network_namespace() -> Iterator[str]:
    """Make a network namespace that a pair of veth devices joins with this machine; yield its name, or skip the test."""
    name = f"swapstone{os.getpid()}"
    inside = ("ip", "-n", name)
    steps = (
        ("ip", "netns", "add", name),
        ("ip", "link", "add", f"sw{os.getpid()}", "type", "veth", "peer", "name", "peer", "netns", name),
        ("ip", "address", "add", f"{HERE}/30", "dev", f"sw{os.getpid()}"),
        ("ip", "link", "set", f"sw{os.getpid()}", "up"),
        (*inside, "address", "add", f"{THERE}/30", "dev", "peer"),
        (*inside, "link", "set", "peer", "up"),
        (*inside, "link", "set", "lo", "up"),
    )
    try:
        for step in steps:
            made = subprocess.run(step, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                pytest.skip(f"{' '.join(step[:3])}: {made.stderr.strip()[:100]}")
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)  # with its devices


@contextlib.contextmanager
def ssh_server(folder: Path, address: str = "127.0.0.1", namespace: str = "") -> Iterator[SshServer]:
    """Run a server until the end of the context.

    Args:
        folder: empty.
        address: on which it listens.
        namespace: name of the network namespace that it runs in; empty for this one.
    """
    keys, binaries, known = folder / "keys", folder / "bin", folder / "known_hosts"
    keys.mkdir(mode=0o700)
    binaries.mkdir()
    for name in ("host", "user"):
        made = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name))
        subprocess.run(made, check=True, stdin=subprocess.DEVNULL)
    with socket.socket() as candidate:
        candidate.bind(("", 0))
        port = candidate.getsockname()[1]
    known.write_text(f"[{address}]:{port} {(keys / 'host.pub').read_text()}")
    shutil.copy(keys / "user.pub", keys / "authorized")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress {address}\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\nPidFile none\n"
        f"SetEnv SWAPSTONE_BOARD_LOCKS={folder}\nSubsystem sftp internal-sftp\n"
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
        process = subprocess.Popen(
            _command(folder, namespace),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "LD_LIBRARY_PATH": _sshd()[1]},
        )
    try:
        _wait(address, port, process, folder / "log")
        user = pwd.getpwuid(os.geteuid()).pw_name
        yield SshServer(f"ssh:{user}@{address}:{port}", binaries, known, process.pid, folder)
    finally:
        process.terminate()
        process.wait(10)


def _command(folder: Path, namespace: str) -> list[str]:
    sshd, _ = _sshd()
    there = ["ip", "netns", "exec", namespace] if namespace else []
    command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
    if os.geteuid() != 0 or _has_separation():
        return [*there, *command]
    # As root, sshd needs a user and a folder: they exist in a mount namespace of its own.
    accounts = folder / "passwd"
    accounts.write_text(Path("/etc/passwd").read_text() + "sshd:x:65533:65533::/run/sshd:/bin/false\n")
    script = (
        f"mount --bind {shlex.quote(str(accounts))} /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && "
        f"exec {shlex.join(command)}"
    )
    return [*there, "unshare", "--mount", "sh", "-c", script]


def _wait(address: str, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex((address, port)) == 0:
                return
        time.sleep(0.02)
    if not _installed_sshd():
        pytest.skip(f"the unpacked sshd does not work here: {log.read_text()[-300:]}")
    raise AssertionError(f"sshd does not listen: {log.read_text()}")
