# SPDX-License-Identifier: MIT OR Apache-2.0
"""What does not enter an index, a reason or an advice."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from swapstone.core.comparison.analyse_runs import null_result
from swapstone.core.comparison.cells import collect
from swapstone.core.comparison.contrast_estimates import Measured
from swapstone.core.comparison.factorial import index_estimates
from swapstone.core.comparison.factorial_contrasts import contrasts
from swapstone.core.comparison.run_table import as_table
from swapstone.core.model import (
    CONSOLE,
    CURRENT_RULES,
    CaveatKind,
    Direction,
    FactorLevels,
    Metric,
    Quantity,
    Status,
    Verdict,
)
from tests.unit import builders
from tests.unit.comparison.conftest import METRICS, Bench, caveats
from tests.unit.comparison.test_limits import row
from tests.unit.comparison.test_run_limits import compared, noise

CROSSED = builders.experiment(
    factors=(FactorLevels(factor="libc", levels=("glibc", "musl")), FactorLevels(factor="linking", levels=("a", "b")))
)


def measured(name: str, value: float, metric: str = "wall", *, blocks: int = 3) -> Measured:
    """Return the same value of all four variants in each block but the last, which has another one."""
    labels = [f"libc={libc},linking={linking}" for libc in ("glibc", "musl") for linking in "ab"]
    values = np.array([value if block == blocks else 5.0 for block in range(1, blocks + 1)])
    series = {label: (np.arange(1, blocks + 1), values) for label in labels}
    return Measured("s", name, "idle", METRICS[metric], series, {}, certain=False, preferred=True)


@pytest.mark.parametrize(
    ("value", "metric", "blocks", "counts"),
    [
        (1e-9, "wall", 3, True),
        (0.0, "wall", 3, False),
        (-1.0, "wall", 3, False),
        (5.0, "wall", 0, False),  # no value at all
        (5.0, "res", 3, False),
    ],
)
def test_a_workload_enters_an_index_of_effects_with_times_above_0(
    value: float, metric: str, blocks: int, *, counts: bool
) -> None:
    questions = contrasts(CROSSED)
    good, other = measured("good", 5.0), measured("other", value, metric, blocks=blocks)
    found = list(index_estimates([good, other], questions, frozenset()))
    assert len(found) == len(questions)
    assert {len(each.members) for each in found} == {2 if counts else 1}
    assert all(each.measured.preferred for each in found)
    assert not any(each.measured.preferred for each in index_estimates([good], questions, frozenset({"idle"})))


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("", "no reason given"),
        (f"{CONSOLE}panic", "no reason given"),
        (f"it crashed{CONSOLE}panic", "it crashed"),
        ("it crashed", "it crashed"),
    ],
)
def test_a_status_has_its_first_reason_without_lines_of_a_console(reason: str, shown: str) -> None:
    bench = Bench()
    bench.workload("w", "wall")
    for block in (1, 2):
        bench.run("w", "libc=glibc", block, Status.FAILED)
        bench.runs[-1] = msgspec.structs.replace(bench.runs[-1], reason=reason if block == 1 else "another one")
    cell = collect(as_table(bench.runs))["s", "w", "idle"]["libc=glibc"]
    assert cell.reasons == {Status.FAILED: shown}
    assert cell.exclusion("side") == (Verdict.INVALID, f"side fails: {shown} (2 of 2 runs)")


@pytest.mark.parametrize(
    ("name", "preferred", "advised"),
    [("cpu", True, True), ("cpu", False, False), ("wall", True, False), ("wall", False, False)],
)
def test_processor_time_is_recommended_where_it_is_read_first(name: str, *, preferred: bool, advised: bool) -> None:
    one = msgspec.structs.replace(compared(6), metric=METRICS[name], preferred=preferred)
    other = msgspec.structs.replace(compared(6), metric=METRICS["res"], preferred=False)
    experiment = builders.experiment(rules=CURRENT_RULES)
    busy = noise(busy=True, cpu_pressure_percent=30.0)
    rows = [row([1.0], [1.0])] * 2
    (found,) = caveats(CaveatKind.BUSY_MACHINE, experiment, rows, [other, one], noise=busy)
    assert ("Read CPU time first" in found.message) == advised
    assert ("compare CPU time of work" in found.hint) == advised


def test_sizes_are_no_null_results() -> None:
    copy = builders.variant("libc=glibc (again)")
    time = msgspec.structs.replace(compared(6, verdict=Verdict.WORSE), candidate=copy)
    size = msgspec.structs.replace(
        time, metric=Metric(name="text", unit="B", quantity=Quantity.SIZE, better=Direction.LOWER, meaning="code")
    )
    others = [msgspec.structs.replace(time, verdict=each) for each in (Verdict.INVALID, Verdict.UNAVAILABLE)]
    same = msgspec.structs.replace(time, verdict=Verdict.EQUIVALENT)
    candidate = msgspec.structs.replace(time, candidate=builders.variant("libc=musl"))
    found = null_result(copy, [size, time, *others, same, candidate], (), frozenset())
    assert (found.copy, found.compared, found.different, found.rows) == (copy, 2, 1, ("w wall",))
