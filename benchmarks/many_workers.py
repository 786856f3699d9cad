# SPDX-License-Identifier: MIT OR Apache-2.0
"""What giving a trial to one of many workers costs the machine that keeps the record. `benchmarks/many-workers`.

The workers are simulated: each returns a run at once. So all time that passes is that of this machine: naming the run, writing its
inputs into the store, giving the job away, reading the reply, caching and judging the run, in the order of the plan. Printed are the
elapsed and the processor time of a trial by number of workers, and how long a trial must take so that all workers stay busy.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TypeVar, cast

from tests.unit.targets.fake_emulator import WHOLE

from swapstone.model import Trial
from swapstone.model.cpio import archive, folder
from swapstone.run.trials_ahead import TrialsAhead
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.qemu import GuestEnd, GuestRun
from swapstone.targets.vm.shared_runs import RunSharing
from swapstone.targets.vm.vm_target import VmOptions, VmTarget
from swapstone.wire import AgentAnswer, TrialRequest

Result = TypeVar("Result")

IN_A_BLOCK = 20
ANSWER = "simulated:1", GuestRun(end=GuestEnd.FINISHED, output=WHOLE)


class Simulated(Executor):
    """Workers whose trials cost nothing."""

    def submit(self, fn: Callable[..., Result], /, *args: object, **kwargs: object) -> Future[Result]:
        """Return a future with a run."""
        del fn, args, kwargs
        future: Future[Result] = Future()
        future.set_result(cast("Result", ANSWER))
        return future


def make() -> Executor:
    """Return the simulated workers, for ``--executor benchmarks.many_workers:make@N``."""
    return Simulated()


def measure(workers: int, trials: int, room: Path) -> tuple[float, float]:
    """Run trials by simulated workers.

    Args:
        workers: how many take trials at once.
        trials: how many, each with inputs of its own.
        room: a folder.

    Returns:
        Elapsed and processor time of a trial, in milliseconds.
    """
    image = VmImage(room / "kernel", room / "initrd", agent=room / "agent", init=room / "init")
    for name in ("kernel", "agent", "init", "program"):
        (room / name).write_bytes(name.encode() * 100)
    (room / "initrd").write_bytes(archive({"etc": folder()}))
    (room / "program").chmod(0o755)
    with VmTarget(image, VmOptions(cache=room / "cache")) as target:
        target.share_runs(RunSharing(store=str(room / "store"), executor=f"{__name__}:make@{workers}"), print)
        path = target.put(room / "program")

        def attempt(trial: Trial) -> AgentAnswer:
            request = TrialRequest(id=trial.identity, arguments=(path, str(trial.position)), cwd="/", timeout_ms=1000)
            return target.run(request)

        blocks = [
            [
                Trial(suite="s", workload=f"w{position}", load="idle", variant="v", block=number, position=position)
                for position in range(IN_A_BLOCK)
            ]
            for number in range(1, trials // IN_A_BLOCK + 1)
        ]
        began, used = time.monotonic(), _processor_s()
        with TrialsAhead(attempt, target) as ahead:
            for number, block in enumerate(blocks):
                later = (trial for each in blocks[number + 1 :] for trial in each)
                answers = list(ahead.results(block, later))
                assert [answer.id for answer in answers] == [trial.identity for trial in block]
        count = len(blocks) * IN_A_BLOCK
        return (time.monotonic() - began) / count * 1e3, (_processor_s() - used) / count * 1e3


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/many-workers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=4000, help="for each number of workers (default 4000)")
    parser.add_argument("--workers", default="2,100,1000", help="numbers of workers (default 2,100,1000)")
    chosen = parser.parse_args()
    print(f"{'workers':>7} {'elapsed':>10} {'processor':>10}  shortest trial that keeps all of them busy")
    for workers in map(int, chosen.workers.split(",")):
        with tempfile.TemporaryDirectory() as room:
            elapsed_ms, processor_ms = measure(workers, chosen.trials, Path(room))
        print(
            f"{workers:>7} {elapsed_ms:>7.2f} ms {processor_ms:>7.2f} ms  {workers * elapsed_ms / 1e3:.2f} s",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
