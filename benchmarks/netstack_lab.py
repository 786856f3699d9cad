# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lab of the network stack benchmarks: namespaces with a TAP or a veth pair, and programs that run in them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

CLIENT = "10.9.0.1"
SERVER = "10.9.0.2"
PREFIX = "swapstone-net-bench"
TAP = "tap0"
_READY_S = 10.0
_END_S = 20.0


class UnavailableError(Exception):
    """A requirement is missing on this machine; the message names it."""


def why_not(stacks: Sequence[str]) -> str | None:
    """Return why no benchmark can run on this machine; None if one can.

    Args:
        stacks: the selected stacks; the kernel's needs no TAP.
    """
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the command ip is not installed; Debian's iproute2 has it"
    if set(stacks) != {"kernel"} and not Path("/dev/net/tun").exists():
        return "/dev/net/tun, needed for a TAP, does not exist; --stacks kernel needs none"
    return None


def _ip(*arguments: str) -> None:
    done = subprocess.run(("ip", *arguments), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def sweep() -> None:
    """Remove namespaces of killed benchmarks."""
    listed = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        name = line.split()[0] if line.strip() else ""
        if not name.startswith(PREFIX + "-"):
            continue
        process = name.removeprefix(PREFIX + "-").partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)


def _pinned(cpu: int | None, command: Sequence[str]) -> list[str]:
    return list(command) if cpu is None else ["taskset", "-c", str(cpu), *command]


class Lab:
    """A topology: the namespaces of client and server; a stack on a TAP runs in the client's.

    Attributes:
        server_cpu, client_cpu: processors they are pinned to; None if there is only one.
    """

    def __init__(self, stack: str, offload: bool) -> None:
        self.stack = stack
        cpus = sorted(os.sched_getaffinity(0))
        two = len(cpus) > 1 and shutil.which("taskset") is not None
        self.server_cpu: int | None = cpus[0] if two else None
        self.client_cpu: int | None = cpus[1] if two else None
        self._client = f"{PREFIX}-{os.getpid()}-c"
        self._server = f"{PREFIX}-{os.getpid()}-s" if stack == "kernel" else self._client
        self._offload = offload
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Lab:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _build(self) -> None:
        for name in {self._client, self._server}:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        if self.stack == "kernel":
            _ip("-n", self._client, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1")
            _ip("-n", self._client, "link", "set", "v1", "netns", self._server)
            ends = [(self._client, "v0", CLIENT), (self._server, "v1", SERVER)]
        else:
            flags = ("vnet_hdr",) if self._offload else ()
            _ip("-n", self._client, "tuntap", "add", "dev", TAP, "mode", "tap", *flags)
            ends = [(self._client, TAP, CLIENT)]
        for name, link, address in ends:
            _ip("-n", name, "address", "add", f"{address}/24", "dev", link)
            _ip("-n", name, "link", "set", link, "up")

    def _remove(self) -> None:
        for process in self._running:
            _end(process)
        for name in {self._client, self._server}:
            subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)

    @contextlib.contextmanager
    def serving(self, binary: Path, arguments: Sequence[str], results: list[str]) -> Iterator[None]:
        """Run swapstone-net-bench as the server; append its output to `results` at the end.

        Raises:
            UnavailableError: it did not become ready.
        """
        place = () if self.stack == "kernel" else ("--tap", TAP, "--address", f"{SERVER}/24")
        command = (str(binary), "--stack", self.stack, *place, *arguments)
        process = self._start(self._server, self.server_cpu, command)
        try:
            first = _first_line(process)
            if json.loads(first or "{}").get("event") != "ready":
                _end(process)
                raise UnavailableError(
                    (process.stderr.read() if process.stderr else "").strip() or "it printed nothing"
                )
            yield
        finally:
            _end(process)
            self._running.remove(process)
            results.append(process.stdout.read() if process.stdout else "")

    @contextlib.contextmanager
    def beside(self, command: Sequence[str], *, client: bool = False) -> Iterator[subprocess.Popen[str]]:
        """Run a program as the server or the client, with a standard input to write to, and with its errors in its output."""
        name, cpu = (self._client, self.client_cpu) if client else (self._server, self.server_cpu)
        process = self._start(name, cpu, command, errors=subprocess.STDOUT, input_from=subprocess.PIPE)
        try:
            yield process
        finally:
            _end(process)
            self._running.remove(process)

    def run(self, command: Sequence[str], timeout_s: float) -> tuple[str, bool]:
        """Run a program as the client.

        Returns:
            Its output with errors, and whether it ended in time.
        """
        process = self._start(self._client, self.client_cpu, command, errors=subprocess.STDOUT)
        try:
            return process.communicate(timeout=timeout_s)[0], True
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], False
        finally:
            _end(process)
            self._running.remove(process)

    def _start(
        self,
        name: str,
        cpu: int | None,
        command: Sequence[str],
        errors: int = subprocess.PIPE,
        input_from: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ("ip", "netns", "exec", name, *_pinned(cpu, command)),
            stdin=input_from,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is handled here: programs are ended in order
        )
        self._running.append(process)
        return process


def _first_line(process: subprocess.Popen[str]) -> str:
    out: IO[str] | None = process.stdout
    assert out is not None
    until = time.monotonic() + _READY_S
    while time.monotonic() < until:
        if select.select([out], [], [], 0.1)[0]:
            return out.readline()
    return ""


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
