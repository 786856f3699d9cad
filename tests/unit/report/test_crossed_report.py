# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crossed factors in a report: the layout of tables, the sentences, and the export of effects."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from tests.golden import crossed as example
from tests.golden import reports

from swapstone.core.model import Direction, Interaction, Presence, Scale, Variant, Verdict
from swapstone.core.report import export
from swapstone.core.report.context import Selection
from swapstone.core.report.topics import factorial_tables

CONTEXT, ANALYSIS = example.context(), example.analysis()
EVIL = "<script>alert(1)</script>|\x1b[31mred\x1b]0;t\x07\r\n\u202e`*_[x](javascript:1)"


def _interaction() -> Interaction:
    return next(i for i in ANALYSIS.interactions if i.workload == "b_malloc_big1" and i.by.level == "mimalloc")


def _said(**changes: object) -> str:
    return factorial_tables.sentence(msgspec.structs.replace(_interaction(), **changes))


def test_two_by_three_on_eight_workloads_fit_a_terminal_of_100_columns_in_one_piece() -> None:
    lines = reports.as_whole_text(CONTEXT, ANALYSIS, width=100).splitlines()
    assert max(map(cell_len, lines)) <= 100
    assert sum(line.startswith("libc      ") for line in lines) == 2  # one head for the time, one for memory


@pytest.mark.parametrize("width", [40, 64, 72, 80, 100, 120, 200])
@pytest.mark.parametrize("every", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, every: bool) -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=width, selection=Selection(every=every))
    assert [line for line in made.splitlines() if cell_len(line) > width] == []


def test_the_sections_of_each_candidate_are_printed_with_every() -> None:
    brief = reports.as_text(CONTEXT, ANALYSIS, width=120)
    whole = reports.as_whole_text(CONTEXT, ANALYSIS, width=120, selection=Selection(every=True))
    assert "Every row of libc: musl, mimalloc against glibc, default" not in brief
    assert "Every row of libc: musl, mimalloc against glibc, default" in whole
    assert "b_malloc_sparse: with allocator=mimalloc" not in brief
    assert "b_malloc_sparse: with allocator=mimalloc" in whole


def test_a_variant_that_can_not_be_had_is_named_once_with_its_reason() -> None:
    brief = reports.as_text(CONTEXT, ANALYSIS, width=120)
    assert f" musl with tcmalloc has no result: unavailable: {example.REASON}." in " ".join(brief.split())
    assert f"- musl with tcmalloc, 8 rows: unavailable: {example.REASON}" in brief
    assert "gave no numbers" not in brief
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=120)
    assert f"libc=musl,allocator=tcmalloc: unavailable on 8 workloads: {example.REASON}" in made
    assert "musl × tcmalloc" not in made  # noqa: RUF001 - a times sign
    assert "libc=musl without allocator=tcmalloc" in made


def test_the_largest_interactions_come_first_and_the_index_before_them() -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=120)
    present = re.findall(r"(?m)^- (\S+): with allocator=mimalloc", made)
    assert present[:4] == ["Index", "b_malloc_thread_stress", "b_malloc_big1", "b_malloc_big2"]
    assert "libc=musl costs 1.024x instead of 1.901x (with default): it closes 96 % of the gap." in made


def test_a_misleading_main_effect_is_marked_and_another_is_not() -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=120)
    assert (
        "* These main effects alone are misleading: libc=musl depends on allocator; allocator=mimalloc depends on libc."
        in made
    )
    (stress,) = (
        e
        for e in ANALYSIS.effects
        if e.workload == "b_malloc_thread_stress" and not e.held and e.preferred and e.change.level == "musl"
    )
    assert stress.depends_on == ("allocator",)
    row = next(line for line in made.splitlines() if line.startswith("b_malloc_thread_stress") and " w* " in line)
    assert row.rstrip().endswith(" b")  # tcmalloc, of which no interaction could be measured


def test_words_for_a_gap() -> None:
    assert _said(closed=0.97).endswith("it closes 97 % of the gap")
    assert _said(closed=1.2).endswith("it closes the whole gap")
    assert _said(closed=-0.4).endswith("that widens the gap by 40 %")
    assert _said(closed=None).endswith("(with default)")
    better = {"without": 0.5, "within": 0.9}
    assert _said(closed=0.85, **better).endswith("85 % of the gain is lost")
    assert _said(closed=1.2, **better).endswith("the whole gain is lost")
    assert _said(closed=-0.4, **better).endswith("that adds 40 % to the gain")


@pytest.mark.parametrize(
    ("direction", "verb", "ending"),
    [
        (Direction.LOWER, "costs", "of the gap"),
        (Direction.HIGHER, "gives", "of the gain is lost"),
        (Direction.NEITHER, "has", "of the gap"),
    ],
)
def test_the_verb_follows_the_metric(direction: Direction, verb: str, ending: str) -> None:
    metric = msgspec.structs.replace(_interaction().metric, better=direction)
    sentence = _said(metric=metric, without=2.0, within=1.1, closed=0.86)
    assert sentence == f"with allocator=mimalloc, libc=musl {verb} 1.100x instead of 2.000x (with default): " + (
        f"it closes 86 % {ending}" if ending == "of the gap" else f"86 % {ending}"
    )


def test_differences_have_units_and_no_times() -> None:
    metric = msgspec.structs.replace(_interaction().metric, unit="B")
    sentence = _said(metric=metric, scale=Scale.DIFFERENCE, without=2048.0, within=0.0, closed=1.0)
    assert "costs 0 B instead of +2 KiB (with default)" in sentence


def test_undecided_interactions_have_the_smallest_detectable_one() -> None:
    open_one = msgspec.structs.replace(_interaction(), presence=Presence.UNDECIDED, smallest_visible=1.05)
    sentence = factorial_tables.undecided([open_one])
    assert sentence == ["b_malloc_big1 musl × mimalloc 5 %"]  # noqa: RUF001 - a times sign
    assert factorial_tables.undecided([_interaction()]) == []


def test_levels_of_the_same_name_keep_their_factors() -> None:
    one = msgspec.structs.replace(_interaction().change, level="on")
    other = msgspec.structs.replace(_interaction().by, level="on")
    assert factorial_tables.pair(one, other) == "libc=on × allocator=on"  # noqa: RUF001 - a times sign


def test_another_metric_can_be_asked_for() -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=100, selection=Selection(metrics=("minflt",)))
    assert "minflt, interactions" in made and "Elapsed time" not in made
    assert "+3 w" in made


def test_html_and_markdown_hold_the_same_sentences_and_every_workload() -> None:
    page, mark = reports.as_html(CONTEXT, ANALYSIS), reports.as_markdown(CONTEXT, ANALYSIS)
    for row in example.WORKLOADS:
        assert row[0] in page
    assert page.count(example.REASON) >= 1
    flat = re.sub(r"\s+", " ", page).replace("\N{NO-BREAK SPACE}", " ")
    assert "libc=musl costs 1.024x instead of 1.901x (with default): it closes 96 % of the gap." in flat
    assert "libc=musl costs 1.024x instead of 1.901x (with default): it closes 96 % of the gap" in mark
    assert "depends on allocator" in page and "depends on allocator" in mark
    assert mark.count("<details>") == mark.count("</details>") and page.count("<details") == page.count("</details>")


def _renamed(variant: Variant) -> Variant:
    """Return a variant whose levels end in text that tries to steer a terminal."""
    return msgspec.structs.replace(variant, levels=tuple((name, level + EVIL) for name, level in variant.levels))


def _evil() -> Any:
    def bad(effect: Any) -> Any:
        change = msgspec.structs.replace(effect.change, level=EVIL)
        fields = {"change": change, "workload": effect.workload and EVIL + effect.workload, "missing": (EVIL,)}
        if isinstance(effect, Interaction):
            return msgspec.structs.replace(effect, **fields, by=msgspec.structs.replace(effect.by, level=EVIL))
        return msgspec.structs.replace(effect, **fields, depends_on=(EVIL,))

    comparisons = tuple(
        msgspec.structs.replace(c, workload=EVIL + c.workload, reason=EVIL, candidate=_renamed(c.candidate))
        for c in ANALYSIS.comparisons
    )
    return msgspec.structs.replace(
        ANALYSIS,
        comparisons=comparisons,
        effects=tuple(map(bad, ANALYSIS.effects)),
        interactions=tuple(map(bad, ANALYSIS.interactions)),
    )


@pytest.mark.slow
def test_text_from_outside_is_shown_and_never_obeyed() -> None:
    ours = re.compile(r"\x1b\[(0|1|2|31|32|33|35)m")
    steering = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
    for every in (False, True):
        made = reports.as_whole_text(CONTEXT, _evil(), width=100, colour=True, selection=Selection(every=every))
        assert "\\x1b" in made and not steering.search(ours.sub("", made))
    page, mark = reports.as_html(CONTEXT, _evil()), reports.as_markdown(CONTEXT, _evil())
    assert page.count("<script") == 1 and "&lt;script&gt;" in page and not steering.search(page)
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"(?m)^    .*$", "", mark))
    assert not re.search(r"(?<!\\)<script|(?<!\\)\]\(javascript", outside_code) and not steering.search(mark)


def test_the_csv_of_effects_has_a_row_for_each_and_loses_no_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(export.EXPORTS["effects"](CONTEXT, ANALYSIS))))
    assert len(rows) == len(ANALYSIS.effects) + len(ANALYSIS.interactions)
    for row, each in zip(rows, (*ANALYSIS.effects, *ANALYSIS.interactions), strict=True):
        found: Any = each
        assert (row["workload"], row["metric"], row["change"]) == (
            found.workload,
            found.metric.name,
            found.change.label,
        )
        assert (float(row["effect"]) if row["effect"] else None) == found.effect
        assert (float(row["low"]) if row["low"] else None) == found.low
    kinds = {row["kind"] for row in rows}
    assert kinds == {"main", "simple", "interaction"}
    both = [
        row
        for row in rows
        if row["kind"] == "interaction" and row["workload"] == "b_malloc_big1" and row["metric"] == "wall"
    ]
    assert [(row["changed_by"], row["verdict"]) for row in both] == [
        ("allocator=mimalloc", "present"),
        ("allocator=tcmalloc", "unavailable"),
    ]
    assert 0.9 < float(both[0]["closed"]) < 0.95 and both[1]["closed"] == both[1]["effect"] == ""


def test_the_csv_of_comparisons_is_what_it_was() -> None:
    rows = list(csv.DictReader(io.StringIO(export.to_csv(CONTEXT, ANALYSIS))))
    assert len(rows) == len(ANALYSIS.comparisons) and "kind" not in rows[0]


def test_a_matrix_has_no_column_for_a_variant_without_numbers_and_one_for_a_variant_with_some() -> None:
    (section, _) = factorial_tables.crossed_metrics(ANALYSIS)
    assert section.matrix.heads == (
        ("glibc", "mimalloc"),
        ("glibc", "tcmalloc"),
        ("musl", "default"),
        ("musl", "mimalloc"),
    )
    comparisons = tuple(
        msgspec.structs.replace(c, verdict=Verdict.INVALID, reason="candidate refused in 1 of 21 runs: other work")
        if (c.workload, c.candidate.label) == ("b_malloc_big1", "libc=musl,allocator=mimalloc")
        else c
        for c in ANALYSIS.comparisons
    )
    changed = msgspec.structs.replace(ANALYSIS, comparisons=comparisons)
    made = reports.as_whole_text(CONTEXT, changed, width=100)
    assert re.search(r"(?m)^b_malloc_big1 .* !$", made)
    assert (
        "libc=musl,allocator=mimalloc: invalid on b_malloc_big1: candidate refused in 1 of 21 runs: other work"
        in " ".join(made.split())
    )
