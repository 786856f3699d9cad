# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verification of a record: is it whole and unaltered, and does its analysis give the same verdicts?"""

from __future__ import annotations

import dataclasses
import secrets

from swapstone.model import UserError
from swapstone.record import RecordView, check_raw, manifest_differences
from swapstone.run import manifest_of, prepare
from swapstone.run.recompute import Recomputed, choose, recompute
from swapstone.session.analysis import analyse_record, verdicts_digest
from swapstone.session.machines import open_experiment_target
from swapstone.session.progress import NO_PROGRESS, Progress


@dataclasses.dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Attributes:
        problems: what is wrong, one sentence each; empty if the record is whole and unaltered.
        recomputed: the trials that ran again, with the digests of their output before and now.
    """

    problems: tuple[str, ...]
    recomputed: tuple[Recomputed, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether the record has no problem."""
        return not self.problems


def verify_record(view: RecordView, recompute_trials: int = 0, progress: Progress = NO_PROGRESS) -> Verification:
    """Check every checksum of a record, analyse it again, and optionally run some of its trials again.

    Args:
        view: the record.
        recompute_trials: how many random trials run again. On the virtual clock their output must be equal to the byte.
        progress: receives events.

    Raises:
        UserError: trials should run again, but the record was measured on a wall clock.
    """
    if recompute_trials and not view.experiment.virtual:
        raise UserError(
            f"{view.path} was measured on a wall clock: no trial of it can be repeated to the byte.",
            f"Repeat the whole experiment and compare the two: swapstone rerun {view.path}",
        )
    problems = [str(damage) for damage in (*view.damages, *check_raw(view))]
    problems += _verdict_problems(view)
    if not recompute_trials:
        return Verification(tuple(problems))
    recomputed, differences = _recompute(view, recompute_trials, progress)
    if not recomputed:
        problems.append("it has no trial that could be run again")
    changed = [
        f"{each.key} printed other bytes than in the record: {each.now[:12]}, not {each.before[:12]}"
        for each in recomputed
        if not each.equal
    ]
    problems += [*changed, *(f"what it is made of differs: {difference}" for difference in differences if changed)]
    return Verification(tuple(problems), recomputed)


def _recompute(view: RecordView, count: int, progress: Progress) -> tuple[tuple[Recomputed, ...], tuple[str, ...]]:
    """Run random trials again; return their digests, and what differs in machine and programs."""
    chosen = choose(view.runs, count, secrets.randbelow(2**31))
    if not chosen:
        return (), ()

    def running(done: int, total: int, key: str) -> None:
        if key:
            progress.note(f"running {key} again, {done + 1} of {total}")

    with open_experiment_target(view.experiment, progress.note, no_cache=True) as target:
        progress.experiment_started(view.experiment, "")
        try:
            prepared = prepare(view.experiment, target, progress.building, progress.note)
            passes = {(suite, name): number for suite, name, number in view.manifest.passes} if view.manifest else {}
            now = manifest_of(prepared, target, passes)
            differences = manifest_differences(view.manifest, now) if view.manifest else ()
            return tuple(recompute(prepared, target, chosen, running)), differences
        finally:
            progress.experiment_ended()


def _verdict_problems(view: RecordView) -> list[str]:
    if view.seal is None:
        return [
            "it was never sealed: a signal killed the process that wrote it; resume it by `swapstone compare --resume`"
        ]
    if len(view.runs) > view.seal.runs:
        return [f"{len(view.runs) - view.seal.runs} runs came after the last seal: a resumed session was killed"]
    if not view.seal.verdicts:
        return [
            "an error ended its last session before the analysis; resume it by `swapstone compare --resume`",
        ]
    if verdicts_digest(analyse_record(view)) != view.seal.verdicts:
        return ["its analysis gives other verdicts than when it was sealed (another version of Swapstone?)"]
    return []
