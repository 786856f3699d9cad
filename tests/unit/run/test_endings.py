# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reasons for the end of an experiment, in words."""

from __future__ import annotations

import pytest

from swapstone.core.model import Run, Status, Trial
from swapstone.core.plan.stopping import StopReason
from swapstone.core.run.engine import why_complete, why_gone, why_none

GROUP = ("libc", "w", "idle")
ALL_FAILED = "all 3 runs of libc=musl failed"
REFUSED = "1 of 3 runs of libc=musl were refused"


def lost(*reasons: str) -> dict[tuple[str, str, str], str]:
    return {("libc", f"w{number}", "idle"): reason for number, reason in enumerate(reasons)}


@pytest.mark.parametrize(
    ("stop", "reasons", "groups", "expected"),
    [
        ("precise", (), 3, "precise"),
        ("precise", (REFUSED,), 3, f"precise; 1 of 3 workloads can't be compared, the first: w0: {REFUSED}"),
        ("precise", (REFUSED, ALL_FAILED), 3, f"precise; 2 of 3 workloads can't be compared, the first: w0: {REFUSED}"),
        ("everything failed", (ALL_FAILED, ALL_FAILED), 2, "everything failed"),
        ("", (), 2, "no workload is left"),
    ],
)
def test_an_experiment_is_complete(stop: str, reasons: tuple[str, ...], groups: int, expected: str) -> None:
    assert why_complete(stop, lost(*reasons), groups) == expected


@pytest.mark.parametrize(
    ("reasons", "groups", "expected"),
    [
        ((ALL_FAILED,), 2, StopReason.LOST.value),
        ((ALL_FAILED, ALL_FAILED), 2, f"{StopReason.FAILED.value}, the first: w0: {ALL_FAILED}"),
        ((ALL_FAILED, REFUSED), 2, f"{StopReason.INCOMPARABLE.value}, the first: w0: {ALL_FAILED}"),
        ((REFUSED, REFUSED), 2, f"{StopReason.INCOMPARABLE.value}, the first: w0: {REFUSED}"),
    ],
)
def test_no_workload_is_left(reasons: tuple[str, ...], groups: int, expected: str) -> None:
    assert why_none(lost(*reasons), groups) == expected


def ended(*statuses: Status, variant: str = "libc=musl", workload: str = "w", load: str = "idle") -> list[Run]:
    place = {"suite": "libc", "workload": workload, "load": load, "variant": variant}
    return [
        Run(trial=Trial(block=block, position=0, **place), status=status)  # type: ignore[arg-type] # texts
        for block, status in enumerate(statuses)
    ]


OK, FAILED = Status.OK, Status.FAILED


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((FAILED, FAILED, FAILED), ALL_FAILED),
        ((OK, FAILED, Status.REFUSED), REFUSED),
        ((OK, FAILED, FAILED, FAILED), "3 of 4 runs of libc=musl failed, and it was given up"),
    ],
)
def test_a_variant_is_not_run_any_more(statuses: tuple[Status, ...], expected: str) -> None:
    assert why_gone(ended(*statuses), "libc=musl", built=True) == expected
    assert why_gone(ended(*statuses), "libc=musl", built=False) == "libc=musl can't be built or run here"
