"""Running trials of a record again: on the virtual clock the bytes must be equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from swapstone.model import FrozenStruct, Run, Status
from swapstone.record import record_format
from swapstone.run.prepare import Prepared
from swapstone.run.setting import setting_for
from swapstone.run.trial import raw_output, request_for
from swapstone.targets import Target
from swapstone.workloads import find_load


class Recomputed(FrozenStruct, frozen=True, kw_only=True):
    """What came of a trial that was run again.

    Attributes:
        key: of the trial.
        before, now: SHA-256 of all that it printed.
    """

    key: str
    before: str
    now: str

    @property
    def equal(self) -> bool:
        """Say whether it printed the same bytes."""
        return self.before == self.now


def choose(runs: Sequence[Run], count: int, seed: int) -> list[Run]:
    """Draw trials to run again, of those that are ok.

    Args:
        runs: of a record.
        count: how many.
        seed: of the draw.
    """
    fit = [run for run in runs if run.status is Status.OK and run.output]
    return random.Random(seed).sample(fit, min(count, len(fit)))  # noqa: S311 - a choice, not a secret


def recompute(
    prepared: Prepared,
    target: Target,
    runs: Sequence[Run],
    progress: Callable[[int, int, str], None],
) -> list[Recomputed]:
    """Run trials again.

    Args:
        prepared: its programs, built again.
        target: which must make each run anew, and take none from a cache.
        runs: which.
        progress: called with how many are done, of how many, and the next one's key.

    Raises:
        TargetError: the target broke.
    """
    found = []
    cpus = target.describe().cpus
    for done, run in enumerate(runs):
        progress(done, len(runs), run.trial.key)
        key = (run.trial.suite, run.trial.workload)
        program = prepared.programs[*key, run.trial.variant].in_block(run.trial.block)
        workload = prepared.workloads[key]
        request = request_for(
            f"{run.trial.block}-{run.trial.position}",
            program.path,
            workload,
            program.recipe,
            passes=run.passes,
            cwd=target.scratch(),
            cpus=cpus,
        )
        output = raw_output(target.run(request, setting_for(workload, program.recipe, find_load(run.trial.load))))
        found.append(Recomputed(key=run.trial.key, before=run.output, now=record_format.file_sha256(output)))
    progress(len(runs), len(runs), "")
    return found
