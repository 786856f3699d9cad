# SPDX-License-Identifier: MIT OR Apache-2.0
"""Estimates how long an experiment will still take: from the decision after the last block, and from the pace of the block since."""

from __future__ import annotations

import time

from swapstone.core.plan.stop_decision import StopDecision

__all__ = ["TimeLeft"]


class TimeLeft:
    """The time that is left, for displays.

    The decision after a block takes the next one to be like it. That fails where the last block's runs were stored already and took no
    time, or where the machine got slower. So the estimate counts down, and follows the pace of the block's own trials as they are made.
    """

    def __init__(self) -> None:
        self._decision: StopDecision | None = None
        self._left_ns = 0
        self._block: int | None = None
        self._began_ns = 0
        self._first = 0

    def decided(self, decision: StopDecision, left_ns: int) -> None:
        """Store the decision after a block, and what is left of the budget."""
        self._decision, self._left_ns, self._block = decision, left_ns, None

    def elapsed_ns(self, block: int, done: int) -> int:
        """Return how long this session has been making a block of which `done` trials are complete."""
        if block != self._block:
            self._block, self._began_ns, self._first = block, time.monotonic_ns(), done
        return time.monotonic_ns() - self._began_ns

    def block_ns(self, block: int, done: int, total: int) -> int:
        """Estimate how long the rest of a block takes, of whose `total` trials `done` are complete."""
        return max(0, round(self._whole_ns(block, done, total)) - self.elapsed_ns(block, done))

    def estimate_ns(self, block: int, done: int, total: int) -> int | None:
        """Estimate how long the experiment takes from now on; None before the first decision with an estimate."""
        decision = self._decision
        if decision is None or decision.remaining_ns is None:
            return None
        rest_ns = self.block_ns(block, done, total)
        if not decision.next_ns:
            return max(rest_ns, decision.remaining_ns - self.elapsed_ns(block, done))
        whole_ns = self._whole_ns(block, done, total)
        each_ns = max(1.0, whole_ns * total / max(1, total - self._first))
        # A block that the budget does not hold is not begun.
        held = max(0.0, self._left_ns - whole_ns) / each_ns
        return rest_ns + round(min(max(0.0, decision.remaining_ns / decision.next_ns - 1), held) * each_ns)

    def _whole_ns(self, block: int, done: int, total: int) -> float:
        """Estimate how long this session's share of a block takes: at first as long as the decision says, in the end as measured."""
        elapsed_ns = self.elapsed_ns(block, done)
        share, made = total - self._first, done - self._first
        next_ns = self._decision.next_ns if self._decision is not None else 0
        expected_ns = next_ns * share / max(1, total)
        if not made:  # the first trial runs: it takes at least as long as it has run
            return max(expected_ns, float(elapsed_ns * share))
        weight = min(1.0, elapsed_ns / expected_ns) if expected_ns else 1.0
        return (1 - weight) * expected_ns + weight * elapsed_ns * share / made
