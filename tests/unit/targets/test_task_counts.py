# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the emulator's plugin watches to count a program, and what it writes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tools.fuzz_seeds import TASKS

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.vm.machine.emulator import EmulatedMachine, Emulator
from swapstone.parts.vm.machine.qemu import kernel_command_line
from swapstone.parts.vm.machine.task_counts import decode_counts, points_of, require_counted

X86_64 = b"""\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T __x64_sys_ni_syscall
ffffffff81000000 W __x64_sys_kexec_file_load
ffffffff81000100 T __x64_sys_newfstat
ffffffff81000200 T __x64_sys_execve
ffffffff81000300 T copy_thread
ffffffff81000380 T flush_thread
ffffffff81000400 T __switch_to_asm
ffffffff81000400 t alias
ffffffff81000440 T entry_SYSCALL_64
ffffffff81000500 T asm_exc_page_fault
ffffffff81000600 T asm_exc_divide_error
ffffffff81000700 T asm_sysvec_apic_timer_interrupt
ffffffff81000800 T asm_common_interrupt
ffffffff81000900 T sync_regs
ffffffff81000a00 T irqentry_exit
ffffffff81000b00 T asm_int80_emulation
ffffffffc0000000 t module_function\t[module]
"""
ARM64 = b"""\
ffff800008010000 T __arm64_sys_execve
ffff800008010100 T __arm64_sys_getpid
ffff800008010800 T vectors
ffff800008011000 t ret_to_kernel
ffff800008011100 T copy_thread
ffff800008011200 T cpu_switch_to
ffff800008011300 T do_el0_svc
ffff800008011400 T do_mem_abort
ffff800008011500 T next
"""


def test_each_function_is_watched_for_what_it_shows() -> None:
    lines = points_of("x86_64", X86_64, 0x60001000).decode().splitlines()
    assert lines[0] == "m 60001000 60001000 -"
    assert {line.split()[1][-4:]: (line.split()[0], line.split()[3]) for line in lines[1:]} == {
        "0000": ("c", "ni_syscall"),
        "0100": ("c", "fstat"),
        "0200": ("rc", "execve"),
        "0300": ("n", "-"),
        "0400": ("w", "-"),
        "0440": ("eus", "-"),
        "0500": ("ef", "-"),
        "0600": ("e", "-"),
        "0700": ("i", "-"),
        "0800": ("i", "-"),
        "0900": ("u", "-"),
        "0a00": ("l", "-"),
        "0b00": ("ex", "-"),
    }
    assert "n ffffffff81000300 ffffffff81000380 -" in lines and "w ffffffff81000400 ffffffff81000440 -" in lines


def test_exception_vectors_show_where_they_come_from() -> None:
    lines = points_of("aarch64", ARM64, 0x60001000).decode().splitlines()
    found = {int(line.split()[1], 16) - 0xFFFF800008010800: line.split()[0] for line in lines[1:]}
    assert (found[0x200], found[0x280], found[0x400], found[0x480], found[0x600]) == ("e", "i", "ev", "iv", "evx")


@pytest.mark.parametrize(("architecture", "printed"), [("x86_64", X86_64), ("aarch64", ARM64)])
def test_a_function_that_the_kernel_lacks_is_named(architecture: str, printed: bytes) -> None:
    with pytest.raises(UnavailableError, match="its kernel lists no function copy_thread"):
        points_of(architecture, printed.replace(b"copy_thread", b"other"), 1)


def test_machines_that_are_not_counted(tmp_path: Path) -> None:
    def why(exported: bytes = b"qemu_plugin_register_vcpu_mem_cb", **changes: object) -> str:
        machine = msgspec.structs.replace(EmulatedMachine(), **changes)
        (tmp_path / "qemu").write_bytes(b"\0" + exported + b"\0")
        emulator = Emulator(path=str(tmp_path / "qemu"), version="", build="", data=())
        try:
            require_counted(emulator, machine, kernel_command_line(machine))
        except UnavailableError as error:
            return error.message
        return ""

    assert why() == why(architecture="aarch64") == ""
    assert why(architecture="riscv64") == why(architecture="arm") == "tasks are followed on x86_64 and arm64 only"
    assert why(processors=2) == "it has several processors"
    assert why(wall=True) == "its clock does not count instructions"
    assert why(dropped=("nokaslr",)) == "its kernel is booted without nokaslr"
    assert why(architecture="aarch64", dropped=("mitigations",)) == "its kernel is booted without mitigations=off"
    assert why(dropped=("mitigations",)) == ""
    assert why(b"") == "this QEMU loads no plugins"


def test_counts_are_decoded() -> None:
    found = dict(decode_counts(TASKS))
    assert (found["user_instructions"], found["kernel_instructions"], found["call_instructions"]) == (40, 90, 50)
    assert (found["calls.execve"], found["kernel.execve"]) == (1, 50)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"roots 1", b"roots 2"), (b"full 0", b"full 1"), (b"foreign 0", b"foreign 9"), (b"copied 1", b"copied 2")],
)
def test_counts_of_more_than_one_program_are_none(before: bytes, after: bytes) -> None:
    name, number = after.decode().split()
    assert decode_counts(TASKS.replace(before, after)) == ((f"uncounted.{name}", int(number)),)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        TASKS[:-4],
        TASKS.replace(b"tasks 1\n", b"tasks 2\n", 1),
        TASKS.replace(b"user_instructions 40\n", b""),
        TASKS + b"x",
        TASKS.replace(b"user_instructions 40", b"user_instructions -1"),
    ],
)
def test_damaged_counts_are_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="damaged"):
        decode_counts(data)
