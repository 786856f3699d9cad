# SPDX-License-Identifier: MIT OR Apache-2.0
"""Loads: what else a machine does during a measurement, and how its counters show it."""

from __future__ import annotations

import msgspec

from swapstone.core.model.frozen_struct import FrozenStruct

USUAL_MEMORY_BYTES = 256 << 20
"""Memory of a virtual machine whose workload needs no other size."""


class MachineNeeds(FrozenStruct, frozen=True, kw_only=True):
    """What a virtual machine must have for a workload or a load.

    Attributes:
        parts: parts of its image, names of `swapstone.parts.vm.artifacts.image_catalog.PARTS`.
        modules: names of kernel modules that are loaded at boot.
        own_modules: names of `swapstone.parts.vm.artifacts.kernel_modules.OWN_MODULES`. They are built for the machine's kernel; the
            machine has them as ``/NAME.ko``, and `prepare` loads them.
        memory_bytes: a multiple of 1 MiB; 0 for `USUAL_MEMORY_BYTES`. Ignored for a load. The content of a swap device comes on top.
        prepare: shell commands that run in this order before the measurement; each must succeed.
    """

    parts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    own_modules: tuple[str, ...] = ()
    memory_bytes: int = 0
    prepare: tuple[str, ...] = ()


class LoadIndicator(FrozenStruct, frozen=True, kw_only=True):
    """One number in a file of counters that shows whether a load is in force. The file is read before and after a measurement.

    Attributes:
        what: what is counted, e.g. ``bytes through lo``.
        file: path of the counters.
        line: a word of the line that holds the number, without a colon; empty for the first line, which then holds only numbers.
        field: index of the number in that line, from 0 after the word.
        least, most: bounds of the counter's growth per second of the machine's time, or of the level itself. None for no bound.
        level: whether the number is a level, not a counter. Both readings must then be within the bounds.
        least_after: of a level that a load lowers and raises again: instead of `least` for the second reading. None for `least`.
        per_processor: whether `least` is multiplied by the number of processors.
        scale: value of one step of the counter.
        less: names of the agent's facts whose sum is subtracted: the share of the trial itself. Facts in ``us`` count as seconds.
        idle: for a count of CPU time, the fields of the same line that count idle time. The kernel samples the CPU time of programs at
            ticks, so a trial that wakes in step with the ticks is charged for all of them or for none. Idle time is not sampled. Time
            that is neither idle nor the trial's own is therefore a second measure. The load is refused only if both are out of bounds.
    """

    what: str
    file: str
    line: str
    field: int
    least: float | None = None
    most: float | None = None
    level: bool = False
    least_after: float | None = None
    per_processor: bool = False
    scale: float = 1.0
    less: tuple[str, ...] = ()
    idle: tuple[int, ...] = ()


OTHERS_CPU_SECONDS = LoadIndicator(
    what="s of other programs' processor time",
    file="/proc/stat",
    line="cpu",
    field=0,
    scale=0.01,  # a tick of these files is 10 ms: USER_HZ, include/asm-generic/param.h
    less=("user_us",),
    idle=(3, 4),  # idle, iowait
)
"""User CPU time in seconds, without the trial's own. System time is left out: the kernel may spend it on behalf of the trial."""


class Load(FrozenStruct, frozen=True, kw_only=True):
    """What else the machine does during a measurement.

    Attributes:
        name: as users type it.
        description: one line.
        beside: shell commands that run in the machine meanwhile. A run fails if one of them ends before the measurement does.
        settle_ms: how long they run before the measurement begins; on the virtual clock, at 1 ns for an instruction.
        machine: what they need, and what is done before they start.
        indicators: what the machine's counters must show. A run is refused if one of them is out of bounds.
        real_time: whether they have threads of a real-time priority.
    """

    name: str
    description: str
    beside: tuple[str, ...] = ()
    settle_ms: int = 0
    machine: MachineNeeds = MachineNeeds()
    indicators: tuple[LoadIndicator, ...] = ()
    real_time: bool = False


IDLE = Load(
    name="idle",
    description="nothing but the trial",
    indicators=(msgspec.structs.replace(OTHERS_CPU_SECONDS, most=0.1),),
)


PORT = "{port}"
ADDRESS = "{address}"
LOOPBACK = "127.0.0.1"
CONNECTIONS = "{connections}"
TEMPLATE, FOLDER = "{template}", "{folder}"


class LoadGenerator(FrozenStruct, frozen=True, kw_only=True):
    """A load generator and its timing, and what the server gets for it.

    Attributes:
        command: program and arguments; ``{port}`` stands for the port of the trial, ``{address}`` for the address on which the
            server listens. There is no other placeholder.
        reader: a name of `swapstone.core.workloads.load_generators.READERS`, or ``regex:PATTERN`` with named groups.
        connections: number of concurrent connections; 0 if unknown.
        warm_ms: the load generator runs this long before the measurement and is then killed.
        ready_ms: time limit for the server to accept its first connection.
        drain_ms: pause after each run of the load generator.
        stop_ms: time limit for the server to exit after SIGTERM.
        template: text of the server's configuration file with ``{port}``, ``{address}`` and ``{folder}``, a folder in which the server
            may write; ``{template}`` in its command is the path of the filled file. Empty for none.
    """

    command: tuple[str, ...]
    reader: str
    connections: int = 0
    warm_ms: int = 300
    ready_ms: int = 10_000
    drain_ms: int = 50
    stop_ms: int = 5_000
    template: str = ""


def filled(words: tuple[str, ...], port: int, address: str = LOOPBACK) -> tuple[str, ...]:
    """Return the words with ``{port}`` replaced by a port, and ``{address}`` by the address on which the server listens."""
    return tuple(word.replace(PORT, str(port)).replace(ADDRESS, address) for word in words)
