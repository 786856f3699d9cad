# SPDX-License-Identifier: MIT OR Apache-2.0
"""A program without a C library whose instructions are counted by hand: loops, system calls, pages and processes.

On x86_64 an instruction of the first loop crosses a page: QEMU lists it in the block before, and executes it in the next one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

TURNS, CHILD_TURNS, PAGES, FORKS = 1_000_000, 100_000, 100, 3

_X86_64 = """
.globl _start
_start:
    mov $TURNS, %ecx
    jmp 1f
.balign 4096
.skip 4091
1:  add $1, %rax
    add $0x12345678, %rdx
    dec %ecx
    jnz 1b
    mov $CALLS, %ebx
2:  mov $110, %eax
    syscall
    dec %ebx
    jnz 2b
    lea pages(%rip), %rdi
    mov $PAGES, %ebx
3:  movb $1, (%rdi)
    add $4096, %rdi
    dec %ebx
    jnz 3b
    mov $FORKS, %ebx
4:  mov $57, %eax
    syscall
    test %eax, %eax
    jz 5f
    mov $61, %eax
    mov $-1, %rdi
    xor %esi, %esi
    xor %edx, %edx
    xor %r10d, %r10d
    syscall
    dec %ebx
    jnz 4b
    jmp 7f
5:  mov $CHILD_TURNS, %ecx
6:  add $1, %rax
    add $1, %rdx
    dec %ecx
    jnz 6b
7:  xor %edi, %edi
    mov $231, %eax
    syscall
.section .note.GNU-stack,"",@progbits
.bss
.balign 4096
pages: .skip PAGES * 4096
"""
_ARM64 = """
.globl _start
_start:
    movz w1, #TURNS & 0xffff
    movk w1, #TURNS >> 16, lsl #16
1:  add x0, x0, #1
    add x2, x2, #1
    subs w1, w1, #1
    b.ne 1b
    mov w19, #CALLS
2:  mov x8, #173
    svc #0
    subs w19, w19, #1
    b.ne 2b
    adrp x0, pages
    mov w19, #PAGES
3:  strb w19, [x0]
    add x0, x0, #4096
    subs w19, w19, #1
    b.ne 3b
    mov w19, #FORKS
4:  mov x0, #17
    mov x1, #0
    mov x2, #0
    mov x3, #0
    mov x4, #0
    mov x8, #220
    svc #0
    cbz x0, 5f
    mov x0, #-1
    mov x1, #0
    mov x2, #0
    mov x3, #0
    mov x8, #260
    svc #0
    subs w19, w19, #1
    b.ne 4b
    b 7f
5:  movz w1, #CHILD_TURNS & 0xffff
    movk w1, #CHILD_TURNS >> 16, lsl #16
6:  add x0, x0, #1
    add x2, x2, #1
    subs w1, w1, #1
    b.ne 6b
7:  mov x0, #0
    mov x8, #94
    svc #0
.section .note.GNU-stack,"",@progbits
.bss
.balign 4096
pages: .skip PAGES * 4096
"""
_SOURCES = {"x86_64": _X86_64, "arm64": _ARM64}
COMPILERS = {"x86_64": "gcc", "arm64": "aarch64-linux-gnu-gcc"}


def instructions(architecture: str, calls: int) -> int:
    """Return how many instructions the program executes in user mode, with its children, by hand from the sources."""
    x86 = architecture == "x86_64"
    loop = 2 + 4 * TURNS
    other = 1 + 4 * calls + 2 + 4 * PAGES + 1
    fork, wait, next_one = (4, 6, 2) if x86 else (8, 6, 2)
    child = (2 if x86 else 1) + (1 if x86 else 2) + 4 * CHILD_TURNS + 3
    return loop + other + FORKS * (fork + wait + next_one) + 1 + 3 + FORKS * child


def system_calls(architecture: str, calls: int) -> dict[str, int]:
    """Return how often each system call is executed."""
    fork = "fork" if architecture == "x86_64" else "clone"
    return {"execve": 1, "getppid": calls, fork: FORKS, "wait4": FORKS, "exit_group": 1 + FORKS}


def build(folder: Path, name: str, architecture: str, calls: int) -> Path:
    """Assemble the program."""
    source, program = folder / f"{name}.S", folder / name
    source.write_text(_SOURCES[architecture])
    numbers = {"TURNS": TURNS, "CHILD_TURNS": CHILD_TURNS, "PAGES": PAGES, "FORKS": FORKS, "CALLS": calls}
    defined = [f"-D{key}={value}" for key, value in numbers.items()]
    subprocess.run([COMPILERS[architecture], "-static", "-nostdlib", *defined, source, "-o", program], check=True)
    return program
