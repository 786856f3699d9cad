# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of users: each prints a message and a hint, exits with status 2, and changes no file."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from tests.e2e.cli import fake, swapstone

CASES = [
    (["compare"], "There is nothing to compare", "swapstone compare libc=glibc,musl"),
    (["compare", "lbc=glibc,musl"], "there is no factor 'lbc'", "'libc'"),
    (["compare", "libc=glibc,musk"], "no level named 'musk'", "'musl'"),
    (["compare", "libc=glibc"], "has only one level", "libc=glibc,musl"),
    (["compare", "libc=glibc", "allocator=libc,mimalloc"], "has only one level", "--hold libc=glibc"),
    (["compare", "libc=musl,musl"], "'musl' twice", "--null"),
    (["compare", "libc=glibc,musl", "libc=musl,glibc"], "named twice", "libc=BASELINE"),
    (["compare", "libc=glibc,musl", "--suite", "lbc"], "no suite named 'lbc'", "'libc'"),
    (["compare", "libc=glibc,musl", "--only", "b_malloc_tinny1"], "'b_malloc_tinny1'", "b_malloc_tiny1"),
    (["compare", "libc=glibc,musl", "--budget", "soon"], "'soon' is not a duration", "90s"),
    (["compare", "libc=glibc,musl", "--budget", "-5s"], "not a duration", "90s"),
    (["compare", "libc=glibc,musl", "--margin", "200%"], "no value for --margin", "2%"),
    (["compare", "libc=glibc,musl", "--confidence", "100"], "no value for --confidence", "share"),
    (["compare", "libc=glibc,musl", "--target", "hoost"], "no target named 'hoost'", "'host'"),
    (["compare", "libc=glibc,musl", "--target", "fake:absent.toml"], "absent.toml", ""),
    (["compare", "libc=glibc,musl", "--out", "/proc/here"], "can't be written", "--out"),
    (["compare", "--resume", "nowhere"], "no record named 'nowhere'", "list records"),
    (["compare", "--resume", "last", "libc=glibc,musl"], "--resume continues", ""),
    (["compare", "--resume", "last", "--margin", "5%"], "it takes no --margin", "--budget"),
    (["compare", "--resume", "last", "--confidence", "95"], "it takes no --confidence", "--budget"),
    (["compare", "--resume", "last", "--target", "host"], "it takes no --target", "--budget"),
    (["compare", "--resume", "last", "--suite", "libc"], "it takes no --suite.", "--budget"),
    (["compare", "--resume", "last", "--null"], "it takes no --null", "--store, --executor and --recheck may be given"),
    (["study", "musl-vs-glibe"], "no study named 'musl-vs-glibe'", "'musl-vs-glibc'"),
    (["show", "nowhere"], "no record named", ""),
    (["list", "factor"], "factor", "factors"),
    (["compair"], "no command 'compair'", "compare"),
    (["export", "last"], "--format", ""),
]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"), CASES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_an_input_error_prints_a_message_and_a_hint(
    tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    result = swapstone(tmp_path, *arguments, expect=2)
    assert message in result.stderr
    assert hint in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []  # no file was created


def test_a_missing_compiler_names_the_package(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cc", "gcc", "as", "ld", "strip"):
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    arguments = ("compare", "libc=glibc,musl", "--only", "b_string_strlen", "--out", str(tmp_path / "r"))
    result = swapstone(tmp_path, *arguments, expect=2, PATH=str(tools))
    assert "musl-tools: the musl level of the factor libc\n" in result.stderr
    assert "sudo apt-get install musl-tools" in result.stderr


def test_the_error_for_a_newer_record_names_both_versions(tmp_path: Path) -> None:
    out = tmp_path / "r"
    swapstone(
        tmp_path,
        "compare",
        "libc=glibc,musl",
        "--only",
        "b_string_strlen",
        "--blocks",
        "1",
        "--target",
        fake(tmp_path),
        "--out",
        str(out),
    )
    meta = json.loads((out / "record.json").read_text())
    (out / "record.json").write_text(json.dumps({**meta, "schema": 7}))
    for command in (
        ("show", "last"),
        ("verify", "last"),
        ("report", "last"),
        ("rerun", "last"),
        ("compare", "--resume", "last"),
    ):
        assert "schema version 7; this Swapstone reads version 1" in swapstone(tmp_path, *command, expect=2).stderr
    assert "unreadable" in swapstone(tmp_path, "list", "records").stdout


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("negative", "negative"),
        ("nan", "nan"),
        ("silent", "nothing"),
        ("garbage", "report is unreadable"),
        ("truncate", "report is unreadable"),
        ("crash", "SIGSEGV"),
        ("timeout", "did not end within its time"),
        ("overflow", "KiB and was stopped"),
        ("disk", "MiB to disk"),
        ("orphans", "left 2 processes running"),
        ("unstarted", "could not be started"),
        ("error", "status 1"),
        ("other-work", "it did other work"),
        ("wrong-level", "libc=musl was requested, but glibc was in force"),
    ],
)
def test_a_faulty_workload_fails_its_trial_with_a_reason_and_no_samples(tmp_path: Path, kind: str, words: str) -> None:
    spec = f'[[behaviour]]\nvariant = "libc=musl"\nfaults = [{{ kind = "{kind}", probability = 1.0 }}]\n'
    target = fake(tmp_path, spec)
    out = tmp_path / "r"
    result = swapstone(
        tmp_path,
        "compare",
        "libc=glibc,musl",
        "--only",
        "b_string_strlen",
        "--target",
        target,
        "--out",
        str(out),
        expect=4,
    )
    lines = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    bad = [run for run in lines if run["trial"]["variant"] == "libc=musl"]
    assert len(bad) == 3  # no further trials after three failures
    for run in bad:
        assert run["status"] in {"failed", "refused"}
        assert words in run["reason"]
        assert run["samples"] == []
    assert "invalid" in result.stdout


def test_one_failed_run_is_excluded_and_reported(tmp_path: Path) -> None:
    spec = '[[behaviour]]\nvariant = "libc=musl"\nfaults = [{ kind = "crash", trials = ["4-*"] }]\n'
    out = tmp_path / "r"
    swapstone(
        tmp_path, "compare", "libc=glibc,musl", "--only", "b_string_strlen", "--blocks", "16",
        "--seed", "5", "--target", fake(tmp_path, spec), "--out", str(out),
    )  # fmt: skip
    analysis = json.loads(swapstone(tmp_path, "show", str(out), "--json").stdout)["analysis"]
    (row,) = [row for row in analysis["comparisons"] if row["metric"]["name"] == "wall"]
    assert len(row["baseline_values"]) == 15
    assert row["verdict"] == "worse"
    assert len(analysis["failures"]) == 1 and "SIGSEGV" in analysis["failures"][0]["reason"]


def _wrapper(folder: Path, name: str, real: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shutil.which(real)} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(("broken", "real", "seen"), [("musl-gcc", "gcc", "glibc"), ("cc", "musl-gcc", "musl")])
def test_a_level_that_is_not_in_force_is_refused(
    tmp_path: Path, agents: Path, broken: str, real: str, seen: str
) -> None:
    """The compiler of one level builds against the other C library. Its runs must have no samples."""
    tools = tmp_path / "bin"
    tools.mkdir()
    _wrapper(tools, broken, real)
    shutil.copytree(agents, tmp_path / "cache/swapstone/agents")
    out = tmp_path / "r"
    result = swapstone(
        tmp_path, "compare", "libc=glibc,musl", "--only", "b_string_strlen", "--out", str(out),
        PATH=f"{tools}:{os.environ['PATH']}", XDG_CACHE_HOME=str(tmp_path / "cache"), expect=4,
    )  # fmt: skip
    asked = "musl" if broken == "musl-gcc" else "glibc"
    lines = [json.loads(line)["run"] for line in (out / "runs.jsonl").read_text().splitlines()]
    refused = [run for run in lines if run["trial"]["variant"] == f"libc={asked}"]
    assert len(refused) == 3
    assert {run["status"] for run in refused} == {"refused"}
    assert f"libc={asked} was requested, but {seen} was in force in the process that ran" in refused[0]["reason"]
    assert "invalid" in result.stdout and f"{seen} was in force" in result.stdout
