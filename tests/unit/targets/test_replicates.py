# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a replicate changes in the order of a virtual machine."""

from __future__ import annotations

import itertools

from swapstone.parts.vm.machine.guest import block_of, encode_order, perturbation

REPLICATES = range(1, 200)


def test_replicate_0_is_not_perturbed() -> None:
    assert perturbation(0) == {"layout": 0, "idle-ns": 0, "delay-ns": 0}


def test_a_replicate_is_always_the_same_and_each_is_another_one() -> None:
    found = [perturbation(replicate) for replicate in REPLICATES]
    assert found == [perturbation(replicate) for replicate in REPLICATES]
    for values in zip(*(each.values() for each in found), strict=True):
        assert len(set(values)) == len(REPLICATES)


def test_the_seed_of_a_layout_is_positive_and_fits_into_the_guest() -> None:
    assert all(0 < perturbation(replicate)["layout"] < 1 << 62 for replicate in REPLICATES)


def test_delays_meet_each_part_of_a_tick_and_idle_times_each_part_of_four_seconds() -> None:
    for values, period, longest in (
        ([perturbation(replicate)["delay-ns"] for replicate in REPLICATES], 4_000_000, 100_000_000),
        ([perturbation(replicate)["idle-ns"] for replicate in REPLICATES], 4_000_000_000, 4_000_000_000),
    ):
        assert all(0 <= value < longest for value in values)
        phases = sorted(value % period for value in values)
        assert max(right - left for left, right in itertools.pairwise(phases)) < period // 10


def test_an_order_names_what_its_replicate_changes() -> None:
    lines = encode_order(b"swapstone-plan 1\nquit\n", replicate=7, limit_ms=5).splitlines()
    assert lines[1:4] == [f"{name} {number}".encode() for name, number in perturbation(7).items()]


def test_the_replicate_of_a_trial_is_its_block() -> None:
    assert [block_of(text) for text in ("12-3", "t", "1x", "")] == [12, 0, 0, 0]
