# SPDX-License-Identifier: MIT OR Apache-2.0
"""Duration of a trial in a virtual machine, started from power-on and from a snapshot, for x86_64 and arm64.

The program of the trial ends at once. Two times are printed, both measured from the request:

    ready   until the guest has the request; agent and program start within a few milliseconds
    whole   until the answer

The program's first instruction lies between them. Then the emulator's instructions per second of a host processor are printed, with and
without the exact clock. Both runs start machines from power-on with a short and a long program. The difference of their instructions
comes from the exact clock, and the difference in time from QEMU's CPU time. Last, the speed-up of equal trials by two workers is
printed; their answers must be equal.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from swapstone.artifacts.image_catalog import find_architecture
from swapstone.artifacts.images import ImageRequest, build_image
from swapstone.artifacts.kernels import read_kernel
from swapstone.model import UserError
from swapstone.model.cpio import archive, folder
from swapstone.targets.vm import qemu
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.machine_models import COMPILERS, EmulatedMachine
from swapstone.targets.vm.vm_target import VmOptions, VmTarget
from swapstone.wire import AgentAnswer, TrialRequest

_PROGRAM = """
__attribute__((noreturn)) void _start(void) {
    for (volatile long i = 0; i < ROUNDS; i++);
    END
}
"""
_ENDS = {
    "x86_64": '__asm__ volatile("syscall" : : "a"(231), "D"(0)); for (;;);',
    "aarch64": 'register long c __asm__("x8") = 94; register long s __asm__("x0") = 0;'
    ' __asm__ volatile("svc 0" : : "r"(c), "r"(s)); for (;;);',
}
_POLL_S = 0.0005
_LONG = 200_000_000
_WORK = 2_000_000_000  # instructions; large in comparison with the differences of machine starts
_PLAIN = ("-accel", "tcg", "-rtc", "base=2024-01-01T00:00:00", "-seed", "1")


def main() -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/vm-start", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--arch", default="x86_64,arm64", help="architectures, separated by commas (default x86_64,arm64)"
    )
    parser.add_argument("--kernel", type=Path, help="bzImage, Image or vmlinux to use instead of the packaged kernels")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind (default 5)")
    parser.add_argument("--trials", type=int, default=6, help="trials for one and two workers (default 6)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        kernels = [asked.kernel] if asked.kernel else asked.arch.split(",")
        for number, kernel in enumerate(kernels):
            place = Path(room) / str(number)
            place.mkdir()
            try:
                parts = _given(kernel, place) if asked.kernel else _packaged(kernel)
                _measure(place, parts, asked.runs, asked.trials)
            except UserError as error:
                print(f"{kernel}: unavailable: {error.message} {error.hint}")
    return 0


def _given(kernel: Path, room: Path) -> VmImage:
    """Return a machine with a kernel file and an empty image."""
    read = read_kernel(kernel)
    (room / "kernel").write_bytes(read.image)
    (room / "initrd").write_bytes(archive({"etc": folder()}))
    return VmImage(
        room / "kernel", room / "initrd", EmulatedMachine(architecture=read.architecture), banner=read.banner
    )


def _packaged(name: str) -> VmImage:
    """Return a machine with the packaged kernel and an image with busybox."""
    built = build_image(ImageRequest(architecture=name, modules=(), parts=("busybox",)), progress=print)
    machine = EmulatedMachine(architecture=find_architecture(name).machine)
    return VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)


def _measure(room: Path, parts: VmImage, runs: int, trials: int) -> None:
    short, long, work = (_build(room, parts.machine.architecture, rounds) for rounds in (1, _LONG // 8, _WORK // 8))
    name = parts.banner.removeprefix("Linux version ").partition(" (")[0]
    print(f"{parts.machine.architecture}, Linux {name}, {runs} runs of each, median (lowest to highest)")
    usual = VmOptions(cache=room, no_cache=True)
    with _watched_in(room):
        with VmTarget(parts, dataclasses.replace(usual, snapshots=False)) as target:
            _start(target, short, runs, "from nothing")
        with VmTarget(parts, usual) as target:
            begun = time.monotonic()
            _trial(target, short)
            print(f"  to make a snapshot, and a first trial from it: {time.monotonic() - begun:.2f} s")
            _start(target, short, runs, "from a snapshot")
    _rates(parts, usual, (short, work), runs)
    _speed_up(parts, usual, long, trials)


@contextlib.contextmanager
def _watched_in(room: Path) -> Iterator[None]:
    """Put the machines' files into a folder in which their output is watched."""
    with mock.patch.object(tempfile, "tempdir", str(room)):
        yield


def _build(room: Path, architecture: str, rounds: int) -> Path:
    compiler = "cc" if architecture == os.uname().machine else COMPILERS[architecture]
    if shutil.which(compiler) is None:
        raise UserError(f"The compiler {compiler} is not installed.", "")
    program = room / f"program-{rounds}" / "program"
    program.parent.mkdir()
    source = program.with_suffix(".c")
    source.write_text(_PROGRAM.replace("ROUNDS", str(rounds)).replace("END", _ENDS[architecture]))
    subprocess.run([compiler, "-O1", "-nostdlib", "-static", "-o", program, source], check=True)
    return program


def _ask(target: VmTarget, program: Path, block: int = 0) -> AgentAnswer:
    path = target.put(program)
    return target.run(TrialRequest(id=f"{block}-0", arguments=(path,), cwd=target.scratch(), timeout_ms=60_000))


def _rates(parts: VmImage, usual: VmOptions, programs: tuple[Path, Path], runs: int) -> None:
    """Print the emulator's instructions per second. Without the exact clock the guest uses the host's clock and counts none."""
    cold = dataclasses.replace(usual, snapshots=False)
    with VmTarget(parts, cold) as target:
        exact = [_used(target, program, runs) for program in programs]
    with mock.patch.object(qemu, "_CLOCK", _PLAIN), VmTarget(parts, cold) as target:
        plain = [_used(target, program, runs) for program in programs]
    instructions = exact[1][0] - exact[0][0]
    with_clock, without = (_per_second(instructions, large[1] - small[1]) for small, large in (exact, plain))
    print(f"  guest instructions a second of a processor: {with_clock} with the exact clock, {without} without")


def _per_second(instructions: float, seconds: float) -> str:
    return f"{instructions / seconds:.3g}" if seconds > 0 else "(unavailable: this host is too busy)"


def _speed_up(parts: VmImage, usual: VmOptions, program: Path, trials: int) -> None:
    took, answers = [], []
    for workers in (1, 2):
        with VmTarget(parts, dataclasses.replace(usual, at_once=workers)) as target:
            _ask(target, program)  # creates the snapshot of its image
            begun = time.monotonic()
            with ThreadPoolExecutor(target.at_once) as pool:
                answers.append(list(pool.map(lambda block, target=target: _ask(target, program, block), range(trials))))
            took.append(time.monotonic() - begun)
    equal = "equal" if answers[0] == answers[1] else "NOT EQUAL"
    print(
        f"  {trials} trials: {took[0]:.2f} s by one worker, {took[1]:.2f} s by two, ratio {took[0] / took[1]:.2f};"
        f" their answers are {equal}"
    )


def _trial(target: VmTarget, program: Path) -> int:
    """Run a trial; return its duration in guest nanoseconds."""
    return dict(_ask(target, program).facts)["wall_ns"]


def _used(target: VmTarget, program: Path, runs: int) -> tuple[float, float]:
    """Return the guest time in nanoseconds, and the minimum CPU time of the host for a trial, in seconds."""
    guest_ns, used_s = 0, []
    _ask(target, program)  # builds the agent and the init process
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        guest_ns = _trial(target, program)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return float(guest_ns), min(used_s)


def _start(target: VmTarget, program: Path, runs: int, how: str) -> None:
    times = [_watched(lambda: _trial(target, program)) for _ in range(runs)]
    for number, name in enumerate(("ready", "whole")):
        values = [time_s[number] for time_s in times]
        print(f"  {how}, {name}: {statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})")


def _watched(act: Callable[[], object]) -> tuple[float, float]:
    """Call a function; return the time until a machine's first output, and until the end."""
    first_output: list[float] = []
    over = threading.Event()

    def watch() -> None:
        room = Path(tempfile.gettempdir())
        while not first_output and not over.is_set():
            for path in room.glob("swapstone-vm-*/channel"):
                if _says(path):
                    first_output.append(time.monotonic())
                    return
            time.sleep(_POLL_S)

    begun = time.monotonic()
    watcher = threading.Thread(target=watch)
    watcher.start()
    act()
    done = time.monotonic()
    over.set()
    watcher.join()
    return (first_output[0] if first_output else done) - begun, done - begun


def _says(path: Path) -> bool:
    try:
        with path.open("rb") as handle:  # of a channel in memory the first page is a count
            return b"swapstone-goes-on" in handle.read(1 << 13)
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
