# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports state how often runs fail: first where rows are invalid for it, and in every format."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from tests.golden import reports, synthetic, verdicts

from swapstone.core.model import FAST_ONES, Analysis, FailureCounts, FailureRates, Verdict
from swapstone.core.report import comparison_columns, record_report
from swapstone.core.report.answer import limits
from swapstone.core.report.export import EXPORTS, to_csv
from swapstone.core.stats import wilson

CONTEXT = verdicts.context()


def counts(failed: int, runs: int = 120, *, crashed: int = 0, others: int = 0, refused: int = 0) -> FailureCounts:
    low, high = wilson(failed, runs) if runs else (0.0, 1.0)
    return FailureCounts(
        runs=runs,
        failed=failed,
        timed_out=failed - crashed - others,
        crashed=crashed,
        others=others,
        refused=refused,
        share=failed / runs if runs else 0.0,
        low=low,
        high=high,
    )


def rates(
    before: FailureCounts, after: FailureCounts, *, more: str = "", unfit: tuple[str, ...] = (), workload: str = "prog"
) -> FailureRates:
    return FailureRates(
        suite="own",
        workload=workload,
        load="idle",
        baseline=synthetic.GLIBC,
        candidate=synthetic.MUSL,
        baseline_runs=before,
        candidate_runs=after,
        confidence=0.95,
        discordant=14,
        p_value=0.00012,
        fails_more=more,
        unfit=unfit,
    )


def analysis(*found: FailureRates) -> Analysis:
    """Return an analysis with an invalid row for each side that is not judged, and an equivalent one for others."""
    rows = []
    for each in found:
        verdict = Verdict.INVALID if each.unfit else Verdict.EQUIVALENT
        row = verdicts.row(verdict, each.workload)
        reason = f"candidate fails in some runs; {FAST_ONES}" if each.unfit else ""
        rows.append(msgspec.structs.replace(row, reason=reason, carry_over=None))
    return msgspec.structs.replace(verdicts.analysis(), comparisons=tuple(rows), caveats=(), failure_rates=found)


FAILING = rates(counts(0), counts(14), more="candidate", unfit=("candidate",))
SENTENCE = "musl fails in 12 % (7.1–19 %) of its runs, glibc in 0 % (0–3.1 %): 14 timed out of 120."  # noqa: RUF001 - dashes


def test_the_answer_begins_with_the_rates_where_rows_are_invalid_for_them() -> None:
    answer = record_report.answer_of(CONTEXT, analysis(FAILING))
    assert answer == f"{SENTENCE} musl has no result: invalid: {FAST_ONES}."


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (rates(counts(5, crashed=3, others=1), counts(4), unfit=("baseline", "candidate")),
         "glibc fails in 4.2 % (1.8–9.4 %) of its runs, musl in 3.3 % (1.3–8.3 %): 1 timed out, 3 crashed and 1 failed "  # noqa: RUF001 - dashes
         "otherwise of 120; whether the rates differ is not decided. "),
        (rates(counts(0), counts(1)), ""),
        (rates(counts(0), counts(3, 3), unfit=("candidate",)), ""),
        (rates(counts(0), counts(0, 0)), ""),
    ],
)  # fmt: skip
def test_the_sentence_is_about_sides_that_are_not_judged_and_sometimes_succeed(found: FailureRates, text: str) -> None:
    assert limits.sentence(analysis(found)) == text


def test_the_sentence_takes_the_side_that_fails_significantly_more_often_and_counts_the_others() -> None:
    other = rates(counts(60), counts(60), unfit=("baseline", "candidate"), workload="other")
    text = limits.sentence(analysis(other, FAILING, other))
    assert text.startswith("musl fails in 12 % (") and " of its runs of prog, glibc in 0 % (" in text
    assert text.endswith("14 timed out of 120. Runs fail in 2 more comparisons too. ")


def test_rates_stand_beside_verdicts_that_few_failures_leave() -> None:
    text = reports.as_text(CONTEXT, analysis(rates(counts(0), counts(1, crashed=1))), width=120)
    assert "- musl fails in 1 of 120 runs, 0.83 % (0.15–4.6 %), glibc in 0 of 120, 0 % (0–3.1 %)." in text  # noqa: RUF001 - dashes
    assert "musl takes as long as glibc" in text
    many = [rates(counts(0), counts(1), workload=f"w{number}") for number in range(5)]
    assert "Runs fail in 2 more comparisons too." in reports.as_text(CONTEXT, analysis(*many), width=120)


def test_blocks_with_a_failed_run_are_not_counted_as_complete() -> None:
    for failed, text in ((0, "440 runs in 15 blocks on "), (1, "440 runs in 15 complete blocks on ")):
        assert text in reports.as_text(CONTEXT, analysis(rates(counts(failed), counts(0))), width=120)


def test_no_failure_is_not_mentioned() -> None:
    found = analysis(rates(counts(0), counts(0)))
    assert limits.shown(found) == () and limits.sentence(found) == ""
    assert "ailure rates" not in reports.as_whole_text(CONTEXT, found)


def test_copies_of_the_baseline_are_left_out() -> None:
    (null,) = synthetic.analysis().nulls
    copied = msgspec.structs.replace(FAILING, candidate=null.copy)
    assert limits.shown(msgspec.structs.replace(analysis(copied), nulls=(null,))) == ()


def test_every_format_has_the_rates() -> None:
    refused = rates(counts(0), counts(2, crashed=2, refused=1), workload="other")
    found = analysis(FAILING, refused)
    for text in (
        reports.as_whole_text(CONTEXT, found, width=120),
        reports.as_markdown(CONTEXT, found),
        reports.as_html(CONTEXT, found),
    ):
        flat = " ".join(text.split())
        assert "Failure rates" in flat and "12 % (7.1–19 %)" in flat  # noqa: RUF001 - a dash
        assert (
            "prog: musl fails significantly more often than glibc (p 0.00012, from 14 blocks in which they differ)"
            in flat
        )
        assert "No significant difference in rates: other, musl (p 0.00012)." in flat
    data = json.loads(EXPORTS["json"](CONTEXT, found))
    assert data["analysis"]["failure_rates"][0]["candidate_runs"]["timed_out"] == 14
    (exhibit,) = [each for each in data["exhibits"] if each["name"] == "failure-rates"]
    assert [(row["variant"], row["failed"], row["fails_more"]) for row in exhibit["data"]] == [
        ("libc=glibc", 0, ""),
        ("libc=musl", 14, "candidate"),
        ("libc=glibc", 0, ""),
        ("libc=musl", 2, ""),
    ]


def test_the_columns_of_failures_have_every_figure() -> None:
    first, second = csv.DictReader(
        io.StringIO(to_csv(CONTEXT, analysis(FAILING, rates(counts(0), counts(0), workload="x"))))
    )
    wanted = {
        "baseline_runs": "120",
        "baseline_failed": "0",
        "candidate_failed": "14",
        "candidate_timed_out": "14",
        "candidate_crashed": "0",
        "candidate_refused": "0",
        "failures_p_value": "0.00012",
        "fails_more": "candidate",
    }
    assert {name: first[name] for name in wanted} == wanted
    assert float(first["candidate_failed_low"]) == pytest.approx(0.0707, abs=1e-4)
    assert (second["candidate_failed"], second["fails_more"]) == ("0", "")
    row = verdicts.row(Verdict.WORSE)
    values = comparison_columns.queried(comparison_columns.Row(row, None))
    assert tuple(values) == tuple(comparison_columns.QUERIED)
    assert {value for name, value in values.items() if "fail" in name or name.endswith("_runs")} == {None}


def test_hostile_names_are_escaped() -> None:
    found = analysis(msgspec.structs.replace(FAILING, workload="a\x1b[31m", suite="libc"))
    for text in (limits.sentence(found), reports.as_whole_text(CONTEXT, found), reports.as_markdown(CONTEXT, found)):
        assert "\x1b" not in text and "\\x1b" in text
