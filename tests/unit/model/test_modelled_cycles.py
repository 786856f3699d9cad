# SPDX-License-Identifier: MIT OR Apache-2.0
"""Cycles of a modelled processor, and when a row is flagged."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.parts.explain.model.instruction_counts import (
    BRANCHES,
    DIVIDES,
    DIVISION,
    MEMORY,
    Caches,
    CacheSize,
    Costs,
    ModelledCycles,
    ProcessorEvents,
    cycles,
    other_behaviour,
)

SIZE = CacheSize(bytes=32768, ways=2)
CACHES = Caches(l1i=SIZE, l1d=SIZE, l2=SIZE, line_bytes=64, history_bits=12)
NOTHING = ProcessorEvents(**{field.name: 0 for field in msgspec.structs.fields(ProcessorEvents)})
ONCE = (1.0, 1.0)


def _events(instructions: int = 1000, **counts: int) -> ProcessorEvents:
    return msgspec.structs.replace(NOTHING, instructions=instructions, **counts)


def _model(before: ProcessorEvents, after: ProcessorEvents) -> ModelledCycles:
    return ModelledCycles(caches=CACHES, costs=Costs(), sides=(before, after))


def test_each_event_costs_what_is_declared() -> None:
    costs = Costs(instruction=2, l2=3, memory=5, misprediction=7, divides=(11, 13, 17, 19, 23, 29))
    assert cycles(_events(10), costs) == 20
    assert cycles(_events(0, l1i_misses=1), costs) == cycles(_events(0, l1d_misses=1), costs) == 3
    assert cycles(_events(0, l2_code_misses=1), costs) == cycles(_events(0, l2_data_misses=1), costs) == 5
    assert cycles(_events(0, mispredictions=1, branches=100, loads=8, stores=9, devices=3, interrupted=4), costs) == 7
    assert [cycles(_events(0, **{name: 1}), costs) for name in DIVIDES] == [11, 13, 17, 19, 23, 29]
    every = _events(1, l1i_misses=1, l1d_misses=1, l2_code_misses=1, l2_data_misses=1, mispredictions=1, divides_64=2)
    assert cycles(every, costs) == 2 + 3 + 3 + 5 + 5 + 7 + 26


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (_events(), ()),
        (_events(l1d_misses=4), ()),  # 8 % more cycles
        (_events(l1d_misses=5), ()),  # 10 %
        (_events(l1d_misses=6), (MEMORY,)),
        (_events(l2_data_misses=1), (MEMORY,)),
        (_events(l1i_misses=6), (MEMORY,)),
        (_events(mispredictions=7), (BRANCHES,)),
        (_events(divides_64=6), (DIVISION,)),
        (_events(roots_single=6), (DIVISION,)),
        (_events(1050, l1d_misses=50), (MEMORY,)),
        (_events(1051, l1d_misses=50), ()),  # the instructions differ by more than 5 %
        (_events(952, l1d_misses=50), ()),
        (_events(953, l1d_misses=50), (MEMORY,)),
        (_events(mispredictions=10, l1d_misses=10), (MEMORY, BRANCHES)),
        (_events(mispredictions=40, l1d_misses=10), (BRANCHES, MEMORY)),
        (_events(mispredictions=100, l1d_misses=10), (BRANCHES,)),  # the misses have less than a quarter
    ],
)
def test_a_row_is_flagged_beyond_the_thresholds(after: ProcessorEvents, expected: tuple[str, ...]) -> None:
    before = _events()
    assert other_behaviour(_model(before, after), ONCE) == expected
    assert other_behaviour(_model(after, before), ONCE) == expected


def test_behaviours_that_cancel_out_are_not_named() -> None:
    before, after = _events(l1d_misses=50), _events(mispredictions=200)  # 1000 cycles less, 3000 more
    assert other_behaviour(_model(before, after), ONCE) == (BRANCHES,)


def test_operations_are_compared() -> None:
    twice = _events(2000, l1d_misses=100)
    assert other_behaviour(_model(_events(l1d_misses=50), twice), (1.0, 2.0)) == ()
    assert other_behaviour(_model(_events(), twice), (1.0, 2.0)) == (MEMORY,)


counts = st.integers(0, 1 << 40)


@given(instructions=st.tuples(counts, counts), misses=st.tuples(counts, counts), wrong=st.tuples(counts, counts))
def test_flags_never_fail(instructions: tuple[int, int], misses: tuple[int, int], wrong: tuple[int, int]) -> None:
    sides = [
        _events(one, l1d_misses=miss, mispredictions=bad)
        for one, miss, bad in zip(instructions, misses, wrong, strict=True)
    ]
    found = other_behaviour(_model(*sides), (3.0, 7.0))
    assert set(found) <= {MEMORY, BRANCHES, DIVISION}
    assert set(other_behaviour(_model(*reversed(sides)), (7.0, 3.0))) == set(found)


@pytest.mark.parametrize(
    "changed",
    [
        {"costs": Costs(memory=-1)},
        {"costs": Costs(instruction=0)},
        {"costs": Costs(divides=(1, 1, 1, 1, 1, 1 << 21))},
        {"caches": msgspec.structs.replace(CACHES, l2=CacheSize(bytes=1, ways=0))},
        {"caches": msgspec.structs.replace(CACHES, line_bytes=0)},
        {"caches": msgspec.structs.replace(CACHES, history_bits=64)},
        {"sides": (NOTHING, msgspec.structs.replace(NOTHING, loads=-1))},
    ],
)
def test_impossible_numbers_are_refused(changed: dict[str, object]) -> None:
    model = _model(NOTHING, NOTHING)
    assert msgspec.json.decode(model.encoded(), type=ModelledCycles) == model
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.structs.replace(model, **changed).encoded(), type=ModelledCycles)


def test_more_misses_than_accesses_are_named() -> None:
    model = _model(NOTHING, NOTHING)
    assert model.problem() == ""
    sides = (msgspec.structs.replace(NOTHING, l1i_misses=1), NOTHING)
    assert "more misses" in msgspec.structs.replace(model, sides=sides).problem()
