# SPDX-License-Identifier: MIT OR Apache-2.0
"""The time of a row by function: how it is divided, and its intervals."""

from __future__ import annotations

import dataclasses
import math
import random

import msgspec
import pytest

from swapstone.core.comparison.profile_difference import NO_STACK, Weights
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.parts.explain.explanation.by_function import answer, by_function, span
from swapstone.parts.explain.explanation.row_answer import explain_measurements as explain
from swapstone.parts.explain.explanation.time_split import LEAST_RUNS, TimeSplit, time_split
from swapstone.parts.explain.model.explanation import (
    ElapsedTime,
    MissingInstrument,
    RowMeasurements,
)
from tests.unit.explanation.rows import (
    BASE,
    CANDIDATE,
    FREE,
    OWN,
    READ,
    SLEEP,
    Stack,
    drawn,
    elapsed,
    noisy,
    profile,
    reference,
    result,
    row,
)

WORK, NANOSLEEP = OWN[-1], Frame(symbol="__x64_sys_nanosleep", object=KERNEL)
FUTEX = Frame(symbol="__x64_sys_futex", object=KERNEL)


def split_of(seen: RowMeasurements) -> TimeSplit:
    found = time_split(seen)
    assert found is not None
    return found


def inclusive(found: TimeSplit) -> dict[str, object]:
    return {
        one.frame.symbol: pytest.approx((one.inclusive.baseline, one.inclusive.candidate))
        for one in found.functions.frames
    }


def waiting_row(before: ElapsedTime, after: ElapsedTime, *times: tuple[float, float]) -> RowMeasurements:
    """Return a row of elapsed time, of the (wall, cpu) of each side."""
    seen = row(
        ([{OWN: 100}], [times[0][0]]),
        ([{OWN: 50, FREE: 40, (*OWN, Frame(symbol="[unknown]", object="libc.so")): 10}], [times[1][0]]),
        result("off-cpu", BASE, elapsed=before),
        result("off-cpu", CANDIDATE, elapsed=after),
        metric="wall",
    )
    sides = [reference(name, [wall], [cpu]) for name, (wall, cpu) in zip((BASE, CANDIDATE), times, strict=True)]
    return msgspec.structs.replace(seen, references=(sides[0], sides[1]))


def test_elapsed_time_is_divided_into_running_waiting_and_ready() -> None:
    seen = waiting_row(
        elapsed([{SLEEP: 5}], 95.0), elapsed([{SLEEP: 30}], 60.0, 1e4), (1000.0, 900.0), (3000.0, 2000.0)
    )
    found = split_of(seen)
    assert inclusive(found) == {
        "main": (1000.0, 2750.0),
        "work": (1000.0, 2750.0),
        "free": (0.0, 800.0),
        "below work": (0.0, 200.0),
        "__x64_sys_nanosleep": (100.0, 750.0),
    }
    assert found.functions.total.candidate == pytest.approx(2750.0)
    assert found.ready.candidate == pytest.approx(250.0) and found.recorded == Weights(1000.0, 3000.0)
    assert found.waits[NANOSLEEP] == found.waits[WORK] == pytest.approx(650.0)
    assert Frame(symbol="free", object="libc.so") not in found.waits


def test_with_several_threads_the_recording_divides_the_time() -> None:
    # Without an instrument 24 ns of processor time in 20 ns; half of it is elapsed time too, as the recording shows.
    lock = (*OWN, FUTEX)
    seen = waiting_row(
        elapsed([{}], 1000.0, threads=2, cpu_ns=2000.0),
        elapsed([{lock: 0.15, SLEEP: 0.05}], 800.0, threads=2, cpu_ns=1600.0),
        (10.0, 20.0),
        (20.0, 24.0),
    )
    found = split_of(seen)
    assert inclusive(found)["free"] == (0.0, 4.8)  # 40 % of the 12 ns in which a thread ran
    assert inclusive(found)["__x64_sys_futex"] == (0.0, 6.0)
    assert inclusive(found)["__x64_sys_nanosleep"] == (0.0, 2.0)
    assert any("divided among the threads" in note for note in found.notes)
    stale = msgspec.structs.replace(seen.runs[-1].elapsed, cpu_ns=0.0) if seen.runs[-1].elapsed else None
    old = msgspec.structs.replace(seen, runs=(*seen.runs[:-1], msgspec.structs.replace(seen.runs[-1], elapsed=stale)))
    assert any("waits have no function" in note for note in split_of(old).notes)


def test_without_an_off_cpu_profile_the_rest_has_no_stack() -> None:
    seen = waiting_row(elapsed([{}], 1.0), elapsed([{}], 1.0), (100.0, 100.0), (300.0, 100.0))
    for runs in (seen.runs, seen.runs[:2]):
        found = split_of(msgspec.structs.replace(seen, runs=runs))
        assert inclusive(found)[NO_STACK.symbol] == (0.0, 200.0)
        assert any("waits have no function" in note for note in found.notes) is (len(runs) == 2)
        assert found.functions.leading() == ()


def test_processor_time_is_divided_by_the_profile_alone() -> None:
    seen = row(
        ([{OWN: 1}], [100.0]),
        ([{OWN: 1, FREE: 3}], [400.0]),
        result("off-cpu", BASE, elapsed=elapsed([{SLEEP: 9}], 1.0)),
    )
    found = split_of(seen)
    assert inclusive(found) == {"main": (100.0, 400.0), "work": (100.0, 400.0), "free": (0.0, 300.0)}
    assert [one.frame.symbol for one in found.functions.leading()] == ["free"]


def test_the_recorded_times_stand_beside_those_of_the_runs_now() -> None:
    seen = row(([{OWN: 1}], [100.0]), ([{FREE: 1}], [400.0]))
    assert split_of(seen).recorded == Weights(100.0, 400.0)
    moved = tuple(msgspec.structs.replace(each, time_ns=each.time_ns and 3 * each.time_ns) for each in seen.references)
    found = split_of(msgspec.structs.replace(seen, references=moved))
    assert (found.recorded, found.functions.total) == (Weights(300.0, 1200.0), Weights(100.0, 400.0))
    rate = tuple(msgspec.structs.replace(each, time_ns=None) for each in seen.references)
    assert split_of(msgspec.structs.replace(seen, references=rate)).recorded == Weights(100.0, 400.0)


def test_functions_of_two_libraries_that_do_the_same_work_are_one() -> None:
    strchr = (*OWN, Frame(symbol="__strchr_avx2", object="libc.so.6"))
    other = (
        *OWN,
        Frame(symbol="strchr", object="ld-musl-x86_64.so.1"),
        Frame(symbol="__strchrnul", object="ld-musl-x86_64.so.1"),
    )
    found = split_of(row(([{strchr: 1}], [100.0]), ([{other: 1}], [400.0])))
    assert inclusive(found)["strchr"] == (100.0, 400.0)


def test_the_entry_into_the_kernel_belongs_to_the_system_call_of_its_wrapper() -> None:
    wrapper = (*OWN, Frame(symbol="__GI___getppid", object="libc.so.6"))
    entry = (*wrapper, Frame(symbol="entry_SYSCALL_64_after_hwframe", object=KERNEL))
    inside = (*entry, Frame(symbol="do_syscall_64", object=KERNEL), Frame(symbol="__x64_sys_getppid", object=KERNEL))
    found = split_of(row(([{OWN: 1}], [100.0]), ([{OWN: 1, wrapper: 1, entry: 1, inside: 1}], [400.0])))
    assert inclusive(found)["__x64_sys_getppid"] == (0.0, 300.0)
    assert "getppid" not in inclusive(found) and "do_syscall_64" not in inclusive(found)


def test_an_entry_by_syscall_belongs_to_the_call_that_the_same_callers_make_most() -> None:
    by_number = (*OWN, Frame(symbol="syscall", object="libc.so.6"))
    entry = (*by_number, Frame(symbol="entry_SYSCALL_64_after_hwframe", object=KERNEL))
    often, seldom = ((*entry, Frame(symbol=f"__x64_sys_{name}", object=KERNEL)) for name in ("getppid", "getuid"))
    other = (OWN[0], *by_number[-1:])
    after = {OWN: 1.0, by_number: 1.0, entry: 1.0, often: 3.0, seldom: 1.0, other: 1.0}
    found = split_of(row(([{OWN: 1.0}], [100.0]), ([after], [800.0])))
    assert inclusive(found)["__x64_sys_getppid"] == (0.0, 500.0)
    assert inclusive(found)["__x64_sys_getuid"] == (0.0, 100.0)
    assert inclusive(found)["syscall"] == (0.0, 100.0)


def test_a_planted_cause_has_an_interval_with_its_difference_and_leads() -> None:
    chance = random.Random(1)
    base = (drawn(chance, {OWN: 1.0}), noisy(chance, 1e6))
    found = split_of(row(base, (drawn(chance, {OWN: 0.5, FREE: 0.5}), noisy(chance, 2e6))))
    (one,) = found.functions.leading()
    assert one.frame.symbol == "free" and one.interval is not None and found.interval is not None
    assert 0.7e6 < one.interval[0] < 1e6 < one.interval[1] < 1.3e6
    assert 0.9e6 < found.interval[0] < 1e6 < found.interval[1] < 1.1e6
    assert found.samples == (1200, 1200)


def test_the_share_that_functions_have_together_decides_and_not_the_width_of_their_times() -> None:
    chance = random.Random(3)
    times = [2e6 * chance.gauss(1.0, 0.2) for _ in range(10)]
    after: dict[Stack, float] = {OWN: 0.05, FREE: 0.53, READ: 0.42}
    base = drawn(chance, {OWN: 1.0}), noisy(chance, 1e5)
    found = split_of(row(base, (drawn(chance, after, samples=1500), times))).functions
    leading = found.leading()
    assert {one.frame.symbol for one in leading} == {"free", "__x64_sys_read"}
    whole, frames = found.total.difference, [one.frame for one in leading]
    lows = sum(one.interval[0] / whole for one in leading if one.interval)
    assert found.share_interval is not None and lows < 0.8 <= found.share_interval(frames)[0] < 1.0, (
        "their errors have one cause"
    )
    assert found.share_interval([Frame(symbol="other", object=OWN_OBJECT)]) == (-math.inf, math.inf)
    printed = by_function(found)
    alone = [found.share_interval([frame]) for frame in frames]
    assert printed.shares == (*alone, found.share_interval(frames))
    assert answer("x", printed).endswith(f"; together 100 % ({span(printed.shares[-1])}).")
    assert f"of the difference ({span(alone[0])})" in answer("x", printed)
    doubtful = dataclasses.replace(found, share_interval=lambda _: (0.79, 1.0))
    assert doubtful.leading() == ()


def test_a_function_whose_share_is_known_leads_though_the_whole_difference_is_not_known_well() -> None:
    """On a busy machine the times of runs vary by half, and each profile has nothing but strlen."""
    chance = random.Random(4)
    base = drawn(chance, {OWN: 0.02, FREE: 0.98}), [1e6 * chance.gauss(1.0, 0.2) for _ in range(10)]
    other = drawn(chance, {OWN: 0.01, FREE: 0.99}), [1e6 * chance.gauss(2.0, 0.5) for _ in range(10)]
    found = split_of(row(base, other))
    (one,) = found.functions.leading()
    assert one.frame.symbol == "free" and one.interval is not None and one.interval[0] < 0 < one.interval[1]
    assert found.is_decided and one.has_share
    text = answer("x", by_function(found.functions, named=False))
    assert text == "x: no functions are shown to have 80 % of the difference."


def test_a_function_that_one_run_alone_has_does_not_lead() -> None:
    chance = random.Random(2)
    few = [*drawn(chance, {OWN: 1.0}, samples=4)]
    few[0] = {FREE: 4}
    found = split_of(row((drawn(chance, {OWN: 1.0}, samples=4), noisy(chance, 1e6)), (few, noisy(chance, 1.12e6))))
    one = next(each for each in found.functions.frames if each.frame.symbol == "free")
    assert one.inclusive.difference > 0.8 * found.functions.total.difference
    assert one.interval is not None and one.interval[0] < 0
    assert "free" not in [each.frame.symbol for each in found.functions.leading()]


def test_equal_counts_in_all_runs_are_no_proof_of_an_exact_share() -> None:
    alike = [{OWN: 3, FREE: 1}] * 8
    found = split_of(row(([{OWN: 4}] * 8, [1e6] * 8), (alike, [1.3e6] * 8)))
    one = next(each for each in found.functions.frames if each.frame.symbol == "free")
    assert one.interval is not None
    # 8 of 32 samples: the standard error of the share is 0.077, of 1.3 ms 0.1 ms
    assert one.interval[1] - one.interval[0] > 4 * 0.0995e6


def test_waits_have_intervals_too() -> None:
    chance = random.Random(5)
    runs = drawn(chance, {OWN: 1.0})
    seen = row((runs, noisy(chance, 1e6)), (runs, noisy(chance, 3e6)), metric="wall")
    # The processor time stays 1 ms; the candidate sleeps for two thirds of its time.
    sides = [reference(each.variant, dict(each.values)["wall"], [1e6] * 10) for each in seen.references]
    waits = [
        result("off-cpu", name, elapsed=elapsed([{SLEEP: slept}] * 8 if slept else [{}] * 8, 1e6))
        for name, slept in ((BASE, 0), (CANDIDATE, 2000))
    ]
    found = split_of(msgspec.structs.replace(seen, references=(sides[0], sides[1]), runs=(*seen.runs, *waits)))
    (one,) = found.functions.leading()
    assert one.frame == NANOSLEEP and one.interval is not None
    assert 1e6 < one.interval[0] < 2e6 < one.interval[1] < 3e6


@pytest.mark.parametrize("seed", range(12))
def test_in_nulls_nothing_leads(seed: int) -> None:
    chance = random.Random(100 + seed)
    shares = {OWN: 0.6, FREE: 0.3, READ: 0.1}
    sides = [(drawn(chance, shares), noisy(chance, 1e6)) for _ in range(2)]
    found = explain(row(sides[0], sides[1]))  # as if the record had a difference
    assert found.time is not None and found.time.leading == 0 and found.evidence == ()


def test_too_few_runs_have_no_intervals() -> None:
    chance = random.Random(6)
    few = LEAST_RUNS - 1
    sides = (drawn(chance, {OWN: 1.0}, few), noisy(chance, 1e6)), (drawn(chance, {FREE: 1.0}, few), noisy(chance, 2e6))
    found = split_of(row(*sides))
    assert found.interval is None and all(one.interval is None for one in found.functions.frames)
    assert any("no intervals" in text for text in explain(row(*sides)).unknown)


@pytest.mark.parametrize("metric", ["cpu", "wall"])
@pytest.mark.parametrize("kept", [(), (("wall", (1.0,) * 8),), (("cpu", (1.0,) * 8), ("wall", (1.0,) * 9))])
def test_times_that_were_not_kept_of_each_run_have_no_intervals(
    metric: str, kept: tuple[tuple[str, tuple[float, ...]], ...]
) -> None:
    chance = random.Random(6)
    sides = [(drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)) for _ in range(2)]
    seen = row(sides[0], sides[1], metric=metric)
    stored = tuple(msgspec.structs.replace(each, values=kept) for each in seen.references)
    found = split_of(msgspec.structs.replace(seen, references=(stored[0], stored[1])))
    assert (found.interval is None) is (metric == "wall" or len(kept) < 2)


def test_the_same_evidence_has_the_same_intervals() -> None:
    chance = random.Random(7)
    seen = row((drawn(chance, {OWN: 1.0}), noisy(chance, 1e6)), (drawn(chance, {FREE: 1.0}), noisy(chance, 2e6)))
    assert time_split(seen) == time_split(seen)


def test_measurements_are_stored_under_the_field_names_of_the_format() -> None:
    missing = (MissingInstrument(instrument="on-cpu", reason="no perf", remedy="sudo sysctl x"),)
    stored = msgspec.structs.replace(
        row(([{OWN: 1}], [1.0]), ([{OWN: 1}], [2.0]), result("off-cpu", BASE, elapsed=elapsed([{SLEEP: 5}], 95.0))),
        missing=missing,
    )
    encoded = stored.encoded()
    assert b'"passing":{' in encoded and b'"mend":"sudo sysctl x"' in encoded
    assert msgspec.json.decode(encoded, type=RowMeasurements) == stored


@pytest.mark.parametrize(
    ("symbols", "left"),
    [
        (
            ("__x64_sys_munmap", "__vm_munmap", "rwsem_down_write_slowpath"),
            ("__x64_sys_munmap", "rwsem_down_write_slowpath"),
        ),
        (("asm_exc_page_fault", "handle_mm_fault", "folio_wait_bit_common"), ("asm_exc_page_fault",)),
        (("__x64_sys_epoll_pwait", "do_epoll_wait", "schedule"), ("__x64_sys_epoll_wait",)),
        (("__x64_sys_clock_nanosleep", "do_nanosleep", "schedule"), ("__x64_sys_nanosleep",)),
    ],
)
def test_waits_are_without_the_functions_of_the_scheduler(symbols: tuple[str, ...], left: tuple[str, ...]) -> None:
    frames = tuple(Frame(symbol=name, object=KERNEL) for name in ("do_syscall_64", *symbols))
    seen = waiting_row(
        elapsed([{}], 1.0),
        elapsed([{(Frame(symbol="main", object=OWN_OBJECT), *frames): 9}], 1.0),
        (10.0, 10.0),
        (20.0, 10.0),
    )
    found = split_of(seen)
    assert {frame.symbol for frame, waits in found.waits.items() if waits > 0} == {"main", *left}
    assert profile([{frames: 1}]).frames == frames
