# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from swapstone.core.report.render import find_renderer
from swapstone.exit_status import ExitStatus, Finding
from swapstone.parts.gate.gate import row_text
from swapstone.parts.gate.gate_file import decode_gate, parse_limit
from swapstone.parts.gate.gate_report import document_of, to_annotations, to_json, to_junit, to_markdown
from swapstone.parts.gate.gate_result import Cause, GateResult, Row, RunFinding, finding_of_run
from swapstone.parts.gate.measured_runs import judged_row
from tests.json_schema import check_printed
from tests.unit.gate.test_gate_file import WHOLE

ROW = Row(
    run="deflate",
    metric="instructions",
    unit="1",
    base=1e6,
    head=1.0203e6,
    difference=20300.0,
    floor=1000.0,
    limit="1%",
    state="worse",
)
RESULT = GateResult(
    answer="The head is worse.",
    status=ExitStatus.WORSE,
    base="a" * 40,
    head="b" * 40,
    base_reason="--base v1",
    measured=1,
    rows=(ROW,),
    findings=(finding_of_run("inflate", Finding.FAILS, "it was killed.\n--- \x1b[2J"),),
    causes=(
        Cause(
            run="deflate",
            function="work",
            object="[program]",
            difference=20000.0,
            source="work.c",
            edited=True,
            line=7,
        ),
        Cause(
            run="deflate", function="more\x1b[2J", object="[program]", difference=300.0, source="more.c", edited=False
        ),
        Cause(run="deflate", function="read", object="[kernel]", difference=300.0),
    ),
    repeat="swapstone gate --base v1",
)


def test_the_acceptance_that_is_proposed_can_be_pasted() -> None:
    text = find_renderer("text").render(document_of(RESULT)).replace("\n", " ")
    proposed = re.search(r"accept = \[\{.*?\}\]", re.sub(r"\s+\\?\s*", " ", text))
    assert proposed is not None
    (found,) = decode_gate(f"{proposed[0]}\n{WHOLE.partition('[[accept]]')[0]}".encode()).accept
    assert (found.run, found.metric) == ("deflate", "instructions")
    assert parse_limit(found.metric, found.size).of(ROW.base) >= ROW.difference


def test_a_share_is_that_of_the_difference() -> None:
    """The own code of a run executes more, and its kernel fewer, but so few that it counts as equal."""
    row = msgspec.structs.replace(ROW, head=0.999e6, difference=6300.0)
    assert row_text(row) == "deflate: instructions +0.6300 % (+6.300 k), limit 1%"
    text = find_renderer("text").render(document_of(msgspec.structs.replace(RESULT, rows=(row,))))
    assert "+6.300 k (+0.6300 %)" in text


def test_the_answer_has_why_and_no_control_character() -> None:
    for text in (find_renderer("text").render(document_of(RESULT)), to_markdown(RESULT), to_json(RESULT)):
        assert "\x1b" not in text
    text = to_markdown(RESULT)
    assert "work +20 k instructions, edited here (work.c)" in text and "recompiled, not edited (more.c)" in text
    assert "read (\\[kernel\\]) +300 instructions\n" in text
    assert "inflate: the head crashes, times out or fails otherwise, and the base works: it was killed." in text
    check_printed(to_json(RESULT))
    assert msgspec.json.decode(to_json(RESULT))["rows"][0]["state"] == "worse"


@pytest.mark.parametrize(
    ("before", "after", "limit", "floor", "state"),
    [
        ((1000.0, 1000.0), (1011.0, 1012.0), "1%", 0.0, "worse"),
        ((1000.0, 1000.0), (1010.0, 1010.0), "1%", 0.0, "more"),
        ((1000.0, 1000.0), (1011.0, 1009.0), "1%", 0.0, "more"),
        ((1000.0, 1000.0), (1011.0, 989.0), "1%", 0.0, "same"),
        ((1000.0, 1000.0), (1012.0, 1012.0), "1%", 4.0, "same"),
        ((1000.0, 1000.0), (1013.0, 1013.0), "1%", 4.0, "worse"),
        ((1000.0, 1000.0), (900.0, 900.0), "0", 0.0, "fewer"),
        ((1000.0, 1000.0), (1001.0, 1001.0), "0", 0.0, "worse"),
        ((1000.0, 1000.0), (2000.0, 2000.0), "", 0.0, "more"),
        ((0.0, 0.0), (1.0, 1.0), "50%", 0.0, "worse"),
        ((1000.0,), (1011.0,), "10", 0.0, "worse"),
    ],
)
def test_a_row_is_judged_by_its_limit_and_its_floor(
    before: tuple[float, ...], after: tuple[float, ...], limit: str, floor: float, state: str
) -> None:
    parsed = parse_limit("faults", limit) if limit else None
    assert judged_row("small", "faults", (before, after), parsed, floor=floor).state == state


def test_annotations_are_whole_lines_whatever_they_name() -> None:
    """A name with characters of a workflow command ends neither the command nor a property of it."""
    hostile = Cause(
        run="deflate",
        function="f::error::100%\n::add-mask::x",
        object="[program]",
        difference=9.0,
        source="a,b:c%\n.c",
        edited=True,
    )
    result = msgspec.structs.replace(RESULT, causes=(*RESULT.causes, hostile))
    lines = to_annotations(result).splitlines()
    assert lines[0] == "::error title=swapstone gate::The head is worse."
    assert lines[1] == (
        "::error title=swapstone gate,file=work.c,line=7::deflate: work +20 k instructions, edited here (work.c)"
    )
    assert lines[2].startswith("::error title=swapstone gate,file=a%2Cb%3Ac%25\\x0a.c::deflate: f::error::100%25\\x0a")
    assert len(lines) == 3, "neither a function that is not edited, nor a line of a name"
    passed = msgspec.structs.replace(result, status=ExitStatus.SUCCESS, rows=(), causes=result.causes * 9)
    lines = to_annotations(passed).splitlines()
    assert len(lines) == 10 and all(line.startswith("::notice ") for line in lines)


def test_each_row_with_a_limit_is_a_test_case() -> None:
    same = msgspec.structs.replace(ROW, metric="syscalls", detail="read", state="same", difference=0.0, head=1e6)
    gone = RunFinding(run="tiny", status=ExitStatus.NO_RESULT, text="is gone \x1b", metric="definition")
    result = msgspec.structs.replace(RESULT, rows=(ROW, same), findings=(*RESULT.findings, gone))
    assert "same" not in find_renderer("text").render(document_of(result))
    text = to_junit(result)
    root = ET.fromstring(text)
    cases = {(case.get("classname"), case.get("name")): [each.tag for each in case] for case in root.iter("testcase")}
    assert cases == {
        ("gate.inflate", "run"): ["failure", "system-out"],
        ("gate.tiny", "run"): ["error", "system-out"],
        ("gate.deflate", "instructions"): ["failure", "system-out"],
        ("gate.deflate", "read"): ["system-out"],
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "1")


def test_a_reason_names_the_key_of_the_file() -> None:
    found = finding_of_run("small", Finding.OTHER_WORK, "other output; if that is meant: --output-may-differ.")
    assert found.text.endswith("if that is meant: the key output_may_differ")
