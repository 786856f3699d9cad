# SPDX-License-Identifier: MIT OR Apache-2.0
"""With the correction "report" all hypotheses about candidates share one error rate."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from swapstone.core import plan
from swapstone.core.comparison import caveats
from swapstone.core.comparison.analyse_runs import analyse, precision
from swapstone.core.model import CURRENT_RULES, REPORT_CORRECTION, CaveatKind, Quantity, Status, Verdict
from swapstone.core.stats import binomial_tail, common_level
from tests.unit.comparison.conftest import AGAIN, BASE, CANDIDATE, Bench
from tests.unit.comparison.crossing import analysed

RATIOS = {"wall": 1.2, "cpu": 1.0, "res": 1.05, "rate": 1.0, "nivcsw": 1.0}


def several(ratios: dict[str, float], *, null: bool = False, blocks: int = 20) -> Bench:
    """Lay out two workloads with five metrics each, of four quantities."""
    bench = Bench(correction=REPORT_CORRECTION, confidence=0.99, null=null)
    random = np.random.default_rng(5)
    for name in ("a", "b"):
        bench.workload(name, *ratios)
        for block in range(1, blocks + 1):
            sides = [(BASE, 0.0), (CANDIDATE, 1.0), *([(AGAIN, 0.0), ("libc=glibc (relinked)", 1.0)] if null else [])]
            for variant, power in sides:
                values = {m: float(100 * r**power * np.exp(random.normal(0, 0.02))) for m, r in ratios.items()}
                bench.run(name, variant, block, Status.OK, "idle", **values)
    return bench


def test_all_rows_and_indices_have_one_level() -> None:
    found = several(RATIOS).analysis()
    assert len({c.metric.quantity for c in found.comparisons}) == 4
    (level,) = {c.confidence for c in found.comparisons} | {i.confidence for i in found.indices}
    indices = several({"wall": 1.2, "cpu": 1.0}).analysis().indices
    assert len(found.indices) == len(indices) == 2
    # 10 rows and 2 indices; 4 rows and the index of wall time differ.
    assert 1 - level == pytest.approx(0.01 * 5 / 12)
    assert "of the report" in found.correction


def test_by_families_each_quantity_has_its_own_level() -> None:
    bench = several(RATIOS)
    bench.correction = "family"
    found = bench.analysis()
    levels = {c.metric.quantity: round(1 - c.confidence, 6) for c in found.comparisons}
    assert levels == {
        Quantity.TIME: 0.005,
        Quantity.MEMORY: 0.01,
        Quantity.RATE: 0.005,
        Quantity.EVENTS: 0.005,
    }
    assert "of the report" not in found.correction


def test_each_copy_of_the_baseline_is_a_family_of_its_own() -> None:
    found = several(RATIOS, null=True).analysis()
    levels = {c.candidate.label: round((1 - c.confidence) / 0.01 * 12, 3) for c in found.comparisons}
    # In units of q / m: the number of rejections. The planted differences of the relinked copy change nothing for the others.
    assert levels[CANDIDATE] == levels["libc=glibc (relinked)"] == 5
    assert levels[AGAIN] == 1
    (caveat,) = [each for each in found.caveats if each.kind is CaveatKind.NULL_DIFFERS]
    assert "in 1 of 2 families" in caveat.message


def test_copies_that_differ_are_a_caveat_if_as_many_would_by_chance_in_5_percent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One family of two differs: by chance in 1 - 0.99^2 = 2 % at a confidence of 99 %, in 1 - 0.95^2 = 10 % at 95 %."""
    assert caveats.SURPRISE == 0.05

    def alarmed(confidence: float) -> bool:
        bench = several(RATIOS, null=True)
        bench.confidence = confidence
        found = bench.analysis()
        assert [null.different > 0 for null in found.nulls] == [False, True]
        return CaveatKind.NULL_DIFFERS in {each.kind for each in found.caveats}

    assert alarmed(0.99)
    assert not alarmed(0.95)
    monkeypatch.setattr(caveats, "SURPRISE", binomial_tail(1, 2, 1 - 0.95))
    assert alarmed(0.95)
    monkeypatch.setattr(caveats, "SURPRISE", float(np.nextafter(caveats.SURPRISE, 0)))
    assert not alarmed(0.95)


def test_effects_and_interactions_join_the_report() -> None:
    random = np.random.default_rng(3)

    def value(workload: str, levels: Mapping[str, str], block: int) -> float:
        del workload, block
        return float(100 * np.exp(random.normal(0.3 * (levels["libc"] == "musl"), 0.02)))

    found = analysed(value, workloads=("v", "w"), correction=REPORT_CORRECTION, confidence=0.99)
    assert found.effects and found.interactions
    groups = (found.comparisons, found.effects, found.interactions)
    (level,) = {round(1 - each.confidence, 9) for group in (*groups, found.indices) for each in group}
    p_values = [each.p_value for group in groups for each in group]
    rejected = sum(p is not None and p <= level for p in p_values)
    outside = sum(1 for index in found.indices if index.low and index.high and (index.low > 1 or index.high < 1))
    assert level == pytest.approx(0.01 * (rejected + outside) / (len(p_values) + len(found.indices)), abs=1e-9)


def test_precision_has_the_level_of_the_report() -> None:
    bench = several({"wall": 1.2, "cpu": 1.0, "res": 1.0})
    (level,) = {c.confidence for c in bench.analysis().comparisons}
    row = bench.row("a", "cpu")
    assert row.confidence == level and row.low is not None and row.high is not None
    assert bench.precision()["s", "a", "idle"].half_width == pytest.approx((row.high / row.low) ** 0.5 - 1)


def test_an_index_over_one_row_is_left_out_by_the_current_rules() -> None:
    bench = Bench(rules=CURRENT_RULES)
    bench.noisy("a", 1.2, 20)
    assert bench.analysis().indices == ()
    bench.noisy("b", 1.2, 20, seed=1)
    assert [index.workloads for index in bench.analysis().indices] == [2]
    old = Bench()
    old.noisy("a", 1.2, 20)
    assert [index.workloads for index in old.analysis().indices] == [1]


def test_an_unknown_correction_of_a_record_is_read_as_family() -> None:
    bench = several(RATIOS)
    experiment = msgspec.structs.replace(bench.experiment, correction="x")
    found = analyse(experiment, plan.variants(experiment), bench.workloads, bench.runs)
    assert len({c.confidence for c in found.comparisons}) > 1
    assert precision(experiment, plan.variants(experiment), bench.workloads, bench.runs)


@pytest.mark.parametrize("correction", ["report", "family"])
def test_null_reports_with_any_difference(correction: str) -> None:
    """300 reports of 20 rows of four quantities without any difference, at 95 %: 5 % of reports, or of each of four families."""
    hits = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        p = random.random((4, 5))
        families = [p.ravel()] if correction == "report" else list(p)
        hits += any((each <= common_level(each.tolist(), 0.05)).any() for each in families)
    assert (hits <= 27) == (correction == "report"), hits  # 15 and 56 expected; 27 is 3.2 standard deviations above 15


def test_verdicts_follow_the_level() -> None:
    found = several(RATIOS).analysis().comparisons
    verdicts = {(c.workload, c.metric.name): c.verdict for c in found}
    assert verdicts["a", "wall"] is verdicts["b", "wall"] is Verdict.WORSE
    for row in found:
        assert row.p_value is not None and row.low is not None and row.high is not None
        assert (row.p_value <= 1 - row.confidence) == (row.low > 1 or row.high < 1)
