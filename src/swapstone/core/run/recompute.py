# SPDX-License-Identifier: MIT OR Apache-2.0
"""Running trials of a record again: on the virtual clock the bytes must be equal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from swapstone.core.model import FrozenStruct, Run, Status
from swapstone.core.record import record_format
from swapstone.core.run.prepare import Prepared
from swapstone.core.run.trials_ahead import TrialSpecs
from swapstone.core.targets import Target
from swapstone.core.wire.kept_answer import raw_output


class Recomputed(FrozenStruct, frozen=True, kw_only=True):
    """A trial that was run again, and what it printed.

    Attributes:
        key: of the trial.
        before, now: SHA-256 of its output in the record, and now.
        same_inputs: whether the run has the same name, which covers all its inputs; None if the target names no runs.
        other_fact: the first fact of its process, such as a count, that is another one now; empty if none is.
    """

    key: str
    before: str
    now: str
    same_inputs: bool | None = None
    other_fact: str = ""

    @property
    def equal(self) -> bool:
        """Return whether it printed the same bytes, and has the same facts."""
        return self.before == self.now and not self.other_fact


def choose(runs: Sequence[Run], count: int, seed: int) -> list[Run]:
    """Choose trials to run again, of those that are ok.

    Args:
        runs: of a record.
        count: how many.
        seed: of the random choice.
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
    specs = TrialSpecs(prepared, target)
    for done, run in enumerate(runs):
        progress(done, len(runs), run.trial.key)
        subject = prepared.subjects[run.trial.suite, run.trial.workload]
        spec = specs.spec(run.trial, run.trial.identity, run.passes)
        answer = target.run(subject.request(spec), subject.machine_config(spec))
        now = record_format.file_sha256(raw_output(subject.kept(answer)))
        same = answer.name == run.name if answer.name and run.name else None
        other = min((name for name, _ in {*run.facts} ^ {*answer.facts}), default="")
        found.append(Recomputed(key=run.trial.key, before=run.output, now=now, same_inputs=same, other_fact=other))
    progress(len(runs), len(runs), "")
    return found
