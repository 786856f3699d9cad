# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ended the waits of a program's threads, what happened meanwhile, and who had the processor that a thread was ready for."""

from __future__ import annotations

from collections.abc import Mapping

from swapstone.core.model.frozen_struct import FrozenStruct, Number

DELAYED_ACK, TIMER, DISK, NETWORK, INTERRUPT = "delayed ACK", "timer", "disk", "network", "interrupt"
LOCK, HAND_OFF, FUTEX = "lock", "hand-off", "futex"
COMPUTING, NO_PROCESSOR, UNSEEN = "computing", "no processor", "not recorded"
OWN_THREADS, LOAD_GENERATOR, KERNEL_THREADS, IDLE = "its own threads", "the load generator", "kernel threads", "idle"

_WORDS: Mapping[str, str] = {
    DELAYED_ACK: "a delayed ACK, whose timer released data that Nagle's algorithm had held back",
    TIMER: "a timer (sleep or time-out)",
    DISK: "a disk",
    NETWORK: "data from the network",
    INTERRUPT: "another interrupt",
    LOCK: "unlocking: another thread held the lock",
    HAND_OFF: "a hand-off: a condition, a semaphore or a thread's end",
    FUTEX: "a futex, of a lock or a hand-off",
    COMPUTING: "a thread that computed meanwhile",
    NO_PROCESSOR: "a thread that had no processor meanwhile",
}


class EndedWaits(FrozenStruct, frozen=True, kw_only=True):
    """Waits with one reason, per operation. The times of several threads are added up.

    Attributes:
        reason: of the waits: the interrupt that ended them (`DELAYED_ACK`, `TIMER`, `DISK`, `NETWORK`, `INTERRUPT`), how another thread
            ended them (`LOCK`, `HAND_OFF`, `FUTEX`), or what the thread that ended them did meanwhile (`COMPUTING`, `NO_PROCESSOR`).
        whose: that thread's: `OWN_THREADS`, `LOAD_GENERATOR`, `KERNEL_THREADS` or the name of another program; empty for an interrupt.
        waits: number of those of which this is the largest part.
        total_ns: their time.
        short_ns, long_ns: quantiles 10 % and 90 % of the lengths of these waits.
    """

    reason: str
    whose: str
    waits: Number
    total_ns: Number
    short_ns: Number
    long_ns: Number

    def text(self) -> str:
        """Return what ended the waits, with the thread that did."""
        return _WORDS.get(self.reason, self.reason) + (f" ({self.whose})" if self.whose else "")


class ProcessorTaken(FrozenStruct, frozen=True, kw_only=True):
    """Time in which a thread was ready and another one had its processor.

    Attributes:
        whose: as in `EndedWaits`; `IDLE` if none had it: until an idle processor runs a thread that was woken.
        total_ns: per operation.
    """

    whose: str
    total_ns: Number
