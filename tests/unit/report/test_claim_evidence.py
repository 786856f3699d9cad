# SPDX-License-Identifier: MIT OR Apache-2.0
"""Claims that a record's time series and stored stacks decide: each can hold, fail and stay undecided."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit import builders
from tests.unit.explanation.rows import OWN, profile, result, row
from tests.unit.report.test_claim_verdicts import claim
from tests.unit.report.test_published_differences import record

from swapstone.core.model import TimeSeries
from swapstone.core.model.profile import Frame
from swapstone.parts.explain.model.explanation import RowKey, RowMeasurements
from swapstone.parts.explain.session.explanation_files import evidence_of
from swapstone.parts.published.report.claim_verdicts import ClaimVerdict, JudgedClaim, judge
from swapstone.parts.published.report.measured import Analysed

ALGORITHMS = ("lzo-rle", "lz4", "zstd")
FREE = (*OWN, Frame(symbol="__munmap", object="libc.so"))
IDLE = (*OWN, Frame(symbol="epoll_wait", object="libc.so"))


def judged(name: str, made: Analysed) -> JudgedClaim:
    (found,) = judge([claim(name)], [made])
    return found


def filled(zram: float, *, algorithms: tuple[str, ...] = ALGORITHMS) -> Analysed:
    """Return a record whose seconds have 10 % of the kernel's time on average with flash, and `zram` % with zram."""
    shares = {"flash": (0.0, 20.0), **{f"zram:{each}": (zram, zram, zram) for each in algorithms}}
    series = tuple(
        TimeSeries(
            suite="swap",
            workload="fill (50 % random)",
            load="idle",
            variant=builders.variant(f"swap={level}"),
            block=1,
            series=(("us", tuple(1.0 for _ in values)), ("sy", values)),
        )
        for level, values in shares.items()
    )
    made = record()
    return msgspec.structs.replace(made, analysis=msgspec.structs.replace(made.analysis, time_series=series))


def test_the_means_of_a_runs_seconds_are_compared() -> None:
    found = judged("zram-some-cpu", filled(90.0))
    assert found.verdict is ClaimVerdict.HOLDS
    assert "90.0 % on average over the seconds of a run with swap=zram:lzo-rle, 10.0 % with swap=flash" in (
        found.evidence[0].text
    )
    assert judged("zram-some-cpu", filled(10.5)).verdict is ClaimVerdict.FAILS
    assert judged("zram-some-cpu", filled(90.0, algorithms=("lz4",))).verdict is ClaimVerdict.UNDECIDED
    assert judged("zram-some-cpu", record()).verdict is ClaimVerdict.ABSENT


def profiled(busy: float, *, instrument: str = "off-cpu", variant: str = "libc=musl,allocator=default") -> Analysed:
    """Return a record with a row of which `busy` of 10 ns are under munmap."""
    return stored(_profiled(busy, instrument, variant))


def stored(*rows: RowMeasurements) -> Analysed:
    return msgspec.structs.replace(record(), stored=evidence_of(rows))


def _profiled(busy: float, instrument: str, variant: str) -> RowMeasurements:
    stacks: dict[tuple[Frame, ...], float] = {FREE: busy, IDLE: 10.0 - busy}
    seen = row(([{OWN: 1.0}], [1.0]), ([{OWN: 1.0}], [1.0]))
    place = RowKey(
        suite="server", workload="http(c=10,t=1)", load="idle", metric="requests", baseline="a", candidate=variant
    )
    run = result(instrument, variant, profile=profile([stacks], instrument))
    return msgspec.structs.replace(seen, place=place, runs=(run,))


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (profiled(6.0), ClaimVerdict.HOLDS),
        (profiled(4.0), ClaimVerdict.FAILS),
        (profiled(6.0, instrument="on-cpu"), ClaimVerdict.ABSENT),
        (profiled(6.0, variant="libc=musl,allocator=mimalloc"), ClaimVerdict.ABSENT),
        (profiled(6.0, variant="allocator=default,libc=musl"), ClaimVerdict.HOLDS),
    ],
    ids=["most waits", "few waits", "another profile", "another variant", "another order of factors"],
)
def test_a_share_of_the_stacks_decides(made: Analysed, verdict: ClaimVerdict) -> None:
    assert judged("musl-munmap", made).verdict is verdict


def test_the_functions_and_the_share_are_printed() -> None:
    found = judged("musl-munmap", profiled(6.0))
    assert [each.text for each in found.evidence] == [
        "http(c=10,t=1), libc=musl,allocator=default: 60 % of the waits in munmap or __munmap or enframe, and what they call"
    ]


def test_a_profile_without_weight_decides_nothing() -> None:
    empty = result("off-cpu", "libc=musl,allocator=default", profile=profile([{}], "off-cpu"))
    bare = msgspec.structs.replace(_profiled(6.0, "off-cpu", "libc=musl,allocator=default"), runs=(empty,))
    assert judged("musl-munmap", stored(bare)).verdict is ClaimVerdict.ABSENT
