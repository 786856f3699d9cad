# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/causes: what counts as right, and that its table and its programs agree."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pytest
from benchmarks import causes
from benchmarks.causes import CAUSES, LIBRARIES, NULLS, SOURCES, Cause, Pair, built, is_right, main, verdict_of
from benchmarks.causes_results import (
    CONFIRMED,
    Outcome,
    Result,
    gap_closed,
    outcome_of,
    row,
    state_of,
    stored,
    tables,
    with_slowdowns,
)

from swapstone.instruments.remedies import REMEDIES
from tests.programs import needs

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
    assert is_right(found, PLANTED)
    for changed in ({"cause": "allocator"}, {"sentence": "slower"}, {"how": "more instructions"}):
        assert not is_right(outcome_of(explanation(finding(**changed))), PLANTED)
    nothing = outcome_of(explanation())
    assert (nothing.named, nothing.answer, is_right(nothing, PLANTED)) == ("", "nothing", False)
    assert nothing.differs and not outcome_of({**explanation(), "differs": False}).differs
    assert row(Result("branches", False, "right", found, 9.0)).split() == [
        *("branches", "right", "own", "code", "90%", "80%", "to", "100%", "same", "instructions,", "slower", "9", "s"),
    ]


@pytest.mark.parametrize(
    ("findings", "expected", "of_null"),
    [
        ([finding()], "right", "LOUD"),
        ([finding(sentence="slower")], "class", "LOUD"),
        ([finding(cause="locks")], "WRONG", "LOUD"),
        ([finding(cause="locks", interval=None)], "WRONG", "LOUD"),
        ([finding(cause="locks", interval=None, share=None)], "counts", "LOUD"),
        ([], "missed", "silent"),
    ],
)
def test_verdicts(findings: list[dict[str, object]], expected: str, of_null: str) -> None:
    found = outcome_of(explanation(*findings))
    assert (verdict_of(found, PLANTED), verdict_of(found, None)) == (expected, of_null)
    assert verdict_of(outcome_of({**explanation(), "differs": False}), PLANTED) == "none"


def test_the_table_has_the_causes_of_the_program() -> None:
    listed = [name for source in SOURCES for name in re.findall(r'\{"([\w-]+)", \w+\}', source.read_text())]
    assert sorted(listed) == sorted(CAUSES)
    assert set(NULLS) <= set(CAUSES) and len(CAUSES) == 57


@pytest.mark.slow
@needs("cc")
def test_the_programs_compile_and_run(tmp_path: Path) -> None:
    program = built(tmp_path)
    assert len(list(tmp_path.glob("causes-*.so"))) == LIBRARIES
    libraries = {"CAUSES_LIBRARIES": str(tmp_path)}
    assert subprocess.run([program, "libraries", "1"], env=libraries, check=False).returncode == 0
    assert subprocess.run([program, "environment", "1"], check=False).returncode == 0  # of more_causes.c
    assert subprocess.run([program, "nothing", "1"], capture_output=True, check=False).returncode == 2


def result(name: str, verdict: str = "right", *, null: bool = False, **changed: object) -> Result:
    outcome = Outcome(
        "" if null else CAUSES[name].named[0], 0.9, None if null else (0.8, 1.0), "", "evidence", "answer"
    )
    return Result(name, null, verdict, outcome, 9.0, 1.5, **changed)  # type: ignore[arg-type]


def test_what_is_stored_is_not_run_again_and_failures_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    verdicts = {"fsync": "FAILED", "null-copies": "silent"}

    def explained(_program: Path, pair: Pair, _asked: object) -> Result:
        if pair.name == "turns":
            raise KeyboardInterrupt
        ran.append(pair.key)
        return result(pair.name, verdicts.get(pair.key, "right"), null=pair.null)

    monkeypatch.setattr(causes, "built", lambda folder: folder)
    monkeypatch.setattr(causes, "explained", explained)
    arguments = ["lock", "fsync", "--nulls", "copies", "--out", str(tmp_path)]
    assert main(arguments) == 1  # a pair failed
    verdicts["fsync"] = "right"
    assert main(arguments) == 0
    assert ran == ["lock", "fsync", "null-copies", "fsync"]
    shown = capsys.readouterr()
    assert "fsync, 3 of 3, about 0 min left" in shown.err
    assert "2 of 2 causes were named first with their evidence" in shown.out
    (state,) = tmp_path.iterdir()
    assert "| `lock` | right | locks | 90 % | 80 to 100 % |" in (state / "table.md").read_text()
    assert main(["lock", "turns", "--nulls", "--out", str(tmp_path)]) == 130
    assert "Stopped: 1 of 2 results" in capsys.readouterr().err
    (state / "lock.json").write_bytes(b"{")
    assert stored(state / "lock.json") is None and stored(state / "fsync.json") == result("fsync")


def test_a_state_changes_with_the_program_and_the_settings(tmp_path: Path) -> None:
    for name in ("src/a.py", "benchmarks/causes.c", "benchmarks/more_causes.c", "benchmarks/causes.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    first = state_of(tmp_path, blocks=20)
    assert first == state_of(tmp_path, blocks=20) and re.fullmatch("[0-9a-f]{12}", first)
    assert first != state_of(tmp_path, blocks=21)
    for name in ("src/a.py", "benchmarks/more_causes.c", "benchmarks/causes.h"):
        (tmp_path / name).write_text("2")
        assert first != (first := state_of(tmp_path, blocks=20))


def test_the_tables_have_remedies_and_costs() -> None:
    def tried(name: str, remedied: float, problem: str = "") -> dict[str, object]:
        times = () if problem else (remedied,) * 8
        rest = {"faster": (1.0,) * len(times), "slower": (5.0,) * len(times), "remedied": times}
        return {"name": name, "text": "t", "problem": problem, **rest}

    costs = with_slowdowns(
        [
            {"instrument": "on-cpu", "seconds": 30.0, "trial_s": 2.0},
            {"instrument": "pages", "seconds": 1.0, "trial_s": 0.0},
        ],
        [{"instrument": "on-cpu", "overhead": 1.25}, {"instrument": "on-cpu", "overhead": 3.5}],
    )
    one = result(
        "fsync", remedies=(tried("no sleeps", 4.0), tried("page cache", 1.0), tried("x", 0.0, "static")), costs=costs
    )
    assert gap_closed(one) == ("page cache", 1.0, (1.0, 1.0))
    text = tables([one, result("lock", remedies=(tried("x", 0.0, "static"),)), result("turns")], "0" * 12, "All")
    assert "| `fsync` | page cache | 100 % | 100 to 100 % | no sleeps, x |" in text
    assert "| `lock` | none measured |  |  | x |" in text
    assert "Of 2 gaps, 1 are closed" in text
    assert "| on-cpu | 30.0 s | 30.0 s | 15 | 15 | 3.5 | 3.5 |" in text
    assert "| pages | 1.0 s | 1.0 s |  |  |  |  |" in text


def test_ten_causes_or_more_have_a_remedy() -> None:
    assert len(CONFIRMED) >= 10 and set(CONFIRMED) <= set(CAUSES)
    assert set(CONFIRMED.values()) <= {remedy.name for remedy in REMEDIES}


@pytest.mark.parametrize(
    ("message", "null", "verdict"),
    [
        (f"status 2\nerror: The row causes, cpu, {causes.DISTURBED}.", False, "none"),
        (f"status 2\nerror: The row causes, cpu, {causes.DISTURBED}.", True, "silent"),
        ("Traceback", False, "FAILED"),
    ],
)
def test_a_pair_that_fails_or_is_disturbed_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, verdict: str, *, null: bool
) -> None:
    def swapstone(*_: object) -> None:
        raise AssertionError(message)

    monkeypatch.setattr(causes, "swapstone", swapstone)
    asked = argparse.Namespace(blocks=1, confirm=False)
    found = causes.explained(tmp_path / "causes", Pair("fsync", null), asked)
    assert (found.verdict, found.outcome.answer) == (verdict, message)
