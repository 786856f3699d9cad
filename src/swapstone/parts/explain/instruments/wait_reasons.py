# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which reason a wait had, by the stack of the code that ended it."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model.ended_waits import DISK, FUTEX, HAND_OFF, INTERRUPT, LOCK, NETWORK, TIMER
from swapstone.parts.explain.model.explanation import KERNEL, Frame

_INTERRUPTS = (
    *("asm_sysvec_", "asm_common_interrupt", "irq_exit_rcu", "__irq_exit_rcu", "run_ksoftirqd", "common_interrupt"),
    *("el1h_64_irq", "el0t_64_irq", "el1_interrupt", "el0_interrupt", "handle_riscv_irq", "generic_handle_arch_irq"),
)
"""Prefixes of functions that show that an interrupt, or work that one left, did not belong to the running thread."""

_SYSTEM_CALLS = ("__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__riscv_sys_", "__se_sys_", "do_syscall_64", "el0_svc")

_OF_INTERRUPTS = (
    (TIMER, ("hrtimer_wakeup", "process_timeout", "it_real_fn", "posix_timer_fn", "timerfd_tmrproc", "alarm")),
    (
        DISK,
        ("blk_", "bio_", "scsi_", "nvme_", "virtblk_", "dm_", "mmc_", "ata_", "folio_end_", "end_bio_", "end_buffer_"),
    ),
    (NETWORK, ("net_rx_action", "__napi_poll", "napi_", "net_tx_action")),
)
_HAND_OFFS = ("cond_signal", "cond_broadcast", "sem_post", "barrier_wait", "unlock_requeue", "eventfd_write", "exit")
_UNLOCKS = ("lock_wake", "unlock")


def interrupt_reason(stack: Sequence[Frame]) -> str | None:
    """Return the reason of a wait that an interrupt ended; None if the running thread ended it.

    Args:
        stack: of the code that ended it, the outermost frame first.
    """
    kernel = [frame.symbol for frame in reversed(stack) if frame.object == KERNEL]
    for name in kernel:
        if name.startswith(_SYSTEM_CALLS):
            return None
        if name.startswith(_INTERRUPTS):
            return next(
                (reason for reason, prefixes in _OF_INTERRUPTS if any(each.startswith(prefixes) for each in kernel)),
                INTERRUPT,
            )
    return None


def futex_reason(stack: Sequence[Frame]) -> str | None:
    """Return whether a thread ended a wait by unlocking or by a hand-off (a condition, a semaphore, its end); None without a futex.

    Args:
        stack: of that thread, the outermost frame first.
    """
    kernel = [frame.symbol for frame in stack if frame.object == KERNEL]
    if not any(name.startswith(("futex_wake", "futex_requeue", "futex_unlock")) for name in kernel):
        return None
    user = [frame.symbol for frame in reversed(stack) if frame.object != KERNEL]
    if any(name.startswith(("do_exit", "mm_release", "exit_mm_release")) for name in kernel):
        return HAND_OFF
    for name in user:
        if any(part in name for part in _HAND_OFFS):
            return HAND_OFF
        if any(part in name for part in _UNLOCKS):
            return LOCK
    return FUTEX
