# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the time of a study in virtual machines goes, and how long its plan takes on other numbers of processors.

Each part of the study runs a few replicates, one machine at a time and without cached runs. Of each trial it measures the processor time
of the emulator (getrusage(2), RUSAGE_CHILDREN: user and system), which a busy host changes less than the time of day, and the instructions
that its machine executed: the guest's clock counts them (docs/virtual-machines.md), without the time in which it was idle (the second
field of /proc/uptime, in hundredths of a second). From these the time of the whole plan is simulated, as benchmarks/schedule-simulated
does, after the boots for the snapshots. Images and programs must be in the cache: building them takes no time in it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import resource
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from benchmarks.schedule_simulated import with_trials_ahead

from swapstone.record import load
from swapstone.session.experiment import resolve, start
from swapstone.session.run_options import RunOptions
from swapstone.session.study import plan_study
from swapstone.session.study_file import load_study
from swapstone.targets import DEFAULT_MACHINE, MachineConfig
from swapstone.targets.vm import vm_target
from swapstone.targets.vm.vm_target import VmTarget
from swapstone.wire import AgentAnswer, TrialRequest

PROCESSORS = (1, 2, 4, 16, 100)
_SAVE = "save_checked"  # what vm_target calls to save a snapshot
MEASURED_FOR = 2
"""Processors for which the number of blocks in a budget is computed."""


@dataclasses.dataclass
class Cost:
    """What trials cost: processor time of the emulator in seconds, and instructions of the guest, before and during what is measured."""

    trials: int = 0
    seconds: float = 0.0
    before: float = 0.0
    during: float = 0.0


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def instructions(machine: dict[str, str]) -> tuple[float, float]:
    """Return for how long a guest was not idle from the reading of its order to the plan, and during the plan, in ns of its clock.

    At one nanosecond for an instruction these are the numbers of instructions.

    Args:
        machine: what the guest reported: `swapstone.wire.AgentAnswer.machine`.
    """
    (before, idle_before), (after, idle_after) = (
        map(float, machine[f"{when} /proc/uptime"].split()) for when in ("before", "after")
    )
    return 1e9 * (before - idle_before) - float(machine["clock"]), 1e9 * (after - before - (idle_after - idle_before))


class Meter:
    """Runs the trials of all threads one after another, and stores what each costs by the name of its run."""

    def __init__(self) -> None:
        self.costs: dict[str, tuple[float, float, float]] = {}
        self.snapshots_s: list[float] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Replace `VmTarget.run` and the saving of snapshots by functions that measure them."""
        run, save = VmTarget.run, getattr(vm_target, _SAVE)

        def measured_run(
            target: VmTarget, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE
        ) -> AgentAnswer:
            with self._lock:
                start_s, saved = _processor_s(), len(self.snapshots_s)
                answer = run(target, request, config)
                used_s = _processor_s() - start_s - sum(self.snapshots_s[saved:])
                self.costs[answer.name] = (used_s, *instructions(dict(answer.machine)))
                return answer

        def measured_save(*arguments: object) -> object:
            start_s = _processor_s()
            result = save(*arguments)
            self.snapshots_s.append(_processor_s() - start_s)
            return result

        setattr(VmTarget, "run", measured_run)  # noqa: B010 - a method
        setattr(vm_target, _SAVE, measured_save)
        try:
            yield
        finally:
            setattr(VmTarget, "run", run)  # noqa: B010
            setattr(vm_target, _SAVE, save)


@dataclasses.dataclass(frozen=True)
class Part:
    """A measured part of a study: its budget in seconds, blocks of trials in seconds of a processor, and that of its snapshots."""

    name: str
    budget_s: float
    blocks: tuple[tuple[float, ...], ...]
    snapshots_s: tuple[float, ...]

    def planned(self, count: int = 0) -> list[tuple[float, ...]]:
        """Return `count` blocks, or as many as the budget holds on `MEASURED_FOR` processors: the measured ones, repeated."""
        each_s = sum(map(sum, self.blocks)) / len(self.blocks)
        count = count or max(1, int(self.budget_s * MEASURED_FOR / each_s))
        return [self.blocks[number % len(self.blocks)] for number in range(count)]


def simulated_s(part: Part, blocks: Sequence[Sequence[float]], processors: int) -> float:
    """Return how long a part takes: first its snapshots, one after another or two at once, then its trials."""
    return sum(part.snapshots_s) / min(processors, max(1, len(part.snapshots_s))) + with_trials_ahead(
        blocks, processors
    )


def measure(study: str, only: Sequence[str], blocks: int, write: Callable[[str], None]) -> list[Part]:
    """Run some blocks of a study's parts; print what their trials cost."""
    parts = []
    for each in plan_study(study, load_study(study), only_parts=only).chosen:
        experiment = resolve(msgspec.structs.replace(each, blocks=blocks, seed=1).request(f"{study}/{each.name}"))
        meter = Meter()
        with meter.attached(), tempfile.TemporaryDirectory() as folder:
            start(experiment, Path(folder) / "record", options=RunOptions(no_cache=True))
            runs = load(Path(folder) / "record").runs
        by_block: dict[int, list[float]] = defaultdict(list)
        by_kind: dict[tuple[str, str], Cost] = defaultdict(Cost)
        for run in runs:
            if run.name not in meter.costs:
                continue
            used_s, before, during = meter.costs[run.name]
            by_block[run.trial.block].append(used_s)
            kind = by_kind[run.trial.load, run.trial.variant]
            kind.trials += 1
            kind.seconds += used_s
            kind.before += before / experiment.ns_per_instruction
            kind.during += during / experiment.ns_per_instruction
        write(f"{each.name}: {len(meter.snapshots_s)} snapshots, {sum(meter.snapshots_s):.1f} s of a processor")
        write(
            f"  {'load':10} {'variant':16} {'trials':>6} {'s/trial':>8} {'1e9 before':>10} {'1e9 during':>10} {'1e6/s':>6}"
        )
        for (load_name, variant), cost in sorted(by_kind.items()):
            count = cost.trials
            write(
                f"  {load_name:10} {variant:16} {count:6} {cost.seconds / count:8.2f} {cost.before / count / 1e9:10.2f} "
                f"{cost.during / count / 1e9:10.2f} {(cost.before + cost.during) / cost.seconds / 1e6:6.0f}"
            )
        made = tuple(tuple(by_block[number]) for number in sorted(by_block))
        parts.append(Part(each.name, experiment.budget_ns / 1e9, made, tuple(meter.snapshots_s)))
    return parts


def tabulate(
    parts: Sequence[Part], counts: dict[str, int], processors: Sequence[int], write: Callable[[str], None]
) -> None:
    """Print how long each part takes on each number of processors, in seconds, and all parts one after another."""
    write(f"{'part':20} {'blocks':>6} {'s of a processor':>17}" + "".join(f"{number:>8}" for number in processors))
    sums = [0.0] * len(processors)
    for part in parts:
        blocks = part.planned(counts.get(part.name, 0))
        times = [simulated_s(part, blocks, number) for number in processors]
        sums = [total + time for total, time in zip(sums, times, strict=True)]
        work = sum(map(sum, blocks)) + sum(part.snapshots_s)
        write(f"{part.name:20} {len(blocks):6} {work:17.0f}" + "".join(f"{time:8.0f}" for time in times))
    write(f"{'all':20} {'':6} {'':17}" + "".join(f"{total:8.0f}" for total in sums))


def _count(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not PART=BLOCKS")
    return name, int(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the trials of each part cost, and the simulated times of the plan."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/study-costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="name or file, for example preempt-rt")
    parser.add_argument("--part", action="append", default=[], metavar="NAME", help="only this part; may be repeated")
    parser.add_argument("--blocks", type=int, default=1, metavar="N", help="replicates to measure (default 1)")
    parser.add_argument(
        "--planned",
        type=_count,
        action="append",
        default=[],
        metavar="PART=BLOCKS",
        help=f"blocks of a part in the plan; by default what its budget holds on {MEASURED_FOR} processors",
    )
    parser.add_argument("--processors", type=int, nargs="+", default=list(PROCESSORS), metavar="N")
    given = parser.parse_args(arguments)

    def write(text: str) -> None:
        print(text, flush=True)

    parts = measure(given.study, given.part, given.blocks, write)
    tabulate(parts, dict(given.planned), given.processors, write)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
