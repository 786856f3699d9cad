# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs of an own program with a given memory, and whether one was as without a limit."""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
from collections.abc import Sequence

from swapstone.core.model import IDLE, MemorySeries, Status, UserError
from swapstone.core.run.prepare import Key, Prepared
from swapstone.core.subjects import Outcome, TrialSpec
from swapstone.core.targets import MachineConfigError, Target, TargetError
from swapstone.core.targets.memory_cgroup import OOM_KILLS, PEAK_BYTES

_VMSTAT = ("before /proc/vmstat", "after /proc/vmstat")
_SHAPE, _SECTIONS = "shape:", "sections:"  # of `swapstone.core.wire.own_program_output`
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


class MemoryTrials:
    """Runs the programs of an experiment with a given memory.

    Args:
        prepared: its programs.
        target: where they run.
    """

    def __init__(self, prepared: Prepared, target: Target) -> None:
        self._prepared = prepared
        self._target = target
        self._cpus = target.describe().cpus
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def run(self, key: Key, memory_bytes: int, timeout_ms: int) -> MemoryRun:
        """Run a program once. Several threads may call this at once if the target runs several trials at once.

        Args:
            key: which.
            memory_bytes: as `MachineConfig.memory_bytes`.
            timeout_ms: limit of its time; 0 for its own.

        Raises:
            UserError: no agent can be started, or memory can't be limited here.
        """
        suite, workload, label = key
        with self._lock:
            number = next(self._numbers)
        spec = TrialSpec(
            identity=f"memory-{number}",
            variant=self._prepared.variants[label],
            program=self._prepared.programs[key],
            scratch=self._target.scratch(),
            cpus=self._cpus,
            load=IDLE,
            memory_bytes=memory_bytes,
            timeout_ms=timeout_ms,
        )
        try:
            return run_of_outcome(self._prepared.subjects[suite, workload].run(spec, self._target))
        except (TargetError, MachineConfigError) as error:
            return MemoryRun(failure=one_line(error), ended=False)


def run_of_outcome(outcome: Outcome) -> MemoryRun:
    """Return what an outcome shows."""
    judgement, answer = outcome.judgement, outcome.answer
    if answer is None:
        return MemoryRun(failure=judgement.reason or "it did not run")
    cgroup, facts = dict(answer.cgroup), dict(answer.facts)
    kills = int(cgroup[OOM_KILLS]) if cgroup else _guest_kills(dict(answer.machine))
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
        peak_bytes=int(cgroup.get(PEAK_BYTES, "0")),
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
        if name.startswith((_SHAPE, _SECTIONS)) or (name == "stdout" and output_may_differ):
            continue
        for each in (name, _SHAPE + name):
            values = {dict(run.digests).get(each) for run in runs}
            if len(values) == 1 and None not in values:
                found += [(each, values.pop() or "")]
                break
        else:
            return Expected(why_none=f"its output ({name}) varies from run to run: add --output-may-differ")
    return Expected(runs[0].code, tuple(found))
