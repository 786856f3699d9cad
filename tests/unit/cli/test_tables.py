# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plain tables line up, and nothing in them steers the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from swapstone.cli.output import plain
from swapstone.cli.tables import table
from swapstone.core.session.catalog import all_lists


def test_columns_line_up_and_numbers_go_to_the_right() -> None:
    lines = table(["name", "n"], [["a", 1], ["longer", 200]]).splitlines()
    assert lines == ["name      n", "------- ---", "a         1", "longer  200"]


def test_wide_characters_count_twice() -> None:
    lines = table(["x", "y"], [["支持", "a"], ["ab", "b"]]).splitlines()
    assert lines[2] == "支持  a" and lines[3] == "ab    b"


@pytest.mark.parametrize("width", [24, 40, 60])
def test_a_table_is_never_wider_than_the_terminal_and_loses_no_text(width: int) -> None:
    words = "one two three four five six seven eight"
    text = table(["name", "what", "n"], [["a/very/long/path/of/a/record", words, 7]], width)
    assert max(map(len, text.splitlines())) <= width
    assert all(word in text for word in words.split())
    assert "a/very/long/path/of/a/record" in "".join(line.split(" ")[0] for line in text.splitlines()[2:])


@pytest.mark.slow
@given(st.lists(st.lists(st.text(max_size=20), min_size=2, max_size=2), max_size=5))
def test_what_comes_from_outside_cannot_steer_the_terminal(rows: list[list[str]]) -> None:
    text = table(["a", "b"], rows)
    assert text.count("\n") == len(rows) + 2
    assert not {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} & set(map(unicodedata.category, text.replace("\n", "")))


@pytest.mark.parametrize("what", ["factors", "workloads", "suites", "loads", "targets", "studies"])
def test_no_list_is_wider_than_the_terminal(what: str) -> None:
    listing = all_lists()[what]
    rows = list(listing.rows())
    lines = table(listing.head, rows, 60).splitlines()
    assert max(map(cell_len, lines)) <= 60
    assert len(lines) >= len(rows) + 2


def test_control_characters_become_visible() -> None:
    assert plain("\x1b[31mred\n") == "\\x1b[31mred\\x0a"
    assert plain(None) == ""
