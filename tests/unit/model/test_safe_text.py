# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text from outside can't control a terminal, can't reorder a line, and is no formula in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swapstone.core.model.safe_text import safe, safe_excerpt, safe_json, safe_lines, spreadsheet_cell, utf8_path
from swapstone.core.report.tables import comma_separated

STEERING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

HOSTILE = {
    "C0": "\x1b[2J\x07\x00\r",
    "DEL": "a\x7fb",
    "C1": "\x9b31mred\x9c\x85",
    "bidi": "\u202egnp.exe\u2066\u2069\u200f",
    "OSC 8": "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "OSC 52": "\x1b]52;c;ZXZpbA==\x07",
    "lines": "one\ntwo\u2028three\x0bfour\x0cfive",
    "invisible": "a\u200bb\ufeffc\u00ad",
    "surrogate": "\udcff",
}


def steering(text: str, kept: str = "") -> set[str]:
    return {char for char in text if char not in kept and unicodedata.category(char) in STEERING}


@pytest.mark.parametrize("name", HOSTILE)
def test_each_kind_of_hostile_text_is_made_visible(name: str) -> None:
    text = HOSTILE[name]
    assert steering(text)
    for shown in (safe(text), safe_lines(text).replace("\n", ""), str(spreadsheet_cell(text))):
        assert not steering(shown)
        assert "\\x" in shown or "\\u" in shown
    assert safe(safe(text)) == safe(text)


def test_the_escapes_name_the_characters() -> None:
    assert safe("\x1b[31mred\n\u202e\U000e0001") == "\\x1b[31mred\\x0a\\u202e\\U000e0001"
    assert safe("grün 支持 – 1.5×") == "grün 支持 – 1.5×"  # noqa: RUF001 - a dash and a times sign, as reports have them


def test_newlines_and_tabs_of_several_lines_stay_and_carriage_returns_do_not() -> None:
    assert safe_lines("a\n\tb\r\x1b[1m") == "a\n\tb\\x0d\\x1b[1m"


def test_of_coloured_text_only_colours_stay() -> None:
    text = "\x1b[1;31mred\x1b[0m \x1b[2J \x1b]0;title\x07 \x1b[31;x"
    assert safe_lines(text, colours=True) == "\x1b[1;31mred\x1b[0m \\x1b[2J \\x1b]0;title\\x07 \\x1b[31;x"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_is_equal_when_it_is_decoded_and_has_nothing_that_steers(text: str) -> None:
    shown = safe_json(json.dumps({text: [text]}, ensure_ascii=False, indent=1))
    assert json.loads(shown) == {text: [text]}
    assert not steering(shown, kept="\n")


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1+1",
        "-1+1",
        "@SUM(A1)",
        "-x",
        "=cmd|'/c calc'!A1",
        " =1",
        "\u00a0=1",
        "\u3000 =1",
        "\uff1d1+1",
        "-",
        "+",
        "--1",
        "-1e",
        "1=1",
    ],
)
def test_a_cell_never_begins_like_a_formula(text: str) -> None:
    cell = str(spreadsheet_cell(text))
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\t", "\r"))
    assert cell.removeprefix("'") == text


@pytest.mark.parametrize("text", ["-1.5", "+3", "-0.000123", "-1e-06", "1.5E+300", "-inf", "nan", "12", "-.5", "+7."])
def test_numbers_stay(text: str) -> None:
    assert spreadsheet_cell(text) == text
    assert float(str(spreadsheet_cell(text))) == pytest.approx(float(text), nan_ok=True)


def test_values_that_are_no_text_stay() -> None:
    assert [spreadsheet_cell(value) for value in (-1.5, -3, None, True)] == [-1.5, -3, None, True]
    assert spreadsheet_cell(["=1"]) == "['=1']"


def test_a_tab_and_a_carriage_return_at_the_start_become_visible() -> None:
    assert spreadsheet_cell("\t=1+1") == "\\x09=1+1"
    assert spreadsheet_cell("\r=1+1") == "\\x0d=1+1"


@given(st.lists(st.lists(st.text(max_size=9), min_size=2, max_size=2)))
def test_csv_comes_back_as_the_documented_rule_has_it(rows: list[list[str]]) -> None:
    text = comma_separated(["a", "=b"], rows)
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert found == [["a", "'=b"], *([str(spreadsheet_cell(cell)) for cell in row] for row in rows)]
    assert not steering(text, kept="\n")
    assert text.count("\n") == len(rows) + 1


def test_an_excerpt_is_safe_and_short() -> None:
    assert safe_excerpt("a\x1b[2J\n\u202eb") == "a\\x1b[2J\\x0a\\u202eb"
    assert safe_excerpt("x" * 300) == "x" * 200 + "..."
    assert safe_excerpt("x" * 5 + "\x1b", most=5) == "xxxxx..."


@given(st.binary(min_size=1).filter(lambda data: b"\0" not in data))
def test_every_path_is_a_text_in_utf_8(data: bytes) -> None:
    shown = utf8_path(Path(os.fsdecode(data)))
    shown.encode()
    assert shown == utf8_path(Path(shown))


def test_bytes_of_a_path_that_are_not_utf_8_become_visible() -> None:
    assert utf8_path(Path("r\udcff/\u00e4")) == "r\\xff/\u00e4"
