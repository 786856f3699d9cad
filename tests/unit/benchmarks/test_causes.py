# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/causes: what counts as right, and that its table and its programs agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from benchmarks.causes import CAUSES, LIBRARIES, NULLS, SOURCE, Cause, Outcome, built, outcome_of, row

PLANTED = Cause(("own code",), "mispredicted", "same instructions, slower")


def explanation(*findings: dict[str, object]) -> dict[str, object]:
    return {"findings": list(findings), "paragraph": "nothing"}


def finding(**changed: object) -> dict[str, object]:
    return {
        "cause": "own code",
        "share": 0.9,
        "sentence": "9 mispredicted branches",
        "evidence": ["more"],
        "interval": [0.8, 1.0],
        "how": "same instructions, slower",
        **changed,
    }


def test_a_cause_is_right_with_its_evidence_and_how_the_instructions_compare() -> None:
    found = outcome_of(explanation(finding(), finding(cause="page faults")))
    assert found == Outcome(
        "own code", 0.9, (0.8, 1.0), "same instructions, slower", "9 mispredicted branches | more", "nothing"
    )
    assert found.is_right(PLANTED)
    for changed in ({"cause": "allocator"}, {"sentence": "slower"}, {"how": "more instructions"}):
        assert not outcome_of(explanation(finding(**changed))).is_right(PLANTED)
    nothing = outcome_of(explanation())
    assert (nothing.named, nothing.answer, nothing.is_right(PLANTED)) == ("", "nothing", False)
    assert nothing.differs and not outcome_of({**explanation(), "differs": False}).differs
    assert row("branches", found, "right", 9.0).split() == [
        *("branches", "right", "own", "code", "90%", "80%", "to", "100%", "same", "instructions,", "slower", "9", "s"),
    ]


def test_the_table_has_the_causes_of_the_program() -> None:
    assert set(re.findall(r'\{"([\w-]+)", \w+\}', SOURCE.read_text())) == set(CAUSES)
    assert set(NULLS) <= set(CAUSES) and len(CAUSES) == 30


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_programs_compile_and_run(tmp_path: Path) -> None:
    program = built(tmp_path)
    assert len(list(tmp_path.glob("causes-*.so"))) == LIBRARIES
    libraries = {"CAUSES_LIBRARIES": str(tmp_path)}
    assert subprocess.run([program, "libraries", "1"], env=libraries, check=False).returncode == 0
    assert subprocess.run([program, "nothing", "1"], capture_output=True, check=False).returncode == 2
