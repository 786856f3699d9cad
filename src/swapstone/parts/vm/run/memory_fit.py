# SPDX-License-Identifier: MIT OR Apache-2.0
"""The smallest memory in which each variant survives: runs without a limit, then a bisection of all variants side by side."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence

from swapstone.core.run.phase_summary import summary
from swapstone.core.run.prepare import Key
from swapstone.core.run.trials_ahead import TrialsAhead
from swapstone.core.targets import Target
from swapstone.parts.vm.model.memory_fit import TriedMemory, VariantMemory
from swapstone.parts.vm.plan.memory_search import Resolution, next_size, sizes_left, threshold
from swapstone.parts.vm.run.memory_trials import Expected, MemoryRun, expected_of

LONGER = 20
"""A run counts as failed if it takes so many times as long as the longest one without a limit, and at least `LEAST_TIMEOUT_MS`: a program
may wait for a process that was killed, or for pages that are read again and again."""

LEAST_TIMEOUT_MS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryRule:
    """How sizes are tried.

    Attributes:
        unlimited: the sizes of the runs that show what the program does with enough memory.
        tries_unlimited: whether those are sizes that the search starts with; else it starts with the highest use that they show.
        repeats: a size counts as survived only if so many runs succeed.
        most_bytes: the largest size.
        resolution: when the search ends.
        timeout_ms: the program's own limit, which is never exceeded.
        output_may_differ: whether standard output is not compared.
    """

    unlimited: tuple[int, ...]
    tries_unlimited: bool
    repeats: int
    most_bytes: int
    resolution: Resolution
    timeout_ms: int
    output_may_differ: bool = False


RunOnce = Callable[[Key, int, int], MemoryRun]
"""Runs a program with a memory in bytes and a time-out in ms: `swapstone.parts.vm.run.memory_trials.MemoryTrials.run`."""


class MemorySearch:
    """The search for one variant.

    Args:
        key: which.
        rule: how sizes are tried.
        run: runs the program.
    """

    def __init__(self, key: Key, rule: MemoryRule, run: RunOnce) -> None:
        self.key = key
        self._rule = rule
        self._run = run
        self._expected: Expected | None = None
        self._unlimited: list[MemoryRun] = []
        self._sizes: list[TriedMemory] = []
        self._timeout_ms = 0

    def result(self) -> VariantMemory:
        """Return what is known so far."""
        now = threshold(self._tried())
        how = next((each.how for each in self._sizes if each.memory_bytes == now.failed_bytes), "")
        expected = self._expected
        series = [run.memory for run in self._unlimited if run.memory is not None]
        phases, note = summary(series)
        if self._rule.tries_unlimited:
            note = "unavailable in a virtual machine, whose processes are not sampled"
        return VariantMemory(
            workload=self.key[1],
            variant=self.key[2],
            smallest_bytes=now.smallest_bytes,
            failed_bytes=now.failed_bytes,
            how_failed=how,
            survived_below=now.survived_below,
            varies_from_bytes=varies_from(self._sizes),
            peak_rss_bytes=max((run.rss_bytes for run in self._unlimited), default=0),
            least_rss_bytes=min((run.rss_bytes for run in self._unlimited), default=0),
            peak_cgroup_bytes=max((run.peak_bytes for run in self._unlimited), default=0),
            compared=expected.compared if expected and not expected.why_none else "",
            runs=len(self._unlimited) + sum(each.runs for each in self._sizes),
            sizes=tuple(self._sizes),
            complete=self.done,
            unavailable=expected.why_none if expected else "",
            phases=phases,
            phases_note=note,
            series=series[0] if series else None,
        )

    @property
    def done(self) -> bool:
        """Whether there is nothing left to try."""
        return self._expected is not None and (bool(self._expected.why_none) or self._next() is None)

    @property
    def left(self) -> int:
        """An estimate of the sizes that are left."""
        if self._expected is None:
            return 10
        rule = self._rule
        return sizes_left(
            self._tried(), first_bytes=self._first(), most_bytes=rule.most_bytes, resolution=rule.resolution
        )

    def step(self) -> None:
        """Do the next part: the runs without a limit, or one size."""
        if self._expected is None:
            self._start()
        elif (size := self._next()) is not None:
            self._sizes.append(self._try(size, self._expected))

    def _start(self) -> None:
        for size in self._rule.unlimited:
            self._unlimited.append(run := self._run(self.key, size, 0))
            if run.failure:
                break
        longest_ms = max(run.wall_ns for run in self._unlimited) // 1_000_000
        self._timeout_ms = min(self._rule.timeout_ms, max(LEAST_TIMEOUT_MS, LONGER * longest_ms))
        self._expected = expected_of(self._unlimited, output_may_differ=self._rule.output_may_differ)

    def _tried(self) -> dict[int, bool]:
        known = (
            dict.fromkeys(self._rule.unlimited, True)
            if self._rule.tries_unlimited and self._expected is not None and not self._expected.why_none
            else {}
        )
        return known | {each.memory_bytes: each.survived for each in self._sizes}

    def _first(self) -> int:
        return max(max(run.rss_bytes, run.peak_bytes) for run in self._unlimited)

    def _next(self) -> int | None:
        rule = self._rule
        return next_size(
            self._tried(), first_bytes=self._first(), most_bytes=rule.most_bytes, resolution=rule.resolution
        )

    def _try(self, size: int, expected: Expected) -> TriedMemory:
        for number in range(1, self._rule.repeats + 1):
            run = self._run(self.key, size, self._timeout_ms)
            if how := expected.difference(run):
                return TriedMemory(memory_bytes=size, survived=False, runs=number, how=how, by_machine=not run.ended)
        return TriedMemory(memory_bytes=size, survived=True, runs=self._rule.repeats)


def varies_from(sizes: Iterable[TriedMemory]) -> int:
    """Return the smallest size at which a run survived although another one, at this or a larger size, did not; 0 if there is none.

    Args:
        sizes: all that were tried, of one variant.
    """
    failed = max((each.memory_bytes for each in sizes if not each.survived), default=0)
    return min(
        (
            each.memory_bytes
            for each in sizes
            if (each.survived and each.memory_bytes < failed) or (not each.survived and each.runs > 1)
        ),
        default=0,
    )


def search_all(
    searches: Sequence[MemorySearch],
    target: Target,
    progress: Callable[[MemorySearch, int, float], None],
) -> bool:
    """Search for all variants in turns until each is complete.

    Args:
        searches: one for each variant.
        target: where they run, several at once if it can.
        progress: called after each part with its search, an estimate of the parts left, and the mean time of a part in s.

    Returns:
        Whether it came to the end; False if SIGINT ended it.
    """
    began, parts = time.monotonic(), 0
    by_key = {search.key: search for search in searches}

    def step(key: Key) -> None:
        by_key[key].step()

    try:
        while waiting := [search.key for search in searches if not search.done]:
            with TrialsAhead(step, target) as ahead:
                for key, _ in zip(waiting, ahead.results(waiting), strict=True):
                    parts += 1
                    left = sum(search.left for search in searches if not search.done)
                    progress(by_key[key], left, (time.monotonic() - began) / parts)
    except KeyboardInterrupt:
        return False
    return True
