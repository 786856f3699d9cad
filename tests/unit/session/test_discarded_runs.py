# SPDX-License-Identifier: MIT OR Apache-2.0
"""How many runs are discarded before each measured one, by default and on request; kinds of order."""

from __future__ import annotations

from typing import Any

import pytest

from swapstone.core.model import FactorLevels, LoadGenerator, OwnProgram, UserError
from swapstone.core.session.request import resolve
from tests.small_records import request_of

OWN = OwnProgram(name="prog", arguments=("./prog",))
LIBC = (FactorLevels(factor="libc", levels=("glibc", "musl")),)


def discarded(**changes: Any) -> tuple[int, bool]:
    found = resolve(request_of(LIBC, **changes))
    return found.prime, found.prime_more


def test_an_own_program_has_one_and_workloads_have_none_until_it_matters() -> None:
    assert discarded(own=OWN) == (1, True)
    assert discarded(only=("b_malloc_tiny1",)) == (0, True)


def test_servers_and_the_virtual_clock_have_none() -> None:
    generator = LoadGenerator(command=("wrk", "{port}"), reader="wrk")
    server = OwnProgram(name="prog", arguments=("./prog",), load_generators=(generator,))
    assert discarded(own=server) == (0, False)
    assert discarded(only=("b_malloc_tiny1",), target="vm") == (0, False)


@pytest.mark.parametrize("number", [0, 1, 16])
def test_a_number_of_the_user_is_fixed(number: int) -> None:
    assert discarded(own=OWN, prime=number) == (number, False)


@pytest.mark.parametrize("number", [-1, 17])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(UserError, match="is not between 0 and 16"):
        discarded(own=OWN, prime=number)


def test_on_the_virtual_clock_it_is_refused() -> None:
    with pytest.raises(UserError, match="no effect on the virtual clock"):
        discarded(only=("b_malloc_tiny1",), target="vm", prime=1)


def test_orders() -> None:
    assert resolve(request_of(name="compare", factors=LIBC, order="balanced")).order == "balanced"
    with pytest.raises(UserError, match="order"):
        resolve(request_of(name="compare", factors=LIBC, order="sorted"))
    with pytest.raises(UserError, match="can't be combined with --layouts"):
        resolve(request_of(name="compare", factors=LIBC, order="balanced", layouts=20))
