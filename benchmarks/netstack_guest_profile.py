# SPDX-License-Identifier: MIT OR Apache-2.0
"""Samples of the bare-metal guest under ab: QEMU stops the machine at random times, and its stack is read through QEMU's gdbstub."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.gdb_remote import Remote, RemoteError
from benchmarks.netstack_lab import SERVER, Lab, UnavailableError
from benchmarks.netstack_output import read_ab
from benchmarks.netstack_profile import Cost
from benchmarks.riscv_frames import Memory, Registers, Stack, unwind, waits
from benchmarks.riscv_image import Image, Place

RAM = range(0x8000_0000, 0x8000_0000 + (256 << 20))
"""The memory of the machine, as crates/swapstone-net-guest/virt.ld has it."""
MEAN_INTERVAL_S = 0.01
_MOST_S = 1800.0
_AB_S = 600.0
_REGISTERS, _REGISTER_BYTES = 33, 8
_RA, _SP, _FP, _PC = 1, 2, 8, 32  # QEMU's numbers: x0 to x31, pc


@dataclasses.dataclass(frozen=True)
class Profile:
    """The samples of a guest.

    Attributes:
        stack: the network stack.
        wanted: number of samples that were requested.
        idle: number of samples in which the machine waited for an interrupt.
        costs: the other samples.
        whole: number of those whose stack reaches the entry code.
        reasons: why the other stacks end, with their numbers.
        runs, requests, failed: of ab, while the samples were taken.
    """

    stack: str
    wanted: int
    idle: int
    costs: tuple[Cost, ...]
    whole: int
    reasons: dict[str, int]
    runs: int
    requests: int
    failed: int

    @property
    def samples(self) -> int:
        """Return the number of samples that were taken."""
        return self.idle + len(self.costs)


class Load:
    """ab, started again each time it has ended.

    Args:
        lab: where the guest runs.
        requests: ab's -n.
        concurrency: ab's -c.

    Attributes:
        runs, requests, failed: totals of all runs that have ended.
    """

    def __init__(self, lab: Lab, requests: int, concurrency: int) -> None:
        self._lab = lab
        self._each = requests
        self._command = ("ab", "-q", "-n", str(requests), "-c", str(concurrency), f"http://{SERVER}/")
        self._process: subprocess.Popen[str] | None = None
        self._running = contextlib.ExitStack()
        self.runs = self.requests = self.failed = 0

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def keep_running(self) -> None:
        """Start ab if it does not run.

        Raises:
            UnreadableError: it has ended and made no request.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.finish()
        self._process = self._running.enter_context(self._lab.beside(self._command, client=True))

    def finish(self) -> None:
        """Wait until ab has ended, and count its requests."""
        if self._process is None:
            return
        try:
            output, _ = self._process.communicate(timeout=_AB_S)
        except subprocess.TimeoutExpired as error:
            raise UnavailableError(f"ab has not ended in {_AB_S:.0f} s") from error
        self._process = None
        self._running.close()
        found = read_ab(output, self._each)
        self.runs += 1
        self.requests += found["requests"]
        self.failed += found["failed"]


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[Remote]:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError as error:
            raise UnavailableError(f"QEMU's gdbstub accepts no connection: {error}") from error
        yield Remote(connection)


def _taken(remote: Remote, image: Image) -> Stack | None:
    """Return the stack of the stopped machine; None if it waits for an interrupt."""
    values = remote.registers(_REGISTERS, _REGISTER_BYTES)
    registers = Registers(pc=values[_PC], ra=values[_RA], sp=values[_SP], fp=values[_FP])
    if waits(image.code(registers.pc - 4, registers.pc)):
        return None
    memory = Memory(
        word=lambda address: int.from_bytes(remote.memory(address, 8), "little"),
        stack=RAM,
        function=image.function,
        code=image.code,
        entry=image.entry,
    )
    return unwind(registers, memory)


def _sampled(remote: Remote, image: Image, count: int, load: Load) -> list[Stack | None]:
    random = np.random.default_rng()
    found: list[Stack | None] = []
    until = time.monotonic() + _MOST_S
    remote.attach()  # QEMU stops the machine when a debugger connects
    load.keep_running()
    while len(found) < count and time.monotonic() < until:
        remote.resume()
        time.sleep(random.exponential(MEAN_INTERVAL_S))
        remote.stop()
        load.keep_running()
        found.append(_taken(remote, image))
    remote.detach()
    return found


def cost(stack: Stack, names: dict[int, tuple[Place, ...]]) -> Cost:
    """Return a sample with the names of its functions, also of inlined ones.

    Args:
        stack: its addresses; a return address is that of the instruction after the call.
        names: of the program counter and of the byte before each return address.
    """
    pc, *returns = stack.addresses
    places = [place for address in (pc, *(each - 1 for each in returns)) for place in names[address]]
    return Cost(tuple(place.name for place in reversed(places)), places[0].file, 1)


def sample(lab: Lab, gdbstub: Path, guest: Path, count: int, load: Load) -> Profile:
    """Take samples of a guest that serves.

    Args:
        lab: where it runs; its stack is the guest's.
        gdbstub: the socket of QEMU's gdbstub.
        guest: the program, built with frame pointers.
        count: number of samples.
        load: is started again until the samples are taken, and then ends.

    Raises:
        UnavailableError: the gdbstub does not work, or a tool that names functions.
        UnreadableError: ab made no request.
    """
    image = Image(guest)
    with load:
        try:
            with _connected(gdbstub) as remote:
                found = _sampled(remote, image, count, load)
        except RemoteError as error:
            raise UnavailableError(f"QEMU's gdbstub: {error}") from error
        load.finish()
    stacks = [stack for stack in found if stack is not None]
    names = image.names(
        address - (1 if place else 0) for stack in stacks for place, address in enumerate(stack.addresses)
    )
    return Profile(
        stack=lab.stack,
        wanted=count,
        idle=len(found) - len(stacks),
        costs=tuple(cost(stack, names) for stack in stacks),
        whole=sum(stack.reason is None for stack in stacks),
        reasons=dict(collections.Counter(stack.reason for stack in stacks if stack.reason is not None)),
        runs=load.runs,
        requests=load.requests,
        failed=load.failed,
    )
