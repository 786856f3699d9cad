# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which instructions call, return, switch interrupts, wait and read the clock. The bytes are from GNU as."""

from __future__ import annotations

import pytest

from swapstone.parts.explain.instruments.instruction_kinds import PROCESSORS, Kind, kinds_of
from swapstone.parts.vm.machine.emulator import MACHINE_MODELS


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("machine", "code", "kind"),
    [
        ("x86_64", b"\xe8\x00\x01\x00\x00", Kind.CALL),
        ("x86_64", b"\xff\xd0", Kind.CALL),  # call *%rax
        ("x86_64", b"\x41\xff\x54\x24\x08", Kind.CALL),  # call *8(%r12)
        ("x86_64", b"\xff\xe0", Kind.OTHER),  # jmp *%rax
        ("x86_64", b"\xff\x30", Kind.OTHER),  # push (%rax)
        ("x86_64", b"\xc3", Kind.RETURN),
        ("x86_64", b"\xc2\x08\x00", Kind.RETURN),
        ("x86_64", b"\x48\xcf", Kind.LEAVE),  # iretq
        ("x86_64", b"\xfa", Kind.DISABLE),
        ("x86_64", b"\xfb", Kind.ENABLE),
        ("x86_64", b"\xf4", Kind.WAIT),
        ("x86_64", b"\x0f\x31", Kind.CLOCK),  # rdtsc
        ("x86_64", b"\x0f\x01\xf9", Kind.CLOCK),  # rdtscp
        ("x86_64", b"\x90", Kind.OTHER),
        ("aarch64", _word(0x97FFFFFF), Kind.CALL),  # bl .-4
        ("aarch64", _word(0xD63F0060), Kind.CALL),  # blr x3
        ("aarch64", _word(0x17FFFFFF), Kind.OTHER),  # b .-4
        ("aarch64", _word(0xD65F03C0), Kind.RETURN),
        ("aarch64", _word(0xD69F03E0), Kind.LEAVE),
        ("aarch64", _word(0xD50343DF), Kind.DISABLE),  # msr daifset, #3
        ("aarch64", _word(0xD50342FF), Kind.ENABLE),  # msr daifclr, #2
        ("aarch64", _word(0xD50348FF), Kind.OTHER),  # msr daifclr, #8: debug exceptions
        ("aarch64", _word(0xD51B4220), Kind.ENABLE),  # msr daif, x0
        ("aarch64", _word(0xD503207F), Kind.WAIT),
        ("aarch64", _word(0xD53BE040), Kind.CLOCK),  # mrs x0, cntvct_el0
        ("aarch64", _word(0xD53BE000), Kind.OTHER),  # mrs x0, cntfrq_el0
        ("arm", _word(0xEBFFFFFE), Kind.CALL),
        ("arm", _word(0xE12FFF33), Kind.CALL),  # blx r3
        ("arm", _word(0xE12FFF1E), Kind.RETURN),
        ("arm", _word(0xE8BD8010), Kind.RETURN),  # pop {r4, pc}
        ("arm", _word(0x08BD8010), Kind.OTHER),  # popeq {r4, pc}
        ("arm", _word(0xE8FD8000), Kind.LEAVE),  # ldm sp!, {pc}^
        ("arm", _word(0xF10C0080), Kind.DISABLE),
        ("arm", _word(0xF1080080), Kind.ENABLE),
        ("arm", _word(0xE121F003), Kind.ENABLE),  # msr cpsr_c, r3
        ("arm", _word(0xE320F003), Kind.WAIT),
        ("arm", _word(0xEC510F1E), Kind.CLOCK),  # mrrc p15, 1, r0, r1, c14
        ("riscv64", _word(0x010000EF), Kind.CALL),  # jal ra
        ("riscv64", _word(0x000780E7), Kind.CALL),  # jalr a5
        ("riscv64", b"\x82\x97", Kind.CALL),  # c.jalr a5
        ("riscv64", b"\x82\x80", Kind.RETURN),
        ("riscv64", b"\x82\x87", Kind.OTHER),  # c.jr a5
        ("riscv64", _word(0x00008067), Kind.RETURN),
        ("riscv64", _word(0x10200073), Kind.LEAVE),
        ("riscv64", _word(0x10017073), Kind.DISABLE),  # csrci sstatus, 2
        ("riscv64", _word(0x10016073), Kind.ENABLE),  # csrsi sstatus, 2
        ("riscv64", _word(0x100027F3), Kind.OTHER),  # csrr a5, sstatus
        ("riscv64", _word(0x1007A073), Kind.ENABLE),  # csrs sstatus, a5
        ("riscv64", _word(0x10500073), Kind.WAIT),
        ("riscv64", _word(0xC0102573), Kind.CLOCK),  # rdtime a0
    ],
)
def test_instructions_are_recognised(machine: str, code: bytes, kind: Kind) -> None:
    assert PROCESSORS[machine].kind(code) is kind


def test_every_machine_has_a_processor() -> None:
    assert PROCESSORS.keys() == MACHINE_MODELS.keys()


def test_the_instructions_of_a_block_are_separated() -> None:
    assert list(kinds_of(PROCESSORS["x86_64"], b"\xfa\xff\xd0\xc3", b"\1\2\1")) == [
        Kind.DISABLE,
        Kind.CALL,
        Kind.RETURN,
    ]
