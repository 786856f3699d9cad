# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone published check` prints is what the pages' own numbers give."""

from __future__ import annotations

import pytest
from tools import published_check
from tools.generated import TOP, main
from tools.published_check import problems, recompute, statements, table

from swapstone.parts.published import data as published

DERIVED = table("derived.csv")


def test_the_stored_result_is_what_the_numbers_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(problems(TOP)) == []
    assert main("published_check") == 0, capsys.readouterr().out


def test_an_old_result_and_a_wrong_number_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = statements()
    known[0] = {**known[0], "computed": [["ratio", "161.6", "146.5", "1.2"], ["ratio", "161.6", "1.25", "129.3"]]}
    monkeypatch.setattr(published_check, "statements", lambda: known)
    monkeypatch.setattr(
        published_check, "table", lambda name: table(name)[:5] if name == "derived.csv" else table(name)
    )
    assert main("published_check") == 2
    said = capsys.readouterr().out
    assert "ratio of 161.6 and 146.5 is 1.1." in said
    assert "no page has 1.25" in said
    assert "tools/published-check --write" in said


def test_every_index_is_reproduced_to_the_printed_digit() -> None:
    indices = [recompute(row) for row in DERIVED if row["formula"].startswith("geometric mean")]
    assert sorted(found.printed for found in indices) == sorted(
        ["161.6", "146.5", "773.4", "626.4", "618.5", "3406.4", "1525.8", "1494.4"]
    )
    assert all(found.printed == found.computed for found in indices)


def test_the_derived_numbers_that_do_not_reproduce_are_these_and_no_others() -> None:
    found = [recompute(row) for row in DERIVED]
    off = {
        (each.row["place"], each.row["row"]): (each.printed, each.computed)
        for each in found
        if not each.agrees and each.row["place"] != "tables 7 and 8"
    }
    assert off == {
        ("UnixBench", "Shell Scripts (8 concurrent) (musl)"): ("990.6", "990.7"),
        ("CoreMark, 1 thread", "CoreMark per MHz (glibc)"): ("5.45", "5.44"),
        ("CoreMark, 4 threads", "CoreMark per MHz (glibc)"): ("21.74", "21.71"),
        ("CoreMark, 4 threads", "CoreMark per MHz (musl)"): ("21.75", "21.71"),
    }
    assert len(found) == 229 + 8 + 12


def test_the_latency_tables_contradict_each_other_in_five_cells() -> None:
    off = [row["row"] for row in DERIVED if row["place"] == "tables 7 and 8" and not recompute(row).agrees]
    assert len(off) == 5
    assert not any("D2000" in row for row in off)


@pytest.mark.parametrize(
    ("a", "printed", "text"), [("17.625", "17.63", "17.63"), ("95.98", "96", "96"), ("-14.5", "-14", "-15")]
)
def test_rounding_is_half_up_to_the_printed_decimals(a: str, printed: str, text: str) -> None:
    found = recompute({"formula": "ratio", "a": a, "b": "1", "printed": printed})
    assert (found.computed, found.agrees) == (text, text == printed)


def test_the_facts_of_vmstat_are_its_columns() -> None:
    facts = {(row["source"], row["fact"]): row["values"] for row in table("facts.csv")}
    for level in ("flash", "zram"):
        column = {f.metric: f.value for f in published.further() if f.suite == "vmstat" and f.level == level}
        seconds = [second for second in range(len(column) // 15) if column[f"swpd, second {second}"]]
        for name, fact in (("swpd", "swpd"), ("sy", "system time")):
            values = [column[f"{name}, second {second}"] for second in seconds]
            assert [float(text) for text in facts["zram-and-float", f"{fact} with {level}"].split()] == values
