# SPDX-License-Identifier: MIT OR Apache-2.0
"""A shell script in place of QEMU, with the behaviour that a test needs."""

from __future__ import annotations

from pathlib import Path

from swapstone.core.wire import AgentAnswer, ProcessOutcome, encode_answer, encode_answer_header, encode_plan_header
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.guest import encode_order
from swapstone.parts.vm.machine.qemu import Setup

GREETING = (
    b"swapstone-guest 1\nsystem Linux\nrelease 6.1.0\nversion #1%20SMP\nmachine x86_64\nclock 698765432\n"
    b"file /proc/meminfo MemTotal:%20%201024%20kB%0A\n"
    b"file /proc/cpuinfo processor%09:%200%0Amodel%20name%09:%20QEMU%20Virtual%20CPU%0A\n"
    b"file /sys/kernel/realtime %\n"
    b"before /proc/uptime 1.50\n"
) + encode_answer_header()
ANSWER = AgentAnswer(id="t", facts=(("wall_ns", 12345),), outcome=ProcessOutcome.EXITED, code=0)
END = b"swapstone-end\n"
AFTER = b"swapstone-after 1\nafter /proc/uptime 2.75\n"
WHOLE = GREETING + encode_answer(ANSWER) + AFTER + END
UNPREPARED = GREETING.partition(b"before ")[0] + b"prepare 1 256\nwords /tmp/prepare.log one%0Atwo%0A\n" + END
"""The output of a guest whose second ``prepare`` command was killed by signal 0, which does not exist."""

_SCRIPT = """#!/bin/sh
console= memory=
for word; do
    case $word in
    --version) echo "{version}"; exit 0 ;;
    help) exit 0 ;;
    -qmp) {probe} ;;
    esac
    case $before in
    -serial) console=${{word#file:}} ;;
    -object) case $word in *mem-path=*) memory=${{word#*mem-path=}} memory=${{memory%%,*}} ;; esac ;;
    esac
    before=$word
done
channel=$memory.written
copy_to_memory() {{
    size=$(wc -c <"$channel")
    printf "$(printf '\\%03o' $((size & 255)) $((size >> 8 & 255)) $((size >> 16)) 0 0 0 0 0)"
    head -c 4088 /dev/zero
    cat "$channel"
}}
trap 'status=$?; [ ! -f "$channel" ] || copy_to_memory >"$memory"; exit $status' EXIT
echo run >>{folder}/runs
{acts}
"""


def emulator(
    folder: Path,
    acts: str = "",
    version: str = "QEMU emulator version 7.2.22 (simulated)",
    probe: str = "exit 0",
    channel: bytes = WHOLE,
) -> str:
    """Write the script, and the file that it may copy to ``$channel``, which becomes the machine's ``$memory`` when the script ends.

    Each of its runs appends a line to ``runs``.
    """
    folder.mkdir(exist_ok=True)
    (folder / "channel").write_bytes(channel)
    path = folder / "qemu"
    path.write_text(
        _SCRIPT.format(
            folder=folder, version=version, probe=probe, acts=acts or f'cat {folder}/channel >"$channel"; exit 65'
        )
    )
    path.chmod(0o755)
    return str(path)


def runs(folder: Path) -> int:
    """Return how many times the script was run."""
    path = folder / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def setup(folder: Path, acts: str, machine: EmulatedMachine | None = None) -> Setup:
    """Return the inputs of a run of such an emulator."""
    machine = machine or EmulatedMachine()
    order = encode_order(encode_plan_header() + b"quit\n", replicate=0, limit_ms=1000)
    program = emulator(folder, acts)
    (folder / "initrd").write_bytes(b"")
    return Setup(find_emulator(machine, program), machine, folder / "kernel", folder / "initrd", order)
