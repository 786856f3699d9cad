# SPDX-License-Identifier: MIT OR Apache-2.0
"""The engine goes on while some runs fail, and ends with a true reason."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from swapstone.core.model import CURRENT_RULES, REPORT_CORRECTION, Experiment, Status, Trial, Verdict
from swapstone.core.plan.stopping import StopReason
from swapstone.core.record import RecordView, RecordWriter, load
from swapstone.core.run.engine import Engine, SessionEnd
from swapstone.core.run.prepare import prepare
from swapstone.core.session.analysis import analyse_record
from swapstone.core.session.plan_check import plan_problems
from swapstone.core.session.precision_stop import PrecisionStop
from swapstone.core.session.progress import LineProgress
from swapstone.core.targets.fake import FakeTarget
from tests.unit.builders import experiment

MUSL = '[[behaviour]]\nvariant = "libc=musl"\n'
ONE, OTHER = "b_malloc_tiny1", "b_string_strlen"


def fault(kind: str, *, workload: str = "*", blocks: tuple[int, ...] = ()) -> str:
    """Return the behaviour of a candidate that fails, in these blocks or always."""
    when = f"trials = {[f'{block}-*' for block in blocks]}" if blocks else "probability = 1.0"
    return f'{MUSL}workload = "{workload}"\nfaults = [{{ kind = "{kind}", {when} }}]\n'


def measured(
    folder: Path, behaviour: str, *, workloads: tuple[str, ...] = (ONE,), **changes: object
) -> tuple[SessionEnd, RecordView]:
    """Run an experiment with the engine and its stopping rule."""
    spec = f"seed = 3\n[[behaviour]]\nwall_ns = 3_000_000\nnoise = 0.01\n{behaviour}"
    (folder / "fake.toml").write_text(spec)
    subject: Experiment = experiment(
        target=f"fake:{folder / 'fake.toml'}",
        workloads=tuple(("libc", name) for name in workloads),
        **{"rules": CURRENT_RULES, "correction": REPORT_CORRECTION, "failures_count": True, **changes},
    )
    target, shown = FakeTarget(folder / "fake.toml"), LineProgress(print)
    shown.experiment_started(subject, "")
    with RecordWriter.create(folder / "record", subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        stop = PrecisionStop(subject)
        ending = Engine(subject, prepared, target, writer, stopping_rule=stop, progress=shown).run()
        writer.seal(ending.state, ending.why, "")
    return ending, load(folder / "record")


def continued(folder: Path, view: RecordView, number: int) -> list[Trial]:
    """Return the trials of an experiment that was interrupted after some runs and resumed."""
    subject, shown = view.experiment, LineProgress(print)
    target = FakeTarget(Path(subject.target.removeprefix("fake:")))
    shown.experiment_started(subject, "")
    earlier = tuple(view.runs[:number])
    with RecordWriter.create(folder, subject) as writer:
        prepared = prepare(subject, target, shown.building, shown.note, keep_log=writer.keep_log)
        stop = PrecisionStop(subject)
        Engine(
            subject,
            prepared,
            target,
            writer,
            stopping_rule=stop,
            progress=shown,
            earlier=earlier,
            passes={("libc", ONE): 1},
        ).run()
    return [run.trial for run in (*earlier, *load(folder).runs)]


def blocks_of(view: RecordView, workload: str = ONE) -> dict[str, int]:
    """Return the number of blocks in which each variant ran, with the warm-up."""
    counted = collections.Counter(run.trial.variant for run in view.runs if run.trial.workload == workload)
    return dict(counted)


def test_every_requested_block_is_made_although_runs_fail(tmp_path: Path) -> None:
    ending, view = measured(tmp_path, fault("timeout", blocks=tuple(range(8, 61, 8))), blocks=60)
    assert sum(run.status is Status.FAILED for run in view.runs) == 7
    assert blocks_of(view) == {"libc=glibc": 61, "libc=musl": 61}
    assert ending == SessionEnd("complete", StopReason.BLOCKS.value)
    assert not plan_problems(view)
    assert {row.verdict for row in analyse_record(view).comparisons if row.metric.name in {"wall", "cpu"}} == {
        Verdict.INVALID
    }


def test_a_record_from_before_ends_a_variant_after_three_failures(tmp_path: Path) -> None:
    ending, view = measured(tmp_path, fault("timeout", blocks=(5, 9, 17)), failures_count=False, blocks=60)
    assert blocks_of(view) == {"libc=glibc": 18, "libc=musl": 18}
    why = f"{StopReason.INCOMPARABLE.value}, the first: {ONE}: 3 of 18 runs of libc=musl failed, and it was given up"
    assert ending == SessionEnd("complete", why)
    assert not plan_problems(view)


def test_every_workload_failed_is_the_reason_only_where_it_is_true(tmp_path: Path) -> None:
    ending, view = measured(tmp_path, fault("crash"), workloads=(ONE, OTHER), blocks=20)
    assert ending.state == "complete"
    assert ending.why == f"every workload failed, the first: {ONE}: all 3 runs of libc=musl failed"
    assert blocks_of(view) == blocks_of(view, OTHER) == {"libc=glibc": 3, "libc=musl": 3}
    assert not plan_problems(view)


@pytest.mark.slow
def test_a_workload_that_always_fails_ends_and_the_others_go_on(tmp_path: Path) -> None:
    ending, view = measured(tmp_path, fault("crash", workload=ONE), workloads=(ONE, OTHER), blocks=20)
    first = f"{ONE}: all 3 runs of libc=musl failed"
    assert ending.why == f"{StopReason.BLOCKS.value}; 1 of 2 workloads can't be compared, the first: {first}"
    assert blocks_of(view)["libc=musl"] == 3 and blocks_of(view, OTHER) == {"libc=glibc": 21, "libc=musl": 21}
    assert not plan_problems(view)


def test_a_variant_that_always_fails_is_not_run_again_and_the_others_go_on(tmp_path: Path) -> None:
    again = 'variant = "libc=glibc (again)"\n'
    behaviour = f'[[behaviour]]\n{again}faults = [{{ kind = "crash", probability = 1.0 }}]\n'
    _, view = measured(tmp_path, behaviour, null=True, blocks=5)
    made = blocks_of(view)
    assert made.pop("libc=glibc (again)") == 3, "in the blocks 0, 1 and 2"
    assert set(made.values()) == {6} and {"libc=glibc", "libc=musl"} <= set(made)


def test_a_block_ends_as_it_was_begun_wherever_it_was_interrupted(tmp_path: Path) -> None:
    """A variant that is given up in a block still has its other runs there: those that are discarded have the same variant."""
    _, view = measured(tmp_path, fault("crash"), prime=2, blocks=3)
    planned = [run.trial for run in view.runs]
    last = max(trial.block for trial in planned if trial.variant == "libc=musl")
    ends = [number for number, trial in enumerate(planned) if trial.block == last and trial.variant == "libc=musl"]
    assert last == 1 and len(ends) == 3, (
        "two discarded ones, and a measured one; the third failure of all is the second of them"
    )
    for number in range(ends[0], ends[-1] + 1):
        assert continued(tmp_path / str(number), view, number) == planned


def test_refused_runs_are_no_failures(tmp_path: Path) -> None:
    ending, _ = measured(tmp_path, fault("wrong-level"), blocks=20)
    why = f"{StopReason.INCOMPARABLE.value}, the first: {ONE}: 3 of 3 runs of libc=musl were refused"
    assert ending == SessionEnd("complete", why)


def test_a_side_that_fails_in_most_runs_ends_at_a_check_and_is_not_called_precise(tmp_path: Path) -> None:
    failing = tuple(block for block in range(1, 100) if block % 3)
    ending, view = measured(tmp_path, fault("timeout", blocks=failing), budget_ns=600 * 10**9)
    assert ending == SessionEnd("complete", StopReason.LOST.value)
    assert max(run.trial.block for run in view.runs) == 15
    assert not plan_problems(view)


def test_precision_ends_an_experiment_in_which_some_runs_fail(tmp_path: Path) -> None:
    ending, view = measured(tmp_path, fault("timeout", blocks=(2, 5, 7, 11)), margin=0.05, budget_ns=600 * 10**9)
    assert ending == SessionEnd("complete", StopReason.PRECISE.value)
    assert analyse_record(view).failure_rates[0].candidate_runs.failed == 4


@pytest.mark.parametrize("reason", [StopReason.FAILED, StopReason.INCOMPARABLE])
def test_verify_finds_a_false_reason(tmp_path: Path, reason: StopReason) -> None:
    _, view = measured(tmp_path, fault("timeout", blocks=(8, 16)), blocks=20)
    with RecordWriter.resume(view.path)[0] as writer:
        writer.seal("complete", f"{reason.value}, the first: {ONE}", "")
    (problem,) = plan_problems(load(view.path))
    assert problem == f"it is sealed because every workload failed, and {ONE} did not"
