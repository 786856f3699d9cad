# The machine starts here: hart 0 goes on in Rust, with a stack and zeroed statics; all traps are fatal.
.section .text.entry
.globl _start
_start:
    csrr t0, mhartid
    bnez t0, sleep
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, _stack_top
    la t0, trap
    csrw mtvec, t0
    li t0, 0x2000               # mstatus.FS: floating point may be used
    csrs mstatus, t0
    la t0, _bss_start
    la t1, _bss_end
zero:
    bgeu t0, t1, zeroed
    sd zero, 0(t0)
    addi t0, t0, 8
    j zero
zeroed:
    mv a0, a1                   # the device tree
    call start
sleep:
    wfi
    j sleep

.balign 4
trap:
    la sp, _trap_stack_top      # the other may have overflowed
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call trapped
    j sleep
