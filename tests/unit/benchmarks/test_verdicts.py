# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark of verdicts: which verdict is right by which truth, its cases, its programs and its processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks import verdict_hogs, verdicts
from benchmarks.verdict_cases import (
    ALL,
    CASES,
    PLAIN,
    Case,
    case_of,
    cases_of,
)
from benchmarks.verdict_truth import (
    DIRECTED,
    NOT_STATED,
    SAME,
    VERDICTS,
    Bounds,
    Judgement,
    Statement,
    Truth,
    clauses,
    denied,
    judge,
    judge_refusal,
    within,
)

from swapstone.core.model import CaveatKind, Verdict

RIGHT, WRONG, NOTHING = Judgement.RIGHT, Judgement.WRONG, Judgement.NOT_STATED

IDENTICAL = Truth(SAME, SAME)
SLOWER = Truth(Bounds(1.2, 1.4), Bounds(1.2, 1.4))
TAIL = Truth(SAME, Bounds(1.2, 1.6))
SHORTER_TAIL = Truth(SAME, Bounds(0.6, 0.9))
MIXED = Truth(Bounds(1.1, 1.3), Bounds(0.6, 0.9))
MEDIAN_ALONE = Truth(Bounds(1.1, 1.3), Bounds(0.99, 1.01))
TINY = Truth(Bounds(1.005, 1.01), Bounds(1.005, 1.01))

RIGHT_VERDICTS = {
    "identical": (IDENTICAL, {"equivalent", "same median"}),
    "slower": (SLOWER, {"worse", "worse tail", "changed"}),
    "faster": (SLOWER.inverse(), {"better", "better tail", "changed"}),
    "tail": (TAIL, {"worse", "worse tail", "below margin", "same median", "changed"}),
    "shorter tail": (SHORTER_TAIL, {"better", "better tail", "below margin", "same median", "changed"}),
    "mixed": (MIXED, {"mixed", "better tail", "changed"}),
    "mixed, exchanged": (MIXED.inverse(), {"mixed", "worse tail", "changed"}),
    "median alone": (MEDIAN_ALONE, {"worse", "worse tail", "better tail", "mixed", "changed"}),
    "inside the margin": (TINY, {"worse", "worse tail", "equivalent", "below margin", "same median", "changed"}),
}


def judgement(verdict: str, truth: Truth, **more: object) -> Judgement:
    found, why = judge(Statement("wall", verdict), truth, 0.02, **more)  # type: ignore[arg-type]
    assert bool(why) == (found is WRONG)
    return found


def test_the_verdicts_are_those_of_reports() -> None:
    assert {each.value for each in Verdict} == VERDICTS
    kinds = {each.value for each in CaveatKind}
    assert {kind for case in CASES for kind in case.excusing} <= kinds


@pytest.mark.parametrize("name", RIGHT_VERDICTS)
def test_each_verdict_by_each_truth(name: str) -> None:
    truth, right = RIGHT_VERDICTS[name]
    for verdict in sorted(VERDICTS):
        expected = NOTHING if verdict in NOT_STATED else RIGHT if verdict in right else WRONG
        assert judgement(verdict, truth) is expected, verdict


@pytest.mark.parametrize("verdict", sorted(VERDICTS - NOT_STATED))
def test_every_statement_about_different_work_is_wrong(verdict: str) -> None:
    for truth, _ in RIGHT_VERDICTS.values():
        assert judgement(verdict, truth, same_work=False) is WRONG


def test_an_unknown_truth_contradicts_nothing() -> None:
    assert {judgement(verdict, Truth()) for verdict in VERDICTS - NOT_STATED} == {RIGHT}


def test_where_more_is_better_the_direction_is_the_other_one() -> None:
    more = Truth(Bounds(1.1, 1.1), Bounds(1.1, 1.1))
    for better, right, wrong in (("higher", "better", "worse"), ("lower", "worse", "better")):
        assert judge(Statement("score", right, better=better), more, 0.02)[0] is RIGHT
        assert judge(Statement("score", wrong, better=better), more, 0.02)[0] is WRONG
        assert judge(Statement("score", f"{right} tail", better=better), more, 0.02)[0] is RIGHT
        assert judge(Statement("score", f"{wrong} tail", better=better), more, 0.02)[0] is WRONG


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(2.0, 2.2, WRONG), (1.35, 2.2, RIGHT), (1.25, 1.3, RIGHT), (1.01, 1.1, WRONG)]
)
def test_a_stated_size_must_meet_the_true_one_where_it_is_known(low: float, high: float, expected: Judgement) -> None:
    truth, row = dataclasses.replace(SLOWER, size=True), Statement("wall", "worse", 1.5, low, high)
    assert judge(row, truth, 0.02)[0] is expected
    assert judge(row, SLOWER, 0.02)[0] is RIGHT


def test_a_size_is_compared_as_it_is_printed_where_more_is_better() -> None:
    truth = Truth(Bounds(1.1, 1.2), Bounds(1.1, 1.2), size=True)
    assert judge(Statement("score", "better", 1.15, 1.1, 1.2, better="higher"), truth, 0.02)[0] is RIGHT


def test_a_verdict_that_a_case_excludes_is_wrong_even_if_it_states_nothing() -> None:
    assert judgement("invalid", SLOWER, never={"invalid"}) is WRONG
    assert judgement("inconclusive", SLOWER, never={"invalid"}) is NOTHING


def test_a_caveat_excuses_a_contradiction_where_the_case_names_its_kind() -> None:
    excuse = {"caveats": ("carry-over", "few-blocks"), "excusing": {"carry-over"}}
    assert judgement("worse", IDENTICAL, **excuse) is NOTHING
    assert judgement("worse", IDENTICAL, caveats=("few-blocks",), excusing={"carry-over"}) is WRONG
    assert judgement("worse", SLOWER, **excuse) is RIGHT
    assert judgement("worse", SLOWER, same_work=False, **excuse) is NOTHING
    assert judgement("worse", SLOWER, same_work=False, caveats=("carry-over",)) is WRONG


def test_an_unknown_verdict_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rule for the verdict 'faster'"):
        judge(Statement("wall", "faster"), IDENTICAL, 0.02)


def test_the_margin_decides_what_is_equivalent() -> None:
    three = Truth(Bounds(1.03, 1.03), Bounds(1.03, 1.03))
    assert judge(Statement("wall", "equivalent"), three, 0.02)[0] is WRONG
    assert judge(Statement("wall", "equivalent"), three, 0.05)[0] is RIGHT
    assert three.differs(0.02)
    assert not three.differs(0.05)
    assert TAIL.differs(0.02)
    assert not IDENTICAL.differs(0.0)


def test_bounds() -> None:
    assert Bounds(2, math.inf).inverse() == Bounds(0, 0.5)
    assert Bounds(0, 0.5).inverse() == Bounds(2, math.inf)
    assert Bounds(1, 2).meets(Bounds(2, 3))
    assert not Bounds(1, 2).meets(Bounds(2.1, 3))
    assert within(0.25) == Bounds(0.8, 1.25)
    assert [str(b) for b in (SAME, Bounds(), Bounds(1.1), Bounds(0, 0.9), Bounds(1, 2))] == [
        "1",
        "any",
        "≥ 1.1",
        "≤ 0.9",
        "1 to 2",
    ]


def test_a_budget_without_room_is_refused_or_extended() -> None:
    blank, stated = Statement("wall", "inconclusive"), Statement("wall", "equivalent")
    assert judge_refusal(2, "the budget of 3 s holds 1 pair", [])[0] is RIGHT
    assert judge_refusal(1, "Traceback", [])[0] is WRONG
    assert judge_refusal(0, "", [blank])[0] is WRONG
    assert judge_refusal(0, "", [dataclasses.replace(stated, metric="maxrss")])[0] is WRONG
    assert judge_refusal(0, "", [stated])[0] is RIGHT


# the cases


def test_cases_have_unique_names_and_reasons_and_files() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 50
    for case in CASES:
        assert case.why.endswith("."), case.name
        assert case.truth, case.name
        for word in f"{case.baseline} {case.candidate}".split():
            field, _, file = word.partition(":")
            if field in ("read", "evict") and file not in ("", "log"):
                assert file in case.data, case.name
        if "iflag" in case.candidate + case.baseline or "evict:" in case.candidate + case.baseline:
            assert case.needs_disk, case.name


def test_all_cases_of_a_condition_fit_into_eight_minutes() -> None:
    assert sum(case.seconds for case in CASES if case.kind == PLAIN) <= 8 * 60


def test_the_inverse_of_a_truth() -> None:
    assert Truth(Bounds(1.25, 2), Bounds(4)).inverse() == Truth(Bounds(0.5, 0.8), Bounds(0, 0.25))


def test_a_truth_of_all_metrics_gives_way_to_that_of_one() -> None:
    case = Case(name="a", baseline="x", candidate="y", truth={ALL: IDENTICAL, "cpu": SLOWER}, why="Why.")
    assert (case.truth_of("minflt"), case.truth_of("cpu")) == (IDENTICAL, SLOWER)
    assert dataclasses.replace(case, truth={"wall": IDENTICAL}).truth_of("minflt") is None


def test_a_pair_of_the_file_has_ranges_and_sets() -> None:
    given = {"name": "x", "baseline": "a", "candidate": "b", "why": "Why.", "kind": "memory", "statuses": [3]}
    truth = {"wall": [1, 1], "maxrss": {"median": [1.8, 0], "size": True}}
    made = case_of({**given, "truth": truth})
    assert made.truth == {"wall": IDENTICAL, "maxrss": Truth(Bounds(1.8), Bounds(1.8), size=True)}
    assert (made.statuses, made.kind) == (frozenset({3}), "memory")
    with pytest.raises(TypeError):
        case_of({**given, "truht": truth})


def test_pairs_share_the_programs_of_their_file() -> None:
    pair = "[[case]]\nname = 'x'\nbaseline = './a'\ncandidate = './a 1'\nwhy = 'Why.'\ntruth = { wall = [1, 1] }\n"
    text = f"{pair}programs = ['a.c']\nscripts = {{ b = '1' }}\n\n[programs]\n'a.c' = 'int main;'\n"
    (made,) = cases_of(text)
    assert made.scripts == {"a.c": "int main;", "b": "1"}
    with pytest.raises(KeyError):
        cases_of(text.replace("'a.c' =", "'c.c' ="))


# what is made of the answers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("b takes 1.9 times as long as a, and uses half the memory.", [("wall", 1.9), ("memory", 0.5)]),
        ("b is twice as fast as a.", [("wall", 0.5)]),
        ("b is 3 % slower than a, and uses 41 % of the memory.", [("wall", 1.03), ("memory", 0.41)]),
        ("b takes 15 % less time than a; 9 % more memory.", [("wall", 0.85), ("memory", 1.09)]),
        ("b takes 9.2 % of the CPU time of a.", [("cpu", 0.092)]),
        ("No difference between b and a was found.", []),
        ("b may differ in elapsed time (not decided: between 2 % faster and 3 % slower).", []),
    ],
)
def test_the_ratios_of_a_sentence_are_statements(answer: str, expected: list[tuple[str, float]]) -> None:
    found = [(each.metric, round(each.effect or 0, 3)) for each in clauses(answer)]
    assert sorted(found) == sorted(expected)
    assert all(each.verdict == ("worse" if (each.effect or 0) > 1 else "better") for each in clauses(answer))


@pytest.mark.parametrize(
    ("text", "verdict", "wrong"),
    [
        ("No difference was found.", "worse", True),
        ("x\nNo time or rate has a decided difference", "better tail", True),
        ("No difference was found.", "inconclusive", False),
        ("b is 3 % slower than a.", "worse", False),
    ],
)
def test_no_sentence_denies_a_stated_difference(text: str, verdict: str, wrong: bool) -> None:
    assert bool(denied(text, [Statement("score", verdict)], {"score"})) is wrong
    assert not denied(text, [Statement("minflt", verdict)], {"score"})


def stated(case: Case, *rows: tuple[str, str], **more: object) -> dict[str, Judgement]:
    report = dataclasses.replace(report_of(*rows), **more)  # type: ignore[arg-type]
    return {each.row.metric: each.judgement for each in verdicts.judged(report, [case])}


def test_an_answer_is_judged_by_the_truth_of_what_it_names() -> None:
    double = Truth(Bounds(1.8, 2.2), Bounds(1.8, 2.2))
    case = pair(truth={"tree_memory": double, "maxrss": double.inverse()})
    assert stated(case, ("minflt", "worse"), answer="b uses half the memory of a.")["answer: memory"] is WRONG
    assert stated(case, ("maxrss", "better"), answer="b uses twice the memory.") == {
        "maxrss": RIGHT,
        "answer: memory": RIGHT,
        "exit status": RIGHT,
    }


@pytest.mark.parametrize(
    ("fields", "verdict", "right"),
    [
        ({}, "worse", {3}),
        ({}, "mixed", {0, 3}),
        ({}, "inconclusive", {0, 4}),
        ({}, "better", {0}),
        ({"same_work": False}, "invalid", {3}),
        ({"statuses": frozenset({4})}, "worse", {4}),
        ({"statuses": frozenset({3})}, "disturbed", {3, 4}),
    ],
)
def test_the_exit_status_is_a_statement(fields: dict[str, object], verdict: str, right: set[int]) -> None:
    for status in range(5):
        found = stated(pair(**fields), ("cpu", verdict), status=status, answer="An answer.")
        assert (found["exit status"] is RIGHT) == (status in right), status


def test_words_that_a_case_asks_for_or_excludes() -> None:
    case = pair(expected_words=("hit",), excluded_words=("the work waits",))
    good = {"answer": "b has 9 % fewer hits."}
    assert "sentence" not in stated(case, ("wall", "worse"), status=3, **good)
    assert stated(case, ("wall", "worse"), printed="x\nelapsed: the work waits\n", **good)["sentence"] is WRONG
    assert stated(case, ("wall", "worse"), answer="No answer.")["sentence"] is WRONG


def pair(**fields: object) -> Case:
    given = {
        "name": "x",
        "baseline": "a",
        "candidate": "b",
        "truth": dict.fromkeys(("wall", "cpu"), SLOWER),
        "why": "Why.",
    } | fields
    return Case(**given)  # type: ignore[arg-type]


def report_of(*rows: tuple[str, str], case: str = "x", condition: str = "idle") -> verdicts.Report:
    stated = tuple(Statement(metric, verdict, 1.3, 1.2, 1.4) for metric, verdict in rows)
    return verdicts.Report(condition, case, 0, "", stated)


def test_rows_without_a_truth_are_left_out() -> None:
    report = report_of(("wall", "worse"), ("cpu", "better"), ("majflt", "worse"))
    found = verdicts.judged(report, [pair()])
    assert [(r.row.metric, r.judgement) for r in found] == [("wall", RIGHT), ("cpu", WRONG)]


def test_a_comparison_without_rows_is_a_failure_and_shown() -> None:
    report = verdicts.Report("idle", "x", 2, "No such option: --x\n", ())
    assert verdicts.judged(report, [pair()]) == []
    assert "FAILED idle x: No such option: --x" in verdicts.summary([report], [pair()])


def test_the_verdicts_that_a_case_excludes_are_about_elapsed_time() -> None:
    case = pair(never=frozenset({"invalid"}))
    found = verdicts.judged(report_of(("wall", "invalid"), ("cpu", "invalid")), [case])
    assert [r.judgement for r in found] == [WRONG, NOTHING]


def test_the_summary_counts_statements_differences_and_refusals() -> None:
    cases, reports = [], []
    for name, fields, rows in (
        ("found", {}, (("wall", "worse"), ("cpu", "worse tail"))),
        ("missed", {}, (("wall", "inconclusive"),)),
        ("reversed", {}, (("wall", "better"),)),
        (
            "equal",
            {"truth": dict.fromkeys(("wall", "cpu"), IDENTICAL)},
            (("wall", "equivalent"), ("cpu", "inconclusive")),
        ),
        ("other", {"same_work": False}, (("wall", "invalid"),)),
        ("other2", {"same_work": False}, (("wall", "equivalent"),)),
    ):
        cases.append(pair(name=name, **fields))
        reports.append(report_of(*rows, case=name))
    first, *rest = verdicts.summary(reports, cases).splitlines()
    assert first == (
        "2 of 5 statements wrong; 2 of 4 true differences stated; 1 of 2 equal rows stated as equal; "
        "1 of 2 pairs of different work not judged"
    )
    assert rest == [
        "WRONG idle reversed, wall: better 1.300 (1.200-1.400); truth: 1.2 to 1.4; no difference that way",
        "WRONG idle other2, wall: equivalent 1.300 (1.200-1.400); truth: different work; a number for different work",
    ]


def test_wrong_rows_of_a_case_for_one_reason_are_one_line() -> None:
    report = report_of(("wall", "better"), ("cpu", "better"), ("maxrss", "equivalent"), condition="io")
    case = pair(same_work=False, truth={"*": Truth()})
    assert verdicts.summary([report], [case]).splitlines()[1:] == [
        "WRONG io x, wall: better 1.300 (1.200-1.400); truth: different work; a number for different work; 2 more rows"
    ]


def test_a_wrong_direction_is_no_true_difference_stated() -> None:
    found = verdicts.judged(report_of(("wall", "better")), [pair()])
    assert "0 of 1 true differences stated" in verdicts.totals(found)
    assert found[0].row.verdict in DIRECTED


def test_the_table_has_a_row_for_each_case_and_a_column_for_each_condition() -> None:
    cases = [pair(), pair(name="y", same_work=False)]
    reports = [
        report_of(("wall", "worse"), ("cpu", "better")),
        report_of(("wall", "disturbed"), condition="io"),
        report_of(("wall", "invalid"), case="y"),
        verdicts.Report("io", "y", 1, "no", ()),
    ]
    shown = verdicts.table(reports, cases).splitlines()
    assert [[cell.strip() for cell in line.strip("|").split("|")] for line in (shown[0], *shown[2:])] == [
        ["case", "truth", "idle", "io"],
        ["x", "1.2 to 1.4", "worse 1.3, **cpu better 1.3: wrong**", "disturbed"],
        ["y", "different work", "invalid", "failed"],
    ]


def test_a_row_of_the_export_becomes_a_statement() -> None:
    row = {
        "metric": {"name": "wall", "better": "lower"},
        "scale": "ratio",
        "verdict": "worse",
        "effect": 2.0,
        "low": 1.5,
        "high": 2.5,
    }
    assert verdicts.statement_of(row) == Statement("wall", "worse", 2.0, 1.5, 2.5)
    assert verdicts.statement_of(row | {"scale": "difference"}) == Statement("wall", "worse")


# the command line


def test_an_unknown_condition_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        verdicts.main(["--condition", "idle,storm"])
    assert stopped.value.code == 2
    assert "unknown condition storm: choose from idle, bursts, memory, io" in capsys.readouterr().err


def test_a_pattern_without_a_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdicts.main(["--only", "nothing*"]) == 2
    assert "No case matches nothing*." in capsys.readouterr().err


def test_the_list_has_commands_truth_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdicts.main(["--list", "--only", "slow-mode-10x-5%"]) == 0
    assert capsys.readouterr().out == (
        "slow-mode-10x-5%\n    ./adversary loop:4000\n    ./adversary loop:4000 mode:50:36000\n"
        "    wall: median 1, mean 1.1 to 1.7; cpu: median 1, mean 1.1 to 1.7. "
        "5 % of the candidate's runs take ten times as long.\n"
    )


# hyperfine and benchstat


@pytest.mark.parametrize(
    ("spread_s", "change", "hyperfine", "benchstat"),
    [
        (0.01, "+20.00%", "worse 1.200 (1.187-1.213)", "worse 1.200"),
        (0.01, "-4.50%", "worse 1.200 (1.187-1.213)", "better 0.955"),
        (0.2, "~", "inconclusive 1.200 (0.933-1.467)", "inconclusive 1.000"),
    ],
)
def test_what_other_programs_print_of_a_pair_becomes_statements(  # noqa: PLR0917 - a row of the table
    spread_s: float,
    change: str,
    hyperfine: str,
    benchstat: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch, programs = tmp_path / "scratch", tmp_path / "programs"
    scratch.mkdir()
    programs.mkdir()
    (scratch / "adversary").touch()
    sides = [
        {"mean": mean, "stddev": spread_s * (index == 0), "times": [mean] * 2} for index, mean in ((0, 0.9), (1, 1.08))
    ]
    answers = {
        "hyperfine": f"cat > $4 <<'END'\n{json.dumps({'results': sides})}\nEND\n",
        "benchstat": f"cat $3 $4 > {tmp_path}/given\necho ',sec/op,CI'\necho 'Pair,1e-01,0%,1e-01,0%,{change},p=0.002 n=6'\n",
    }
    for name, text in answers.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    case = next(each for each in CASES if each.name == "slow-mode-10x-5%")
    found = verdicts.by_others(case, "idle", scratch)
    assert [(each.condition, str(each.rows[0])) for each in found] == [
        ("idle hyperfine", hyperfine),
        ("idle benchstat", benchstat),
    ]
    runs = [f"BenchmarkPair 1 {time_ns} ns/op" for time_ns in (900000000, 1080000000)]
    assert (tmp_path / "given").read_text().splitlines() == [runs[0], runs[0], runs[1], runs[1]]


def test_other_programs_are_asked_about_time_alone() -> None:
    asked = {case.kind for case in CASES if verdicts.is_timed(case)}
    assert asked == {PLAIN, "planted cpu"}
    assert not any(case.options or case.refused for case in CASES if verdicts.is_timed(case))


# the program


@pytest.fixture(scope="module")
def adversary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return verdicts.build(tmp_path_factory.mktemp("adversary"))


def run(program: Path, folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


def cpu_us(program: Path, folder: Path, *words: str) -> float:
    """Return the processor time of a run in user mode."""
    process = subprocess.Popen([program, *words], cwd=folder)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return 1e6 * usage.ru_utime


@pytest.mark.slow
def test_the_states_of_the_program(adversary: Path, tmp_path: Path) -> None:
    """Work is 50 ms where it is done: far above what the rest of a run takes on any machine."""

    def worked(*words: str) -> bool:
        return cpu_us(adversary, tmp_path, *words) > 15_000

    parity = [worked("parity:p:50000") for _ in range(4)]
    assert parity == [False, True, False, True]
    assert [worked("warm:w:2:50000") for _ in range(4)] == [True, True, False, False]
    streak = [worked(f"streak:s:{tag}:2:{us}") for tag, us in [*([("b", 50000)] * 4), ("a", 0), ("b", 50000)]]
    assert streak == [True, True, False, False, False, True]
    assert not worked("pay:d:50000", "leave:d:1")
    assert worked("pay:d:50000", "leave:d:0")
    assert not worked("pay:d:50000")
    assert worked("unless:c:50000", "text:c:x")
    assert not worked("unless:c:50000")
    assert not worked("mode:0:50000")
    assert worked("mode:1000:50000")
    assert worked("periodic:10:10:50000")
    assert not worked("periodic:10:0:50000")
    assert worked("slots:100:1000:50000")
    assert worked("child:50000")


def test_the_outputs_of_the_program(adversary: Path, tmp_path: Path) -> None:
    assert run(adversary, tmp_path, "print:sum=42", "lines:2", "exit:3", status=3).splitlines() == [
        "sum=42",
        "line 0 of a long output",
        "line 1 of a long output",
    ]
    assert run(adversary, tmp_path, "time:") != run(adversary, tmp_path, "time:")
    run(adversary, tmp_path, "text:answer:42", "write:big:64", "append:big:100")
    assert (tmp_path / "answer").read_text() == "42\n"
    assert (tmp_path / "big").stat().st_size == 64 * 1024 + 100
    run(adversary, tmp_path, "crash:1000:0", status=-signal.SIGABRT)
    run(adversary, tmp_path, "unknown:1", status=2)


@pytest.mark.slow
@pytest.mark.exhaustive  # the benchmark runs them, and names one that fails
def test_every_command_of_a_case_runs(adversary: Path, tmp_path: Path) -> None:
    for number, case in enumerate(CASES):
        if "484" in case.name or case.refused or case.arguments or case.beside:
            continue
        if case.kind.startswith("planted") and not case.name.endswith("0"):  # they differ in numbers alone
            continue
        folder = tmp_path / str(number)
        verdicts.lay_out(case, adversary, folder)
        statuses = []
        for command in (case.baseline, case.candidate):
            words = ["env", *shlex.split(command)]
            statuses.append(subprocess.run(words, cwd=folder, capture_output=True, check=False).returncode)
        assert statuses[0] == 0 or {verdicts.FAILED, verdicts.NOTHING} & case.statuses, case.name
        assert statuses[1] == 0 or not case.same_work or case.statuses, case.name


# the load


@pytest.mark.parametrize("condition", verdict_hogs.HOGS)
def test_load_ends_with_its_context_and_leaves_no_files(condition: str, tmp_path: Path) -> None:
    with verdict_hogs.load(condition, tmp_path):
        (group,) = children_in_groups_of_their_own()
    assert not group_alive(group)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_load_ends_when_the_benchmark_is_killed(tmp_path: Path) -> None:
    """The parent prints the group's id once the load has started, and is then killed."""
    text = (
        "import sys, time\nfrom pathlib import Path\nfrom benchmarks import verdict_hogs\n"
        "from tests.unit.benchmarks.test_verdicts import children_in_groups_of_their_own\n"
        f"with verdict_hogs.load('bursts', Path({str(tmp_path)!r})):\n"
        "    print(children_in_groups_of_their_own()[0], flush=True)\n    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, env=python_environment())
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline, seen_dead = time.monotonic() + 120, 0
    while seen_dead < 5:  # /proc is not listed at once, so that a process between two forks can be missed
        seen_dead = 0 if group_alive(group) else seen_dead + 1
        assert time.monotonic() < deadline, "the load stays"
        time.sleep(0.01)


def python_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def children_in_groups_of_their_own() -> list[int]:
    """Return the ids of this process's children that lead a process group."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, listed) if os.getpgid(pid) == pid]


def group_alive(group: int) -> bool:
    """Return whether a process of a group runs; a zombie that the init process has not reaped yet does not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_what_was_compared_before_is_not_compared_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(case: Case, condition: str, *_: object) -> verdicts.Report:
        ratio = 1.5 if condition == "idle" else 1.05
        return verdicts.Report(condition, case.name, 0, "", (Statement("wall", "worse", ratio, ratio, ratio),))

    monkeypatch.setattr(verdicts, "compare", compare)
    monkeypatch.setattr(verdicts, "load", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(verdicts, "build", lambda scratch: scratch)
    words = ["--only", "leaves-work", "--results", str(tmp_path / "results.json")]
    assert verdicts.main([*words, "--condition", "idle"]) == 0
    monkeypatch.setattr(verdicts, "CONDITIONS", ("idle", "io"))
    assert verdicts.main([*words, "--condition", "idle,io"]) == 0
    shown = capsys.readouterr()
    assert "0 of 2 statements wrong; 2 of 2 true differences stated" in shown.out
    assert [line.split(":")[0] for line in shown.err.splitlines()] == ["idle leaves-work", "io leaves-work"]
