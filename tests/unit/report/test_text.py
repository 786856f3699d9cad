# SPDX-License-Identifier: MIT OR Apache-2.0
"""The terminal report: its shape, its words, and what it does with text from outside."""

from __future__ import annotations

import base64
import hashlib
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.golden import reports, synthetic
from tests.unit import builders

from swapstone.core.model import (
    Analysis,
    Caveat,
    CaveatKind,
    Comparison,
    Failure,
    Noise,
    Quantity,
    Scale,
    Variant,
    Verdict,
)
from swapstone.core.report import export, formatting
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.render import terminal_layout
from swapstone.core.report.render.terminal_layout import Styled, Terminal
from swapstone.core.report.topics import comparison_groups, sentences
from swapstone.core.report.topics.comparison_groups import Agreement

CONTEXT, ANALYSIS = synthetic.context(), synthetic.analysis()
EVIL = "<script>alert(1)</script>|\x1b[31mred\x1b]0;title\x07\r\n\x9b2J\u202egnp.exe`*_[x](javascript:1)"
EVIL_VARIANT = Variant(levels=(("libc", EVIL),))
QUIET = Noise(cpu_pressure_percent=0.0, cpu_pressure_max_percent=0.0, steal_percent=None, load1=0.0, busy=False)


def _first() -> Comparison:
    return ANALYSIS.comparisons[0]


def _evil() -> tuple[ReportContext, Analysis]:
    comparisons = tuple(
        msgspec.structs.replace(c, workload=EVIL + c.workload, candidate=EVIL_VARIANT, reason=EVIL)
        for c in ANALYSIS.comparisons
    )
    analysis = msgspec.structs.replace(
        ANALYSIS,
        comparisons=comparisons,
        caveats=(Caveat(kind=CaveatKind.RESUMED, message=EVIL, hint=EVIL),),
        failures=(Failure(key=EVIL, status="failed", reason=EVIL),),
        indices=tuple(msgspec.structs.replace(i, candidate=EVIL_VARIANT, suite=EVIL) for i in ANALYSIS.indices),
        nulls=tuple(msgspec.structs.replace(n, rows=(EVIL,)) for n in ANALYSIS.nulls),
    )
    context = msgspec.structs.replace(
        CONTEXT, record_id=EVIL, record_path=EVIL, rerun=EVIL, notes=(EVIL,), facts=((EVIL, EVIL),), version=EVIL
    )
    return context, analysis


@pytest.mark.parametrize("width", [64, 72, 80, 100, 116, 120, 200])
@pytest.mark.parametrize("every", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, every: bool) -> None:
    selection = Selection(every=every)
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=width, selection=selection).split("\nRecord ")[0]
    assert [line for line in made.splitlines() if cell_len(line) > width] == []


def test_without_colour_there_is_no_terminal_code_and_with_it_the_words_are_the_same() -> None:
    plain = reports.as_whole_text(CONTEXT, ANALYSIS, width=120)
    colourful = reports.as_whole_text(CONTEXT, ANALYSIS, width=120, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[31mworse" in colourful
    assert re.sub(r"\x1b\[\d+m", "", colourful) == plain


def test_ascii_keeps_every_column_where_it_was() -> None:
    made = reports.as_whole_text(synthetic.context(published=""), ANALYSIS, width=120, ascii_only=True)
    assert made.isascii()
    unicode = reports.as_whole_text(synthetic.context(published=""), ANALYSIS, width=120)
    assert [len(line) for line in made.splitlines()] == [len(line) for line in unicode.splitlines()]


@pytest.mark.parametrize("colour", [False, True])
def test_text_from_outside_cannot_steer_the_terminal(colour: bool) -> None:
    context, analysis = _evil()
    made = reports.as_whole_text(context, analysis, width=120, colour=colour, selection=Selection(every=True))
    ours = re.compile(r"\x1b\[(0|1|2|31|32|33|35)m")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", ours.sub("", made))
    assert "\\x1b" in made


def test_markdown_shows_text_from_outside_and_obeys_none_of_it() -> None:
    context, analysis = _evil()
    made = reports.as_markdown(context, analysis)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", made)
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"(?m)^    .*$", "", made))
    assert not re.search(r"(?<!\\)<script", outside_code)
    assert not re.search(r"(?<!\\)\]\(javascript", outside_code)
    tables = [line for line in made.splitlines() if line.startswith("| ")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in tables}
    assert bars <= {3, 4, 5, 6, 7, 9}


def test_html_escapes_text_from_outside() -> None:
    context, analysis = _evil()
    made = reports.as_html(context, analysis)
    assert made.count("<script") == made.count("</script") == 1
    assert "&lt;script&gt;alert(1)" in made
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", made)


def test_html_is_one_file_that_loads_nothing_and_is_small() -> None:
    made = reports.as_html(CONTEXT, ANALYSIS)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', made)
    scripts = re.findall(r"(?s)<script>(.*?)</script>", made)
    assert policy and "default-src 'none'" in policy[1]
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert re.findall(r"script-src ([^;]*);", policy[1]) == [f"'sha256-{each}'" for each in digests]
    assert not re.search(r"(?i)fetch|XMLHttpRequest|eval|innerHTML|insertAdjacent|import", scripts[0])
    assert not re.search(
        r"(?i)<(script \w|link rel=\"stylesheet|img|iframe|object|embed)|url\(|@import|https?://", made
    )


@pytest.mark.slow
def test_html_of_a_large_experiment_stays_below_a_megabyte_and_a_half() -> None:
    many = tuple(
        msgspec.structs.replace(
            _first(),
            workload=f"workload_{i}",
            metric=msgspec.structs.replace(_first().metric, name=f"metric{m}", quantity=quantity),
            baseline_values=tuple(1e6 + 37.0 * i + k * 101 for k in range(30)),
            candidate_values=tuple(1.3e6 + 41.0 * i - k * 97 for k in range(30)),
            preferred=m == 0,
        )
        for i in range(27)
        for m, quantity in enumerate([Quantity.TIME] * 2 + [Quantity.MEMORY] * 4 + [Quantity.EVENTS] * 4)
    )
    made = reports.as_html(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=many))
    assert len(made.encode()) < 1_500_000


def test_an_empty_analysis_renders_everywhere() -> None:
    empty = Analysis(
        comparisons=(), indices=(), nulls=(), noise=QUIET, caveats=(), failures=(), blocks=0, runs=0, correction="none"
    )
    assert "Quiet machine" in reports.as_whole_text(CONTEXT, empty)
    assert "Quiet machine" in reports.as_markdown(CONTEXT, empty)
    assert "nothing to compare" in reports.as_html(CONTEXT, empty)
    for make in export.EXPORTS.values():
        assert make(CONTEXT, empty)


def test_invalid_rows_show_their_reason_and_no_ratio() -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, width=120)
    lines = [line for line in made.splitlines() if line.startswith("b_pthread_createjoin_minimal2  2")]
    assert lines and all("invalid" in line and "1.09" not in line.split("invalid")[0] for line in lines)
    assert "another level was in force" in made


def test_comparisons_with_a_copy_of_the_baseline_are_summed_up_not_listed() -> None:
    copy = msgspec.structs.replace(_first(), candidate=synthetic.AGAIN, workload="only_in_the_null")
    analysis = msgspec.structs.replace(ANALYSIS, comparisons=(*ANALYSIS.comparisons, copy))
    made = reports.as_whole_text(CONTEXT, analysis)
    assert "only_in_the_null" not in made
    assert "libc=glibc against itself: 1 of 54 differ (b_malloc_tiny1 cpu)" in made


def test_a_selection_prints_one_metric() -> None:
    made = reports.as_whole_text(CONTEXT, ANALYSIS, selection=Selection(metrics=("res",)))
    assert "Memory: res" in made
    assert "\nCPU time\n" not in made


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "ns", "0 ns"),
        (532, "ns", "532 ns"),
        (999.6, "ns", "1.00 us"),
        (1234, "ns", "1.23 us"),
        (155_694_333, "ns", "156 ms"),
        (2e9, "ns", "2 s"),
        (1023, "B", "1023 B"),
        (8683520, "B", "8.28 MiB"),
        (16384, "B", "16 KiB"),
        (71234, "1", "71.2 k"),
        (3, "1", "3"),
        (435.13, "1/s", "435 /s"),
        (1000, "B/s", "1000 B/s"),
        (24576, "B/s", "24 KiB/s"),
        (139467962, "B/s", "133 MiB/s"),
        (-1500, "ns", "-1.50 us"),
        (float("nan"), "ns", "? ns"),
    ],
)
def test_quantities(value: float, unit: str, shown: str) -> None:
    assert formatting.quantity(value, unit) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1, "1.000"), (0.9996, "1.000"), (9.9996, "10.00"), (252.33, "252.3"), (0.00234, "0.00234"), (12.345, "12.35")],
)
def test_ratios(value: float, shown: str) -> None:
    assert formatting.ratio(value) == shown


@given(st.floats(min_value=1, max_value=1e15))
def test_a_quantity_keeps_its_value_to_three_digits(value: float) -> None:
    number, _, unit = formatting.quantity(value, "ns").partition(" ")
    scale = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert float(number) * scale == pytest.approx(value, rel=0.006)


@given(st.text())
def test_safe_text_is_one_printable_line(value: str) -> None:
    made = formatting.safe(value)
    assert made.isprintable() or "\u00a0" in made or all(c.isprintable() or c.isspace() for c in made)
    assert len(made.splitlines()) <= 1
    assert formatting.safe(made) == made


@given(st.text(min_size=1), st.integers(2, 40))
def test_a_cell_keeps_its_text_in_lines_of_its_width(value: str, width: int) -> None:
    text = formatting.safe(value)
    ((*lines,),) = terminal_layout.columns([[Styled(text)]], [False], [width], Terminal())
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(st.floats(min_value=1e-4, max_value=1e4), st.floats(min_value=1.01, max_value=64))
def test_bars_keep_their_width_and_their_side(ratio: float, reach: float) -> None:
    bar = terminal_layout.bar(ratio, reach)
    left, _, right = bar.partition("│")
    assert len(bar) == 13
    assert not (left.strip() and right.strip())
    assert not left.strip() if ratio >= 1 else not right.strip()


@pytest.mark.parametrize(
    ("verdict", "effect", "ratio", "kind"),
    [
        (Verdict.WORSE, 1.2, 1.3, Agreement.AGREES),
        (Verdict.BETTER, 0.8, 0.7, Agreement.AGREES),
        (Verdict.WORSE, 1.2, 0.7, Agreement.DISAGREES),
        (Verdict.WORSE, 1.2, 1.01, Agreement.SAME_PUBLISHED),
        (Verdict.WORSE, 1.2, 0.99, Agreement.SAME_PUBLISHED),
        (Verdict.EQUIVALENT, 1.0, 1.3, Agreement.SAME_HERE),
        (Verdict.INCONCLUSIVE, 1.2, 1.3, Agreement.UNDECIDED),
        (Verdict.INVALID, 1.2, 1.3, Agreement.UNDECIDED),
        (Verdict.WORSE, 1.2, 0.0, Agreement.DISAGREES),
    ],
)
def test_signs_are_compared_with_the_page(verdict: Verdict, effect: float, ratio: float, kind: Agreement) -> None:
    c = msgspec.structs.replace(_first(), verdict=verdict, effect=effect)
    assert comparison_groups.agreement(c, ratio, 0.02) is kind


@pytest.mark.parametrize(
    ("verdict", "effect", "ratio", "note"),
    [
        (Verdict.WORSE, 1.2, 1.3, "agrees"),
        (Verdict.WORSE, 1.2, 1.5, "size x 0.800"),
        (Verdict.BETTER, 0.8, 0.2, "size x 4.0"),
        (Verdict.WORSE, 1.2, 0.2, "disagrees"),
    ],
)
def test_an_equal_sign_with_another_size_is_no_agreement(
    verdict: Verdict, effect: float, ratio: float, note: str
) -> None:
    c = msgspec.structs.replace(_first(), verdict=verdict, effect=effect)
    row = comparison_groups.Row(comparison=c, published=ratio, agreement=comparison_groups.agreement(c, ratio, 0.02))
    assert row.page_note.startswith(note)


def test_a_swapped_baseline_turns_the_published_ratio_round() -> None:
    swapped = tuple(
        msgspec.structs.replace(c, baseline=c.candidate, candidate=c.baseline, effect=1 / c.effect)
        for c in ANALYSIS.comparisons
        if c.scale is Scale.RATIO and c.effect is not None
    )
    (section,) = comparison_groups.comparison_groups(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=swapped))
    row = section.rows[0]
    assert row.published == pytest.approx(0.133191926 / 0.155694333)


def test_other_levels_have_no_published_figure() -> None:
    other = tuple(msgspec.structs.replace(c, candidate=builders.variant("libc=dietlibc")) for c in ANALYSIS.comparisons)
    (section,) = comparison_groups.comparison_groups(CONTEXT, msgspec.structs.replace(ANALYSIS, comparisons=other))
    assert all(row.published is None for row in section.rows)


def test_counts_in_the_summary_are_the_rows() -> None:
    (section,) = comparison_groups.comparison_groups(CONTEXT, ANALYSIS)
    assert len(section.rows) == 12
    assert (
        sentences.summary(section)
        == "musl on 12 workloads: 3 better, 6 worse, 1 equivalent, 1 inconclusive, 1 invalid."
    )


def test_commands_quote_the_path_of_the_record() -> None:
    context = msgspec.structs.replace(CONTEXT, record_path="my record; rm x")
    for made in (reports.as_text(context, ANALYSIS), reports.as_whole_text(context, ANALYSIS)):
        shown = [line for line in made.splitlines() if "my record" in line and "swapstone" in line]
        assert shown and all("'my record; rm x'" in line for line in shown)
