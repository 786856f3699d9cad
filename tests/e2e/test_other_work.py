# SPDX-License-Identifier: MIT OR Apache-2.0
"""Own programs that do other work than the baseline: what they print and write is compared."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli import swapstone
from tests.raw_outputs import raw_to_files

LOOP = "i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done; "


def script(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def compare(folder: Path, *arguments: str, blocks: int = 3, expect: int = 0) -> dict[str, Any]:
    """Compare ./a with ./b, and return the analysis as JSON."""
    head = ("compare", "./a", "./b", "--blocks", str(blocks), "--seed", "5", "--out", str(folder / "r"))
    swapstone(folder, *head, *arguments, expect=expect)
    analysis = json.loads(swapstone(folder, "show", "r", "--json").stdout)["analysis"]
    assert isinstance(analysis, dict)
    return analysis


def wall(analysis: dict[str, Any]) -> tuple[str, str]:
    row = next(each for each in analysis["comparisons"] if each["metric"]["name"] == "wall")
    return row["verdict"], row["reason"]


def kinds(analysis: dict[str, Any]) -> list[str]:
    return [caveat["kind"] for caveat in analysis["caveats"]]


def error(folder: Path, *arguments: str) -> str:
    """Compare ./a with ./b, which ends with an error, and return that in one line."""
    head = ("compare", "./a", "./b", "--blocks", "3", "--out", str(folder / "r"))
    return " ".join(swapstone(folder, *head, *arguments, expect=4).stderr.split())


def invalid(folder: Path, *arguments: str, blocks: int = 3) -> str:
    """Compare ./a with ./b, whose outputs differ, and return the reason."""
    verdict, reason = wall(compare(folder, *arguments, blocks=blocks, expect=4))
    assert verdict == "invalid"
    return reason


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["run"] for line in (folder / "r" / "runs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_wrong_answer_with_half_the_work_is_invalid(tmp_path: Path, swapped: bool) -> None:
    for name, turns in zip("ba" if swapped else "ab", (2000, 1000), strict=True):
        script(tmp_path, name, LOOP.format(turns=turns) + "echo sum $i")
    reason = invalid(tmp_path)
    assert reason.startswith("prints other output: sha256 ")
    old, new = (1000, 2000) if swapped else (2000, 1000)
    assert f"(first differing line: baseline 'sum {old}', candidate 'sum {new}')" in reason
    text = " ".join(swapstone(tmp_path, "show", "r", "--all").stdout.split())
    assert "--output-may-differ" in text and f"candidate 'sum {new}'" in text
    shutil.rmtree(tmp_path / "r")
    assert wall(compare(tmp_path, "--output-may-differ"))[0] != "invalid"


def test_an_output_with_times_and_identifiers(tmp_path: Path) -> None:
    stamp = 'echo "at $(date +%s.%N) pid $$"'
    script(tmp_path, "a", f"echo sum 5; {stamp}")
    script(tmp_path, "b", f"echo sum 5; {stamp}")
    analysis = compare(tmp_path)
    assert wall(analysis)[0] != "invalid" and "output-not-compared" not in kinds(analysis)
    shutil.rmtree(tmp_path / "r")
    script(tmp_path, "b", f"echo sum 6; {stamp}")
    assert "baseline 'sum 5', candidate 'sum 6'" in invalid(tmp_path)


def test_random_output_is_not_compared_and_the_report_states_it(tmp_path: Path) -> None:
    for name in "ab":
        script(tmp_path, name, "head -c 64 /dev/urandom")
    analysis = compare(tmp_path)
    assert wall(analysis)[0] != "invalid" and kinds(analysis).count("output-not-compared") == 1
    shutil.rmtree(tmp_path / "r")
    assert "output-not-compared" not in kinds(compare(tmp_path, "--output-may-differ"))


def test_a_metric_may_differ_and_binary_output_is_compared(tmp_path: Path) -> None:
    script(tmp_path, "a", "echo rate 10")
    script(tmp_path, "b", "echo rate 20")
    assert wall(compare(tmp_path, "--metric", "rate=regex:rate ([0-9]+)"))[0] != "invalid"
    shutil.rmtree(tmp_path / "r")
    script(tmp_path, "a", r"printf '\000\377\033[31mred\n'")
    script(tmp_path, "b", r"printf '\000\376\033[31mred\n'")
    reason = invalid(tmp_path)
    assert reason.isprintable() and r"\x1b[31m" in reason
    assert "\033[31m" not in swapstone(tmp_path, "show", "r", "--all").stdout


def test_the_path_of_a_program_is_no_difference(tmp_path: Path) -> None:
    for name in "ab":
        script(tmp_path, name, "echo $0: done")
    assert wall(compare(tmp_path))[0] != "invalid"
    assert len({dict(run["digests"])["stdout"] for run in runs(tmp_path)}) == 1


@pytest.mark.slow
def test_large_output_goes_to_a_file_that_is_compared(tmp_path: Path) -> None:
    for name, last in (("a", "x"), ("b", "y")):
        script(tmp_path, name, f"head -c 20000000 /dev/zero | tr '\\0' a; echo {last}")
    assert "printed more than 16384 KiB" in error(tmp_path)
    shutil.rmtree(tmp_path / "r")
    assert invalid(tmp_path, "--output", "out").startswith("prints other output: sha256 ")
    assert [name for name, _ in runs(tmp_path)[0]["digests"]] == ["stdout"]  # too large for a shape


def test_artifacts_are_compared(tmp_path: Path) -> None:
    script(tmp_path, "a", "echo 1 > out.txt; echo $$ > /dev/null")
    script(tmp_path, "b", "echo 1 > out.txt")
    options = ("--artifact", "out.txt")
    assert wall(compare(tmp_path, *options))[0] != "invalid"
    assert {name for run in runs(tmp_path) for name, _ in run["digests"]} >= {"stdout", "out.txt", "shape:out.txt"}
    shutil.rmtree(tmp_path / "r")
    script(tmp_path, "b", "echo 2 > out.txt")
    assert invalid(tmp_path, *options, "--output-may-differ").startswith("writes another file 'out.txt': sha256 ")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("true", "out is missing"),
        ("rm -rf out; mkfifo out", "out is a FIFO, no regular file"),
        ("ln -sfn /etc/hostname out", "out is a symbolic link, no regular file"),
        ("mkdir -p out", "out is a folder, no regular file"),
    ],
)
def test_an_artifact_that_can_not_be_compared_ends_the_comparison(tmp_path: Path, body: str, words: str) -> None:
    for name in "ab":
        script(tmp_path, name, body)
    assert f"its artifact {tmp_path}/{words}" in error(tmp_path, "--artifact", "out")


def test_a_run_that_leaves_the_artifact_of_another_variant_fails(tmp_path: Path) -> None:
    script(tmp_path, "a", "echo 1 > out")
    script(tmp_path, "b", ":")
    (tmp_path / "out").write_text("1\n")
    assert "was not written by this run: it is as it was before" in error(tmp_path, "--artifact", "out")


def test_another_exit_status_is_another_result(tmp_path: Path) -> None:
    script(tmp_path, "a", "exit 0")
    script(tmp_path, "b", "exit 3")
    reason = invalid(tmp_path, "--ignore-failure")
    assert "exits with status 3 in every run, and the baseline with 0" in reason


def test_the_same_file_under_two_names_is_a_caveat(tmp_path: Path) -> None:
    script(tmp_path, "a", "echo done")
    shutil.copy(tmp_path / "a", tmp_path / "b")
    analysis = compare(tmp_path)
    assert kinds(analysis).count("same-file") == 1 and wall(analysis)[0] != "invalid"
    shutil.rmtree(tmp_path / "r")
    named = ("--program", "one=./a", "--program", "two=./b", "--blocks", "2", "--out", str(tmp_path / "r"))
    swapstone(tmp_path, "compare", *named)
    analysis = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]
    (message,) = (caveat["message"] for caveat in analysis["caveats"] if caveat["kind"] == "same-file")
    assert message.startswith("one and two are the same file: what differs is argv[0]")
    shutil.rmtree(tmp_path / "r")
    swapstone(tmp_path, "compare", "./a 1", "./b 2", "--blocks", "2", "--out", str(tmp_path / "r"))
    analysis = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]
    assert "same-file" not in kinds(analysis)


def test_files_that_runs_leave_and_storage_are_caveats(tmp_path: Path) -> None:
    for name in "ab":
        script(tmp_path, name, "head -c 300000 /dev/zero > left-$$.tmp")
    messages = [each["message"] for each in compare(tmp_path)["caveats"] if each["kind"] == "writes-files"]
    assert any("leave files in their working folder" in each and "left-" in each for each in messages)
    if any(dict(run["facts"])["write_bytes"] for run in runs(tmp_path)):  # not on tmpfs
        assert any("uses storage" in each and "write 0.2" in each for each in messages)
    shutil.rmtree(tmp_path / "r")
    analysis = compare(tmp_path, "--prepare", "rm -f left-*.tmp")
    assert not any("leave files" in each["message"] for each in analysis["caveats"])


def test_a_log_outside_the_working_folder_is_named(tmp_path: Path) -> None:
    log = Path(f"/var/tmp/swapstone-test-{os.getpid()}.log")
    for name in "ab":
        script(tmp_path, name, f"echo run >> {log}")
    try:
        analysis = compare(tmp_path, blocks=6)
        lines = log.read_text().count("\n")
    finally:
        log.unlink(missing_ok=True)
    assert lines >= 12
    assert [each["message"] for each in analysis["caveats"] if str(log) in each["message"]]
    assert not any(each["message"].startswith("Runs of a leave") for each in analysis["caveats"])
    text = " ".join(swapstone(tmp_path, "show", "r").stdout.split())
    assert "files outside their working folder grew (who wrote to them is not observed): " + repr(str(log)) in text


def test_an_edited_record_is_no_way_to_other_files(tmp_path: Path) -> None:
    """The names of raw outputs come from the record."""
    script(tmp_path, "a", "echo 1")
    script(tmp_path, "b", "echo 2")
    assert "first differing line" in invalid(tmp_path)
    for path in (raw_to_files(tmp_path / "r") / "raw").iterdir():
        path.unlink()
        os.mkfifo(path)
    analysis = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]
    verdict, reason = wall(analysis)
    assert verdict == "invalid" and "first differing line" not in reason


def test_a_report_states_whether_the_outputs_agree(tmp_path: Path) -> None:
    script(tmp_path, "a", "echo 1; echo x > out")
    script(tmp_path, "b", "echo 1; echo x > out")
    (tmp_path / "b").write_text((tmp_path / "b").read_text() + "# another file\n")
    compare(tmp_path, "--artifact", "out")
    text = " ".join(swapstone(tmp_path, "show", "r", "--all").stdout.split())
    same = "The same work of command=b against command=a: output: equal (sha256 4355a46b19d3), 'out': equal (sha256 "
    assert same in text
    brief = " ".join(swapstone(tmp_path, "show", "r").stdout.split())
    assert same in brief.split("What is not known")[0]
    shutil.rmtree(tmp_path / "r")
    compare(tmp_path, "--output", "null")
    brief = " ".join(swapstone(tmp_path, "show", "r").stdout.split())
    limit = "Whether the variants do the same work is not known: standard output is discarded."
    assert limit in brief.split("What is not known")[1]
    assert "work of command" not in brief, "the same limit twice"


def wrong_now_and_then(right: str, wrong: str) -> str:
    """Return a script that prints another text in each fifth run."""
    return f"n=$(cat n.b 2> /dev/null || echo 0); echo $((n+1)) > n.b; if [ $((n % 5)) = 3 ]; then {wrong}; else {right}; fi"


@pytest.mark.parametrize(
    ("right", "wrong", "options", "words"),
    [
        (
            "echo sum 5",
            "echo sum 6",
            (),
            "(number 1 of 'sum #': baseline '5' in 10 of 10, candidate '5' in 8 of 10; 2 values, as '6')",
        ),
        ("echo sum 5 $(date +%N)", "echo sum 6 $(date +%N)", (), "number 1 of 'sum # #': baseline '5' in 10 of 10"),
        (
            "echo sum 5 $(date +%N)",
            "echo failed",
            (),
            "(lines: baseline 'sum # #' in 10 of 10, candidate 'sum # #' in 8 of 10; 2 ",
        ),
        (
            "echo n $(date +%N), 5",
            "echo n $(date +%N), 6",
            ("--metric", "n=regex:n ([0-9]+)"),
            "number 1 of 'n {metric}, #'",
        ),
        ("echo ok >&2", "echo bad >&2", (), "prints another text on standard error: 2 of 10 runs differ"),
        (
            "true",
            "false",
            ("--ignore-failure",),
            "exits with another status: 2 of 10 runs differ in what all the baseline's 10 runs",
        ),
        ("echo 5 > out", "echo 6 > out", ("--artifact", "out"), "writes another file 'out': 2 of 10 runs differ"),
    ],
)
def test_other_work_in_some_runs(tmp_path: Path, right: str, wrong: str, options: tuple[str, ...], words: str) -> None:
    script(tmp_path, "a", right)
    script(tmp_path, "b", wrong_now_and_then(right, wrong))
    reason = invalid(tmp_path, *options, "--prime", "1", blocks=4)
    assert words in reason and reason.isprintable()
    swapstone(tmp_path, "verify", "r")


def test_what_varies_is_shown(tmp_path: Path) -> None:
    for name in "ab":
        script(tmp_path, name, r"printf 'sum 5 at %s\n' $(date +%N); printf '\033[31mpid %s\n' $$ >&2")
    compare(tmp_path)
    text = swapstone(tmp_path, "show", "r", "--all").stdout
    table = " ".join(text.partition("What varies in the outputs")[2].split())
    assert "stdout number 2 of 'sum # at #'" in table and r"stderr number 2 of '\x1b[#mpid #'" in table
    assert "number 1 of 'sum" not in table, "it is the same in all runs"
    brief = swapstone(tmp_path, "show", "r").stdout
    assert "What varies in" not in brief and "\033[31m" not in text + brief
    assert "Of the outputs, 2 parts vary, from run to run on both sides" in " ".join(brief.split())
