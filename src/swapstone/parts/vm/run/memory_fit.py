# SPDX-License-Identifier: MIT OR Apache-2.0
"""The smallest memory in which each variant survives: runs without a limit, then a bisection of all variants side by side.

`summary` merges the phases of several runs of a program into one list.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from swapstone.core.model import IDLE, MemorySeries, PhaseMemory, Status, UserError
from swapstone.core.model.memory_phases import FIRST_PHASE
from swapstone.core.run.prepare import Key, Prepared
from swapstone.core.run.subject import Outcome, TrialSpec
from swapstone.core.run.trials_ahead import TrialsAhead
from swapstone.core.targets import MachineConfigError, Target, TargetError
from swapstone.core.targets.memory_cgroup import OOM_KILLS, PEAK_BYTES
from swapstone.parts.vm.model.memory_fit import TriedMemory, VariantMemory


def summary(runs: Sequence[MemorySeries]) -> tuple[tuple[PhaseMemory, ...], str]:
    """Return the phases of several runs, and what limits them.

    Each figure is the median of the runs; of an even number, the lower one of the two in the middle. So each figure was measured. If the
    names of the phases differ from run to run, they are those of the first run alone.

    Args:
        runs: any number.
    """
    if not runs:
        return (), ""
    if trouble := next((run.unavailable for run in runs if run.unavailable), ""):
        return (), trouble
    note = ""
    if ignored := max(run.ignored for run in runs):
        note = f"{ignored} {'line is no mark' if ignored == 1 else 'lines are no marks'}"
    if len({tuple(phase.name for phase in run.phases) for run in runs}) > 1:
        differ = "the phases differ from run to run: those of the first run are stated"
        return _without_empty_start(runs[0].phases), "; ".join(filter(None, (note, differ)))
    medians = tuple(_median(phases) for phases in zip(*(run.phases for run in runs), strict=True))
    return _without_empty_start(medians), note


def _without_empty_start(phases: tuple[PhaseMemory, ...]) -> tuple[PhaseMemory, ...]:
    """Leave the phase before the first mark out if it was too short for a sample."""
    first, *others = phases
    empty = first.name == FIRST_PHASE and not first.samples and first.live_bytes is None
    return tuple(others) if others and empty else phases


def _median(phases: Sequence[PhaseMemory]) -> PhaseMemory:
    began_ns = statistics.median_low(phase.began_ns for phase in phases)
    lives = [phase.live_bytes for phase in phases if phase.live_bytes is not None]
    sampled = [phase for phase in phases if phase.samples]
    return PhaseMemory(
        name=phases[0].name,
        began_ns=began_ns,
        ended_ns=began_ns + statistics.median_low(phase.ended_ns - phase.began_ns for phase in phases),
        samples=sum(phase.samples for phase in phases),
        peak_bytes=statistics.median_low(phase.peak_bytes for phase in sampled) if sampled else 0,
        retained_bytes=statistics.median_low(phase.retained_bytes for phase in sampled) if sampled else 0,
        live_bytes=statistics.median_low(lives) if len(lives) == len(phases) else None,
    )


_VMSTAT = ("before /proc/vmstat", "after /proc/vmstat")
_SHAPE = "shape:"  # of `swapstone.core.wire.own_program_output`
_PREFIXES = (_SHAPE, "columns:", "sections:")
_LONGEST = 300


@dataclasses.dataclass(frozen=True)
class MemoryRun:
    """A run of a program with some memory.

    Attributes:
        failure: why it did not end well; empty if it did.
        code: its exit status.
        digests: of what it printed and wrote, as `swapstone.core.model.Run.digests`.
        oom_kills: processes that the kernel killed because memory was used up.
        rss_bytes, peak_bytes: highest resident size, and highest use of its cgroup; 0 if unknown.
        wall_ns: elapsed time; 0 if unknown.
        memory: its resident memory over time, and its phases; None if it was not watched.
        ended: whether there is an answer of the agent; else the machine or the agent itself did not end well.
    """

    failure: str = ""
    code: int = 0
    digests: tuple[tuple[str, str], ...] = ()
    oom_kills: int = 0
    rss_bytes: int = 0
    peak_bytes: int = 0
    wall_ns: int = 0
    memory: MemorySeries | None = None
    ended: bool = True


RunOnce = Callable[[Key, int, int], MemoryRun]
"""Runs a program with a memory in bytes and a time-out in ms, 0 for its own. Several threads may call it at once."""


def memory_trials(prepared: Prepared, target: Target) -> RunOnce:
    """Return what runs a program of an experiment once with a given memory, as `MachineConfig.memory_bytes`.

    Args:
        prepared: the programs.
        target: where they run.

    Raises:
        UserError: when it is called: no agent can be started, or memory can't be limited here.
    """
    cpus, numbers = target.describe().cpus, itertools.count(1)  # several threads may take its next number

    def run(key: Key, memory_bytes: int, timeout_ms: int) -> MemoryRun:
        suite, workload, label = key
        spec = TrialSpec(
            identity=f"memory-{next(numbers)}",
            variant=prepared.variants[label],
            program=prepared.programs[key],
            scratch=target.scratch(),
            cpus=cpus,
            load=IDLE,
            memory_bytes=memory_bytes,
            timeout_ms=timeout_ms,
        )
        try:
            return run_of_outcome(prepared.subjects[suite, workload].run(spec, target))
        except (TargetError, MachineConfigError) as error:
            return MemoryRun(failure=one_line(error), ended=False)

    return run


def run_of_outcome(outcome: Outcome) -> MemoryRun:
    """Return what an outcome shows."""
    judgement, answer = outcome.judgement, outcome.answer
    if answer is None:
        return MemoryRun(failure=judgement.reason or "it did not run")
    machine, facts = dict(answer.machine), dict(answer.facts)
    kills = int(machine[OOM_KILLS]) if OOM_KILLS in machine else _guest_kills(machine)
    ended = answer.outcome.value == "exited"
    failure = "" if judgement.status is Status.OK else judgement.reason or judgement.status.value
    if kills and failure:
        failure = f"OOM kill: {failure.partition('; ')[0]}"
    elif kills:
        failure = f"OOM kill of {kills} of its processes"
    if failure and answer.memory is not None and answer.memory.marked:
        failure += f", in the phase {answer.memory.phases[-1].name}"
    return MemoryRun(
        failure=failure,
        code=answer.code if ended else -1,
        digests=judgement.digests,
        oom_kills=kills,
        rss_bytes=facts.get("maxrss_bytes", 0),
        peak_bytes=int(machine.get(PEAK_BYTES, "0")),
        wall_ns=facts.get("wall_ns", 0),
        memory=answer.memory,
    )


def _guest_kills(machine: dict[str, str]) -> int:
    """Return how many processes the kernel of a virtual machine killed during the trial, by /proc/vmstat."""
    before, after = (re.search(r"^oom_kill ([0-9]{1,9})$", machine.get(name, ""), re.MULTILINE) for name in _VMSTAT)
    return max(0, int(after[1]) - (int(before[1]) if before else 0)) if after else 0


def one_line(error: UserError) -> str:
    """Return why a machine ended, in one line of limited length: the message, with the last line of a panic or of the OOM killer."""
    last = [line.strip() for line in error.hint.splitlines() if "panic" in line.lower() or "Out of memory" in line]
    text = f"{error.message.rstrip('.')}{f': {last[-1]}' if last else ''}"
    return " ".join(text.split())[:_LONGEST]


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a run must show to count as survived.

    Attributes:
        code: exit status.
        digests: pairs (name, digest).
        why_none: why runs without a limit can't be compared with others; empty if they can.
    """

    code: int = 0
    digests: tuple[tuple[str, str], ...] = ()
    why_none: str = ""

    @property
    def compared(self) -> str:
        """What is compared, in words."""
        names = [_shown(name) for name, _ in self.digests]
        return " and ".join(("exit status", *names))

    def difference(self, run: MemoryRun) -> str:
        """Return how a run differs; empty if it does not."""
        if run.failure:
            return run.failure
        if run.code != self.code:
            return f"exit status {run.code}, and {self.code} without a limit"
        now = dict(run.digests)
        other = next((name for name, digest in self.digests if now.get(name) != digest), "")
        return f"other output ({other.removeprefix(_SHAPE)}) than without a limit" if other else ""


def _shown(name: str) -> str:
    """Return what a digest is of, in words."""
    whole = name.removeprefix(_SHAPE)
    shown = "standard output" if whole == "stdout" else whole
    return f"{shown} (its lines sorted, without numbers)" if name != whole else shown


def expected_of(runs: Sequence[MemoryRun], *, output_may_differ: bool) -> Expected:
    """Return what runs without a limit have in common.

    An output that is the same in each is compared whole. Where only its numbers and the order of its lines vary, its shape is compared.

    Args:
        runs: at least one.
        output_may_differ: whether standard output is not compared.
    """
    if failed := next((run.failure for run in runs if run.failure), ""):
        return Expected(why_none=failed)
    if len({run.code for run in runs}) > 1:
        return Expected(why_none=f"its exit status varies: {', '.join(str(run.code) for run in runs)}")
    found = []
    for name in dict.fromkeys(name for run in runs for name, _ in run.digests):
        if name.startswith(_PREFIXES) or name == "stderr" or (name == "stdout" and output_may_differ):
            continue
        for each in (name, _SHAPE + name):
            values = {dict(run.digests).get(each) for run in runs}
            if len(values) == 1 and None not in values:
                found += [(each, values.pop() or "")]
                break
        else:
            return Expected(why_none=f"its output ({name}) varies from run to run: add --output-may-differ")
    return Expected(runs[0].code, tuple(found))


MIB = 1 << 20

CHECKED_STEPS = (1, 3)
"""After the bisection, sizes this many steps above the smallest survivor are tried too: a failure there shows that memory alone does not
decide."""

MOST_SIZES = 60
"""Limit of the sizes that are tried for one variant. A bisection of 64 GiB to 1 MiB needs 16 and the checks 2."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resolution:
    """How near the smallest size that survived and the largest that failed are at the end.

    Attributes:
        least_bytes: near enough for any size.
        share: of the smallest size that survived, which is near enough too; 0 for none.
        grid_bytes: every tried size is a multiple of this.
    """

    least_bytes: int = MIB
    share: float = 0.02
    grid_bytes: int = MIB

    def step(self, size_bytes: int) -> int:
        """Return the resolution at a size, a multiple of the grid and at least one."""
        return max(self.grid_bytes, self.down(max(self.least_bytes, round(size_bytes * self.share))))

    def down(self, size_bytes: int) -> int:
        """Return the largest multiple of the grid that is not above a size."""
        return size_bytes // self.grid_bytes * self.grid_bytes

    def up(self, size_bytes: int) -> int:
        """Return the smallest multiple of the grid, above 0, that is not below a size."""
        return max(1, -(-size_bytes // self.grid_bytes)) * self.grid_bytes


@dataclasses.dataclass(frozen=True)
class Threshold:
    """What the tried sizes show.

    Attributes:
        smallest_bytes: the smallest size that survived and above which none failed; 0 if there is none.
        failed_bytes: the largest size that failed; 0 if none did.
        survived_below: sizes below `failed_bytes` that survived, in order: the result is not monotonic.
    """

    smallest_bytes: int
    failed_bytes: int
    survived_below: tuple[int, ...] = ()


def threshold(tried: Mapping[int, bool]) -> Threshold:
    """Return what sizes show.

    Args:
        tried: whether each size survived.
    """
    failed = max((size for size, survived in tried.items() if not survived), default=0)
    survivors = sorted(size for size, survived in tried.items() if survived)
    above = [size for size in survivors if size > failed]
    return Threshold(above[0] if above else 0, failed, tuple(size for size in survivors if size < failed))


def next_size(tried: Mapping[int, bool], *, first_bytes: int, most_bytes: int, resolution: Resolution) -> int | None:
    """Return the size to try next; None if the search is complete, or no size up to the largest survives.

    From the first size it doubles until one survives, bisects between the largest that failed and the smallest above it that survived,
    and then tries `CHECKED_STEPS`. A failure there continues the bisection above it.

    Args:
        tried: whether each size survived.
        first_bytes: where the search begins.
        most_bytes: the largest size.
        resolution: when it ends.
    """
    if len(tried) >= MOST_SIZES:
        return None
    most = resolution.up(most_bytes)
    if not tried:
        return min(resolution.up(first_bytes), most)
    now = threshold(tried)
    if not now.smallest_bytes:
        return None if now.failed_bytes >= most else min(2 * now.failed_bytes, most)
    if now.smallest_bytes - now.failed_bytes > resolution.step(now.smallest_bytes):
        return resolution.up((now.failed_bytes + now.smallest_bytes) // 2)
    highest = max(tried)
    checks = (now.smallest_bytes + steps * resolution.step(now.smallest_bytes) for steps in CHECKED_STEPS)
    return next((size for size in checks if size < highest and size not in tried), None)


def sizes_left(tried: Mapping[int, bool], *, first_bytes: int, most_bytes: int, resolution: Resolution) -> int:
    """Estimate how many sizes the search still tries, if memory alone decides; for displays. The arguments are those of `next_size`."""
    now = threshold(tried)
    low, high = now.failed_bytes, now.smallest_bytes or min(resolution.up(first_bytes), most_bytes)
    step, left = resolution.step(high), len(CHECKED_STEPS)
    while high - low > step:
        high -= (high - low) // 2
        left += 1
    return left if next_size(tried, first_bytes=first_bytes, most_bytes=most_bytes, resolution=resolution) else 0


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
        return self._expected is not None and (bool(self._expected.why_none) or self._ask(next_size) is None)

    @property
    def left(self) -> int:
        """An estimate of the sizes that are left."""
        return 10 if self._expected is None else self._ask(sizes_left) or 0

    def step(self) -> None:
        """Do the next part: the runs without a limit, or one size."""
        if self._expected is None:
            self._start()
        elif (size := self._ask(next_size)) is not None:
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

    def _ask(self, about: Callable[..., int | None]) -> int | None:
        """Return what `next_size` or `sizes_left` return of what was tried."""
        return about(
            self._tried(),
            first_bytes=max(max(run.rss_bytes, run.peak_bytes) for run in self._unlimited),
            most_bytes=self._rule.most_bytes,
            resolution=self._rule.resolution,
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
