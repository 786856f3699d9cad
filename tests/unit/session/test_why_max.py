# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `compare --why-max` prints, and which comparisons it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from tools.fuzz_seeds import WAKEUP_ROW

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.session.experiment import resolve
from swapstone.core.session.progress import NO_PROGRESS
from swapstone.core.session.record_handle import Record
from swapstone.core.session.request import parse_factors
from swapstone.parts.explain.model.wakeup_paths import WakeupExplanation
from swapstone.parts.explain.report.wakeup_explanation import document_of
from swapstone.parts.explain.session.why_max import worst_wakeup_documents
from swapstone.parts.explain.session.worst_wakeups import measures_wakeups, require_wakeups
from tests.small_records import request_of

FOUND = msgspec.json.decode(WAKEUP_ROW, type=WakeupExplanation)


class FakeRecord:
    """A record whose explanation is given, or fails."""

    path = "rec a"

    def __init__(self, loads: tuple[str, ...], error: UserError | None = None, runs: int = 1) -> None:
        self.view = SimpleNamespace(runs=(None,) * runs)
        self.experiment = SimpleNamespace(loads=loads)
        self._error = error

    def explain(self, *, metric: str, progress: object) -> object:
        assert metric == "max" and progress is NO_PROGRESS
        if self._error is not None:
            raise self._error
        return SimpleNamespace(document=lambda: document_of(FOUND))


def _documents(*records: FakeRecord) -> list[str]:
    return [str(document) for document in worst_wakeup_documents(cast("list[Record]", list(records)), NO_PROGRESS)]


def test_each_record_with_runs_has_a_document() -> None:
    (one,) = _documents(FakeRecord(("memory",)), FakeRecord(("memory",), runs=0))
    assert "The path that grew: " in one and "another load" not in one
    (several,) = _documents(FakeRecord(("memory", "io")))
    assert "swapstone explain 'rec a' max --load LOAD" in several


def test_why_there_is_no_path_is_printed() -> None:
    (one,) = _documents(FakeRecord(("memory",), UnavailableError("no timer\x1b[31m.", "Try another.")))
    assert "The path of the worst wake-up is unavailable: no timer" in one and "\x1b" not in one


@pytest.mark.parametrize(
    ("suite", "target", "factor", "allowed"),
    [
        ("latency", "vm", "kernel=generic,rt", True),
        ("libc", "vm", "libc=glibc,musl", False),
        ("libc", "host", "libc=glibc,musl", False),
    ],
)
def test_only_wake_ups_on_the_exact_clock_have_a_path(suite: str, target: str, factor: str, *, allowed: bool) -> None:
    request = request_of(name="x", factors=parse_factors([factor]), suites=(suite,), target=target, blocks=2)
    experiment = resolve(request)
    assert measures_wakeups(experiment) is allowed
    if not allowed:
        with pytest.raises(UserError, match="--why-max needs a workload that measures wake-ups"):
            require_wakeups(experiment)
