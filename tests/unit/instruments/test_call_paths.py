# SPDX-License-Identifier: MIT OR Apache-2.0
"""Call paths, from what the emulator's plugin writes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tools.plugin_output import paths_file, traced_block

from swapstone.core.model import UserError
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile
from swapstone.parts.explain.instruments.counted_runs import path_words, unfollowed
from swapstone.parts.explain.instruments.plugin_file import (
    NOT_KEPT,
    FunctionKey,
    KernelSymbols,
    NamesOf,
    call_profile,
    decode_paths,
)
from swapstone.parts.explain.model.explanation import (
    AMBIGUOUS,
    C_LIBRARY,
    KERNEL_CODE,
    PROGRAM,
    UNKNOWN,
    frame_of,
    profile_problem,
)

ADD, CALL = b"\x48\x83\xc0\x01", b"\xe8\0\0\0\0"
MAIN, WORK, LIBRARY, SYSTEM = 0x401000, 0x402000, 0x7F0000001000, (1 << 63) + 0x1000
BLOCKS = [traced_block(address, [ADD, CALL]) for address in (MAIN, WORK, LIBRARY, SYSTEM)]
PATHS = [(0, 1), (1, 2), (2, 3)]
LEAVES = [(0, 1, 2, 3), (1, 2, 2, 5), (2, 3, 1, 9), (3, 4, 2, 4)]
FILE = paths_file(BLOCKS, PATHS, LEAVES, begins=8, windows=2, deep=1)
NAMES: Mapping[int, FunctionKey] = {
    MAIN >> 12: ("main", "p", PROGRAM),
    WORK >> 12: ("work", "p", PROGRAM),
    LIBRARY >> 12: ("read", "libc.so.6", C_LIBRARY),
    SYSTEM >> 12: ("__x64_sys_read", "", KERNEL_CODE),
}


def _names(names: Mapping[int, FunctionKey] = NAMES) -> NamesOf:
    return lambda _: lambda address: names[address >> 12]


def _profile(data: bytes = FILE, names: Mapping[int, FunctionKey] = NAMES, most: int = 1 << 20) -> Profile:
    return call_profile(decode_paths(data), _names(names), 2.0, most)


def _lines(profile: Profile) -> dict[str, int]:
    """Return the instructions of each path."""
    return {";".join(frame.symbol for frame in frames): int(weight) for frames, weight in profile.weighted()}


def test_a_file_is_decoded() -> None:
    found = decode_paths(FILE)
    assert (found.begins, found.windows, found.open, found.lost, found.full, found.deep) == (8, 2, False, 0, 0, 1)
    assert found.paths == ((-1, 0), (0, 1), (1, 2))
    assert found.leaves == ((-1, 0, 2, 3), (0, 1, 2, 5), (1, 2, 1, 9), (2, 3, 2, 4))
    assert found.instructions == 2 * 3 + 2 * 5 + 0 * 9 + 2 * 4
    assert [block.counts for block in found.blocks] == [(3, 3), (5, 5), (0, 0), (4, 4)] and found.left == 9


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it starts with"),
        (FILE.replace(b"paths 2\n", b"paths 1\n", 1), "it starts with"),
        (FILE.replace(b"windows 2\n", b""), "not the number of windows"),
        (FILE.replace(b"lost 0", b"lost 9999999999999999999"), "not the number of lost"),
        (FILE.replace(b"open 0", b"open 2"), "open is 2"),
        (FILE.replace(b"leaves 4\n\n", b"leaves 4\n"), "has no empty line"),
        (FILE.replace(b"leaves 4", b"leaves 40"), "it ends before 40 entries"),
        (FILE.replace(b"leaves 4", b"leaves 3"), "does not end after 3 leaves"),
        (FILE.replace(b"blocks 4", b"blocks 9000"), "block"),
        (FILE + b"x", "does not end"),
        (paths_file(BLOCKS, [(1, 1)]), "path 1 is below path 1"),
        (paths_file(BLOCKS, [(0, 5)]), "calls from block 5 of 4"),
        (paths_file(BLOCKS, [(number, 1) for number in range(300)]), "a path has 300 calls"),
        (paths_file(BLOCKS, PATHS, [(4, 1, 1, 1)]), "path 4 of 3"),
        (paths_file(BLOCKS, PATHS, [(1, 0, 1, 1)]), "block 0 of 4"),
        (paths_file(BLOCKS, PATHS, [(1, 5, 1, 1)]), "block 5 of 4"),
        (paths_file(BLOCKS, PATHS, [(1, 1, 3, 1)]), "3 instructions of block 1"),
        (paths_file(BLOCKS, PATHS, [(1, 1, 0, 1)]), "0 instructions of block 1"),
    ],
)
def test_damage_is_named(data: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        decode_paths(data)


def test_functions_are_below_their_callers() -> None:
    found = _profile()
    assert _lines(found) == {"main": 6, "main;work": 10, "main;work;read;__x64_sys_read": 8}
    assert (found.total, found.operations) == (decode_paths(FILE).instructions, 2.0)
    assert found.frames[-1] == Frame(symbol="__x64_sys_read", object=KERNEL)
    assert profile_problem(found) == "" and "longest path that is followed: 1." in found.notes[0]


def test_what_precedes_the_program_is_left_out() -> None:
    start = {**NAMES, MAIN >> 12: ("__libc_start_main", "libc.so.6", C_LIBRARY), WORK >> 12: ("main", "p", PROGRAM)}
    assert "main" in _lines(_profile(names=start))
    thread = {**NAMES, MAIN >> 12: ("start_thread", "libc.so.6", C_LIBRARY)}
    assert "work" in _lines(_profile(names=thread))
    static = {**NAMES, MAIN >> 12: ("_start", "p", PROGRAM), WORK >> 12: ("main", "p", PROGRAM)}
    assert "main" in _lines(_profile(names=static))
    callback = {**NAMES, SYSTEM >> 12: ("compare", "p", PROGRAM)}
    assert "main;work;read;compare" in _lines(_profile(names=callback))
    other = {**NAMES, MAIN >> 12: ("main", "libz.so", "libz.so"), WORK >> 12: ("main", "p", PROGRAM)}
    assert {"main", "main;read;__x64_sys_read"} == _lines(_profile(names=other)).keys()


def test_a_recursion_of_main_is_kept() -> None:
    names = {**NAMES, WORK >> 12: ("main", "p", PROGRAM)}
    assert "main;main" in _lines(_profile(names=names))


def test_paths_of_equal_names_are_added() -> None:
    names = {**NAMES, WORK >> 12: ("main", "p", PROGRAM)}
    data = paths_file(BLOCKS, [(0, 1), (0, 2)], [(1, 3, 2, 1), (2, 3, 2, 10)])
    assert _lines(_profile(data, names)) == {"main;read": 22}


def test_a_block_of_two_functions_counts_for_both() -> None:
    edge = 0x402FFC
    data = paths_file([traced_block(edge, [ADD, ADD, CALL])], [], [(0, 1, 3, 2), (0, 1, 2, 7)])
    names = {edge >> 12: ("one", "p", PROGRAM), (edge >> 12) + 1: ("two", "p", PROGRAM)}
    assert _lines(_profile(data, names)) == {"one": 2 + 7, "two": 4}


def test_small_functions_are_added_to_their_callers_if_there_are_too_many() -> None:
    assert len(_profile(most=7).frames) == 4
    found = _profile(most=6)
    assert _lines(found) == {"main": 6, "main;work": 18}
    assert found.notes[0] == "Functions with fewer than 16 instructions on a path were added to their callers."


def test_callers_without_room_have_a_name() -> None:
    data = paths_file(BLOCKS, [(0, 0)], [(1, 2, 2, 1)], full=3)
    found = _profile(data)
    assert _lines(found) == {"[callers not kept];work": 2}
    assert found.notes == ("Calls that found no room: 3. Their functions are below [callers not kept].",)


def test_frames_of_each_kind_of_code() -> None:
    assert frame_of("f", "p", PROGRAM) == Frame(symbol="f", object=OWN_OBJECT)
    assert frame_of("", "", KERNEL_CODE) == Frame(symbol="[unknown]", object=KERNEL)
    assert frame_of("", "", UNKNOWN) == Frame(symbol="[unknown]", object=UNKNOWN)
    assert frame_of("", "", AMBIGUOUS) == Frame(symbol="[unknown]", object=AMBIGUOUS)
    assert frame_of(*NOT_KEPT) == Frame(symbol=NOT_KEPT[0], object=UNKNOWN)
    assert frame_of("a\nb", "lib\x1b.so", C_LIBRARY) == Frame(symbol="a\\x0ab", object="lib\\x1b.so")


SYMBOLS = [
    (0x1000, "begin_new_exec", ""),
    (0x2000, "vectors", ""),
    (0x3000, "cpu_switch_to", ""),
    (0x3080, "ret_from_fork", ""),
]


def test_which_machines_are_followed() -> None:
    kernel = KernelSymbols(SYMBOLS)
    assert unfollowed("x86_64", KernelSymbols([])) == "" == unfollowed("aarch64", kernel)
    assert "on x86_64 and arm64 only, and this machine is riscv64" in unfollowed("riscv64", kernel)
    assert unfollowed("aarch64", KernelSymbols(SYMBOLS[:2])).endswith("functions has no cpu_switch_to and no vectors")
    assert unfollowed("aarch64", KernelSymbols(SYMBOLS[:3])).endswith("has no cpu_switch_to"), "its end is not known"


def test_the_plugin_gets_the_addresses_of_the_kernel() -> None:
    assert path_words("x86_64", KernelSymbols(SYMBOLS)) == ("follow=0x1", "exec=0x1000")
    assert path_words("x86_64", KernelSymbols([])) == ("follow=0x1",)
    words = ("follow=0x1", "exec=0x1000", "switch=0x3000", "switch_end=0x3080", "vectors=0x2000")
    assert path_words("aarch64", KernelSymbols(SYMBOLS)) == words
    assert path_words("aarch64", KernelSymbols(SYMBOLS[1:])) == (words[0], *words[2:])
