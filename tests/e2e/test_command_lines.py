# SPDX-License-Identifier: MIT OR Apache-2.0
"""Command lines, parameters and free factors, from the arguments to the record and its reports."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import swapstone as api
from swapstone.core.factors import Recipe
from swapstone.core.record import load
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program
from swapstone.core.workloads import find_workload
from tests.e2e.cli import swapstone
from tests.raw_outputs import raw_text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that the commands read, in the working directory of the commands."""
    (tmp_path / "a.py").write_text("print(1)\n")
    (tmp_path / "b.py").write_text("print(2)\n")
    (tmp_path / "words.txt").write_text("b\na\n")
    monkeypatch.chdir(tmp_path)


def compare(tmp_path: Path, *arguments: str, blocks: int = 1, expect: int = 0) -> str:
    """Compare into the record `r`. Most of these commands print what distinguishes them."""
    head = ("compare", "--blocks", str(blocks), "--out", str(tmp_path / "r"))
    may_differ = () if expect or "--target" in arguments else ("--output-may-differ",)
    done = swapstone(tmp_path, *head, *may_differ, *arguments, expect=expect)
    return done.stdout + done.stderr


def runs(tmp_path: Path, name: str = "r") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (tmp_path / name / "runs.jsonl").read_text().splitlines()]
    return [line["run"] for line in lines]


def outputs(tmp_path: Path) -> dict[tuple[str, str], str]:
    """Return what each variant of each workload printed in block 1."""
    found = [run for run in runs(tmp_path) if run["trial"]["block"] == 1]
    texts = {run["output"]: raw_text(tmp_path / "r", run["output"]) for run in found}
    return {
        (run["trial"]["workload"], run["trial"]["variant"]): texts[run["output"]].split("---")[1].partition("\n")[2]
        for run in found
    }


@pytest.mark.parametrize(
    ("commands", "labels"),
    [
        ((f"{sys.executable} a.py", f"{sys.executable} b.py"), ("a.py", "b.py")),
        (("sort words.txt", "sort -r words.txt"), ("sort", "sort-r")),
        (("awk '{print}' words.txt", "cat words.txt"), ("awk", "cat")),
        (("A=1 env", "A=2 env"), ("env-A-1", "env-A-2")),
    ],
)
def test_two_command_lines_are_compared(tmp_path: Path, commands: tuple[str, str], labels: tuple[str, str]) -> None:
    compare(tmp_path, *commands)
    found = runs(tmp_path)
    assert {run["status"] for run in found} == {"ok"}
    levels = load(tmp_path / "r").experiment.factors[0].levels
    assert all(level.endswith(label) for level, label in zip(levels, labels, strict=True))
    assert {run["observed"][0][1] for run in found} == set(levels)


def test_a_command_that_executes_another_program_is_refused(tmp_path: Path) -> None:
    message = compare(tmp_path, "nice -n 1 true", "nice -n 2 true", expect=4)
    assert "but the command line 'true' was in force in the process that ran" in message
    assert "add --shell, so that the shell stays and is observed" in message


def test_a_shell_runs_commands_only_on_request(tmp_path: Path) -> None:
    message = compare(tmp_path, "sort words.txt | wc -l", "true", expect=2)
    assert "'|' is a pipe" in message
    assert not (tmp_path / "r").exists()
    text = compare(tmp_path, "sort words.txt | wc -l", "exit $((1-1))", "nice true", "--shell")
    assert "/bin/sh -c runs each command: its start is measured too" in text
    assert {run["status"] for run in runs(tmp_path)} == {"ok"}


STACK = r"""
#include <stdio.h>
#include <string.h>
extern char **environ;
int main(int argc, char **argv) {
    size_t bytes = 0;
    for (char **each = argv; *each; each++) bytes += strlen(*each) + 1 + sizeof *each;
    for (char **each = environ; *each; each++) bytes += strlen(*each) + 1 + sizeof *each;
    return printf("%zu\n", bytes) < argc - argc;
}
"""


def test_arguments_and_variables_of_different_length_take_equal_room(tmp_path: Path) -> None:
    (tmp_path / "stack.c").write_text(STACK)
    subprocess.run(["cc", "-o", tmp_path / "stack", tmp_path / "stack.c"], check=True)
    compare(tmp_path, "./stack", "./stack a longer 'list of' arguments", "A=1 BB=two ./stack x")
    assert len(set(outputs(tmp_path).values())) == 1


def test_parameters_are_rows_and_reach_every_text(tmp_path: Path) -> None:
    compare(
        tmp_path,
        "cat -u {file}.txt",
        "cat -v {file}.txt",
        *("--input", "{file}.txt", "--prepare", "echo {file} {N} >> log", "--env", "N={N}"),
        *("--parameter", "N=1..2", "--parameter", "file=words"),
    )
    assert {run["trial"]["workload"] for run in runs(tmp_path)} == {"cat(N=1,file=words)", "cat(N=2,file=words)"}
    assert set((tmp_path / "log").read_text().splitlines()) == {"words 1", "words 2"}
    exported = json.loads(swapstone(tmp_path, "export", "r", "--format", "hyperfine").stdout)
    found = {(each["parameters"]["command"], each["parameters"]["N"]) for each in exported["results"]}
    assert found == {(command, number) for command in ("cat-u", "cat-v") for number in "12"}
    assert all("words.txt" in each["command"] for each in exported["results"])


def test_a_parameter_of_a_single_command_is_what_varies(tmp_path: Path) -> None:
    text = compare(tmp_path, "echo {N}", "--parameter", "N=8..9")
    assert "{N}: 9 against 8" in text
    assert {run["observed"][0][1] for run in runs(tmp_path)} == {"8", "9"}


def test_a_variable_is_varied_and_observed(tmp_path: Path) -> None:
    compare(tmp_path, "--vary", "env:SHADE=red,blue", "--", "/usr/bin/env")
    assert {run["observed"][0][1] for run in runs(tmp_path)} == {"red", "blue"}


def test_a_variable_is_varied_for_the_bundled_workloads_in_environments_of_equal_size(tmp_path: Path) -> None:
    compare(tmp_path, "--vary", "env:SHADE=red,darkblue", "--only", "b_malloc_tiny1", "--target", "host")
    assert {run["observed"][0][1] for run in runs(tmp_path)} == {"red", "darkblue"}
    recipes = [Recipe(environment=(("SHADE", level),)) for level in ("red", "darkblue")]
    programs = {recipe.environment[0][1]: Program("/p", recipe, None) for recipe in recipes}
    workload = find_workload("libc", "b_malloc_tiny1")
    padded = subject_of(workload).equalize(programs)
    assert [dict(each.recipe.environment)["SWAPSTONE_PADDING"] for each in padded.values()] == ["xxxxx", ""]


def test_a_level_that_only_the_build_uses_is_marked_in_every_format(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.c").write_text("int main(void) { return N - N; }\n")
    build = ("--source", "src", "--build", "{cc} {cflags} -DN={n} -o p main.c {ldflags}")
    compare(tmp_path, "--vary", "n=1,2", *build, "--", "./p")
    assert {tuple(map(tuple, run["observed"])) for run in runs(tmp_path)} == {(("{n}", "not observed"),)}
    sentence = "The level of {n} is not observed"
    assert sentence in swapstone(tmp_path, "show", "r", "--all").stdout
    assert sentence in swapstone(tmp_path, "report", "r", "--format", "markdown").stdout.replace("\\", "")
    swapstone(tmp_path, "report", "r", "--html", "--out", "r.html")
    assert sentence in (tmp_path / "r.html").read_text()
    caveats = json.loads(swapstone(tmp_path, "show", "r", "--json").stdout)["analysis"]["caveats"]
    assert "not-observed" in {each["kind"] for each in caveats}
    rows = csv.DictReader(swapstone(tmp_path, "export", "r", "--format", "csv").stdout.splitlines())
    assert {row["not_observed"] for row in rows} == {"{n}"}


def test_a_record_of_command_lines_is_rerun_verified_and_listed(tmp_path: Path) -> None:
    compare(tmp_path, "echo a", "echo 'b c'", "--name", "one", "--name", "two words")
    swapstone(tmp_path, "verify", "r")
    swapstone(tmp_path, "rerun", "r", "--out", str(tmp_path / "again"))
    assert load(tmp_path / "again").experiment == load(tmp_path / "r").experiment
    assert "\"/usr/bin/echo 'b c'\"" in swapstone(tmp_path, "list", "records").stdout


def test_the_python_api_takes_command_lines_parameters_and_free_factors(tmp_path: Path) -> None:
    record = api.compare(
        api.Program(
            commands=[["echo", "a b", "{N}{n}"], "echo {N}{n}"],
            names=["old", "new"],
            parameters={"N": [1, 2]},
            vary={"n": ["x", "y,z"]},
        ),
        api.Measuring(blocks=1),
        out=tmp_path / "r",
    )
    assert [choice.levels for choice in record.experiment.factors] == [("old", "new"), ("x", "y,z")]
    assert outputs(tmp_path)["echo(N=2)", "command=old,{n}=y,z"] == "a b 2y,z\n"


def test_a_study_file_has_commands_parameters_and_free_factors(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        """
title = "Two commands"
question = "Which?"
blocks = 1
[[factor]]
name = "{n}"
levels = ["x", "y,z"]
[[factor]]
name = "env:SHADE"
levels = ["red", "blue"]
[program]
commands = { old = "echo a {N} {n}", new = "echo b {N} {n}" }
parameters = { N = [1, 2] }
output_may_differ = true
"""
    )
    swapstone(tmp_path, "study", "s.toml", "--out", str(tmp_path / "r"))
    found = load(tmp_path / "r").experiment
    assert [(choice.factor, choice.levels) for choice in found.factors] == [
        ("command", ("old", "new")),
        ("{n}", ("x", "y,z")),
        ("env:SHADE", ("red", "blue")),
    ]
    assert {run["status"] for run in runs(tmp_path)} == {"ok"}
    assert len(outputs(tmp_path)) == 16
