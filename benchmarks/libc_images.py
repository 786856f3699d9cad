# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of glibc and of musl compared: their sizes, the boot to a served page, and the memory in use then.

Each image boots twice on the exact clock, and the two boots must be equal. The first process marks its begin in the kernel's log, starts
busybox's HTTP server, fetches a page from it, marks that, and writes the lines of /proc/meminfo. Times are those that the kernel writes
before each line of its log: nanoseconds of the emulated machine, one for each instruction. They are no durations of a real machine.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.shared import parser_of

from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.sdk import LIBCS, SDK_COMPILERS
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.libc_files import BuiltLibcImage, LibcImageRequest, build_libc_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.qemu import arguments

_TIMEOUT_S = 600
_MARK = re.compile(r"\[ *([0-9]+)\.([0-9]{6})\] swapstone: (init|served|\w+: [0-9]+ kB)\s*$", re.MULTILINE)
_MOST_CONSOLE_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Boot:
    """What one boot shows: times since the boot in microseconds, memory in kB (1024 bytes)."""

    init_us: int
    served_us: int
    memory_kb: dict[str, int]

    @property
    def used_kb(self) -> int:
        """The memory that is neither free nor the kernel's own image."""
        return self.memory_kb["MemTotal"] - self.memory_kb["MemFree"]


def read_console(text: str) -> Boot:
    """Read the marks of the first process from a console.

    Raises:
        UserError: one is missing.
    """
    times: dict[str, int] = {}
    memory: dict[str, int] = {}
    for seconds, micros, what in _MARK.findall(text):
        name, colon, size = what.partition(": ")
        if colon:
            memory[name] = int(size.split()[0])
        else:
            times[name] = int(seconds) * 1_000_000 + int(micros)
    if times.keys() != {"init", "served"} or not {"MemTotal", "MemFree", "MemAvailable"} <= memory.keys():
        raise UserError(f"The image served no page. Its console ends with:\n{text[-1500:]}")
    return Boot(times["init"], times["served"], memory)


def boot(image: BuiltLibcImage, memory_mb: int) -> Boot:
    """Boot an image on the exact clock until it has served a page.

    Raises:
        UserError: it served none, or ran for too long.
        UnavailableError: there is no emulator with an exact clock.
    """
    machine = EmulatedMachine(
        architecture=find_machine_architecture(image.description.architecture).machine,
        memory_bytes=memory_mb << 20,
        options=("rdinit=/init", "swapstone.serve"),
    )
    emulator = find_emulator(machine)
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "order").write_bytes(b"-")
        console = Path(work) / "console"
        files = {name: f"{work}/{name}" for name in ("order", "console", "channel")}
        files |= {"kernel": str(image.built.kernel), "initrd": str(image.built.initrd)}
        command = [*emulator.command, *arguments(machine, files)]
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False, cwd=work
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(f"The image ran for more than {_TIMEOUT_S} s.") from error
        with console.open("rb") as handle:
            return read_console(handle.read(_MOST_CONSOLE_BYTES).decode(errors="replace"))


def report(images: dict[str, BuiltLibcImage], boots: dict[str, Boot]) -> list[str]:
    """Return the comparison as lines of text: the answer first, then a table."""
    shown = {libc: image.description for libc, image in images.items()}
    rows: dict[str, tuple[str, dict[str, float]]] = {
        "root, bytes": ("d", {libc: shown[libc].root_bytes for libc in LIBCS}),
        "initrd, bytes": ("d", {libc: shown[libc].initrd_bytes for libc in LIBCS}),
        "busybox, bytes": ("d", {libc: shown[libc].files["bin/busybox"].size_bytes for libc in LIBCS}),
        "boot to init, ms": (".3f", {libc: boots[libc].init_us / 1000 for libc in LIBCS}),
        "init to page, ms": (".3f", {libc: (boots[libc].served_us - boots[libc].init_us) / 1000 for libc in LIBCS}),
        "boot to page, ms": (".3f", {libc: boots[libc].served_us / 1000 for libc in LIBCS}),
        "memory in use, kB": ("d", {libc: boots[libc].used_kb for libc in LIBCS}),
        "memory available, kB": ("d", {libc: boots[libc].memory_kb["MemAvailable"] for libc in LIBCS}),
    }
    ratio = {name: row["musl"] / row["glibc"] for name, (_, row) in rows.items()}
    used = rows["memory in use, kB"][1]
    change = used["musl"] - used["glibc"]
    less = "less" if change < 0 else "more"
    lines = [
        f"With musl instead of glibc the root has {ratio['root, bytes']:.3f} of the size, the first process needs"
        f" {ratio['init to page, ms']:.3f} of the time to a served page, and {abs(change):.0f} kB {less} memory is in use.",
        f"{'':24} {'glibc':>12} {'musl':>12} {'musl/glibc':>11}",
    ]
    for name, (form, row) in rows.items():
        lines.append(f"{name:24} {row['glibc']:12{form}} {row['musl']:12{form}} {ratio[name]:11.3f}")
    return lines


def main(words: list[str]) -> int:
    """Build the two images, boot each twice, and print the comparison."""
    parser = parser_of("libc-images", __doc__)
    parser.add_argument("--arch", default="x86_64", help="architecture of the images (default: %(default)s)")
    parser.add_argument("--compiler", default="gcc", choices=SDK_COMPILERS, help="default: %(default)s")
    parser.add_argument("--memory", type=int, default=128, help="of the machine, in MiB (default: %(default)s)")
    asked = parser.parse_args(words)

    note = functools.partial(print, file=sys.stderr)
    images, boots = {}, {}
    try:
        for libc in LIBCS:
            request = LibcImageRequest(architecture=asked.arch, libc=libc, compiler=asked.compiler)
            images[libc] = build_libc_image(request, note)
        for libc, image in images.items():
            note(f"booting the image of {libc} twice")
            first, second = boot(image, asked.memory), boot(image, asked.memory)
            if first != second:
                print(f"error: two boots of the image of {libc} differ: {first} and {second}", file=sys.stderr)
                return 1
            boots[libc] = first
    except UserError as error:
        print(f"error: {error.message}\n{error.hint or ''}", file=sys.stderr)
        return 2
    print("\n".join(report(images, boots)))
    for libc, image in images.items():
        print(
            f"{libc} {image.description.libc_version}: image {image.description.image}, SDK {image.description.sdk[:16]}"
        )
    return 0
