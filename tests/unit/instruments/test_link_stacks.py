# SPDX-License-Identifier: MIT OR Apache-2.0
"""The stacks of calls that the emulator's plugin keeps on arm64 (native/plugin/link_stacks.c), on events of known call paths."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.instruments.plugin_driver import Feed, compile_driver

ONE, TWO = 0xFFFF000003A01B40, 0xFFFF000003A03600
"""Where the kernel stores the state of two threads."""
STACK = 0xFFFFFFFFE000
CODE = 0x400000
SWITCH = 0xFFFF800008001000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """Return a function that feeds events, and returns what the driver prints."""
    return compile_driver(
        tmp_path_factory.mktemp("links"), "link_stacks_driver", "link_stacks", "threads", "instruction"
    )


def _call(site: int) -> str:
    """Return a call in a block; it returns to an address of that block."""
    return f"c {CODE + 16 * site:x} {site}"


def _return(site: int) -> str:
    """Return a return to behind the call in a block."""
    return f"r\na {CODE + 16 * site:x}"


def _store(below: int) -> str:
    return f"s {STACK - below:x}"


def _switch(leaves: int, enters: int, site: int) -> str:
    """Return the end of a switch of threads: the return in the other one is to behind the call in a block."""
    return f"f {leaves:x}\nt {enters:x}\n{_return(site)}"


def test_calls_and_returns_are_nested(run: Feed) -> None:
    assert run("u", _call(1), _call(2), _return(2), _call(3), _return(3), _return(1)) == [
        *("1", "1 2", "1", "1 3", "1", "-")
    ]


def test_each_level_of_a_recursion_returns_once(run: Feed) -> None:
    depth = 300
    found = run("u", *[_call(7)] * depth, *[_return(7)] * depth)
    assert found[:depth] == [" ".join(["7"] * (level + 1)) for level in range(depth)]
    assert found[depth:] == [" ".join(["7"] * level) or "-" for level in reversed(range(depth))]


def test_a_return_ends_all_calls_after_the_one_that_returns_there(run: Feed) -> None:
    assert run("u", _call(1), _call(2), _call(3), _call(4), _return(2))[-1] == "1"  # after longjmp


def test_a_return_to_anywhere_else_is_ignored(run: Feed) -> None:
    assert run("u", _call(1), _call(2), _return(9), _return(2))[-2:] == ["1 2", "1"]  # a handler of signals


def test_code_that_is_reached_without_a_return_ends_no_call(run: Feed) -> None:
    assert run("u", _call(1), _call(2), f"a {CODE + 16 * 2:x}")[-1] == "1 2"  # such as a loop


def test_storing_a_return_address_ends_the_calls_below_it(run: Feed) -> None:
    deep = [event for level in range(4) for event in (_call(level + 1), _store(32 * (level + 1)))]
    leaf = _call(5)  # stores nothing
    found = run("u", *deep, leaf, _call(9), _store(64))
    assert found[-3:] == ["1 2 3 4 5", "1 2 3 4 5 9", "1 9"]  # longjmp to the function that 1 called
    assert run("u", *deep, _call(9), _store(160))[-1] == "1 2 3 4 9"
    assert run("u", *deep, _call(9), _store(160), _store(32))[-1] == "1 2 3 4 9"  # only the first one of a call counts
    assert run("u", *deep, _call(9), _store(-(1 << 20)))[-1] == "1 2 3 4 9"  # on another stack
    assert run("u", *deep, _call(9), _store(64), _return(9))[-1] == "1"


def test_the_kernel_is_below_the_user_code_that_entered_it(run: Feed) -> None:
    found = run("u", _call(1), "k 2", _call(3), _call(4), _return(4), _return(3), "u", f"a {CODE:x}", _return(1))
    assert found == ["1", "1 2 3", "1 2 3 4", "1 2 3", "1 2", "1", "-"]


def test_each_entry_of_the_kernel_begins_without_calls_in_it(run: Feed) -> None:
    assert run("u", _call(1), "k 2", _call(3), "u", f"a {CODE:x}", "k 5", _call(6))[-2:] == ["1", "1 5 6"]


def test_a_return_arrives_after_the_exception_that_interrupts_it(run: Feed) -> None:
    user = run("u", _call(1), _call(2), "r", "k 3", _call(4), _return(4), "u", f"a {CODE + 16 * 2:x}")
    assert user == ["1", "1 2", "1 2 3 4", "1 2 3", "1"]
    kernel = run(_call(1), _call(2), "r", "e", f"a {SWITCH:x}", _call(4), _return(4), "E", f"a {CODE + 16 * 2:x}")
    assert kernel == ["1", "1 2", "1 2", "1 2 4", "1 2", "1"]
    nested = run(_call(1), "r", "e", _call(2), "r", "e", "E", f"a {CODE + 16 * 2:x}", "E", f"a {CODE + 16:x}")
    assert nested == ["1", "1 2", "1", "-"]


def test_a_handler_does_not_return_into_the_interrupted_calls(run: Feed) -> None:
    assert run(_call(1), _call(2), "e", _call(4), _return(1), "E", _return(2))[-2:] == ["1 2 4", "1"]


def test_threads_have_their_own_calls(run: Feed) -> None:
    found = run(
        *("u", _call(1), "k 2", _call(3)),
        _switch(ONE, TWO, 50),  # the second thread runs for the first time: nothing has called its first function
        *("u", f"a {CODE:x}", _call(4), "k 5", _call(6)),
        _switch(TWO, ONE, 3),
        *("u", f"a {CODE:x}", _return(1), _call(7), "k 8", _call(9)),
        _switch(ONE, TWO, 6),
        *("u", f"a {CODE:x}", _return(4)),
    )
    assert found == [
        *("1", "1 2 3", "-", "-", "4", "4 5 6"),
        *("1 2", "1", "-", "7", "7 8 9"),
        *("4 5", "4", "-"),
    ]


def test_a_switch_is_only_at_its_return(run: Feed) -> None:
    found = run("u", _call(1), "k 2", _call(3), _switch(ONE, TWO, 50), _switch(TWO, ONE, 3), _call(4), _return(9))
    assert found[-3:] == ["1 2", "1 2 4", "1 2 4"]


def test_a_new_thread_in_the_place_of_an_ended_one_has_no_calls(run: Feed) -> None:
    found = run(*("u", _call(1), "k 2", _call(3)), _switch(ONE, TWO, 50), _switch(TWO, ONE, 50), "u", f"a {CODE:x}")
    assert found[-2:] == ["-", "-"]


def test_a_switch_in_a_handler_returns_to_the_interrupted_code(run: Feed) -> None:
    found = run(
        *(_call(1), "e", _call(2), _call(3), _switch(ONE, TWO, 50), _call(4)),
        _switch(TWO, ONE, 3),
        *(_return(2), "E", _return(1)),
    )
    assert found[-3:] == ["1 2", "1", "-"]


def test_a_new_program_has_no_callers(run: Feed) -> None:
    assert run("u", _call(1), "k 2", "x", "u", f"a {CODE:x}", _call(3))[-2:] == ["-", "3"]


@pytest.mark.slow
def test_more_calls_than_have_room_return_in_order(run: Feed) -> None:
    depth = (1 << 14) + 100
    found = run("u", _call(1), *["c 1000 2"] * depth, *["r\na 1000"] * depth, _return(1))
    assert found[-2:] == ["1", "-"]
    assert found[depth - 1 : depth + 1] == [f"{(1 << 14)} calls"] * 2, "the callees have the last caller with room"


@pytest.mark.slow
def test_a_handler_with_more_calls_than_have_room_ends(run: Feed) -> None:
    assert run(_call(1), "e", *["c 1000 2"] * ((1 << 14) + 100), "E", _return(1))[-1] == "-"


def test_more_threads_than_have_room_are_followed(run: Feed) -> None:
    """The calls of some are forgotten; nothing else happens."""
    keys = [ONE + (number << 12) for number in range(20_000)]
    events = [f"{_switch(before, after, 50)}\n{_call(1)}" for before, after in itertools.pairwise(keys)]
    assert run(*events) == ["-", "1"] * len(events)


@pytest.mark.parametrize(
    ("word", "flow"),
    [
        (0x94000001, "call"),  # bl .+4
        (0x97FFFFFF, "call"),  # bl .-4
        (0xD63F0200, "call"),  # blr x16
        (0xD63F093F, "call"),  # blraaz x9
        (0xD63F0D3F, "call"),  # blrabz x9
        (0xD73F0902, "call"),  # blraa x8, x2
        (0xD73F0D02, "call"),  # blrab x8, x2
        (0xD65F03C0, "return"),  # ret
        (0xD65F0140, "return"),  # ret x10
        (0xD65F0BFF, "return"),  # retaa
        (0xD65F0FFF, "return"),  # retab
        (0xD61F03C0, "return"),  # br x30
        (0xD69F03E0, "exception return"),  # eret
        (0xD69F0BFF, "exception return"),  # eretaa
        (0xD69F0FFF, "exception return"),  # eretab
        (0x14000001, "other"),  # b .+4
        (0x54000020, "other"),  # b.eq .+4
        (0xD61F0220, "other"),  # br x17
        (0xD61F0BDF, "other"),  # braaz x30
        (0xD4000001, "other"),  # svc #0
        (0xD6BF03E0, "other"),  # drps
    ],
)
def test_the_flow_of_control_is_decoded(run: Feed, word: int, flow: str) -> None:
    """Encodings of the Arm ARM (DDI 0487), C4.1, "Branches, Exception Generating and System instructions"."""
    assert run(f"d {word.to_bytes(4, 'little').hex()}") == [f"{flow}, -"]


@pytest.mark.parametrize(
    ("word", "how"),
    [
        (0xA9BF7BFD, "stack"),  # stp x29, x30, [sp, #-16]!
        (0xA90153FE, "stack"),  # stp x30, x20, [sp, #16]
        (0xA9BF7BF0, "stack"),  # stp x16, x30, [sp, #-16]!
        (0xF81F0FFE, "stack"),  # str x30, [sp, #-16]!
        (0xF90007FE, "stack"),  # str x30, [sp, #8]
        (0xA8C17BFD, "stack"),  # ldp x29, x30, [sp], #16
        (0xF84107FE, "stack"),  # ldr x30, [sp], #16
        (0xF900011E, "memory"),  # str x30, [x8]
        (0xF940011E, "memory"),  # ldr x30, [x8]
        (0xA9007819, "memory"),  # stp x25, x30, [x0]
        (0xA9BF53F3, "-"),  # stp x19, x20, [sp, #-16]!
        (0xA97FFBDD, "memory"),  # ldp x29, x30, [x30, #-8]
        (0xF94003C0, "-"),  # ldr x0, [x30]
        (0xB90007FE, "-"),  # str w30, [sp, #4]
        (0x290153FE, "-"),  # stp w30, w20, [sp, #8]
        (0x6DBF7BFD, "-"),  # stp d29, d30, [sp, #-16]!
        (0xFD0007FE, "-"),  # str d30, [sp, #8]
    ],
)
def test_moves_of_the_link_register_are_decoded(run: Feed, word: int, how: str) -> None:
    """Encodings of the Arm ARM (DDI 0487), C4.1, "Loads and Stores"."""
    assert run(f"d {word.to_bytes(4, 'little').hex()}") == [f"other, {how}"]


@pytest.mark.parametrize("code", ["c0035f", "c0", "c0035fd600", "fd7bbfa9fd7bbfa9"])
def test_what_is_no_word_is_no_instruction(run: Feed, code: str) -> None:
    assert run(f"d {code}") == ["other, -"]
