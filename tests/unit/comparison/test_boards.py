# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boards: caveats for lost connections, reboots, throttling and heat, and no pairs across a reboot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import CURRENT_RULES, VIRTUAL_CLOCK, Status, Variant
from swapstone.parts.boards.comparison.boards import check

BASE, CANDIDATE = "libc=glibc", "libc=musl"


def fill(bench: Any, **changes: dict[str, int]) -> Any:
    """Lay out runs of four blocks; `changes` are named by variant and block, e.g. ``glibc_3``."""
    bench.rules = CURRENT_RULES
    bench.workload("w", "wall", "cpu")
    for block in range(1, 5):
        for variant in (BASE, CANDIDATE):
            bench.run("w", variant, block, wall=1e8, cpu=9e7)
            facts = tuple(changes.get(f"{variant.partition('=')[2]}_{block}", {}).items())
            bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], facts=facts)
    return bench


def messages(bench: Any, **experiment: object) -> list[str]:
    changed = msgspec.structs.replace(bench.experiment, **experiment)
    variants = tuple(Variant(levels=(("libc", level),)) for level in bench.levels)
    return [caveat.message for caveat in check(changed, variants, bench.workloads, as_table(bench.runs)).caveats]


def test_runs_without_such_facts_have_no_caveat(bench: Any) -> None:
    assert messages(fill(bench)) == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"reconnects": 1}, "The connection to the board ended during one trial, which was made again."),
        ({"board_boots": 2}, "The board rebooted 2 times between runs: a comparison pairs runs of one boot only."),
        (
            {"board_throttled_before": 4, "board_throttled_after": 5},
            "The board was throttled during 1 of 1 runs: its clock rate was lowered because of heat or voltage.",
        ),
        ({"board_throttled_before": 5, "board_throttled_after": 5}, ""),
        ({"board_throttle_bits_before": 0, "board_throttle_bits_after": 0}, ""),
        (
            {"board_throttle_bits_before": 4, "board_throttle_bits_after": 4},
            "The board was throttled during 1 of 1 runs: its clock rate was lowered because of heat or voltage.",
        ),
        ({"board_frequency_after": 1_500_000}, ""),
        ({"board_temperature_after": 50_000}, ""),
        ({"reconnects": 2**60}, ""),
        (
            {"board_emulated": 1},
            "The board is emulated: every duration is that of the emulator on this machine. It is no estimate for a real board, "
            "and neither are the ratios.",
        ),
    ],
)
def test_one_run(bench: Any, facts: dict[str, int], message: str) -> None:
    assert messages(fill(bench, musl_2=facts)) == ([message] if message else [])
    assert messages(bench, clock=VIRTUAL_CLOCK) == []


def test_only_differences_between_runs_are_reported(bench: Any) -> None:
    cold = {"board_frequency_after": 1_500_000, "board_temperature_after": 41_000}
    hot = {"board_frequency_after": 600_000, "board_temperature_after": 82_500}
    fill(bench, glibc_1=cold, musl_1=cold, glibc_2=hot)
    assert messages(bench) == [
        "The board's clock rate was not the same at the ends of all runs: 600 to 1500 MHz.",
        "The board's temperature at the ends of runs was between 41 and 82 degrees Celsius.",
    ]


def test_small_differences_are_not(bench: Any) -> None:
    first = {"board_frequency_after": 1_000_000, "board_temperature_after": 41_000}
    last = {"board_frequency_after": 1_019_000, "board_temperature_after": 50_000}
    assert messages(fill(bench, glibc_1=first, musl_4=last)) == []


def test_connections_reboots_and_throttled_runs_are_counted(bench: Any) -> None:
    throttled = {"board_throttled_before": 4, "board_throttled_after": 5}
    fill(bench, musl_1={"reconnects": 1}, glibc_3={"reconnects": 3, "board_boots": 1}, musl_4=throttled)
    bench.runs[0] = msgspec.structs.replace(bench.runs[0], facts=(("board_throttled_after", 9),))  # one end alone
    assert messages(bench) == [
        "The connection to the board ended during 2 trials, which were made again.",
        "The board rebooted once between runs: a comparison pairs runs of one boot only.",
        "The board was throttled during 1 of 1 runs: its clock rate was lowered because of heat or voltage.",
    ]


def test_a_failed_run_shows_nothing_of_the_board(bench: Any) -> None:
    fill(bench, musl_1={"reconnects": 1, "board_boots": 1, "board_emulated": 1})
    (number,) = (number for number, run in enumerate(bench.runs) if run.facts)
    bench.runs[number] = msgspec.structs.replace(bench.runs[number], status=Status.FAILED)
    assert messages(bench) == []


@pytest.mark.parametrize(
    ("name", "first", "last", "named"),
    [
        ("board_frequency_after", 1_000_000, 1_020_000, False),
        ("board_frequency_after", 1_000_000, 1_020_001, True),
        ("board_frequency_after", 0, 1_500_000, False),  # unknown
        ("board_frequency_after", -5, 1_500_000, False),
        ("board_frequency_after", 1, 1_500_000, True),
        ("board_temperature_after", 41_000, 51_000, False),
        ("board_temperature_after", 41_000, 51_001, True),
        ("board_temperature_after", -273_150, 20_000, True),
        ("board_temperature_after", -273_151, 20_000, False),
        ("board_temperature_after", 20_000, 2**53 - 1, True),
        ("board_temperature_after", 20_000, 2**53, False),
        ("board_emulated", 0, 0, False),
        ("reconnects", 0, 0, False),
        ("board_boots", 0, 0, False),
    ],
)
def test_each_limit(bench: Any, name: str, first: int, last: int, named: bool) -> None:
    assert bool(messages(fill(bench, glibc_1={name: first}, musl_4={name: last}))) == named


def test_a_block_during_which_the_board_rebooted_gives_no_values(bench: Any) -> None:
    after = {f"{level}_{block}": {"board_boots": 1} for level in ("glibc", "musl") for block in (3, 4)}
    fill(bench, musl_2={"board_boots": 1}, **after)
    cells = collect(as_table(bench.runs))
    (group,) = cells
    assert cells[group][BASE].blocks.tolist() == cells[group][CANDIDATE].blocks.tolist() == [1, 3, 4]
    assert cells[group][BASE].counts[Status.OK] == 4
