"""Are runs equal to the byte, whatever else the host does? `benchmarks/vm-equality`.

Each kernel makes a number of trials (draws) of cyclictest under a load, or of a work of the suite swap, twice: alone, and then, with
the host's page cache emptied where that is allowed, beside programs that keep every processor busy. Nothing is taken from the cache of
runs. All that a guest says is compared, its counters before and after among it.
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

from swapstone.cli.flow import Wish, parse_factors, resolve
from swapstone.cli.machines import open_machine
from swapstone.model import Experiment
from swapstone.run.prepare import prepare
from swapstone.run.setting import setting_for
from swapstone.run.trial import raw_output, request_for
from swapstone.targets import Target
from swapstone.workloads import find_load, workloads_of

_BUSY = "while :; do :; done"


def main() -> int:
    """Print how many of the repeated trials were equal; the exit status is 1 unless all were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--factor", default="kernel=generic,rt", help="what the trials differ in (default kernel=generic,rt)"
    )
    parser.add_argument("--suite", default="latency", help="whose first work is run (default latency)")
    parser.add_argument("--only", default="*", help="pattern of the work")
    parser.add_argument("--load", default="io", help="a load (default io)")
    parser.add_argument("--arch", default="", help="x86_64 or arm64")
    parser.add_argument("--trials", type=int, default=20, help="draws of each level (default 20)")
    asked = parser.parse_args()
    wish = Wish(
        name="equality",
        factors=parse_factors([asked.factor]),
        suites=(asked.suite,),
        only=(asked.only,),
        loads=(asked.load,),
        architecture=asked.arch,
        blocks=asked.trials,
    )
    experiment = resolve(wish)
    with open_machine(experiment, lambda line: print(line, file=sys.stderr), no_cache=True) as target:
        return _compare(experiment, target, asked.trials)


def _compare(experiment: Experiment, target: Target, trials: int) -> int:
    prepared = prepare(experiment, target, lambda *_: None)
    (key,) = list(workloads_of(experiment))[:1]
    places = [(label, draw) for draw in range(1, trials + 1) for label in prepared.variants]
    print(f"{key[1]} under {experiment.loads[0]}, {trials} draws of each of {', '.join(prepared.variants)}")

    def digest(place: tuple[str, int]) -> str:
        label, draw = place
        program = prepared.programs[*key, label]
        work = prepared.workloads[key]
        request = request_for(
            f"{draw}-0", program.path, work, program.recipe, passes=1, cwd=target.scratch(), cpus=target.describe().cpus
        )
        answer = target.run(request, setting_for(work, program.recipe, find_load(experiment.loads[0])))
        return hashlib.sha256(raw_output(answer) + repr((answer.facts, answer.machine)).encode()).hexdigest()

    rounds = {"alone": _round(places, digest, target, "alone", contextlib.nullcontext())}
    emptied = _empty_page_cache()
    name = "with the page cache emptied, beside busy programs" if emptied else "beside busy programs"
    if not emptied:
        print("emptying the page cache is unavailable: it takes the right to write /proc/sys/vm/drop_caches")
    rounds[name] = _round(places, digest, target, name, _hogs())
    first, *others = rounds.values()
    different = [place for place in places if any(other[place] != first[place] for other in others)]
    for label in prepared.variants:
        own = {first[place] for place in places if place[0] == label}
        print(f"{label}: {len(own)} different results of {trials} draws")
    made = len(places) * len(rounds)
    print(
        f"{len(places) - len(different)} of {len(places)} trials equal to the byte in {len(rounds)} rounds, {made} runs"
    )
    for label, draw in different:
        print(f"  differs: {label}, draw {draw}: {[rounds[name][label, draw][:12] for name in rounds]}")
    return 1 if different else 0


def _round(
    places: Sequence[tuple[str, int]],
    digest: Callable[[tuple[str, int]], str],
    target: Target,
    name: str,
    meanwhile: contextlib.AbstractContextManager[object],
) -> dict[tuple[str, int], str]:
    begun = time.monotonic()
    with meanwhile, concurrent.futures.ThreadPoolExecutor(target.at_once) as pool:
        found = dict(zip(places, pool.map(digest, places), strict=True))
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
