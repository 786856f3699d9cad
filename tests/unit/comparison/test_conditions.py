# SPDX-License-Identifier: MIT OR Apache-2.0
"""Caveats for runs with other conditions, and for time in which nothing ran."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swapstone.core.comparison.conditions import FEWEST_RUNS, SET_NS, STILL_NS, check
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import BOOT_ORDER, CURRENT_RULES, VIRTUAL_CLOCK, Caveat, CaveatKind, Status, Variant

BASE, CANDIDATE = "libc=glibc", "libc=musl"
BLOCKS = 8
QUIET = {
    "wall_ns": 100_000_000,
    "user_us": 80_000,
    "system_us": 10_000,
    "run_delay_ns": 1_000_000,
    "late_ns": 100_000,
    "nice": 0,
    "cpus_allowed": 1,
    "agent_cpus": 2,
    "agent_cpu_bits": 3,
    "agent_nice": 0,
    "agent_policy": 0,
    "agent_limits_crc": 5,
    "changed_conditions": 0,
}


def fill(bench: Any, **changes: dict[str, int | None]) -> Any:
    """Lay out runs; `changes` are named by variant and block, e.g. ``glibc_3``, or by a variant alone."""
    bench.rules = CURRENT_RULES
    bench.workload("w", "wall", "cpu")
    for block in range(BLOCKS + 1):
        for variant in (BASE, CANDIDATE):
            level = variant.partition("=")[2]
            facts: dict[str, int | None] = {**QUIET, **changes.get(level, {}), **changes.get(f"{level}_{block}", {})}
            bench.run("w", variant, block, wall=1e8, cpu=9e7)
            known = tuple((name, value) for name, value in facts.items() if value is not None)
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=known)
    return bench


def caveats(bench: Any, **experiment: object) -> tuple[Caveat, ...]:
    changed = msgspec.structs.replace(bench.experiment, **experiment)
    variants = tuple(Variant(levels=(("libc", level),)) for level in bench.levels)
    return check(changed, variants, bench.workloads, as_table(bench.runs)).caveats


def only(bench: Any) -> str:
    (found,) = caveats(bench)
    assert found.kind is CaveatKind.CHANGED_CONDITIONS
    assert found.hint
    return found.message


def test_equal_conditions_have_no_caveat(bench: Any) -> None:
    assert caveats(fill(bench)) == ()
    assert not [each for each in bench.analysis().caveats if each.kind is CaveatKind.CHANGED_CONDITIONS]


def test_kernels_that_a_board_boots_have_conditions_of_their_own(bench: Any) -> None:
    """The resource limits that a kernel sets are no change of the conditions: they are part of what is compared."""
    found = fill(bench, musl={"agent_limits_crc": 6}, musl_5={"agent_limits_crc": 6, "agent_nice": 5})
    (one,) = caveats(found, order=BOOT_ORDER)
    assert "not the same in all runs: 1 of 18 differ from the first one of their variant. In block 5" in one.message
    assert "limits" not in one.message
    (other,) = caveats(found)
    assert "9 of 18 differ from the first one. In block" in other.message


def test_the_caveat_is_in_the_analysis(bench: Any) -> None:
    found = fill(bench, musl_4={"agent_nice": 5}).analysis().caveats
    assert [each.kind for each in found if each.kind is CaveatKind.CHANGED_CONDITIONS] == [
        CaveatKind.CHANGED_CONDITIONS
    ]


@pytest.mark.parametrize("status", [Status.OK, Status.REFUSED, Status.FAILED])
def test_runs_that_inherit_something_else_are_counted_whatever_their_status(bench: Any, status: Status) -> None:
    fill(bench, musl_4={"agent_cpus": 1, "agent_cpu_bits": 1}, musl_5={"agent_cpus": 1, "agent_cpu_bits": 2})
    bench.runs = [
        msgspec.structs.replace(run, status=status) if dict(run.facts)["agent_cpus"] == 1 else run for run in bench.runs
    ]
    assert only(bench) == (
        "What trials inherit was not the same in all runs: 2 of 18 differ from the first one. In block 4 of w with libc=musl: "
        "the number of processors (1, first 2)."
    )


def test_conditions_that_only_some_runs_have_differ(bench: Any) -> None:
    assert "the CPU quota of the cgroup (0.25 processors, first none)" in only(
        fill(bench, glibc_7={"cpu_quota_milli": 250})
    )


def test_runs_of_earlier_versions_have_no_conditions(bench: Any) -> None:
    old: dict[str, int | None] = {name: None for name in QUIET if name.startswith(("agent_", "late", "changed"))}
    assert caveats(fill(bench, glibc=old, musl=old)) == ()


@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("nice", 5, "the nice value: 0 (libc=glibc), 5 (libc=musl)"),
        ("cpus_allowed", 2, "the number of processors: 1 (libc=glibc), 2 (libc=musl)"),
    ],
)
def test_variants_that_end_with_other_values_are_named(bench: Any, fact: str, value: int, words: str) -> None:
    assert only(fill(bench, musl={fact: value})) == f"Runs of w ended with different values of {words}."


def test_a_variant_with_two_values_is_named(bench: Any) -> None:
    assert "1 (libc=glibc), 1 or 2 (libc=musl)" in only(fill(bench, musl_3={"cpus_allowed": 2}))


def test_failed_runs_are_not_compared_by_their_ends(bench: Any) -> None:
    fill(bench, musl_3={"cpus_allowed": 2})
    bench.runs = [
        msgspec.structs.replace(run, status=Status.FAILED) if dict(run.facts)["cpus_allowed"] == 2 else run
        for run in bench.runs
    ]
    assert caveats(bench) == ()


def test_a_run_in_which_nothing_ran_for_long_is_named(bench: Any) -> None:
    message = only(fill(bench, glibc_5={"wall_ns": 20_475_000_000}))
    assert message == (
        "In one run a program did not run, and its main thread did not wait for a processor, for much longer than usual: in block 5 of w "
        "with libc=glibc for 20.4 s, at the median for 0.009 s."
    )


@pytest.mark.parametrize(
    "slow",
    [
        {"wall_ns": 20_475_000_000, "user_us": 20_400_000},  # it ran
        {"wall_ns": 20_475_000_000, "run_delay_ns": 20_400_000_000},  # it waited for a processor
        {"wall_ns": 100_000_000 + STILL_NS},  # the median is 9 ms; one second more
        {"wall_ns": 20_475_000_000, "run_delay_ns": None},
    ],
)
def test_time_that_is_explained_or_short_has_no_caveat(bench: Any, slow: dict[str, int | None]) -> None:
    assert caveats(fill(bench, glibc_5=slow)) == ()


def test_a_program_that_sleeps_in_every_run_has_no_caveat(bench: Any) -> None:
    slow: dict[str, int | None] = {"wall_ns": 3_000_000_000}
    assert caveats(fill(bench, glibc=slow, musl=slow, glibc_5={"wall_ns": 29_000_000_000})) == ()
    assert "29.9 s" in only(fill(type(bench)(), glibc=slow, musl=slow, glibc_5={"wall_ns": 30_000_000_000}))


def test_few_runs_have_no_median(bench: Any) -> None:
    fill(bench, glibc_1={"wall_ns": 20_475_000_000})
    bench.runs = [run for run in bench.runs if run.trial.block < FEWEST_RUNS - 1]
    assert caveats(bench) == ()


def test_a_late_timer_of_the_agent_is_named(bench: Any) -> None:
    message = only(fill(bench, musl_2={"late_ns": STILL_NS}, musl_6={"late_ns": 19_300_000_000}))
    assert (
        message
        == "In 2 runs a timer woke the agent more than a second too late: in block 6 of w with libc=musl 19.3 s."
    )
    assert caveats(fill(type(bench)(), musl_2={"late_ns": STILL_NS - 1})) == ()


def test_conditions_on_the_virtual_clock_are_not_compared(bench: Any) -> None:
    fill(bench, musl_4={"agent_limits_crc": 6, "late_ns": 2 * STILL_NS})
    assert len(caveats(bench)) == 2
    assert caveats(bench, clock=VIRTUAL_CLOCK) == ()


@pytest.mark.parametrize(("step", "words"), [(3_600_000_000_000, "3.6e+03 s forward"), (-2_000_000_000, "2 s back")])
def test_a_clock_that_was_set_during_a_run_is_a_caveat(bench: Any, step: int, words: str) -> None:
    message = only(fill(bench, musl_2={"clock_step_ns": step}, musl_6={"clock_step_ns": -SET_NS}))
    assert message == (
        f"The clock of the machine was set during 2 runs, as NTP does: in block 2 of w with libc=musl by {words}. Durations are of "
        "CLOCK_MONOTONIC, which that does not change."
    )


@pytest.mark.parametrize("step", [0, SET_NS - 1, 1 - SET_NS])
def test_a_clock_that_was_not_set_is_none(bench: Any, step: int) -> None:
    assert caveats(fill(bench, musl_2={"clock_step_ns": step})) == ()


@pytest.mark.parametrize("step", [2**63 - 1, 1 - 2**63])
def test_a_step_of_any_size_can_be_stated(bench: Any, step: int) -> None:
    assert "by 9.22e+09 s" in only(fill(bench, musl_2={"clock_step_ns": step}))
