# SPDX-License-Identifier: MIT OR Apache-2.0
"""benchmarks/causes: what counts as right, and that its table and its programs agree."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from benchmarks import causes
from benchmarks.causes import (
    CAUSES,
    FILE,
    LIBRARIES,
    NULLS,
    SOURCES,
    Cause,
    Outcome,
    Pair,
    Result,
    built,
    chosen,
    evidence_of,
    main,
    outcome_of,
    placed,
    programs,
    remedy_row,
    row,
    stored,
    tables,
    verdict_of,
)

from swapstone.parts.explain.explanation.row_answer import NO_PROCESSOR, explain_measurements
from swapstone.parts.explain.instruments.remedies import REMEDIES
from swapstone.parts.explain.model.explanation import RemedyShare
from tests.programs import needs
from tests.unit.explanation.rows import FREE, OWN
from tests.unit.explanation.rows import row as measured

HEADERS = [Path("/usr", each) for each in ("include/sqlite3.h", "include/zlib.h", "share/i18n/locales/en_US")]
PLANTED, NULL = Cause(("a 0", "a 1"), "branches", "mispredicted"), Cause(("a 0", "a 00"))


def explanation(
    *names: str, evidence: str = "9 mispredicted branches", intervals: bool = True, entry: str = ""
) -> dict[str, object]:
    functions = [
        {
            "symbol": name,
            "object": "[program]",
            "baseline": 10.0,
            "candidate": 19.0,
            "callers": [{"symbol": "main", "object": "[program]"}],
            "entry": entry,
            "mostly": {"symbol": "inner", "object": "[program]"} if entry else None,
        }
        for name in (*names, "other")
    ]
    shares = [[0.8, 1.0]] * (len(names) + 1) if intervals else []
    time = {"measured": [10.0, 20.0], "leading": len(names), "functions": functions, "shares": shares}
    return {"time": time, "sentence": "answer", "evidence": [evidence, "more"], "surroundings": ["affinity"]}


def test_a_cause_is_right_with_its_function_and_its_counts() -> None:
    found = outcome_of(explanation("branches"))
    assert found == Outcome(
        named="branches, main",
        share=0.9,
        interval=(0.8, 1.0),
        evidence="9 mispredicted branches | more | affinity",
        answer="answer",
    )
    assert outcome_of(explanation("branches", intervals=False)).interval is None
    assert outcome_of(explanation("clear", entry="__x64_sys_mmap")).named == "clear, inner, main, mmap (system call)"
    nothing = outcome_of(explanation())
    assert (nothing.named, nothing.answer, nothing.differs) == ("", "answer", True)
    assert not outcome_of({**explanation(), "differs": False}).differs
    assert outcome_of({**explanation(), "time": None}).named == ""
    cells = row(Result(Pair("branches", null=False), "right", found, 9.0))
    assert cells == ("branches", "right", "branches, main", "90 %", "80 to 100 %")


@pytest.mark.parametrize(
    ("found", "expected", "of_null"),
    [
        (explanation("branches"), "right", "LOUD"),
        (explanation("other_function", "branches"), "right", "LOUD"),
        (explanation("branches", evidence="slower"), "function", "LOUD"),
        (explanation("locks"), "WRONG", "LOUD"),
        (explanation(), "missed", "silent"),
    ],
)
def test_verdicts(found: dict[str, object], expected: str, of_null: str) -> None:
    outcome = outcome_of(found)
    assert (verdict_of(outcome, PLANTED), verdict_of(outcome, NULL)) == (expected, of_null)
    assert verdict_of(outcome_of({**explanation(), "differs": False}), PLANTED) == "none"


def test_time_without_a_processor_is_right_only_where_the_surroundings_are_the_cause() -> None:
    late = outcome_of({**explanation("main"), "sentence": f"99 % of the difference is {NO_PROCESSOR}"})
    assert (late.named, late.evidence) == (NO_PROCESSOR, "9 mispredicted branches | more | affinity")
    pinned = Cause(("a 0", "a 1"), "crunch", "affinity", kind="surroundings: one processor")
    quota = Cause(("a 0", "a 1"), "crunch", "quota", kind="surroundings: a quota")
    assert [verdict_of(late, each) for each in (pinned, quota, PLANTED, NULL)] == ["right", "function", "WRONG", "LOUD"]


def test_the_truths_are_those_that_were_committed() -> None:
    with pytest.raises(SystemExit, match="the truths were committed as"):
        programs(FILE.read_bytes().replace(b"__cxa_throw", b"main"))


@pytest.mark.parametrize(
    "source", [FILE.with_suffix(".c"), *(SOURCES / name for name in ("work.c", "stores.c", "words.cc"))]
)
def test_the_table_and_the_programs_agree(source: Path) -> None:
    planted = [*CAUSES.values(), *NULLS.values()]
    used = re.compile(rf"\{{folder\}}/{source.stem}(?:-copy)? ([\w-]+) ")
    named = {name for cause in planted for command in cause.commands for name in used.findall(command)}
    assert named and named == set(re.findall(r'\{"([\w-]+)", (?!NULL)\w+\}', source.read_text()))


def test_there_are_sixty_causes_and_ten_nulls() -> None:
    assert (len(CAUSES), len(NULLS)) == (60, 10)
    assert all(cause.functions for cause in CAUSES.values()) and not any(null.functions for null in NULLS.values())
    new = {name: cause for name, cause in CAUSES.items() if cause.kind}
    assert len(new) == 30 and min(cause.ratio for cause in new.values()) >= 1.3
    for name, cause in new.items():
        assert not re.search(cause.functions, f"{name.replace('-', '_')}, main, _start"), f"each stack of {name} has it"


@pytest.mark.slow
@pytest.mark.exhaustive
@needs("cc", "c++", "pod2man")
@pytest.mark.skipif(
    not all(map(Path.exists, HEADERS)), reason="no headers of SQLite or zlib, or no definitions of locales"
)
def test_the_programs_compile_and_run(tmp_path: Path) -> None:
    commands = {command for pairs in (CAUSES, NULLS) for cause in pairs.values() for command in cause.commands}
    program = built(tmp_path, commands)
    assert len(list(tmp_path.glob("causes-*.so"))) == LIBRARIES
    environment = {**os.environ, "CAUSES_LIBRARIES": str(tmp_path)}
    assert subprocess.run([program, "nothing", "1"], capture_output=True, check=False).returncode == 2
    brief = [command for command in commands if re.search("libraries|collation|level|input|smooth|perl", command)]
    for command in brief:
        subprocess.run(shlex.split(placed(command, tmp_path)), cwd=tmp_path, env=environment, check=True)


def result(name: str, verdict: str = "right", *, null: bool = False, remedies: tuple[RemedyShare, ...] = ()) -> Result:
    named, interval = ("", None) if null else ("main", (0.8, 1.0))
    outcome = Outcome(named=named, share=0.9, interval=interval, evidence="evidence", answer="answer")
    return Result(Pair(name, null), verdict, outcome, 9.0, 1.5, remedies)


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

    monkeypatch.setattr(causes, "built", lambda folder, _commands: folder)
    monkeypatch.setattr(causes, "explained", explained)
    arguments = ["lock", "fsync", "--nulls", "copies", "--out", str(tmp_path)]
    assert main(arguments) == 1  # a pair failed
    verdicts["fsync"] = "right"
    assert main(arguments) == 0
    assert ran == ["lock", "fsync", "null-copies", "fsync"]
    shown = capsys.readouterr()
    assert "fsync, 3 of 3, about 0 min left" in shown.err
    assert "2 of 2 causes were named with their evidence" in shown.out
    (line,) = (line for line in (tmp_path / "table.md").read_text().splitlines() if line.startswith("| lock "))
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["lock", "right", "main", "90 %", "80 to 100 %"]
    assert main(["lock", "turns", "--nulls", "--out", str(tmp_path)]) == 130
    assert "Stopped. The results so far" in capsys.readouterr().err
    (tmp_path / "lock.json").write_bytes(b"{")
    assert stored(tmp_path / "lock.json") is None and stored(tmp_path / "fsync.json") == result("fsync")


def test_a_row_has_the_share_of_its_remedy_and_of_all_others() -> None:
    def share(name: str, share: float | None, *, confirmed: bool = False) -> RemedyShare:
        interval = None if share is None else (share - 0.125, share + 0.125)
        placebo = None if share is None else 0.25
        return RemedyShare(name=name, text="", share=share, interval=interval, placebo=placebo, confirmed=confirmed)

    tried = (share("page cache", 0.25), share("no forced writes", 0.75, confirmed=True), share("x", None))
    one = result("fsync", remedies=tried)
    others = "page cache 25 %, x not measured"
    assert remedy_row(one) == ("fsync", "no forced writes", "75 %", "62 to 88 %", "25 %", others)
    none = result("lock", remedies=tried[2:])
    assert remedy_row(none) == ("lock", "not tried", "not measured", "", "not measured", "x not measured")
    text = tables([one, none, result("turns")])
    assert text.count("fsync") == text.count("lock ") == 2 and text.count("| turns ") == 1


def test_what_was_observed_is_explained_again_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, pair = [{FREE: 100.0, OWN: 100.0}] * 8, Pair("strlen", null=False)
    seen = measured((runs, [1e8] * 8), ([{FREE: 300.0, OWN: 100.0}] * 8, [2e8] * 8))
    (tmp_path / "strlen.json").write_bytes(msgspec.json.encode(result("strlen", "missed")))
    arguments = ["strlen", "--nulls", "--out", str(tmp_path), "--explain-again"]
    monkeypatch.setattr(causes, "explained", None)  # nothing runs
    assert main(arguments) == 0 and stored(tmp_path / "strlen.json") == result("strlen", "missed")
    evidence_of(pair, tmp_path).write_bytes(seen.encoded())
    assert main(arguments) == 1  # a wrong function
    found = stored(tmp_path / "strlen.json")
    assert found is not None and found.outcome.answer == explain_measurements(seen).sentence
    assert (found.verdict, found.outcome.named) == ("WRONG", "free (C library), work")
    assert (found.seconds, found.load) == (9.0, 1.5)


def test_an_ordinary_user_has_the_causes_that_such_a_user_can_run() -> None:
    asked = argparse.Namespace(causes=[], nulls=[], confirm=False, user=True)
    assert {pair.name for pair in chosen(asked)} == CAUSES.keys() - {"quota"}
    asked.user = False
    assert len(chosen(asked)) == len(CAUSES)


def test_ten_causes_or_more_have_a_remedy() -> None:
    remedies = {cause.remedy for cause in CAUSES.values()} - {""}
    assert sum(bool(cause.remedy) for cause in CAUSES.values()) >= 10
    assert remedies <= {remedy.name for remedy in REMEDIES}


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
    asked = argparse.Namespace(blocks=1, confirm=False, out=tmp_path)
    found = causes.explained(tmp_path / "causes", Pair("turns", null), asked)
    assert (found.verdict, found.outcome.answer) == (verdict, message)
