# SPDX-License-Identifier: MIT OR Apache-2.0
"""The shadow stacks of the emulator's plugin (native/plugin/shadow_stacks.c), on events of known call paths."""

from __future__ import annotations

import pytest

from tests.unit.instruments.plugin_driver import Feed, compile_driver

TASK, OTHER, IRQ = 0xFFFFC90000004000, 0xFFFFC9000000C000, 0xFFFFFE0000000000
"""Bottoms of kernel stacks of 16 KiB."""
STACK = 0x7FFFFFFFE000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Return a function that feeds events, and returns the path after each: the numbers of its calls, the outermost first."""
    return compile_driver(tmp_path_factory.mktemp("stacks"), "shadow_stacks_driver", "shadow_stacks", "threads")


def _call(address: int, site: int) -> str:
    return f"c {address:x} {site}"


def _return(address: int) -> str:
    return f"r {address:x}"


USER = (_call(TASK + 0x3F50, 90), "u")
"""A thread whose kernel stack is TASK returns to user code."""


def test_calls_and_returns_are_nested(run: Feed) -> None:
    found = run(
        *USER,
        _call(STACK, 1),
        _call(STACK - 16, 2),
        _return(STACK - 16),
        _call(STACK - 16, 3),
        _return(STACK - 16),
        _return(STACK),
    )
    assert found == ["90", "-", "1", "1 2", "1", "1 3", "1", "-"]


def test_a_recursion_is_a_path_of_its_depth(run: Feed) -> None:
    depth = 300
    down = [_call(STACK - 32 * level, 7) for level in range(depth)]
    found = run(*USER, *down, *(_return(STACK - 32 * level) for level in reversed(range(depth))))[2:]
    assert found[:depth] == [" ".join(["7"] * (level + 1)) for level in range(depth)]
    assert found[depth:] == [" ".join(["7"] * level) or "-" for level in reversed(range(depth))]


def test_calls_below_a_later_call_or_return_have_ended(run: Feed) -> None:
    deep = [_call(STACK - 16 * level, level + 1) for level in range(4)]
    assert run(*USER, *deep, _call(STACK - 16, 9))[-2:] == ["1 2 3 4", "1 9"]  # after longjmp
    assert run(*USER, *deep, _return(STACK - 16))[-1] == "1"  # after an exception


def test_an_unknown_return_changes_nothing_above_it(run: Feed) -> None:
    assert run(*USER, _call(STACK, 1), _return(STACK - 64), _call(STACK - 16, 2))[-2:] == ["unknown 1", "1 2"]


def test_a_call_whose_return_address_was_moved_ends_on_request(run: Feed) -> None:
    moved = (_call(STACK, 1), _call(STACK - 16, 2), _return(STACK - 64), "l", _call(STACK - 32, 3))
    assert run(*USER, *moved)[2:] == ["1", "1 2", "unknown 1 2", "1", "1 3"]
    assert run(*USER, "l", "l")[2:] == ["-", "-"]


def test_the_kernel_is_below_the_user_code_that_entered_it(run: Feed) -> None:
    found = run(
        *USER,
        _call(STACK, 1),
        "k 2",
        _call(IRQ + 0x3F0, 3),  # the stack of the entry
        _return(IRQ + 0x3F0),
        _call(TASK + 0x3F50, 4),
        _call(TASK + 0x3F00, 5),
        _return(TASK + 0x3F00),
        _return(TASK + 0x3F50),
        "u",
    )
    assert found[2:] == ["1", "1 2", "1 2 3", "1 2", "1 2 4", "1 2 4 5", "1 2 4", "1 2", "1"]


def test_another_stack_of_the_kernel_is_below_the_code_that_switched_to_it(run: Feed) -> None:
    found = run(
        _call(TASK + 0x3F50, 1),
        _call(IRQ + 0x3FF0, 2),
        _call(IRQ + 0x3FE0, 3),
        _return(IRQ + 0x3FE0),
        _return(IRQ + 0x3FF0),
        _return(TASK + 0x3F50),
    )
    assert found == ["1", "1 2", "1 2 3", "1 2", "1", "-"]


def test_threads_have_their_own_callers_though_user_stacks_have_equal_addresses(run: Feed) -> None:
    switch = 0x3E00
    found = run(
        *USER,
        _call(STACK, 1),  # the first process
        "k 2",
        _call(TASK + switch, 3),
        _return(OTHER + 0x3F50),  # the second one runs for the first time
        "u",
        _call(STACK, 4),
        "k 5",
        _call(OTHER + switch, 6),
        _return(TASK + switch),  # the first one runs again
        "u",
        _return(STACK),
        "k 2",
        _call(TASK + switch, 3),
        _return(OTHER + switch),
        "u",
    )
    assert found[2:] == [
        "1",
        "1 2",
        "1 2 3",
        "unknown -",
        "-",
        "4",
        "4 5",
        "4 5 6",
        "1 2",
        "1",
        "-",
        "2",
        "2 3",
        "4 5",
        "4",
    ]


def test_a_new_thread_with_a_used_kernel_stack_has_no_callers(run: Feed) -> None:
    found = run(
        *USER,
        _call(STACK, 1),
        "k 2",
        _call(TASK + 0x3F50, 3),
        _call(TASK + 0x3E00, 4),  # ends here
        _return(OTHER + 0x3F50),
        _return(TASK + 0x3F50),  # where the kernel begins a thread; the ended one had a call there
        "u",
    )
    assert found[-3:] == ["unknown -", "unknown -", "-"]


def test_a_new_program_has_no_callers(run: Feed) -> None:
    assert run(*USER, _call(STACK, 1), "k 2", "x", "u", _call(STACK - 64, 3))[-2:] == ["-", "3"]


def test_a_user_stack_far_away_is_another_one(run: Feed) -> None:
    other = STACK - (1 << 30)
    found = run(
        *USER, _call(STACK, 1), _call(other, 2), _call(other - 16, 3), _call(STACK - 16, 4), _return(other - 16)
    )
    assert found[2:] == ["1", "1 2", "1 2 3", "1 4", "1 2"]


def test_more_threads_than_have_room_are_followed(run: Feed) -> None:
    """The callers of some are forgotten; nothing else happens."""
    places = [TASK + (number << 14) + 0x3F50 for number in range(20_000)]
    found = run(*(event for place in places for event in (_call(place, 1), _return(place))))
    assert found == ["1", "-"] * len(places)
