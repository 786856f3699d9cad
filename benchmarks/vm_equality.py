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
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.poking import poked

from swapstone.model import Experiment
from swapstone.run.prepare import prepare
from swapstone.session.experiment import resolve
from swapstone.session.machines import open_experiment_target
from swapstone.session.own_program_request import own_program
from swapstone.session.request import ExperimentRequest, parse_factors
from swapstone.session.settings import Measuring, Place, Program, Settings, VirtualMachine, Workloads
from swapstone.subjects import TrialSpec, raw_output
from swapstone.targets import Target
from swapstone.workloads import find_load, workloads_of

_BUSY = "while :; do :; done"


def main() -> int:
    """Print how many repeated trials were equal; the exit status is 1 unless all were."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/vm-equality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--factor", default="kernel=generic,rt", help="factor and levels of the trials (default kernel=generic,rt)"
    )
    parser.add_argument("--suite", default="latency", help="suite of the workload (default latency)")
    parser.add_argument("--only", default="*", help="pattern of the workload; the first match runs")
    parser.add_argument("--load", default="io", help="a load (default io)")
    parser.add_argument("--arch", default="", help="x86_64, arm64, armhf or riscv64")
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
    request = ExperimentRequest(
        name="equality",
        factors=parse_factors([asked.factor]),
        own=own,
        settings=Settings(
            workloads=Workloads() if own else Workloads(suites=asked.suite, only=asked.only),
            measuring=Measuring(blocks=asked.trials),
            place=Place(loads=asked.load),
            machine=VirtualMachine(architecture=asked.arch, processors=asked.smp),
        ),
    )
    experiment = resolve(request)
    with open_experiment_target(experiment, lambda line: print(line, file=sys.stderr), no_cache=True) as target:
        return _compare(experiment, target, asked.trials, asked.repeats, poke=asked.poke)


def _compare(experiment: Experiment, target: Target, trials: int, repeats: int, *, poke: bool) -> int:
    prepared = prepare(experiment, target, lambda *_: None)
    (key,) = list(workloads_of(experiment))[:1]
    places = [(label, replicate) for replicate in range(1, trials + 1) for label in prepared.variants]
    print(f"{key[1]} under {experiment.loads[0]}, {trials} replicates of each of {', '.join(prepared.variants)}")

    def digest(place: tuple[str, int]) -> str:
        label, replicate = place
        subject, load = prepared.subjects[key], find_load(experiment.loads[0])
        spec = TrialSpec(
            identity=f"{replicate}-0",
            variant=prepared.variants[label],
            program=prepared.programs[*key, label],
            scratch=target.scratch(),
            cpus=target.describe().cpus,
            load=load,
        )
        answer = target.run(subject.request(spec), subject.machine_config(spec))
        return hashlib.sha256(raw_output(answer) + repr((answer.facts, answer.machine)).encode()).hexdigest()

    first, *others = rounds = [
        _round(places, digest, target, "alone", contextlib.nullcontext()),
        *(_disturbed(places, digest, target, number, poke=poke) for number in range(1, repeats + 1)),
    ]
    different = [place for place in places if any(other[place] != first[place] for other in others)]
    for label in prepared.variants:
        own = {first[place] for place in places if place[0] == label}
        print(f"{label}: {len(own)} different results of {trials} replicates")
    made = len(places) * len(rounds)
    print(
        f"{len(places) - len(different)} of {len(places)} trials equal to the byte in {len(rounds)} rounds, {made} runs"
    )
    for label, replicate in different:
        print(f"  differs: {label}, replicate {replicate}: {[found[label, replicate][:12] for found in rounds]}")
    return 1 if different else 0


def _disturbed(
    places: Sequence[tuple[str, int]],
    digest: Callable[[tuple[str, int]], str],
    target: Target,
    number: int,
    *,
    poke: bool,
) -> dict[tuple[str, int], str]:
    """Run a round with all disturbances."""
    emptied = _empty_page_cache()
    if not emptied:
        print("emptying the page cache is unavailable: it needs write access to /proc/sys/vm/drop_caches")
    name = f"round {number}, {'with the page cache emptied, ' if emptied else ''}beside busy programs"
    with contextlib.ExitStack() as stack:
        pokes = stack.enter_context(poked()) if poke else []
        found = _round(places, digest, target, name + (", poked" if poke else ""), _hogs())
    if poke:
        print(f"  status queries: {min(pokes)} to {max(pokes)}, {sum(pokes)} in total")
    return found


def _round(
    places: Sequence[tuple[str, int]],
    digest: Callable[[tuple[str, int]], str],
    target: Target,
    name: str,
    meanwhile: contextlib.AbstractContextManager[object],
) -> dict[tuple[str, int], str]:
    begun = time.monotonic()
    found = {}
    with meanwhile, concurrent.futures.ThreadPoolExecutor(target.at_once) as pool:
        for done, (place, result) in enumerate(zip(places, pool.map(digest, places), strict=True), 1):
            found[place] = result
            spent = time.monotonic() - begun
            left = spent / done * (len(places) - done)
            print(
                f"  {name}: {done} of {len(places)}, {spent:.0f} s, about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
    print(f"{name}: {len(places)} runs in {time.monotonic() - begun:.0f} s, {target.at_once} at once", flush=True)
    return found


@contextlib.contextmanager
def _hogs() -> Iterator[None]:
    """Keep every processor busy."""
    busy = [subprocess.Popen(["/bin/sh", "-c", _BUSY]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _empty_page_cache() -> bool:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
