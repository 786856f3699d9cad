# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a trial's program executed with its descendants, counted by the emulator's plugin (native/plugin/tasks.c)."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from swapstone.core.factors.elf_file import open_elf, symbols_of
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.executed_counts import COUNT_FACTS
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator

_MARK = "port_exec"
"""The agent's function that executes a program (native/port/linux.c)."""

_LINE = re.compile(r"([0-9a-f]{16}) [A-Za-z] ([A-Za-z0-9_.$@-]{1,512})(?:\t\[[A-Za-z0-9_-]{1,64}\])?")
_NUMBER = re.compile(rb"([a-z0-9_.]{1,64}) (0|[1-9][0-9]{0,18})")

_EXPORTED = b"qemu_plugin_register_vcpu_mem_cb"
"""An emulator that can load plugins exports their functions."""

_Points = Mapping[str, tuple[str, bool]]
"""By a function's name, or by how its name begins with ``*``: the letters of native/plugin/tasks.c; and whether it must exist."""

_X86_64: _Points = {
    "__switch_to_asm": ("w", True),
    "copy_thread": ("n", True),
    "entry_SYSCALL_64": ("eus", True),
    "asm_exc_page_fault": ("ef", True),
    "sync_regs": ("u", True),
    "irqentry_exit": ("l", True),
    "asm_common_interrupt": ("i", True),
    "asm_sysvec_*": ("i", True),
    "asm_exc_*": ("e", True),
    "entry_SYSCALL_compat": ("eux", False),
    "entry_SYSENTER_compat": ("eux", False),
    "entry_INT80_compat": ("eux", False),
    "asm_int80_emulation": ("ex", False),
    "__x64_sys_execve": ("rc", True),
    "__x64_sys_*": ("c", True),
}
_ARM64: _Points = {
    "cpu_switch_to": ("w", True),
    "copy_thread": ("n", True),
    "vectors": ("", True),
    "do_el0_svc": ("s", True),
    "do_mem_abort": ("f", True),
    "ret_to_kernel": ("l", True),
    "__arm64_sys_execve": ("rc", True),
    "__arm64_sys_*": ("c", True),
}
_POINTS = {"x86_64": _X86_64, "aarch64": _ARM64}

_VECTORS = {0x200: "e", 0x280: "i", 0x300: "i", 0x380: "e", 0x400: "ev", 0x480: "iv", 0x500: "iv", 0x580: "ev"}
_VECTORS |= dict.fromkeys(range(0x600, 0x800, 0x80), "evx")
"""Arm Architecture Reference Manual, "Exception vectors": for the kernel, for user code, and for user code of 32 bits."""

_RENAMED = {"newfstat": "fstat", "newlstat": "lstat", "newstat": "stat", "newuname": "uname", "sendfile64": "sendfile"}
"""System calls whose function has another name than syscalls(2)."""

_NOT_IMPLEMENTED = "ni_syscall"
_LONGEST_NAME = 63  # native/plugin/tasks.c

_CHECKED = ("foreign", "full", "roots", "copied")
"""Numbers of the plugin: executions of 32-bit system calls, tasks without room, roots of trees, and new tasks of the tree."""

_NEEDED = {"x86_64": ("nokaslr",), "aarch64": ("nokaslr", "mitigations=off")}
"""Boot options without which functions have random addresses, or user code enters the kernel by other exception vectors."""


def require_counted(emulator: Emulator, machine: EmulatedMachine, options: Collection[str]) -> None:
    """Check that the plugin can follow the tasks of a machine, as far as that is known before it has run.

    Args:
        emulator: which loads the plugin.
        machine: what it emulates.
        options: of its kernel's command line.

    Raises:
        UnavailableError: it can't.
    """
    missing = [option for option in _NEEDED.get(machine.architecture, ()) if option not in options]
    reasons = {
        "its clock does not count instructions": machine.wall,
        "it has several processors": machine.processors > 1,
        "tasks are followed on x86_64 and arm64 only": machine.architecture not in _POINTS,
        f"its kernel is booted without {' and '.join(missing)}": missing,
        "this QEMU loads no plugins": _EXPORTED not in Path(emulator.path).read_bytes(),
    }
    if why := next((reason for reason, holds in reasons.items() if holds), ""):
        raise UnavailableError(why)


_PLACES = {"agent": 0x6000_0000, "init": 0x6100_0000}


def own_addresses(architecture: str, program: str) -> tuple[str, ...]:
    """Return the flags that link the ``agent`` or ``init`` of a machine to where no other program has its code.

    The plugin finds code by its address, in whatever process: the agent when it starts the program, and a program's functions, which the
    first process would be counted for.
    """
    return (f"-Wl,-Ttext-segment={_PLACES[program]:#x}",) if architecture in _POINTS else ()


def printed_functions(architecture: str) -> tuple[str, ...]:
    """Return the command that prints the watched functions in a machine, and the function behind each (native/guest/init.c)."""
    return ("/init", *(name.rstrip("*") for name in _POINTS[architecture]))


def mark_of(agent: Path) -> int:
    """Return the address where an agent executes a program.

    Raises:
        UnavailableError: the agent has no symbols.
    """
    with open_elf(agent) as elf:
        symbols = symbols_of(elf, elf.get_section_by_name(".symtab"))
        address = next((each.address for each in symbols if each.name == _MARK), None)
    if address is None:
        raise UnavailableError(f"its agent has no symbol {_MARK}")
    return address


@functools.lru_cache(maxsize=4)
def points_of(architecture: str, printed: bytes, mark: int) -> bytes:
    """Return what the plugin watches.

    Args:
        architecture: of the machine.
        printed: what `printed_functions` printed in it.
        mark: of its agent.

    Raises:
        UnavailableError: the kernel lists no function of a name that is needed.
    """
    wanted = _POINTS[architecture]
    names: dict[int, list[str]] = {}
    for line in map(_LINE.fullmatch, printed.decode("ascii", "replace").splitlines()):
        if line:
            names.setdefault(int(line[1], 16), []).append(line[2])
    starts = sorted(names)
    lines, missing = [f"m {mark:x} {mark:x} -"], {name for name, (_, needed) in wanted.items() if needed}
    for address, end in itertools.pairwise((*starts, (1 << 64) - 1)):
        found = {pattern: name for name in names[address] if (pattern := _pattern(name, wanted))}
        missing -= found.keys()
        if "vectors" in found:
            lines += [f"{letters} {address + offset:x} {end:x} -" for offset, letters in _VECTORS.items()]
        elif found:
            letters = wanted[min(found, key=lambda pattern: pattern.endswith("*"))][0]
            lines.append(f"{letters} {address:x} {end:x} {_call_name(names[address])}")
    if missing:
        raise UnavailableError(f"its kernel lists no function {min(missing)}")
    return "".join(f"{line}\n" for line in lines).encode()


def _pattern(name: str, wanted: _Points) -> str:
    """Return which entry a function belongs to: the one of its name, or else of its beginning."""
    if name in wanted:
        return name
    return next((each for each in wanted if each.endswith("*") and name.startswith(each[:-1])), "")


def _call_name(names: list[str]) -> str:
    """Return the name of a system call, whose function may have several: all that a kernel lacks are one function."""
    short = [name.partition("_sys_")[2] for name in names if "_sys_" in name] or ["-"]
    best = _NOT_IMPLEMENTED if _NOT_IMPLEMENTED in short else min(short, key=lambda each: (len(each), each))
    return _RENAMED.get(best, best)[:_LONGEST_NAME]


def decode_counts(data: bytes) -> tuple[tuple[str, int], ...]:
    """Decode what the plugin wrote.

    Returns:
        Pairs (fact, number): `COUNT_FACTS`, ``calls.NAME`` and ``kernel.NAME`` of each system call that was executed. If the counts are not
        those of one program with its descendants, only ``uncounted.NAME``: which number of the plugin is not as it must be.

    Raises:
        UserError: it is damaged.
    """
    first, *lines = data.split(b"\n")
    found = {match[1].decode(): int(match[2]) for line in lines if (match := _NUMBER.fullmatch(line))}
    whole = first == b"swapstone-tasks 1" and lines[-2:] == [b"end", b""] and len(found) == len(lines) - 2
    if not whole or not found.keys() >= {*COUNT_FACTS, *_CHECKED}:
        raise UserError("The output of the emulator's plugin is damaged.")
    expected = dict(zip(_CHECKED, (0, 0, 1, found["tasks"] - 1), strict=True))
    checked = {name: found.pop(name) for name in _CHECKED}
    wrong = tuple((f"uncounted.{name}", number) for name, number in checked.items() if number != expected[name])
    return wrong or tuple(found.items())
