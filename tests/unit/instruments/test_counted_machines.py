# SPDX-License-Identifier: MIT OR Apache-2.0
"""Instructions can be counted in machines of every architecture."""

from __future__ import annotations

from swapstone.parts.build.artifacts.cross_compilers import CROSS_COMPILERS
from swapstone.parts.explain.instruments import counted_runs
from swapstone.parts.explain.instruments.plugin_file import decode_kallsyms
from swapstone.parts.vm.machine.emulator import MACHINE_MODELS


def test_every_machine_has_a_mark_a_fault_and_a_compiler() -> None:
    for names in (counted_runs.MARK, counted_runs.FAULTS, counted_runs.KERNEL_START):
        assert names.keys() == MACHINE_MODELS.keys()
    assert MACHINE_MODELS.keys() <= CROSS_COMPILERS.keys()


def test_the_entry_of_a_system_call_is_the_name_of_its_address() -> None:
    for entry in (counted_runs.MARK[machine] for machine in ("x86_64", "aarch64", "riscv64")):
        symbols = decode_kallsyms(f"ffffffff80006f7c T getru\nffffffff80006f7c T {entry}\n".encode())
        assert symbols.address(entry) == 0xFFFFFFFF80006F7C
