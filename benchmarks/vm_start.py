"""What a trial in a virtual machine takes, from nothing and from a snapshot. `benchmarks/vm-start --kernel FILE`.

Its program ends at once. Of each trial two times are printed, both from the ask:

    ready   until the guest has its order; its agent and the program start within a few milliseconds of it
    whole   until its answer is here

so the program's first instruction lies between them. The last line says how many instructions a second the emulator carries out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from swapstone.build.kernels import read_kernel
from swapstone.model.cpio import archive, folder
from swapstone.targets.qemu import Machine
from swapstone.targets.vm import Parts, VmTarget, Ways
from swapstone.wire import TrialRequest

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


def main() -> int:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", type=Path, required=True, help="bzImage, Image or vmlinux")
    parser.add_argument("--initrd", type=Path, help="an image (default: an empty one)")
    parser.add_argument("--runs", type=int, default=5, help="of each kind (default 5)")
    parser.add_argument("--compiler", default="cc", help="for the kernel's architecture (default cc)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        tempfile.tempdir = room  # where machines have their files: what they say is watched there
        _measure(Path(room), asked)
        tempfile.tempdir = None
    return 0


def _measure(room: Path, asked: argparse.Namespace) -> None:
    kernel = read_kernel(asked.kernel)
    (room / "kernel").write_bytes(kernel.image)
    initrd = asked.initrd or room / "initrd"
    if not asked.initrd:
        initrd.write_bytes(archive({"etc": folder()}))
    parts = Parts(room / "kernel", initrd, Machine(architecture=kernel.architecture))
    short, long = (_build(room, asked.compiler, kernel.architecture, rounds) for rounds in (1, _LONG // 8))
    print(f"{kernel.banner}, {kernel.architecture}, {asked.runs} runs of each, median (lowest to highest)")
    with VmTarget(parts, Ways(cache=room, no_cache=True, snapshots=False)) as target:
        _start(target, short, asked.runs, "from nothing")
    if not parts.machine.family.has_ports:
        print("  from a snapshot: unavailable, this machine can't be saved")
    with VmTarget(parts, Ways(cache=room, no_cache=True)) as target:
        if parts.machine.family.has_ports:
            begun = time.monotonic()
            _trial(target, short)
            print(f"  to make a snapshot, and a first trial from it: {time.monotonic() - begun:.2f} s")
            _start(target, short, asked.runs, "from a snapshot")
        small, large = (_rate(target, program) for program in (short, long))
        print(f"  guest instructions a second of this host: {(large[0] - small[0]) / (large[1] - small[1]):.3g}")


def _build(room: Path, compiler: str, architecture: str, rounds: int) -> Path:
    program = room / f"program-{rounds}" / "program"
    program.parent.mkdir()
    source = program.with_suffix(".c")
    source.write_text(_PROGRAM.replace("ROUNDS", str(rounds)).replace("END", _ENDS[architecture]))
    subprocess.run([compiler, "-O1", "-nostdlib", "-static", "-o", program, source], check=True)
    return program


def _trial(target: VmTarget, program: Path) -> int:
    """Run it; return how long it took in guest nanoseconds."""
    asked = TrialRequest(id="0-0", arguments=(target.put(program),), cwd=target.scratch(), timeout_ms=60_000)
    return dict(target.run(asked).facts)["wall_ns"]


def _rate(target: VmTarget, program: Path) -> tuple[float, float]:
    _trial(target, program)  # its image has a snapshot now
    begun = time.monotonic()
    guest_ns = _trial(target, program)
    return float(guest_ns), time.monotonic() - begun


def _start(target: VmTarget, program: Path, runs: int, how: str) -> None:
    times = [_watched(lambda: _trial(target, program)) for _ in range(runs)]
    for number, name in enumerate(("ready", "whole")):
        values = [time_s[number] for time_s in times]
        print(f"  {how}, {name}: {statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})")


def _watched(act: Callable[[], object]) -> tuple[float, float]:
    """Do something; return after how long a machine spoke, and after how long it was done."""
    spoken: list[float] = []
    over = threading.Event()

    def watch() -> None:
        room = Path(tempfile.gettempdir())
        while not spoken and not over.is_set():
            for name in ("channel", "console"):
                for path in room.glob(f"swapstone-vm-*/{name}"):
                    if _says(path):
                        spoken.append(time.monotonic())
                        return
            time.sleep(_POLL_S)

    begun = time.monotonic()
    watcher = threading.Thread(target=watch)
    watcher.start()
    act()
    done = time.monotonic()
    over.set()
    watcher.join()
    return (spoken[0] if spoken else done) - begun, done - begun


def _says(path: Path) -> bool:
    try:
        return b"swapstone-goes-on" in path.read_bytes()
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    raise SystemExit(main())
