# SPDX-License-Identifier: MIT OR Apache-2.0
"""Finds a QEMU that can emulate a machine on the instruction clock: which one, its version, and whether it has what the machine needs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.safe_text import safe
from swapstone.parts.vm.machine.machine_models import EmulatedMachine, MachineModel

OLDEST = (7, 0)
"""The oldest QEMU whose runs on the instruction clock were found to be reproducible to the byte."""

OLDEST_OF_SEVERAL = (10, 0)
"""The oldest QEMU whose runs with several processors were found to be fair to each of them, and mostly reproducible.

Before 8.1 a busy processor can take all turns of the others (QEMU's commit 83ecdb18eb): with 7.2 an arm64 kernel has latencies of 73 ms
where it has 3.2 ms with 10.0, and x86_64 hangs.
"""

SEVERAL = ("x86_64", "aarch64")
"""Architectures whose machines may have several processors."""

EMULATORS_VARIABLE = "SWAPSTONE_QEMU"
"""The environment variable with the folder of another QEMU: that of its programs, or one into which packages of Debian were unpacked."""

_VERSION = re.compile(r"version ([0-9]{1,6})\.([0-9]{1,6})")
_CPU = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._+-]{0,40}(,[+-]?[a-z0-9][a-z0-9._-]{0,30}(=[a-z0-9]{1,10})?){0,40}", re.ASCII
)
_PROBE_S = 30
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_RECORDED = "rr=record,rrfile=/dev/null"
"""Recording, to /dev/null, makes QEMU hold one lock while it executes and counts instructions; see `arguments` in qemu.py."""

BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-sandbox", _SANDBOX)


class Emulator(FrozenStruct, frozen=True, kw_only=True):
    """A usable QEMU.

    Attributes:
        path: the program.
        data: folders of its firmware; empty for those that it finds itself.
        version: the first line of ``--version``.
        build: SHA-256 of the program and its firmware.
    """

    path: str
    version: str
    build: str
    data: tuple[str, ...] = ()

    @property
    def number(self) -> tuple[int, int]:
        """The first two numbers of its version."""
        found = _VERSION.search(self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def command(self) -> tuple[str, ...]:
        """The program, with the options that name its firmware."""
        return (self.path, *(word for folder in self.data for word in ("-L", folder)))


def clock_options(ns_per_instruction: int, *, recorded: bool = True) -> tuple[str, ...]:
    """Return the options of a clock that counts instructions."""
    counted = f"shift={ns_per_instruction.bit_length() - 1},sleep=off"
    words = f"{counted},{_RECORDED}" if recorded else counted
    return ("-accel", "tcg", "-icount", words, "-rtc", "base=2024-01-01T00:00:00,clock=vm", "-seed", "1")


def check_cpu(emulator: Emulator, machine: EmulatedMachine) -> None:
    """Check before images are fetched that an emulator has a machine's processor.

    Raises:
        UserError: it has no such model or feature, or the text is no value of ``-cpu``.
    """
    cpu = machine.cpu
    if not _CPU.fullmatch(cpu):
        raise UserError(
            f"{cpu[:80]!a} is no processor model of QEMU.", "For example: --cpu-model Nehalem or qemu64,+ssse3"
        )
    model = machine.model
    value = f"{cpu},enforce" if machine.architecture == "x86_64" else cpu  # others refuse what they don't have
    tried = _ask(
        [*emulator.command, *BARE, "-accel", "tcg", "-M", model.machine, "-cpu", value, "-S", "-qmp", "stdio"],
        '{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n',
    )
    if tried.returncode != 0:
        lines = [line.partition(": ")[2] or line for line in tried.stderr.strip().splitlines()]
        raise UserError(
            f"{emulator.version} can't emulate the processor {cpu}: {'; '.join(lines[:3])[:300] or f'status {tried.returncode}'}.",
            f"List the models: {Path(emulator.path).name} -cpu help",
        )


def find_emulator(machine: EmulatedMachine, program: str = "") -> Emulator:
    """Find a QEMU that can emulate a machine on the virtual clock.

    Args:
        machine: the machine to emulate.
        program: name or path of the emulator; empty for the machine's default.

    Raises:
        UnavailableError: there is none, it is too old, or it lacks a feature; the text names it.
    """
    path, data = _located(program or machine.model.program)
    if shutil.which("setpriv") is None:
        raise UnavailableError(
            "There is no setpriv, which makes the emulator end together with Swapstone.",
            "On Debian: sudo apt-get install util-linux",
        )
    status = Path(path).stat()
    found = _examine(path, data, machine.model, (status.st_size, status.st_mtime_ns))
    check_several(machine, found)
    return found


def _located(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the path of an emulator, and the folders of its firmware if it can't find them itself.

    Raises:
        UnavailableError: there is no such program.
    """
    chosen = os.environ.get(EMULATORS_VARIABLE, "") if "/" not in name else ""
    if not chosen:
        path = shutil.which(name)
        if path is None:
            raise UnavailableError(
                f"There is no {name} to emulate a machine with.",
                "On Debian: sudo apt-get install qemu-system-x86 qemu-system-arm qemu-system-misc",
            )
        return path, ()
    root = Path(chosen).expanduser().absolute()
    found = next((each for each in (root / name, root / "usr/bin" / name) if os.access(each, os.X_OK)), None)
    if found is None:
        raise UnavailableError(
            f"{EMULATORS_VARIABLE} names the folder {safe(chosen)[:200]}, and there is no {name} in it.",
            f"Unset it for the {name} of this system.",
        )
    shared = (root / "usr/share/qemu", root / "usr/share/seabios")
    return str(found), tuple(str(folder) for folder in shared if folder.is_dir())


def check_several(machine: EmulatedMachine, emulator: Emulator) -> None:
    """Check that an emulator can emulate a machine's number of processors.

    Raises:
        UnavailableError: it can't; the text has the reason.
    """
    if machine.processors == 1:
        return
    if machine.architecture not in SEVERAL:
        raise UnavailableError(
            f"A machine of {machine.architecture} has one processor: no options are known that keep it from being idle.",
            "Several processors: --arch x86_64 or --arch arm64",
        )
    if emulator.number < OLDEST_OF_SEVERAL:
        raise UnavailableError(
            f"Several processors on the instruction clock need QEMU {OLDEST_OF_SEVERAL[0]}.{OLDEST_OF_SEVERAL[1]} or newer, and "
            f"{emulator.path} is: {emulator.version}. Before 8.1 a busy processor takes the turns of the others.",
            "On Debian 12: " + SEVERAL_HINT,
        )


SEVERAL_HINT = (
    "sudo apt-get install -t bookworm-backports qemu-system-x86 qemu-system-arm, or unpack these packages with dpkg -x into a folder and "
    f"set {EMULATORS_VARIABLE} to it"
)


@functools.cache
def _examine(path: str, data: tuple[str, ...], family: MachineModel, _stamp: tuple[int, int]) -> Emulator:
    """Read an emulator's version, and start an empty machine with the options of a run."""
    version = (_ask([path, "--version"]).stdout.splitlines() or [""])[0]
    found = _VERSION.search(version)
    if not found:
        raise UnavailableError(f"The output of {path} --version names no version of QEMU: {version!r}.")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise UnavailableError(
            f"{path} is too old: {version}.", f"The virtual clock needs QEMU {OLDEST[0]}.{OLDEST[1]} or newer."
        )
    tried = _ask(
        [path, *BARE, *clock_options(1), "-M", "none", "-qmp", "stdio"],
        '{"execute":"qmp_capabilities"}\n{"execute":"quit"}\n',
    )
    if tried.returncode != 0:
        words = tried.stderr.strip().splitlines()[-1:] or [f"status {tried.returncode}"]
        raise UnavailableError(f"{path} can't emulate a machine on the virtual clock: {words[0]}")
    digest = hashlib.sha256(version.encode())
    for part in (Path(path), *_firmware(path, data, family.firmware)):
        digest.update(f"\0{part.name}\0".encode() + hashlib.sha256(part.read_bytes()).digest())
    return Emulator(path=path, version=version, build=digest.hexdigest(), data=data)


def _firmware(path: str, data: Iterable[str], names: Iterable[str]) -> list[Path]:
    """Return the firmware files that an emulator loads, each from the first of its folders that contains it."""
    folders = [*map(Path, data)]
    folders += [Path(line) for line in _ask([path, "-L", "help"]).stdout.splitlines()]
    places = (((folder / name) for folder in folders if (folder / name).is_file()) for name in names)
    return [place for place in (next(found, None) for found in places) if place]


def _ask(command: Sequence[str], words: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=words, capture_output=True, text=True, check=False, timeout=_PROBE_S, env={"LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]} can't be run: {error}.") from error
