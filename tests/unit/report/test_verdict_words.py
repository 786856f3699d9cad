# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every verdict in every place of a report: none raises, and none reads as its opposite."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import reports, synthetic, verdicts

from swapstone.core.model import (
    DECIDED,
    FAMILY_CORRECTION,
    NO_NUMBERS,
    Analysis,
    Comparison,
    Direction,
    Metric,
    Quantity,
    RunSummary,
    Scale,
    Verdict,
)
from swapstone.core.report.answer import figures, limits, tails
from swapstone.core.report.answer.means import places_of
from swapstone.core.report.context import Selection
from swapstone.core.report.document import Table
from swapstone.core.report.export import EXPORTS, to_csv
from swapstone.core.report.record_report import answer_of
from swapstone.core.report.render import terminal
from swapstone.core.report.topics import sentences
from swapstone.core.report.topics.comparison_groups import sign
from swapstone.core.report.verdict_groups import COUNTED, MEDIAN_ONLY, VERDICT_MARKS

GOOD = {Verdict.BETTER, Verdict.BETTER_TAIL}
BAD = {Verdict.WORSE, Verdict.WORSE_TAIL}
SAME = {Verdict.EQUIVALENT, Verdict.BELOW_MARGIN, Verdict.SAME_MEDIAN}
UCLIBC = msgspec.structs.replace(synthetic.MUSL, levels=(("libc", "uclibc"),))
CONTEXT = verdicts.context()
MEAN = "mean 1.450 times (1.415\N{EN DASH}1.485)"
COUNT = Metric(name="switches", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="switches")


def _analysis(rows: Sequence[Comparison]) -> Analysis:
    return msgspec.structs.replace(verdicts.analysis(), comparisons=tuple(rows), caveats=())


def _answer(*rows: Comparison) -> str:
    return answer_of(CONTEXT, _analysis(rows))


def test_each_verdict_is_counted_once() -> None:
    assert Counter(verdict for _, group in COUNTED for verdict in group) == Counter(Verdict)


def test_equivalent_is_the_same_and_the_same_median_is_not() -> None:
    assert _answer(verdicts.row(Verdict.EQUIVALENT, "prog")) == "musl takes as long as glibc (within 2 %) on prog."
    far = verdicts.row(Verdict.SAME_MEDIAN, "prog")
    same = "musl has the same median elapsed time as glibc (within 2 %) on prog; "
    assert _answer(far) == f"{same}its mean is 1.120 times (1.093\N{EN DASH}1.147), undecided."
    blind = msgspec.structs.replace(far, mean_effect=1.01, mean_low=0.99, mean_high=1.03)
    assert _answer(blind) == f"{same}slow modes rarer than 26 % of runs are not excluded."
    seen = msgspec.structs.replace(blind, rarest_mode=0.03)
    assert _answer(seen) == f"{same}its mean is not shown to be the same."
    short = msgspec.structs.replace(seen, mean_high=1.015, observed_s=2.04)
    assert _answer(short) == f"{same}the runs span 2.0 s only."


def test_several_rows_with_the_same_median() -> None:
    rows = [verdicts.row(verdict) for verdict in (Verdict.EQUIVALENT, Verdict.SAME_MEDIAN)]
    same = "musl has the same median elapsed time as glibc (within 2 %) on each of 2 program runs; "
    assert _answer(*rows).startswith(f"{same}the mean of prog-same-median is 1.120 times (")
    near = [msgspec.structs.replace(row, mean_effect=1.0) for row in rows]
    assert _answer(*near) == f"{same}slow modes rarer than 26 % of runs are not excluded."
    equivalent = [verdicts.row(Verdict.EQUIVALENT, name) for name in "ab"]
    assert _answer(*equivalent) == "musl takes as long as glibc (within 2 %) on each of 2 program runs."


def test_a_tail_has_its_own_words() -> None:
    assert _answer(verdicts.row(Verdict.WORSE_TAIL, "prog")) == (
        f"musl has the same median elapsed time as glibc (within 2 %) on prog; its tail is slower: {MEAN}, p90 "
        "2.20 ms against 2.20 ms, slowest 99 ms against 3.30 ms."
    )
    assert "; its tail is faster: mean 0.700 times" in _answer(verdicts.row(Verdict.BETTER_TAIL, "prog"))
    rows = [verdicts.row(Verdict.EQUIVALENT), *(verdicts.row(Verdict.WORSE_TAIL, name) for name in "ab")]
    assert _answer(*rows).endswith("; 2 of 3 have a slower tail.")
    count = msgspec.structs.replace(verdicts.row(Verdict.WORSE_TAIL, "prog"), metric=COUNT)
    assert tails.clauses([count])[0].startswith("its tail is worse: ")
    assert "largest 99 M against 3.30 M" in tails.detail(count)


def test_a_unit_from_outside_is_made_visible_in_the_answer() -> None:
    hostile = msgspec.structs.replace(synthetic.WALL, unit="\x1b[31m")
    made = _answer(verdicts.row(Verdict.WORSE_TAIL, "prog", hostile))
    assert "\\x1b[31m" in made and "\x1b" not in made


def test_a_tail_beside_an_open_median() -> None:
    row = msgspec.structs.replace(verdicts.row(Verdict.WORSE_TAIL, "prog"), low=0.9, high=1.2)
    assert _answer(row).startswith(
        "musl may differ from glibc in median elapsed time (not decided: between 0.9 and 1.2 times as long) on prog; its tail is slower: "
    )


def test_a_mixed_row_has_no_direction() -> None:
    made = _answer(verdicts.row(Verdict.MIXED, "prog"))
    assert made.startswith(
        "No verdict on elapsed time of musl against glibc on prog: its median is 0.900 times; median and mean differ in opposite "
        "directions: mean 1.300 times"
    )
    assert made.count("mean 1.300 times") == 1
    assert not re.search("faster|slower|as long", made)


@pytest.mark.parametrize("verdict", NO_NUMBERS)
def test_rows_without_a_result_are_named_with_their_reason(verdict: Verdict) -> None:
    made = _answer(verdicts.row(verdict, "prog"))
    what = "verdict" if verdict is Verdict.DISTURBED else "result"
    assert made.startswith(f"musl has no {what}: {verdict.value}: {verdicts.REASONS[verdict][:40]}")


def test_reasons_of_one_kind_are_one_line_with_the_first_reason() -> None:
    rows = [
        verdicts.row(verdict, f"{verdict.value}-{number}")
        for verdict in (Verdict.INVALID, Verdict.DISTURBED, Verdict.MIXED, Verdict.UNAVAILABLE)
        for number in range(3)
    ]
    numbered = [msgspec.structs.replace(row, reason=f"{row.reason} {row.workload[-1]}") for row in rows]
    found = [item.text for item in limits.rejected([*numbered, verdicts.row(Verdict.BETTER)])]
    assert found[0] == f"invalid-0 and 2 more: invalid: {verdicts.REASONS[Verdict.INVALID]} 0"
    assert found[1] == f"disturbed-0 and 2 more: disturbed: {verdicts.REASONS[Verdict.DISTURBED]} 0"
    assert found[2].startswith("mixed-0 and 2 more: mixed: the median is 0.900 times")
    assert len(found) == 6, "reasons of unavailable rows differ and have no common kind"


def test_a_bounded_row_has_a_mark_and_a_footnote_instead_of_an_interval() -> None:
    row = verdicts.row(Verdict.WORSE, "prog", bounded=True)
    assert tails.bound(row) == "at least 1.24 times in each of 5 pairs (93.8 %)"
    assert _answer(row).endswith(" on prog; at least 1.24 times in each of 5 pairs (93.8 %).")
    faster = msgspec.structs.replace(verdicts.row(Verdict.BETTER, "prog"), bounded=True, confidence=0.9375)
    assert tails.bound(faster).startswith("at most 0.806 times in each of 15 pairs")
    text = reports.as_whole_text(CONTEXT, _analysis([row]), selection=Selection(every=True))
    assert "(1.240\N{EN DASH}1.260*)" in text and "* The range of all pairs" in text
    assert tails.bound(verdicts.row(Verdict.WORSE)) == ""
    difference = msgspec.structs.replace(row, scale=Scale.DIFFERENCE, effect=3e6, low=2e6, high=4e6)
    assert tails.bound(difference).startswith("at least +2 ms in each of 5 pairs")


def test_mean_and_tail_are_a_line_under_a_row_where_they_differ_from_the_median() -> None:
    rows = [verdicts.row(verdict) for verdict in (Verdict.EQUIVALENT, Verdict.WORSE_TAIL, Verdict.SAME_MEDIAN)]
    text = reports.as_text(CONTEXT, _analysis(rows), width=120)
    assert f"  {MEAN}, p90 2.20 ms against 2.20 ms, slowest 99 ms against 3.30 ms\n" in text
    assert "  same median; mean 1.120 times" in text
    assert text.count("slowest") == 2, "not under the equivalent row"
    single = reports.as_text(CONTEXT, _analysis(rows[1:2]), width=120)
    assert "\nElapsed time: mean 1.450 times" in single


def test_a_far_percentile_matters() -> None:
    row = verdicts.row(Verdict.WORSE)
    assert not tails.matters(row, 0.02)
    slow = RunSummary(runs=15, mean=2e6, p90=9e6, maximum=9e6)
    assert tails.matters(msgspec.structs.replace(row, candidate_runs=slow), 0.02)
    few = msgspec.structs.replace(slow, runs=6)
    assert not tails.matters(msgspec.structs.replace(row, candidate_runs=few), 0.02), "it is the maximum of 6 runs"
    none = RunSummary(runs=15, mean=0.0, p90=0.0, maximum=0.0)
    assert not tails.matters(msgspec.structs.replace(row, candidate_runs=none, baseline_runs=none), 0.02)


def test_the_columns_of_means_have_every_figure() -> None:
    (line,) = csv.DictReader(io.StringIO(to_csv(CONTEXT, _analysis([verdicts.row(Verdict.WORSE_TAIL)]))))
    wanted = {
        "baseline_mean": "2100000",
        "candidate_mean": "3045000",
        "baseline_p90": "2200000",
        "candidate_maximum": "99000000",
        "mean_effect": "1.45",
        "tail_p_value": "0.0004",
        "rarest_mode": "0.05",
        "observed_s": "12",
        "bounded": "false",
        "carry_over_effect": "",
    }
    assert {name: line[name] for name in wanted} == wanted
    (line,) = csv.DictReader(io.StringIO(to_csv(CONTEXT, _analysis([verdicts.row(Verdict.INVALID)]))))
    assert (line["carry_over_effect"], line["baseline_after_other"], line["discarded_runs"]) == (
        "0.341",
        "12100000",
        "1",
    )
    assert line["candidate_mean"] == ""


def test_the_effort_says_what_share_of_reports_has_a_mark() -> None:
    text = sentences.effort(CONTEXT, verdicts.analysis())
    assert "confidence 99 %: at most 1 % of reports without any difference contain a mark." in text
    family = msgspec.structs.replace(CONTEXT.experiment, correction=FAMILY_CORRECTION, confidence=0.95)
    old = msgspec.structs.replace(CONTEXT, experiment=family)
    assert "Margin 2 %, confidence 95 %." in sentences.effort(old, verdicts.analysis())


@pytest.mark.parametrize(
    ("preferred", "text"),
    [
        (("cpu",), "Read CPU time first."),
        (("wall",), "Read elapsed time first."),
        (("cpu", "wall"), "Read CPU time first, and elapsed time of work that waits."),
        ((), "load 3.1."),
    ],
)
def test_a_busy_machine_says_to_read_the_time_that_the_rows_prefer(preferred: tuple[str, ...], text: str) -> None:
    rows = [
        msgspec.structs.replace(verdicts.row(Verdict.WORSE, metric=metric), preferred=metric.name in preferred)
        for metric in (synthetic.WALL, synthetic.CPU)
    ]
    assert sentences.noise(synthetic.analysis().noise, rows).endswith(text)


def test_a_page_has_a_button_a_class_and_the_runs_of_each_verdict() -> None:
    page = reports.as_html(CONTEXT, verdicts.analysis())
    css = page[: page.index("</style>")]
    for verdict in verdicts.COMPARED:
        name = VERDICT_MARKS[verdict].name
        number = 2 if verdict in {Verdict.WORSE, Verdict.INVALID} else 1
        css_class = f"v-{name.replace(' ', '-')}"
        assert f'value="{name}" class="{css_class}"' in page and f"{number} {name}</button>" in page
        assert re.search(rf"\.{css_class}[ ,]", css), f"{css_class} has no colour"
    assert f"M{MEAN[1:]}, p90" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "at least 1.24 times in each of 5 pairs" in page.replace("\N{NO-BREAK SPACE}", " ")


def test_the_sign_beside_a_published_figure() -> None:
    signs = {verdict: sign(verdicts.row(verdict)) for verdict in verdicts.COMPARED}
    assert {verdict for verdict, found in signs.items() if found == 0} == SAME
    assert {verdict for verdict, found in signs.items() if found == 1} == {Verdict.WORSE, Verdict.CHANGED}
    assert {verdict for verdict, found in signs.items() if found == -1} == {Verdict.BETTER}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(verdicts.COMPARED),
        st.sampled_from([synthetic.WALL, synthetic.CPU, synthetic.MAXRSS, COUNT]),
        st.sampled_from([synthetic.MUSL, UCLIBC]),
        st.booleans(),
    ),
    min_size=1,
    max_size=16,
)


@pytest.mark.slow
@given(ROWS, st.integers(60, 130))
def test_any_verdicts_in_every_format(drawn: list[tuple[Verdict, Metric, object, bool]], width: int) -> None:
    rows = [
        msgspec.structs.replace(
            verdicts.row(verdict, f"prog-{number}", metric, bounded=bounded and verdict in DECIDED), candidate=candidate
        )
        for number, (verdict, metric, candidate, bounded) in enumerate(drawn)
    ]
    analysis = _analysis(rows)
    text = reports.as_text(CONTEXT, analysis, width=width)
    assert width < 80 or len(text.splitlines()) <= terminal.MOST_LINES
    _check_claims(answer_of(CONTEXT, analysis), places_rows(analysis))
    whole = reports.as_whole_text(CONTEXT, analysis, width=width, selection=Selection(every=True))
    page, markdown = reports.as_html(CONTEXT, analysis), reports.as_markdown(CONTEXT, analysis)
    for verdict in {row.verdict for row in rows}:
        name = VERDICT_MARKS[verdict].name
        assert name in whole.lower() and f"{name}</td>" in page and name in markdown
    for block in figures.ratio_table(places_of(analysis), margin=0.02):
        if isinstance(block, Table) and any(column.name == "open" for column in block.columns):
            assert block.rows
    made = {name: export(CONTEXT, analysis) for name, export in EXPORTS.items()}
    assert [line["verdict"] for line in csv.DictReader(io.StringIO(made["csv"]))] == [row.verdict.value for row in rows]
    assert len(json.loads(made["json"])["analysis"]["comparisons"]) == len(rows)
    _check_marks(rows, made)


def places_rows(analysis: Analysis) -> list[Comparison]:
    """Return the rows that an answer is about."""
    return [row for place in places_of(analysis) for row in place.rows]


def _check_claims(answer: str, rows: Sequence[Comparison]) -> None:
    found = {row.verdict for row in rows}
    if not found & (BAD | {Verdict.MIXED, Verdict.CHANGED, Verdict.INCONCLUSIVE, Verdict.BELOW_MARGIN}):
        assert not re.search("slower|worse|times as long|times the", answer), answer
    if not found & (GOOD | {Verdict.MIXED, Verdict.CHANGED, Verdict.INCONCLUSIVE}):
        assert not re.search("faster|better|less time|as fast", answer), answer
    if found & MEDIAN_ONLY and not found - MEDIAN_ONLY:
        assert "takes as long" not in answer, answer
    if found <= set(NO_NUMBERS):
        assert re.search("no result|Nothing was measured", answer), answer


def _check_marks(rows: Sequence[Comparison], made: dict[str, str]) -> None:
    """Check that no continuous integration passes a worse row, fails a better one, or decides an undecided one."""
    statuses = [test["status"] for test in json.loads(made["kcidb"])["tests"]]
    signals = re.findall(r"TEST_CASE_ID=prog-(\d+)\S* RESULT=(\w+)", made["lava"])
    lava = {int(number): result for number, result in signals}
    cases = {case.attrib["name"].split(":")[0]: case for case in ET.fromstring(made["junit"]).iter("testcase")}
    for number, (row, status) in enumerate(zip(rows, statuses, strict=True)):
        kind = cases[row.workload][0].tag
        results = (kind == "system-out", kind == "failure"), (status == "PASS", status == "FAIL"), _lava(lava[number])
        if row.verdict in BAD:
            assert results == ((False, True),) * 3
        elif row.verdict in GOOD | SAME:
            assert results == ((True, False),) * 3
        elif row.verdict in {Verdict.MIXED, Verdict.INCONCLUSIVE, Verdict.DISTURBED, Verdict.UNAVAILABLE}:
            assert results == ((False, False),) * 3
        elif row.verdict is Verdict.INVALID:
            assert not any(passed for passed, _ in results)


def _lava(result: str) -> tuple[bool, bool]:
    return result == "pass", result == "fail"


def test_metrics_without_any_number_are_one_line() -> None:
    events = [
        msgspec.structs.replace(
            verdicts.row(Verdict.UNAVAILABLE, "prog"),
            metric=Metric(name=name, meaning=name, unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER),
            reason=f"no pair of runs gave a value of {name}",
        )
        for name in ("tasks", "switches")
    ]
    text = reports.as_whole_text(
        CONTEXT, _analysis([verdicts.row(Verdict.WORSE, "prog"), *events]), width=120, selection=Selection(every=True)
    )
    assert "Unavailable, because no pair of runs gave a value: tasks, switches." in text
    assert "Events: tasks" not in text
