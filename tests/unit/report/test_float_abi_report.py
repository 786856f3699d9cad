# SPDX-License-Identifier: MIT OR Apache-2.0
"""Floating-point ABIs: the table of instructions, and the explanation of a row by kind of instruction."""

from __future__ import annotations

import msgspec
import pytest
from tests.golden import reports
from tests.unit import builders
from tests.unit.builders import analysis
from tools.fuzz_seeds import COUNTED_ROW

from swapstone.core.factors.arm_code import KINDS
from swapstone.core.model import (
    Comparison,
    Direction,
    FactorLevels,
    Metric,
    Quantity,
    Scale,
    Verdict,
)
from swapstone.core.report.context import ReportContext
from swapstone.core.report.document import Drawing
from swapstone.core.workloads import find_workload
from swapstone.parts.build.report.float_abi import loop_sections, sections
from swapstone.parts.explain.explanation.machine_answer import GROUPS, arm_kind_rows
from swapstone.parts.explain.model.explanation import ArmCounts, CountedRow

SOFT = ArmCounts(kinds=(("integer", 149), ("load", 15), ("store", 16), ("branch", 35)), load_runs=0, helper_calls=4)
SOFTFP = ArmCounts(
    kinds=(
        *(("vadd.f32", 2), ("vmul.f32", 1), ("vdiv.f32", 1), ("vload", 8), ("vfp-to-core", 4)),
        *(("integer", 26), ("load", 10), ("store", 17), ("branch", 9)),
    ),
    load_runs=4,
    helper_calls=0,
)


def row(
    workload: str, soft: float, other: float, level: str = "softfp", *, verdict: Verdict = Verdict.BETTER
) -> Comparison:
    return Comparison(
        suite="float",
        workload=workload,
        load="idle",
        metric=Metric(name="wall", unit="ns", quantity=Quantity.TIME, better=Direction.LOWER, meaning="time"),
        baseline=builders.variant("float=soft"),
        candidate=builders.variant(f"float={level}"),
        baseline_values=(soft, soft, 2 * soft),
        candidate_values=(other, other),
        scale=Scale.RATIO,
        effect=other / soft,
        low=other / soft,
        high=other / soft,
        confidence=0.95,
        p_value=None,
        smallest_visible=None,
        exact=True,
        verdict=verdict,
        preferred=True,
    )


def context(
    *, clock: str = "virtual", published: str = "float-abi", scale: int = 1, optimization: str = "O0"
) -> ReportContext:
    names = ("float_calls(exact)", "float_calls(inexact)", "float_dot(exact)")
    experiment = builders.experiment(factors=(FactorLevels(factor="float", levels=("soft", "softfp", "hard")),))
    return ReportContext(
        experiment=msgspec.structs.replace(
            experiment, clock=clock, ns_per_instruction=scale, held=(("optimization", optimization),)
        ),
        record_id="r",
        record_path="r",
        published=published,
        explain="swapstone explain r",
        workloads=tuple(("float", find_workload("float", name)) for name in names),
    )


def loops(*numbers: int, clock: str = "wall") -> ReportContext:
    """Return the context of runs of the page's program with numbers of loops."""
    works = tuple(("float", find_workload("float", f"float_loops({number})")) for number in numbers)
    return msgspec.structs.replace(context(clock=clock), workloads=works)


LOOPED = (
    row("float_loops(400)", 20.0, 10.0),
    row("float_loops(100)", 20.0, 10.0),
    row("float_loops(100)", 20.0, 5.0, "hard"),
    row("float_loops(400)", 20.0, 5.0, "hard"),
)


def test_time_against_loops_is_drawn_in_seconds() -> None:
    """100 loops are 100000 rounds."""
    (section,) = loop_sections(loops(100, 400), analysis(*LOOPED))
    assert [tuple(each.values()) for each in section.data] == [
        *(("soft", 100.0, 0.002), ("soft", 400.0, 0.008)),
        *(("softfp", 100.0, 0.001), ("softfp", 400.0, 0.004)),
        *(("hard", 100.0, 0.0005), ("hard", 400.0, 0.002)),
    ]
    (drawing,) = (each for each in section.blocks if isinstance(each, Drawing))
    assert "soft: 0.008 s for 400 loops" in drawing.svg


def test_a_single_number_of_loops_and_the_virtual_clock_are_not_drawn() -> None:
    assert loop_sections(loops(100), analysis(LOOPED[1])) == ()
    assert loop_sections(loops(100, 400, clock="virtual"), analysis(*LOOPED)) == ()
    assert loop_sections(context(clock="wall"), analysis(*ROWS)) == ()


ROWS = (
    row("float_calls(exact)", 214.0, 77.0),
    row("float_calls(exact)", 214.0, 71.0, "hard"),
    row("float_calls(inexact)", 300.0, 78.0),
    row("float_dot(exact)", 100.0, 10.0, verdict=Verdict.INVALID),
)


def exact(name: str, value: float) -> dict[str, object]:
    """Return the data of a ratio between counts."""
    bounds = {f"{name}{end}": pytest.approx(value) for end in ("", "_low", "_high")}
    return {**bounds, f"{name}_bounds": "exact"}


def test_a_row_has_instructions_and_ratios() -> None:
    (section,) = sections(context(), analysis(*ROWS))
    assert section.title == "Instructions of an operation"
    assert section.data == (
        {
            "workload": "float_calls",
            "operands": "exact",
            "soft instructions": 214.0,
            "softfp instructions": 77.0,
            "hard instructions": 71.0,
            **exact("soft / softfp", 214 / 77),
            **exact("soft / hard", 214 / 71),
        },
        {
            "workload": "float_calls",
            "operands": "inexact",
            "soft instructions": 300.0,
            "softfp instructions": 78.0,
            "hard instructions": None,
            **exact("soft / softfp", 300 / 78),
            **dict.fromkeys(exact("soft / hard", 1.0)),
        },
    )
    text = str(reports.texts(section))
    assert "soft: inexact operands take 1.402 times (float_calls) what exact ones take." in text
    assert "--candidate float=softfp" in text


def test_other_records_have_no_such_table() -> None:
    assert sections(context(), analysis()) == ()
    assert sections(context(), analysis(msgspec.structs.replace(ROWS[0], suite="libc"))) == ()
    (slow,) = sections(context(clock="wall"), analysis(*ROWS))
    assert slow.title == "Time of an operation" and slow.data[0]["soft ns"] == 214.0
    (scaled,) = sections(context(scale=2), analysis(*ROWS))
    assert scaled.data[0]["soft instructions"] == 107.0


def explained(baseline: ArmCounts | None, candidate: ArmCounts | None) -> CountedRow:
    found = msgspec.json.decode(COUNTED_ROW, type=CountedRow)
    sides = zip(found.sides, (baseline, candidate), strict=True)
    made = [msgspec.structs.replace(side, operations=1.0, instructions=1000, arm=arm) for side, arm in sides]
    return msgspec.structs.replace(found, sides=(made[0], made[1]))


def test_the_kinds_of_instructions_are_grouped() -> None:
    rows = arm_kind_rows(explained(SOFT, SOFTFP))
    assert ("floating-point sums and differences", "0", "2", "+2") in rows
    assert ("integer loads and stores", "31", "27", "-4") in rows
    assert rows[-2:] == (("sum", "215", "78", "-137"), ("calls of libgcc's floating-point functions", "4", "0", "-4"))
    assert arm_kind_rows(explained(None, SOFTFP)) == ()


def test_every_kind_is_in_one_group() -> None:
    grouped = [kind for _, kinds in GROUPS for kind in kinds]
    assert sorted(grouped) == sorted({kind.partition(".")[0] for kind in KINDS})


def test_contradicting_kinds_are_named() -> None:
    assert explained(SOFT, SOFTFP).problem().startswith("the functions")  # the seed's functions have another sum
    found = msgspec.json.decode(COUNTED_ROW, type=CountedRow)
    assert found.problem() == ""
    for arm in (
        msgspec.structs.replace(SOFT, kinds=(("integer", 31),)),
        msgspec.structs.replace(SOFT, kinds=(("integer", 1), ("integer", 1))),
    ):
        sides = (msgspec.structs.replace(found.sides[0], arm=arm), found.sides[1])
        assert "kinds of instructions" in msgspec.structs.replace(found, sides=sides).problem()
    for arm in (
        msgspec.structs.replace(SOFT, kinds=(("integer", -1),)),
        msgspec.structs.replace(SOFT, kinds=(), helper_calls=1 << 63),
    ):
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(arm.encoded(), type=ArmCounts)
