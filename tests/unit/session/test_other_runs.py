# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trials that ran again and gave other bytes: is the record altered, or is it another run here?"""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.run.recompute import Recomputed
from swapstone.core.session.verification import recompute_findings, sorted_by_cause

CAUSES = ("tool qemu: '7.2' then, '10.0' now", "machine virtualization: '7.2' then, '10.0' now")


def _trial(key: str, now: str, *, same_inputs: bool | None) -> Recomputed:
    return Recomputed(key=key, before="a" * 64, now=now * 64, same_inputs=same_inputs)


EQUAL = _trial("0001/s/w", "a", same_inputs=True)


@pytest.mark.parametrize("same_inputs", [False, None])
def test_another_emulator_is_named_and_is_no_damage(same_inputs: bool | None) -> None:
    changed = _trial("0002/s/w", "b", same_inputs=same_inputs)
    problems, differences = recompute_findings([EQUAL, changed], CAUSES)
    assert problems == []
    assert differences[0] == (
        "The record was made with another QEMU, whose runs can't be recomputed with this one: 1 of 2 trials are other runs here. "
        f"{CAUSES[0]}"
    )
    assert differences[1:] == CAUSES[1:]


def test_another_count_is_found_where_the_printed_bytes_are_equal() -> None:
    """Counts of instructions are no part of what a program prints."""
    changed = msgspec.structs.replace(EQUAL, key="0002/s/w", other_fact="instructions")
    assert not changed.equal
    problems, differences = recompute_findings([EQUAL, changed], ())
    assert problems == ["0002/s/w has another value of the fact instructions than in the record, from the same inputs"]
    assert not differences


def test_another_fact_is_named_as_the_first_that_differs() -> None:
    changed = _trial("0002/s/w", "b", same_inputs=False)
    _, differences = recompute_findings([EQUAL, changed], ["tool kernel: 1 then, 2 now"])
    assert differences == (
        "1 of 2 trials are other runs here; the first fact that differs is tool kernel: 1 then, 2 now",
    )


def test_other_bytes_from_the_same_inputs_are_damage() -> None:
    problems, differences = recompute_findings([_trial("0002/s/w", "b", same_inputs=True)], CAUSES)
    assert problems == [
        f"0002/s/w printed other bytes than in the record: {'b' * 12}, not {'a' * 12}, from the same inputs"
    ]
    assert differences == ()


def test_other_bytes_without_any_difference_are_damage() -> None:
    problems, differences = recompute_findings([_trial("0002/s/w", "b", same_inputs=None)], ())
    assert len(problems) == 1 and differences == ()


def test_equal_bytes_are_no_finding_whatever_differs() -> None:
    assert recompute_findings([EQUAL], CAUSES) == ([], ())
    assert recompute_findings([], CAUSES)[0] == ["it has no trial that could be run again"]


def test_the_emulator_comes_before_what_follows_from_it() -> None:
    found = [
        "machine cpu: 1",
        "tool agent: 1",
        "1 of 2 programs differ",
        "tool kernel of rt: 1",
        "tool qemu: 1",
        "tool gcc: 1",
    ]
    assert sorted_by_cause(found) == (
        "tool qemu: 1",
        "tool kernel of rt: 1",
        "tool agent: 1",
        "1 of 2 programs differ",
        "machine cpu: 1",
        "tool gcc: 1",
    )
