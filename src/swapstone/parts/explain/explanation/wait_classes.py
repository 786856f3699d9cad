# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which class a wait belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.parts.explain.explanation.cost_classes import LOCKS, UNNAMED, WAITING, CostClasses
from swapstone.parts.explain.model.explanation import KERNEL, KERNEL_LOCKS, Frame

_MMAP_LOCK_USERS = (
    *(
        "lock_mm_and_find_vma",
        "__vm_munmap",
        "vm_mmap_pgoff",
        "do_madvise",
        "madvise",
        "do_mprotect",
        "__do_sys_mremap",
    ),
    *(
        "__do_sys_brk",
        "__x64_sys_brk",
        "__arm64_sys_brk",
        "__riscv_sys_brk",
        "do_page_fault",
        "do_user_addr_fault",
        "exc_page_fault",
        "exit_mmap",
    ),
)
"""Prefixes of kernel functions that take the lock of an address space (mmap_lock) or of its areas (VMA locks)."""


def wait_class(frames: Sequence[Frame], classes: CostClasses) -> tuple[str, str]:
    """Return the class of a wait, by the stack with which the thread was switched out."""
    name, detail = classes.of(frames)
    if name == LOCKS:
        return LOCKS, detail
    kernel = [frame.symbol for frame in frames if frame.object == KERNEL]
    if any(symbol.startswith(KERNEL_LOCKS) for symbol in kernel):
        lock = "address space" if any(symbol.startswith(_MMAP_LOCK_USERS) for symbol in kernel) else "kernel"
        return LOCKS, f"of the {lock}, in {detail or name}"
    if not frames:
        return UNNAMED, "waiting"
    return WAITING, f"in {detail or name}"
