# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which row of a record is explained, and what is printed where none is."""

from __future__ import annotations

import msgspec
import pytest

import swapstone
from swapstone.model import Analysis, Verdict
from swapstone.model.errors import UserError
from swapstone.session.explain_row import ExplainOptions, choose_row
from tests.e2e.cli import fake


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("chosen")
    options = {"only": ["b_string_strlen"], "blocks": 6, "seed": 1, "target": fake(folder)}
    return swapstone.compare(libc=["glibc", "musl"], out=folder / "r", **options).analysis()  # type: ignore[arg-type] # of several types


def without_result(analysis: Analysis, metric: str, reason: str) -> Analysis:
    """Return the analysis as if a busy machine had taken the results of a metric."""
    rows = tuple(
        msgspec.structs.replace(row, verdict=Verdict.DISTURBED, effect=None, reason=reason)
        if metric in ("*", row.metric.name)
        else row
        for row in analysis.comparisons
    )
    return msgspec.structs.replace(analysis, comparisons=rows)


def test_a_metric_without_a_result_is_named_with_the_records_reason(analysis: Analysis) -> None:
    with pytest.raises(UserError, match="b_string_strlen, cpu, has no result to explain: disturbed") as error:
        choose_row(without_result(analysis, "cpu", "others ran \x1b[31m"), ExplainOptions(metric="cpu"))
    assert "others ran" in error.value.hint and "\x1b" not in error.value.hint
    assert "rerun" in error.value.hint
    choose_row(without_result(analysis, "cpu", "others ran"), ExplainOptions(metric="wall"), undecided=True)


def test_a_metric_that_no_row_has_is_unknown(analysis: Analysis) -> None:
    with pytest.raises(UserError, match="no metric of this record named 'cpux'") as error:
        choose_row(without_result(analysis, "cpu", "others ran"), ExplainOptions(metric="cpux"))
    assert "'cpu'" in error.value.hint
    with pytest.raises(UserError, match="No row of this record has a result"):
        choose_row(without_result(analysis, "*", ""), ExplainOptions(metric="cpu"))
