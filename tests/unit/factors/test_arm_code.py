# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kinds of ARM instructions: words that GNU as and objdump 2.40 give these names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swapstone.core.factors.arm_code import KINDS, branch_target, kind_of, words_of
from tests.programs import needs

ARM = {
    0xEE777A27: "vadd.f32",  # vadd.f32 s15, s14, s15
    0xEE377B47: "vadd.f64",  # vsub.f64 d7, d7, d7
    0xEE677A27: "vmul.f32",  # vmul.f32 s15, s14, s15
    0xEE477A27: "vmla.f32",  # vmla.f32 s15, s14, s15
    0xEEC77A27: "vdiv.f32",  # vdiv.f32 s15, s14, s15
    0xEEB17BC7: "vsqrt.f64",  # vsqrt.f64 d7, d7
    0xEEF47AE7: "vcmp.f32",  # vcmpe.f32 s15, s15
    0xEEB87BE7: "vcvt.f64",  # vcvt.f64.s32 d7, s15
    0xEEB00A67: "vmov.f32",  # vmov.f32 s0, s15
    0xEEF07A04: "vmov.f32",  # vmov.f32 s15, #2.5
    0xED1B7A02: "vload",  # vldr s14, [fp, #-8]
    0xED0B0A02: "vstore",  # vstr s0, [fp, #-8]
    0xECBD8B02: "vload",  # vpop {d8}
    0xEE173A90: "vfp-to-core",  # vmov r3, s15
    0xEEF1FA10: "vfp-to-core",  # vmrs APSR_nzcv, fpscr
    0xEC510B17: "vfp-to-core",  # vmov r0, r1, d7
    0xEE070A90: "core-to-vfp",  # vmov s15, r0
    0xEC410B17: "core-to-vfp",  # vmov d7, r0, r1
    0xF421070F: "neon",  # vld1.8 {d0}, [r1]
    0xE3A00001: "integer",  # mov r0, #1
    0xE0000291: "integer",  # mul r0, r1, r2
    0xE51B1008: "load",  # ldr r1, [fp, #-8]
    0xE1D100B2: "load",  # ldrh r0, [r1, #2]
    0xE1C100D0: "load",  # ldrd r0, [r1]
    0xE8BD0800: "load",  # pop {fp}
    0xF5D1F000: "load",  # pld [r1]
    0xE50B0008: "store",  # str r0, [fp, #-8]
    0xE1C100F0: "store",  # strd r0, [r1]
    0xE92D4800: "store",  # push {fp, lr}
    0xEB0001C5: "branch",  # bl
    0xE12FFF1E: "branch",  # bx lr
    0xE8BD8800: "branch",  # pop {fp, pc}
    0xE1A0F00E: "branch",  # mov pc, lr
}
THUMB = {
    0xEE777A27: "vadd.f32",
    0xED1B7A02: "vload",
    0x2001: "integer",  # movs r0, #1
    0xBF00: "integer",  # nop
    0x6808: "load",  # ldr r0, [r1]
    0x6008: "store",  # str r0, [r1]
    0xB510: "store",  # push {r4, lr}
    0xBD10: "branch",  # pop {r4, pc}
    0x4770: "branch",  # bx lr
    0xD1FE: "branch",  # bne.n
    0xB108: "branch",  # cbz r0
    0xF8D10004: "load",  # ldr.w r0, [r1, #4]
    0xE8BD8010: "branch",  # ldmia.w sp!, {r4, pc}
    0xF000F800: "branch",  # bl
    0xF3AF8000: "integer",  # nop.w
    0xEF000110: "neon",  # vand d0, d0, d0
}


@pytest.mark.parametrize(("word", "kind"), ARM.items())
def test_an_arm_instruction_has_a_kind(word: int, kind: str) -> None:
    assert kind_of(word) == kind


@pytest.mark.parametrize(("word", "kind"), THUMB.items())
def test_a_thumb_instruction_has_a_kind(word: int, kind: str) -> None:
    assert kind_of(word, thumb=True) == kind


def test_every_word_has_one_of_the_kinds() -> None:
    step = 0x9E3779B1  # odd: visits words all over the range
    for number in range(20000):
        word = number * step & 0xFFFFFFFF
        assert kind_of(word) in KINDS
        assert kind_of(word, thumb=True) in KINDS
        assert kind_of(word & 0xFFFF, thumb=True) in KINDS


def test_calls_name_their_targets() -> None:
    assert branch_target(0xEB0001C5, 0x10580) == 0x10C9C  # bl, from objdump of a program
    assert branch_target(0xEAFFFFFE, 0x10000) == 0x10000  # b to itself
    assert branch_target(0xFB000000, 0x10000) == 0x1000A  # blx with its half word
    assert branch_target(0xE12FFF1E, 0x10000) is None
    assert branch_target(0xF7FFFFFE, 0x10000, thumb=True) == 0x10000  # bl to itself
    assert branch_target(0xF000E800, 0x10002, thumb=True) == 0x10004  # blx: the place is rounded down
    assert branch_target(0x4770, 0x10000, thumb=True) is None


def test_words_of_both_instruction_sets() -> None:
    assert list(words_of(b"\x27\x7a\x77\xee\x1e\xff\x2f\xe1\0", thumb=False)) == [(0, 0xEE777A27), (4, 0xE12FFF1E)]
    assert list(words_of(b"\x70\x47\x77\xee\x27\x7a\x77\xee", thumb=True)) == [(0, 0x4770), (2, 0xEE777A27)]
    assert list(words_of(b"\xee\x77\x7a\x27", thumb=False, little=False)) == [(0, 0xEE777A27)]


@needs("arm-linux-gnueabihf-as")
def test_the_words_are_what_the_assembler_writes(tmp_path: Path) -> None:
    source, made, raw = tmp_path / "a.s", tmp_path / "a.o", tmp_path / "a.bin"
    lines = {
        "vadd.f32 s15, s14, s15": "vadd.f32",
        "vnmul.f64 d7, d7, d6": "vmul.f64",
        "vnmls.f32 s15, s14, s15": "vmla.f32",
        "vfma.f64 d7, d6, d5": "vmla.f64",
        "vabs.f32 s15, s14": "vmov.f32",
        "vcmp.f64 d7, #0": "vcmp.f64",
        "vcvt.f32.f64 s15, d7": "vcvt.f64",
        "vcvt.s32.f32 s15, s15": "vcvt.f32",
        "vstmia r0!, {s0-s3}": "vstore",
        "vmov s14, s15, r0, r1": "core-to-vfp",
        "ldrsb r0, [r1]": "load",
    }
    kinds = list(lines.values())
    source.write_text(".syntax unified\n.fpu vfpv4\n.arm\n" + "\n".join(lines) + "\n")
    subprocess.run(["arm-linux-gnueabihf-as", "-march=armv7-a", "-o", made, source], check=True, timeout=30)
    subprocess.run(["arm-linux-gnueabihf-objcopy", "-O", "binary", made, raw], check=True, timeout=30)
    assert [kind_of(word) for _, word in words_of(raw.read_bytes(), thumb=False)] == kinds
