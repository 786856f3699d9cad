# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often a first run is tried before the session ends, and which first runs end it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swapstone.core.model import CONSOLE, TIMED_OUT, NothingComparableError, Run, Status, Trial
from swapstone.core.run.engine import Engine, reason_of_break
from swapstone.core.targets import TargetError
from swapstone.exit_status import Finding
from tests.unit import builders

GLIBC, MUSL, OTHER, AGAIN = "libc=glibc", "libc=musl", "libc=other", "libc=glibc (again)"


def first_run(status: Status, reason: str = "it crashed", variant: str = GLIBC) -> Run:
    trial = Trial(suite="s", workload="w", load="idle", variant=variant, block=0, position=3)
    return Run(trial=trial, status=status, reason=reason)


def engine(*outcomes: Status | None, refused: tuple[str, ...] = (), **experiment: Any) -> tuple[Any, list[str]]:
    """Return an engine whose further attempts end like this, and the identities of these."""
    made: Any = object.__new__(Engine)
    tried: list[str] = []

    def attempt(trial: Trial, identity: str) -> Any:
        status = outcomes[len(tried)]
        tried.append(identity)
        outcome = None if status is None else SimpleNamespace(judgement=SimpleNamespace(status=status))
        return SimpleNamespace(outcome=outcome)

    made._experiment = builders.experiment(**{"failures_count": True, **experiment})
    made._attempt = attempt
    made._first = {}
    made._writer = SimpleNamespace(path="records/r")
    variants = {label: builders.variant(label) for label in (GLIBC, AGAIN, MUSL, OTHER)}
    made._prepared = SimpleNamespace(variants=variants, refused={("s", "w", label): "why" for label in refused})
    return made, tried


@pytest.mark.parametrize(
    ("status", "reason", "outcomes", "attempts", "tried"),
    [
        (Status.REFUSED, "another level", (), 1, 0),
        (Status.UNAVAILABLE, "not built", (), 1, 0),
        (Status.FAILED, "it crashed", (Status.FAILED, Status.FAILED), 3, 2),
        (Status.FAILED, "it crashed", (None, Status.REFUSED), 3, 2),
        (Status.FAILED, "it crashed", (Status.OK,), 0, 1),
        (Status.FAILED, "it crashed", (Status.FAILED, Status.OK), 0, 2),
        (Status.FAILED, f"{TIMED_OUT} of 60 s", (Status.FAILED,), 2, 1),
        (Status.FAILED, f"{TIMED_OUT} of 60 s", (Status.OK,), 0, 1),
    ],
)
def test_a_failed_first_run_is_tried_three_times_and_after_a_time_out_twice(
    status: Status, reason: str, outcomes: tuple[Status | None, ...], attempts: int, tried: int
) -> None:
    made, identities = engine(*outcomes)
    assert made._attempts_without_success(first_run(status, reason)) == attempts
    assert identities == [f"again-0-3-{number}" for number in range(1, tried + 1)]


def test_in_a_record_from_before_0_2_nothing_is_tried_again() -> None:
    made, identities = engine(failures_count=False)
    assert made._attempts_without_success(first_run(Status.FAILED)) == 1 and identities == []


def ends(made: Any, run: Run, output: bytes = b"printed\n") -> NothingComparableError | None:
    try:
        made._abort_if_incomparable(run, output)
    except NothingComparableError as error:
        return error
    return None


def test_a_baseline_that_is_refused_ends_the_session() -> None:
    made, _ = engine()
    error = ends(made, first_run(Status.REFUSED, "another level was in force"))
    assert error is not None
    assert error.message == "w can't be measured with libc=glibc: another level was in force\nprinted"
    assert error.hint == "The record has its whole output: records/r"
    assert ends(engine()[0], first_run(Status.OK)) is None


def test_a_baseline_that_always_fails_ends_the_session_and_the_hint_names_the_option() -> None:
    made, _ = engine(Status.FAILED, Status.FAILED)
    error = ends(made, first_run(Status.FAILED, "it ended with status 3"))
    assert error is not None
    assert error.message == "w can't be measured with libc=glibc: it ended with status 3 (3 of 3 attempts)\nprinted"
    assert error.hint == "The record has its whole output: records/r. --ignore-failure lets such runs count."


def test_all_candidates_must_be_hopeless() -> None:
    made, _ = engine()
    assert ends(made, first_run(Status.REFUSED, variant=MUSL)) is None
    assert ends(made, first_run(Status.REFUSED, variant=AGAIN)) is None
    assert ends(made, first_run(Status.OK)) is None
    error = ends(made, first_run(Status.REFUSED, variant=OTHER))
    assert error is not None and error.message.startswith("w can't be measured with libc=other: ")


def test_candidates_that_were_not_built_do_not_count() -> None:
    made, _ = engine(refused=(OTHER,))
    assert ends(made, first_run(Status.OK)) is None
    assert ends(made, first_run(Status.REFUSED, variant=MUSL)) is not None


def test_candidates_are_not_blamed_before_the_baseline_works() -> None:
    made, _ = engine(*[Status.FAILED] * 6, refused=(OTHER,))
    assert ends(made, first_run(Status.FAILED, variant=MUSL)) is None
    error = ends(made, first_run(Status.FAILED))
    assert error is not None and error.finding is Finding.BASELINE and GLIBC in error.message
    made, _ = engine(*[Status.FAILED] * 2, refused=(OTHER,))
    assert ends(made, first_run(Status.FAILED, variant=MUSL)) is None
    error = ends(made, first_run(Status.OK))
    assert error is not None and error.finding is Finding.FAILS and MUSL in error.message


def test_the_reason_of_a_break_has_the_consoles_lines_without_what_indents_them() -> None:
    error = TargetError("it is gone", "", console="\n  [1.0] panic  \n\t" + "x" * 300 + "\n")
    assert reason_of_break(error) == f"the target broke: it is gone{CONSOLE} | [1.0] panic | {'x' * 200}"
    assert reason_of_break(TargetError("it is gone", "")) == "the target broke: it is gone"
