# SPDX-License-Identifier: MIT OR Apache-2.0
"""Check that runs are equal byte by byte under disturbances of the host. `benchmarks/vm-equality`.

Each kernel runs replicates of cyclictest under a load, of a workload of the suite swap, or of an own program: once undisturbed, and
then --repeats times with the host's page cache emptied (if allowed) and programs that keep every processor busy. With --poke, status
queries keep the emulator's main loop busy too. The cache of runs is not used. The comparison covers all output of the guest, including
its clock and counters before and after the run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.poking import poked
from benchmarks.shared import busy_loops, parser_of

from swapstone.core.model import Experiment, OwnProgram
from swapstone.core.run.prepare import prepare
from swapstone.core.session.experiment import resolve
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.session.own_program_request import own_program
from swapstone.core.session.request import ExperimentRequest, parse_factors
from swapstone.core.session.run_options import RunOptions
from swapstone.core.session.settings import Measuring, Place, Program, Settings, VirtualMachine, Workloads
from swapstone.core.subjects import TrialSpec, raw_output
from swapstone.core.targets import MachineConfig, Target
from swapstone.core.wire import TrialRequest
from swapstone.core.workloads import find_load, workloads_of


def main() -> int:
    """Print how many repeated trials were equal; the exit status is 1 unless all were."""
    parser = parser_of("vm-equality", __doc__)
    add_trials(parser, factor="kernel=generic,rt", suite="latency", only="*", load="io")
    parser.add_argument("--smp", type=int, default=1, help="processors of the machine (default 1)")
    parser.add_argument("--trials", type=int, default=20, help="replicates of each level (default 20)")
    parser.add_argument("--repeats", type=int, default=1, help="disturbed rounds after the quiet one (default 1)")
    parser.add_argument(
        "--poke",
        action="store_true",
        help="query the emulators' status continuously in disturbed rounds; arm64 machines may hang at their end",
    )
    parser.add_argument("--files", action="append", default=[], help="as of swapstone compare, for an own program")
    parser.add_argument("--input", help="as of swapstone compare")
    parser.add_argument("program", nargs="*", help="an own program and its arguments, after --")
    asked = parser.parse_args()
    command, files = tuple(asked.program) or None, tuple(asked.files)
    own = own_program(Program(command=command, files=files, input=asked.input))
    experiment = experiment_of(asked, own, processors=asked.smp)
    with open_experiment_target(
        experiment, lambda line: print(line, file=sys.stderr), RunOptions(no_cache=True)
    ) as target:
        return _compare(Trials(experiment, target), asked.trials, asked.repeats, poke=asked.poke)


def add_trials(parser: argparse.ArgumentParser, factor: str, suite: str, only: str, load: str) -> None:
    """Add the arguments that select the trials, with these defaults."""
    parser.add_argument("--factor", default=factor, help="factor and levels (default %(default)s)")
    parser.add_argument("--suite", default=suite, help="suite of the workload (default %(default)s)")
    parser.add_argument("--only", default=only, help="pattern of the workload; the first match runs")
    parser.add_argument("--load", default=load, help="a load (default %(default)s)")
    parser.add_argument("--arch", default="", help="x86_64, arm64, armhf or riscv64")


def experiment_of(asked: argparse.Namespace, own: OwnProgram | None = None, processors: int = 1) -> Experiment:
    """Return the experiment of these trials in a virtual machine."""
    request = ExperimentRequest(
        name="equality",
        factors=parse_factors([asked.factor]),
        own=own,
        settings=Settings(
            workloads=Workloads() if own else Workloads(suites=asked.suite, only=asked.only),
            measuring=Measuring(blocks=asked.trials),
            place=Place(target="vm", loads=asked.load),
            machine=VirtualMachine(architecture=asked.arch, processors=processors),
        ),
    )
    return resolve(request)


class Trials:
    """The trials of the first workload of an experiment, under its first load.

    Args:
        experiment: it.
        target: where they run.
    """

    def __init__(self, experiment: Experiment, target: Target) -> None:
        prepared = prepare(experiment, target, lambda *_: None)
        key = next(iter(workloads_of(experiment)))
        self.target, self.workload, self.load = target, key[1], experiment.loads[0]
        self.variants = tuple(prepared.variants)
        self._prepared, self._key = prepared, key

    def request(self, label: str, replicate: int) -> tuple[TrialRequest, MachineConfig]:
        """Return what the target is given for a replicate of a variant."""
        spec = TrialSpec(
            identity=f"{replicate}-0",
            variant=self._prepared.variants[label],
            program=self._prepared.programs[*self._key, label],
            scratch=self.target.scratch(),
            cpus=self.target.describe().cpus,
            load=find_load(self.load),
        )
        subject = self._prepared.subjects[self._key]
        return subject.request(spec), subject.machine_config(spec)

    def digest(self, place: tuple[str, int]) -> str:
        """Run a replicate of a variant; return a digest of all that the guest gave."""
        answer = self.target.run(*self.request(*place))
        return hashlib.sha256(raw_output(answer) + repr((answer.facts, answer.machine)).encode()).hexdigest()


def _compare(trials: Trials, replicates: int, repeats: int, *, poke: bool) -> int:
    places = [(label, replicate) for replicate in range(1, replicates + 1) for label in trials.variants]
    print(f"{trials.workload} under {trials.load}, {replicates} replicates of each of {', '.join(trials.variants)}")
    first, *others = rounds = [
        _round(places, trials, "alone", contextlib.nullcontext()),
        *(_disturbed(places, trials, number, poke=poke) for number in range(1, repeats + 1)),
    ]
    different = [place for place in places if any(other[place] != first[place] for other in others)]
    for label in trials.variants:
        own = {first[place] for place in places if place[0] == label}
        print(f"{label}: {len(own)} different results of {replicates} replicates")
    made = len(places) * len(rounds)
    print(
        f"{len(places) - len(different)} of {len(places)} trials equal to the byte in {len(rounds)} rounds, {made} runs"
    )
    for label, replicate in different:
        print(f"  differs: {label}, replicate {replicate}: {[found[label, replicate][:12] for found in rounds]}")
    return 1 if different else 0


def _disturbed(
    places: Sequence[tuple[str, int]], trials: Trials, number: int, *, poke: bool
) -> dict[tuple[str, int], str]:
    """Run a round with all disturbances."""
    emptied = _empty_page_cache()
    if not emptied:
        print("emptying the page cache is unavailable: it needs write access to /proc/sys/vm/drop_caches")
    name = f"round {number}, {'with the page cache emptied, ' if emptied else ''}beside busy programs"
    with contextlib.ExitStack() as stack:
        pokes = stack.enter_context(poked()) if poke else []
        busy = busy_loops(len(os.sched_getaffinity(0)))
        found = _round(places, trials, name + (", poked" if poke else ""), busy)
    if poke:
        print(f"  status queries: {min(pokes)} to {max(pokes)}, {sum(pokes)} in total")
    return found


def _round(
    places: Sequence[tuple[str, int]], trials: Trials, name: str, meanwhile: contextlib.AbstractContextManager[object]
) -> dict[tuple[str, int], str]:
    begun = time.monotonic()
    found = {}
    with meanwhile, concurrent.futures.ThreadPoolExecutor(trials.target.at_once) as pool:
        for done, (place, result) in enumerate(zip(places, pool.map(trials.digest, places), strict=True), 1):
            found[place] = result
            spent = time.monotonic() - begun
            left = spent / done * (len(places) - done)
            print(
                f"  {name}: {done} of {len(places)}, {spent:.0f} s, about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
    print(
        f"{name}: {len(places)} runs in {time.monotonic() - begun:.0f} s, {trials.target.at_once} at once", flush=True
    )
    return found


def _empty_page_cache() -> bool:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
