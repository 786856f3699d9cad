# SPDX-License-Identifier: MIT OR Apache-2.0
"""Claims decide the answer of a record by their weight, deny no decided row, and agree with the exit status."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden import crossed, latency, servers, synthetic, verdicts
from tests.unit.report.test_topic_answers import COPIED, COPIES, FLASH, HEAP, LWIP, LZ4, OUT, SMOLTCP, TOUCH, ZSTD

from swapstone.core.model import (
    MEDIAN_DIFFERS,
    Analysis,
    Comparison,
    Direction,
    Metric,
    OwnProgram,
    PrintedNumber,
    Quantity,
    Scale,
    Variant,
    Verdict,
)
from swapstone.core.report import record_report, topics
from swapstone.core.report.answer.claim import Answer, Claim
from swapstone.core.report.answer.conclusion import conclude
from swapstone.core.report.answer.means import Standing
from swapstone.core.report.answer.outcome import FailIf, is_worse, outcome_of
from swapstone.core.report.context import ReportContext, Selection
from swapstone.core.report.document import Heading
from swapstone.exit_status import ExitStatus

CONTEXT = verdicts.context()


def _row(  # noqa: PLR0917 - the place of a row
    suite: str, workload: str, metric: Metric, verdict: Verdict, names: tuple[Variant, Variant], ratio: float
) -> Comparison:
    row = msgspec.structs.replace(
        verdicts.row(verdict, workload, metric),
        suite=suite,
        baseline=names[0],
        candidate=names[1],
        preferred=metric.quantity in {Quantity.TIME, Quantity.RATE},
        carry_over=None,
    )
    if row.effect is None:
        return row
    half = 0.2 if verdict is Verdict.INCONCLUSIVE else 0.005
    values = {"baseline_values": (8.0,) * 6, "candidate_values": (8 * ratio,) * 6}
    return msgspec.structs.replace(row, effect=ratio, low=ratio * (1 - half), high=ratio * (1 + half), **values)


def _analysis(rows: Sequence[Comparison]) -> Analysis:
    return msgspec.structs.replace(verdicts.analysis(), comparisons=tuple(rows), caveats=())


def _printing(*metrics: Metric) -> ReportContext:
    """Return the context of an experiment with a user's program that prints numbers (``--metric``)."""
    numbers = tuple(PrintedNumber(metric=metric, pattern="([0-9]+)") for metric in metrics)
    own = OwnProgram(name="prog", arguments=("prog",), numbers=numbers)
    return msgspec.structs.replace(CONTEXT, experiment=msgspec.structs.replace(CONTEXT.experiment, own=own))


def _pair(level: str) -> tuple[Variant, Variant]:
    return synthetic.GLIBC, Variant(levels=(("libc", level),))


SLOWER = _row("libc", "b_x", synthetic.WALL, Verdict.WORSE, _pair("musl"), 2.5)
OPEN = _row("unix", "sh", synthetic.WALL, Verdict.INCONCLUSIVE, _pair("musl"), 1.0)
FEWER = _row("netstack-counts", "counts-tuned", COPIES, Verdict.BETTER, (LWIP, SMOLTCP), 0.5)
EQUAL = _row("netstack-counts", "counts-tuned", COPIES, Verdict.EQUIVALENT, (LWIP, SMOLTCP), 1.0)
SWAPS = [
    _row("swap", "fill", OUT, Verdict.WORSE, (FLASH, LZ4), 0.25),
    _row("swap", "touch", TOUCH, Verdict.WORSE, (FLASH, LZ4), 12.0),
    _row("swap", "fill", OUT, Verdict.BETTER, (FLASH, ZSTD), 1.5),
]


def _mixed() -> tuple[ReportContext, Analysis]:
    """Return a record of wake-ups, of the C library, and of counts."""
    context, analysis = latency.context(), latency.analysis()
    rows = (*analysis.comparisons, SLOWER, FEWER)
    return context, msgspec.structs.replace(analysis, comparisons=rows)


@pytest.mark.parametrize(
    ("context", "analysis"),
    [
        (CONTEXT, verdicts.analysis()),
        (CONTEXT, _analysis([OPEN, FEWER, SLOWER, *SWAPS])),
        (crossed.context(), crossed.analysis()),
        (servers.context(), servers.analysis()),
        (latency.context(), latency.analysis()),
        _mixed(),
    ],
)
def test_the_order_of_topics_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, context: ReportContext, analysis: Analysis, exhaustive: bool
) -> None:
    """Each topic is the first and the last one, and each two are in both orders; with --exhaustive a seventh of all orders."""
    answering = [topic for topic in topics.all_topics() if topic.answer is not None]
    expected = record_report.whole_answer(context, analysis)
    assert expected.sentence == record_report.answer_of(context, analysis)
    turned = ((*answering[at:], *answering[:at]) for at in range(len(answering)))
    every = (order for number, order in enumerate(itertools.permutations(answering)) if number % 7 == 0)
    for order in every if exhaustive else turned:
        monkeypatch.setattr(topics, "all_topics", lambda order=order: order)
        assert record_report.whole_answer(context, analysis) == expected


def test_a_difference_comes_before_what_is_undecided() -> None:
    assert record_report.answer_of(CONTEXT, _analysis([OPEN, SLOWER])).startswith(
        "musl takes 2.5 times as long as glibc on b_x"
    )
    for rows in ([EQUAL, SLOWER], [SLOWER, EQUAL]):
        assert record_report.answer_of(CONTEXT, _analysis(rows)) == (
            "musl takes 2.5 times as long as glibc on b_x; smoltcp and lwip copy and allocate equally often for a request (server, tuned)."
        )
    assert record_report.answer_of(CONTEXT, _analysis([OPEN, FEWER])).startswith(
        "smoltcp makes 4 copies instead of 8 with lwip"
    )


def test_another_candidate_is_named_for_another_suite() -> None:
    other = _row("unix", "sh", synthetic.WALL, Verdict.WORSE, _pair("uclibc"), 1.5)
    assert record_report.answer_of(CONTEXT, _analysis([SLOWER, other])) == (
        "musl takes 2.5 times as long as glibc on b_x; on sh uclibc takes 1.5 times as long."
    )


def _claim(suite: str, **changes: object) -> Claim:
    return msgspec.structs.replace(Claim(suite=suite, load="idle", text=suite, floor=0.02), **changes)


def test_claims_are_ranked_by_decision_then_failure_then_metric_then_size() -> None:
    claims = [
        _claim("failing", standing=Standing.MORE, value=2.5, rows=(SLOWER,), names_rows=True),
        _claim("selected", standing=Standing.LESS, value=0.9, metric="maxrss", quantity=Quantity.MEMORY),
        _claim("larger", standing=Standing.LESS, value=0.1, metric="wall"),
        _claim("smaller", standing=Standing.LESS, value=0.5, metric="wall"),
        _claim("processor", standing=Standing.MORE, value=9.0, metric="cpu"),
        _claim("memory", standing=Standing.MORE, value=9.0, metric="peak", quantity=Quantity.MEMORY),
        _claim("size", standing=Standing.MORE, value=90.0, metric="file", quantity=Quantity.SIZE),
        _claim("undecided", value=50.0, metric="wall"),
    ]
    context = msgspec.structs.replace(CONTEXT, selection=Selection(metrics=("maxrss",)))
    for seed in range(20):
        order = random.Random(seed).sample(claims, len(claims))
        made = conclude(context, _analysis([]), [Answer(claims=(each,)) for each in order])
        assert [claim.suite for claim in made.claims] == [claim.suite for claim in claims]
        assert made.sentence == "failing; selected; larger; 5 more results for other suites or loads."


@pytest.mark.parametrize(
    ("names", "metrics", "suite"),
    [
        (_pair("musl"), (synthetic.WALL,), "libc"),
        ((FLASH, LZ4), (OUT, TOUCH), "swap"),
        ((LWIP, SMOLTCP), (COPIES, COPIED, HEAP), "netstack-counts"),
    ],
)
def test_no_sentence_denies_a_decided_row(
    names: tuple[Variant, Variant], metrics: tuple[Metric, ...], suite: str
) -> None:
    """Rows that differ in opposite directions have a mean without a difference: then the rows are counted or named."""
    for seed in range(300):
        source = random.Random(seed)
        shapes = {Verdict.WORSE: 1.3, Verdict.BETTER: 1 / 1.3, Verdict.EQUIVALENT: 1.0, Verdict.INCONCLUSIVE: 1.0}
        rows = []
        for number, metric in enumerate(source.choices(metrics, k=source.randint(1, 4))):
            verdict = source.choice(list(shapes))
            ratio = shapes[verdict] if metric is not OUT else 1 / shapes[verdict]
            rows.append(_row(suite, f"counts-{number}", metric, verdict, names, ratio))
        made = record_report.answer_of(CONTEXT, _analysis(rows))
        denied = [row for row in rows if row.verdict in MEDIAN_DIFFERS and _denied(made, row)]
        assert not denied or re.search(r"[0-9]+ of [0-9]+ (is|are) |single rows do", made), made


def _denied(sentence: str, row: Comparison) -> bool:
    """Return whether a sentence has a clause that denies a difference in the metric of a row, or in all metrics."""
    words = {"out_steady": "same rate of swapping", "touch_time": "same time of a touch|same median time of a touch"}
    general = r"[Nn]o difference|equally often|takes as long as"
    clauses = [text for text in sentence.split("; ") if row.suite != "netstack-counts" or row.workload[7:] in text]
    return any(re.search(f"{general}|{words.get(row.metric.name, 'same ')}", clause) for clause in clauses)


@pytest.mark.parametrize("standing", [Standing.SAME, Standing.OPEN])
def test_a_topic_cannot_deny_a_decided_row(standing: Standing) -> None:
    for rows, counted in (
        ((SLOWER,), "1 of 1 is slower"),
        ((SLOWER, EQUAL), "1 of 2 is worse"),
        ((FEWER,), "1 of 1 is better"),
    ):
        wrong = _claim("libc", text="no difference found", rows=rows, names_rows=True, standing=standing)
        briefly = msgspec.structs.replace(wrong, brief="is as fast", scope="b_x", subject="musl")
        for claims in ((wrong,), (briefly, briefly), (_claim("unix", standing=Standing.MORE, rows=(SLOWER,)), briefly)):
            assert counted in conclude(CONTEXT, _analysis(rows), [Answer(claims=claims)]).sentence


def test_a_number_of_the_user_is_named_where_the_time_is_undecided() -> None:
    rate = msgspec.structs.replace(OUT, name="frames", unit="1/s")
    wall = _row("own", "prog", synthetic.WALL, Verdict.INCONCLUSIVE, _pair("musl"), 1.0)
    frames = msgspec.structs.replace(_row("own", "prog", rate, Verdict.WORSE, _pair("musl"), 0.5), preferred=False)
    made = record_report.answer_of(_printing(rate), _analysis([wall, frames]))
    assert made.startswith("musl has half the frames of glibc on prog; musl may differ in elapsed time (not decided: ")


def test_a_status_of_3_agrees_with_the_headline() -> None:
    """Where a row is worse by more than the margin, the first claim is about a candidate that is worse."""
    for seed in range(100):
        source = random.Random(seed)
        rows = [
            _row(
                suite,
                "w",
                synthetic.WALL,
                verdict,
                _pair("musl"),
                {Verdict.WORSE: 1.5, Verdict.BETTER: 0.5}.get(verdict, 1.0),
            )
            for suite in ("libc", "unix", "own")
            for verdict in source.choices(
                (Verdict.WORSE, Verdict.BETTER, Verdict.EQUIVALENT, Verdict.INCONCLUSIVE), k=1
            )
        ]
        made = record_report.whole_answer(CONTEXT, _analysis(rows))
        outcome = outcome_of(_analysis(rows), CONTEXT.experiment, (FailIf(),))
        worse = any(row.verdict is Verdict.WORSE for row in made.claims[0].rows)
        assert (outcome.status == ExitStatus.WORSE) == worse
        assert not worse or made.sentence.startswith("musl takes 1.5 times as long")


HIT = Metric(name="hit", unit="%", quantity=Quantity.EVENTS, better=Direction.HIGHER, meaning="hits", leads=True)
ERRORS = Metric(name="errors", unit="1", quantity=Quantity.EVENTS, better=Direction.LOWER, meaning="errors", leads=True)
LAG = Metric(name="lag", unit="s", quantity=Quantity.TIME, better=Direction.LOWER, meaning="lag", leads=True)
SPACE = Metric(name="space", unit="MiB", quantity=Quantity.MEMORY, better=Direction.LOWER, meaning="space", leads=True)
PLAIN = Metric(name="plain", unit="1", quantity=Quantity.EVENTS, better=Direction.NEITHER, meaning="a count")
ASKED = (HIT, ERRORS, LAG, SPACE, PLAIN)
CPU = msgspec.structs.replace(synthetic.WALL, name="cpu", leads=False)
_RATIOS = {Verdict.WORSE: 1.3, Verdict.BETTER: 1 / 1.3}


@st.composite
def _analyses(draw: st.DrawFn) -> Analysis:
    """Draw a record: one or two suites, one to five candidates, one to three workloads, any verdict in each row."""
    rows = []
    names = [f"w{number}" for number in range(draw(st.integers(1, 3)))]
    levels = [f"libc{number}" for number in range(draw(st.integers(1, 5)))]
    metrics = (*draw(st.lists(st.sampled_from(ASKED), unique=True)), synthetic.WALL, CPU, synthetic.MAXRSS)
    for suite in draw(
        st.lists(st.sampled_from(["own", "libc", "unix", "s3", "s4"]), unique=True, min_size=1, max_size=4)
    ):
        for level, name, metric in itertools.product(levels, names, metrics):
            verdict = draw(st.sampled_from(list(Verdict)))
            if metric.better is Direction.NEITHER:
                verdict = {Verdict.WORSE: Verdict.CHANGED, Verdict.BETTER: Verdict.CHANGED}.get(verdict, verdict)
            ratio = _RATIOS.get(verdict, 1.3 if verdict is Verdict.CHANGED else 1.0)
            ratio = 1 / ratio if metric.better is Direction.HIGHER else ratio
            row = msgspec.structs.replace(
                _row(suite, name, metric, verdict, _pair(level), ratio), preferred=metric.name == "wall"
            )
            if draw(st.integers(0, 9)) == 0 and row.effect is not None and metric in ASKED:
                change = {
                    "scale": Scale.DIFFERENCE,
                    "effect": (ratio - 1) * 8,
                    "low": (ratio - 1) * 8,
                    "high": (ratio - 1) * 8,
                }
                row = msgspec.structs.replace(row, **change)
            rows.append(row)
    return _analysis(rows)


@given(_analyses())
def test_each_decided_row_to_read_first_is_in_the_sentence_and_none_is_denied(analysis: Analysis) -> None:
    check_statements(_printing(*ASKED), analysis)


def check_statements(context: ReportContext, analysis: Analysis) -> None:
    """Check headline, titles and exit status of a report against its rows."""
    document = record_report.document_of(context, analysis)
    sentence, titles = document.answer, [block.text for block in document.overview if isinstance(block, Heading)]
    assert not re.search("[Nn]o difference|[Nn]o time or rate|[Nn]othing", " ".join((sentence, *titles)))
    asked = {metric.name for metric in ASKED}
    by_place: dict[tuple[str, Variant], list[Comparison]] = {}
    for row in analysis.comparisons:
        by_place.setdefault((row.suite, row.candidate), []).append(row)
    left = "(rows: " in sentence
    for (suite, candidate), rows in by_place.items():
        first = {(row.workload, row.verdict) for row in rows if row.preferred}
        for row in rows:
            decided = row.verdict in MEDIAN_DIFFERS or row.verdict in {
                Verdict.WORSE_TAIL,
                Verdict.BETTER_TAIL,
                Verdict.MIXED,
            }
            leading = row.metric.name in asked or row.preferred
            if decided and (leading or (row.metric.name == "cpu" and (row.workload, row.verdict) not in first)):
                assert left or _is_named(sentence, row), (
                    suite,
                    candidate.label,
                    row.workload,
                    row.metric.name,
                    row.verdict,
                    sentence,
                )
    outcome = outcome_of(analysis, context.experiment, (FailIf(),))
    judged = [row for row in analysis.comparisons if row.metric.name in asked or row.metric.name in {"wall", "cpu"}]
    assert (outcome.status == ExitStatus.WORSE) == any(is_worse(row, context.experiment.margin) for row in judged)


def _is_named(sentence: str, row: Comparison) -> bool:
    """Return whether a sentence names a row's candidate, and its metric in words that deny no difference or that count it."""
    words = {"wall": "elapsed time|slower|faster|as long|as fast|less time", "cpu": "CPU time"}
    name = words.get(row.metric.name, row.metric.name)
    return bool(re.search(name, sentence)) and row.candidate.levels[0][1] in sentence


def test_crossed_factors_state_what_the_user_asked_for_and_count_the_rows() -> None:
    analysis = crossed.analysis()
    hits = tuple(
        msgspec.structs.replace(
            _row(row.suite, row.workload, HIT, Verdict.WORSE, (row.baseline, row.candidate), 0.9), preferred=False
        )
        for row in analysis.comparisons
        if row.metric.name == "wall" and row.verdict is not Verdict.UNAVAILABLE
    )
    context = _printing(HIT)
    context = msgspec.structs.replace(
        crossed.context(), experiment=msgspec.structs.replace(crossed.context().experiment, own=context.experiment.own)
    )
    made = msgspec.structs.replace(analysis, comparisons=(*analysis.comparisons, *hits))
    sentence = record_report.answer_of(context, made)
    assert "90 % of the hit" in sentence and "are slower and" in sentence, sentence
    assert outcome_of(made, context.experiment, (FailIf(),)).status == ExitStatus.WORSE


@pytest.mark.parametrize("verdict", [Verdict.WORSE, Verdict.BETTER])
@pytest.mark.parametrize("time", [Verdict.EQUIVALENT, Verdict.INCONCLUSIVE, Verdict.SAME_MEDIAN])
def test_a_decided_cpu_time_is_stated_and_judged_where_elapsed_time_is_not_decided(
    verdict: Verdict, time: Verdict
) -> None:
    wall = _row("own", "prog", synthetic.WALL, time, _pair("musl"), 1.0)
    cpu = msgspec.structs.replace(_row("own", "prog", CPU, verdict, _pair("musl"), _RATIOS[verdict]), preferred=False)
    analysis = _analysis([wall, cpu])
    assert "the CPU time" in record_report.answer_of(CONTEXT, analysis)
    status = outcome_of(analysis, CONTEXT.experiment, (FailIf(),)).status
    assert status == (ExitStatus.WORSE if verdict is Verdict.WORSE else 0)


def test_rows_of_one_metric_that_differ_in_both_directions_are_counted() -> None:
    rows = [
        _row("own", f"w{place}", HIT, verdict, _pair("musl"), ratio)
        for place, (verdict, ratio) in enumerate(
            ((Verdict.WORSE, 0.8), (Verdict.BETTER, 1.25), (Verdict.EQUIVALENT, 1.0))
        )
    ]
    rows += [_row("own", row.workload, synthetic.WALL, Verdict.EQUIVALENT, _pair("musl"), 1.0) for row in rows]
    assert "1 of 3 is worse and 1 better" in record_report.answer_of(_printing(HIT), _analysis(rows))
