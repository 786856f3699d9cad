# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the caller's frame is, derived from code without unwind tables."""

from __future__ import annotations

from swapstone.parts.explain.instruments.unwind_tables import RBP, RSP, FrameState, entries_in, instructions, states


def _states(*lines: str, entries: tuple[int, ...] = (0,)) -> dict[int, FrameState]:
    """Return the states of instructions at the addresses 0, 1, 2."""
    code = instructions(f"   {at:x}:\t{line}" for at, line in enumerate(lines))
    return states(code, entries)


def test_pushes_and_subtractions_raise_the_frame_and_pops_lower_it() -> None:
    found = _states("push   %rbx", "sub    $0x18,%rsp", "add    $0x18,%rsp", "pop    %rbx", "ret")
    assert [found[at].offset for at in range(5)] == [8, 16, 40, 16, 8]
    assert found[2].saved == ((3, -16),)
    assert found[4] == FrameState()


def test_a_frame_pointer_stays_the_base_while_the_stack_pointer_depends_on_data() -> None:
    begin = ("push   %rbp", "mov    %rsp,%rbp", "sub    %rax,%rsp", "lea    -0x8(%rbp),%rsp", "pop    %rbx")
    for end in ("leave", "pop    %rbp"):
        found = _states(*begin, end, "ret")
        assert [found[at] for at in (3, 4, 5)] == [FrameState(RBP, 16, ((RBP, -16),))] * 3
        assert 6 not in found


def test_the_stack_pointer_in_rbp_is_no_frame_pointer_after_other_pushes() -> None:
    found = _states("push   %rbp", "push   %rbx", "sub    $0x58,%rsp", "mov    %rsp,%rbp", "add    $0x58,%rsp")
    assert found[4] == FrameState(RSP, 112, ((RBP, -16), (3, -24)))


def test_there_is_no_state_behind_an_allocation_that_depends_on_data() -> None:
    found = _states("sub    $0x10,%rsp", "sub    %rax,%rsp", "mov    %rsp,%rdi", "ret")
    assert sorted(found) == [0, 1]


def test_jumps_carry_the_state_and_two_different_ones_leave_none() -> None:
    carried = _states("sub    $0x8,%rsp", "jmp    3", "nop", "add    $0x8,%rsp", "ret")
    assert carried[3].offset == 16 and 2 not in carried
    code = ("test   %eax,%eax", "je     3", "push   %rbx", "nop", "ret")
    assert 3 not in _states(*code)


def test_a_function_begins_anew_whatever_falls_into_it() -> None:
    found = _states("sub    $0x8,%rsp", "call   2 <abort>", "nop", entries=(0, 2))
    assert found[2] == FrameState()


def test_code_behind_a_table_of_jumps_has_the_state_of_the_jump() -> None:
    found = _states(
        "sub    $0x28,%rsp", "jmp    *%rax", "mov    $0x1,%eax", "add    $0x28,%rsp", "ret", "int3", entries=(0, 5)
    )
    assert [found[at].offset for at in (2, 3, 4)] == [48, 48, 8]


def test_calls_and_addresses_of_functions_are_entries() -> None:
    lines = ["  10:\tcall   2f <f>", "  15:\tlea    0x40(%rip),%rdi        # 5c <g>", "  1c:\tjmp    30", "not a line"]
    assert entries_in(instructions(lines)) == {0x2F, 0x5C}


def test_a_number_with_a_leading_zero_is_none_of_a_disassembler() -> None:
    assert 1 not in _states("sub    $0818,%rsp", "ret")
    assert _states("sub    $8,%rsp", "ret")[1].offset == 16
    assert _states("sub    $0,%rsp", "ret")[1].offset == 8
