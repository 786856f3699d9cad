# SPDX-License-Identifier: MIT OR Apache-2.0
"""Waits have names by what ended them, and foreign load is never a reason."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame
from swapstone.parts.explain.explanation.cost_classes import LOCKS, READY, WAITING, load_classes
from swapstone.parts.explain.explanation.evidence import Sides
from swapstone.parts.explain.explanation.findings import explain
from swapstone.parts.explain.explanation.wait_names import FOREIGN, sleep_name, wait_name
from swapstone.parts.explain.model.explanation import (
    ElapsedTime,
    Explanation,
    InstrumentResult,
    LedgerLine,
    RowMeasurements,
)
from swapstone.parts.explain.model.wait_causes import (
    COMPUTING,
    DELAYED_ACK,
    DISK,
    HAND_OFF,
    IDLE,
    LOAD_GENERATOR,
    LOCK,
    NO_PROCESSOR,
    OWN_THREADS,
    TIMER,
    EndedWaits,
    ProcessorTaken,
)
from swapstone.parts.explain.report import row_explanation
from tests.unit.explanation.test_evidence import profile, result, row

OWN = (Frame(symbol="work", object=OWN_OBJECT),)
READ = (*OWN, Frame(symbol="__x64_sys_read", object=KERNEL))
FUTEX = (*OWN, Frame(symbol="pthread_mutex_lock", object="libc.so.6"), Frame(symbol="__x64_sys_futex", object=KERNEL))
MS = 1e6


def ended(reason: str, total_ms: float, waits: float = 20.0, whose: str = "") -> EndedWaits:
    return EndedWaits(
        reason=reason, whose=whose, waits=waits, total_ns=total_ms * MS, short_ns=40 * MS, long_ns=44 * MS
    )


def measured(
    slow: tuple[EndedWaits, ...] = (),
    fast: tuple[EndedWaits, ...] = (),
    taken: tuple[tuple[str, float], ...] = (),
    taken_before: tuple[tuple[str, float], ...] = (),
    *,
    waits_in: tuple[Frame, ...] = READ,
    off_ns: tuple[float, float] = (900.0, 0.0),
) -> RowMeasurements:
    """Return a row whose candidate takes 1000 ns instead of 100 ns: waiting in read, and without a processor."""
    seen = row((100.0, 1000.0), ({OWN: 1.0}, {OWN: 1.0}))

    def passed(waited: float, ready: float, run: float) -> ElapsedTime:
        waits = profile("off-cpu", {waits_in: waited} if waited else {})
        return ElapsedTime(
            wall_ns=waited + ready + run, running_ns=run, ready_ns=ready, waits=waits, most_threads=1, cpu_ns=run
        )

    runs: list[InstrumentResult] = [
        *seen.runs,
        result("off-cpu", "a", elapsed=passed(0.0, 0.0, 100.0)),
        result("off-cpu", "b", elapsed=passed(*off_ns, 100.0)),
    ]
    if slow or fast or taken:
        had, before = (
            tuple(ProcessorTaken(whose=whose, total_ns=total) for whose, total in each)
            for each in (taken, taken_before)
        )
        runs += [result("waits", "a", waits=fast, taken=before), result("waits", "b", waits=slow, taken=had)]
    sides = [
        msgspec.structs.replace(each, metrics=(("wall", wall), ("cpu", 100.0)))
        for each, wall in zip(seen.references, (100.0, 1000.0), strict=True)
    ]
    place = msgspec.structs.replace(seen.place, metric="wall")
    return msgspec.structs.replace(
        seen, place=place, ledger_metric="wall", references=(sides[0], sides[1]), runs=tuple(runs)
    )


def named(seen: RowMeasurements, cause: str) -> str:
    base, candidate = seen.references
    return wait_name(seen, Sides(candidate, base, swapped=False), cause).how


def explained(seen: RowMeasurements) -> Explanation:
    return explain(seen, load_classes())


def test_nagle_is_named_in_the_answer_with_its_numbers() -> None:
    found = explained(measured((ended(DELAYED_ACK, 800.0), ended(TIMER, 90.0)), (ended(TIMER, 80.0),)))
    (finding,) = found.findings
    assert (finding.cause, finding.how) == ("waiting", "Nagle's algorithm with delayed ACK")
    assert finding.evidence[0] == (
        "20 waits per operation, 800 ms in all threads together, most of them 40 ms to 44 ms long, ended by a delayed ACK, whose timer "
        "released data that Nagle's algorithm had held back (other variant: none)"
    )
    assert "is waiting (Nagle's algorithm with delayed ACK)" in row_explanation.sentence(found)
    assert finding.evidence[0] in found.paragraph


@pytest.mark.parametrize(
    ("slow", "fast", "cause", "expected"),
    [
        ([ended(LOCK, 150, 27, OWN_THREADS), ended(HAND_OFF, 1, 1, OWN_THREADS)], [], LOCKS, "a lock that another thread holds"),
        ([ended(LOCK, 22, 20e3, OWN_THREADS), ended(HAND_OFF, 33, 20e3, OWN_THREADS)], [], LOCKS, "hand-off between threads"),
        ([ended(LOCK, 22, 20e3), ended(HAND_OFF, 25, 20e3)], [ended(HAND_OFF, 28, 20)], LOCKS, "hand-off between threads"),
        ([ended(HAND_OFF, 33, 20e3, OWN_THREADS), ended(LOCK, 22, 20e3, OWN_THREADS)], [], WAITING, "hand-off between threads"),
        ([ended(DISK, 100)], [ended(DISK, 99.99)], WAITING, "disk"),
        ([ended(DISK, 100)], [ended(DISK, 100)], WAITING, ""),  # both variants wait as long
        ([ended(DISK, 100), ended(TIMER, 90), ended(COMPUTING, 80, whose="cc1")], [], WAITING, ""),  # none has half
        ([ended(COMPUTING, 100, whose=LOAD_GENERATOR)], [], WAITING, "until the load generator had computed"),
        ([ended(TIMER, 500), ended(LOCK, 1, 5)], [], LOCKS, "a lock that another thread holds"),  # sleeps are no locks
        ([ended(TIMER, 500)], [], "page faults", ""),
    ],
)  # fmt: skip
def test_names(slow: list[EndedWaits], fast: list[EndedWaits], cause: str, expected: str) -> None:
    assert named(measured(tuple(slow), tuple(fast)), cause) == expected


def test_waits_that_are_much_shorter_than_the_ledgers_do_not_name_it() -> None:
    seen = measured((ended(TIMER, 1e-4),))  # 100 ns of 900 ns
    assert [(each.cause, each.how) for each in explained(seen).findings] == [("waiting", "")]


@pytest.mark.parametrize(
    ("call", "how"),
    [("nanosleep", "sleep or time-out"), ("clock_nanosleep", "sleep or time-out"), ("poll", ""), ("read", "")],
)
def test_a_sleep_is_named_by_its_call_where_no_event_shows_what_ended_it(call: str, how: str) -> None:
    stack = (*OWN, Frame(symbol=f"__x64_sys_{call}", object=KERNEL))
    (finding,) = explained(measured(waits_in=stack)).findings
    assert (finding.cause, finding.how) == ("waiting", how)
    assert ("only a timer or a signal ends this call" in finding.sentence) == bool(how)


def test_a_sleep_that_an_event_shows_keeps_the_name_of_that_event() -> None:
    stack = (*OWN, Frame(symbol="__x64_sys_clock_nanosleep", object=KERNEL))
    (finding,) = explained(measured((ended(DISK, 800.0),), waits_in=stack)).findings
    assert finding.how == "disk"


@pytest.mark.parametrize(("slept", "how"), [(600.0, "sleep or time-out"), (-600.0, "sleep or time-out"), (400.0, None)])
def test_a_sleep_names_a_class_if_it_is_half_of_it(slept: float, how: str | None) -> None:
    other = 1000.0 - slept if slept > 0 else -1000.0 - slept
    lines = [
        LedgerLine(cause=WAITING, detail=detail, baseline=0.0, candidate=value)
        for detail, value in (("in usleep", slept), ("in read", other))
    ]
    found = sleep_name(lines)
    assert (found.how if found else None) == how


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ((("hog", 700.0), (OWN_THREADS, 100.0), (IDLE, 5000.0)), FOREIGN),
        (((OWN_THREADS, 700.0), ("hog", 100.0)), OWN_THREADS),
        (((LOAD_GENERATOR, 700.0), ("hog", 100.0)), LOAD_GENERATOR),
        (((IDLE, 700.0),), ""),
    ],
)
def test_who_had_the_processor(taken: tuple[tuple[str, float], ...], expected: str) -> None:
    assert named(measured(taken=taken), READY) == expected


def test_foreign_load_is_no_finding_and_a_caveat_names_it() -> None:
    found = explained(measured(taken=(("hog", 800.0),), off_ns=(0.0, 900.0)))
    assert found.findings == ()
    assert found.caveats[0].startswith(
        "100 % of the difference is time without a processor; the processor was taken, per operation, by hog for 800 ns: foreign load"
    )


def test_time_without_a_processor_alone_is_no_finding_where_it_is_unknown_who_had_it() -> None:
    found = explained(measured(off_ns=(0.0, 900.0)))
    assert found.findings == ()
    assert "it is unknown who had it" in found.caveats[0]


PING_PONG = (ended(HAND_OFF, 320e-6, 20e3, OWN_THREADS), ended(LOCK, 22e-6, 20e3, OWN_THREADS))


@pytest.mark.parametrize(
    ("taken", "before", "causes"),
    [
        ((("hog", 500.0), (OWN_THREADS, 40.0)), (), ["locks"]),  # foreign load has 540 of 900 ns, and is no reason
        (
            (("hog", 200.0), (OWN_THREADS, 340.0)),
            ((OWN_THREADS, 330.0),),
            ["locks"],
        ),  # its threads had it as long before
        (((OWN_THREADS, 500.0), ("hog", 40.0)), ((OWN_THREADS, 10.0),), ["locks", "no processor"]),
        ((("hog", 500.0),), (("hog", 900.0),), ["locks"]),  # other load was more beside the faster variant
    ],
)
def test_threads_that_take_turns_beside_other_load_are_a_hand_off_first(
    taken: tuple[tuple[str, float], ...], before: tuple[tuple[str, float], ...], causes: list[str]
) -> None:
    seen = measured(PING_PONG, (), taken, before, waits_in=FUTEX, off_ns=(360.0, 540.0))
    found = explained(seen)
    assert [each.cause for each in found.findings] == causes
    assert found.findings[0].how == "hand-off between threads"
    assert "no processor" not in row_explanation.sentence(found).split(" is ")[0]


def test_hand_offs_beside_other_load_come_first_without_the_instrument_that_names_them() -> None:
    found = explained(measured(waits_in=FUTEX, off_ns=(360.0, 540.0)))
    assert [each.cause for each in found.findings] == ["locks", "no processor"]  # it is unknown who had it: last


def test_waiting_for_another_program_without_a_processor_comes_last() -> None:
    waits = (ended(NO_PROCESSOR, 900e-6, whose="daemon"),)
    found = explained(measured(waits, (), off_ns=(700.0, 200.0)))
    assert [(each.cause, each.how) for each in found.findings] == [("waiting", FOREIGN), ("no processor", "")]
    both = explained(measured(waits, (), ((OWN_THREADS, 500.0),), off_ns=(700.0, 200.0)))
    assert [(each.cause, each.how) for each in both.findings] == [("no processor", OWN_THREADS), ("waiting", FOREIGN)]


def test_the_programs_own_threads_are_a_finding() -> None:
    found = explained(measured(taken=((OWN_THREADS, 800.0),), off_ns=(0.0, 900.0)))
    assert [(each.cause, each.how) for each in found.findings] == [("no processor", OWN_THREADS)]


def test_the_table_has_both_variants_and_who_had_the_processor() -> None:
    seen = measured((ended(DELAYED_ACK, 800.0), ended(DISK, 1e-12)), (ended(DELAYED_ACK, 1.0, 2.0),), (("hog", 7.0),))
    assert row_explanation.wait_rows(seen) == [
        (DELAYED_ACK, "", "2", "1 ms", "20", "800 ms"),
        (row_explanation.TAKEN, "hog", "", "0 ns", "", "7 ns"),
    ]
    assert row_explanation.wait_rows(measured()) == []
