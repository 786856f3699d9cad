# SPDX-License-Identifier: MIT OR Apache-2.0
"""Completion: what each argument completes to, and the scripts that bash, zsh and fish run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from swapstone.cli.main import cli
from swapstone.cli.shell_completion import SHELLS, VARIABLE
from swapstone.core.factors import all_factors
from tests.e2e.cli import TOP
from tests.programs import require


@pytest.fixture(autouse=True)
def _records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path))
    for name in ("20260101-120000-first", "20260102-120000-study/part"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "record.json").write_text("{}")
    (tmp_path / "20260102-120000-study" / "study.json").write_text("{}")


def _items(*words: str) -> list[CompletionItem]:
    *arguments, incomplete = words
    return ShellComplete(cli, {}, "swapstone", VARIABLE).get_completions(arguments, incomplete)


def _values(*words: str) -> list[str]:
    return [item.value for item in _items(*words)]


def test_commands_and_options() -> None:
    assert _values("comp") == ["compare", "completion"]
    assert "--load-generator" in _values("compare", "--lo") and "--drive" not in _values("compare", "--d")
    assert _values("report", "last", "--ma") == ["--markdown"]
    assert "benchstat" in _values("export", "last", "--format", "")


def test_factors_and_levels() -> None:
    assert _values("compare", "") == [f"{factor.name}=" for factor in all_factors()]
    assert {item.type for item in _items("compare", "")} == {"part"}
    assert _values("compare", "li") == ["libc=", "linking=", "link="]
    assert _values("compare", "libc=glibc,musl", "li") == ["linking=", "link="]
    assert _values("compare", "libc=") == ["libc=glibc", "libc=musl"]
    assert _values("compare", "libc=glibc,") == ["libc=glibc,musl"]
    assert _values("compare", "swap=flash,zram:lz") == ["swap=flash,zram:lzo-rle", "swap=flash,zram:lz4"]
    assert _values("compare", "nothing=") == []


def test_suites_workloads_loads_and_targets(tmp_path: Path) -> None:
    assert "libc-extra" in _values("compare", "--suite", "libc")
    assert "b_malloc_tiny1" in _values("compare", "--only", "b_malloc_t")
    assert _values("compare", "--suite", "latency", "--only", "b_") == []
    assert _values("compare", "--load", "id") == ["idle"]
    assert "idle,cpu" in _values("compare", "--load", "idle,c") and "idle,idle" not in _values(
        "compare", "--load", "idle,"
    )
    assert _values("compare", "--target", "v") == ["vm", "virtual-board"]
    (tmp_path / "spec.toml").write_text("")
    assert _values("compare", "--target", f"fake:{tmp_path}/s") == [f"fake:{tmp_path}/spec.toml"]
    assert _values("compare", "--arch", "arm") == ["arm64", "armhf"]


def test_records_and_studies(tmp_path: Path) -> None:
    records = ["20260102-120000-study/part", "20260101-120000-first"]
    for words in (("show",), ("verify",), ("rerun",), ("explain",), ("agree",), ("compare", "--resume")):
        assert sorted(_values(*words, "")) == sorted(["last", *records])
    for name in ("$(touch owned)", "a b", "a;b", "--trust", "a\nplain,b", "*"):
        shutil.copytree(tmp_path / "20260101-120000-first", tmp_path / name)
        assert sorted(_values("show", "")) == sorted(["last", *records]), "a shell would interpret the name"
    assert _values("agree", "last", "20260101") == ["20260101-120000-first"]
    assert _values("study", "preempt") == ["preempt-rt"]
    assert [item.type for item in _items("study", "./mine")] == ["file"]
    assert _values("study", "preempt-rt", "--only-part", "lat") == ["latency-x86_64", "latency-arm64"]
    assert _values("study", "nothing", "--only-part", "") == []
    assert _values("study", "--resume", "") == [str(tmp_path / "20260102-120000-study")]


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_script_of_each_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["completion", shell], prog_name="swapstone", standalone_mode=False)
    script = capsys.readouterr().out
    assert f"{VARIABLE}={shell}_complete" in script and "part" in script
    require(shell)
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which `swapstone` is on PATH."""
    path = tmp_path / "bin" / "swapstone"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m swapstone "$@"\n')
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}", "PYTHONPATH": str(TOP / "src")}


REPLIES = {
    "swapstone comp": ["compare", "completion"],
    "swapstone compare libc=glibc,m": ["glibc,musl"],
    "swapstone compare swap=zram:lz": ["lzo-rle", "lz4"],
    "swapstone show last --me": ["--metric"],
}
"""What bash completes for a line. Each line starts a process; what is completed for other words is tested above without one."""


@pytest.mark.slow  # each completion starts a process
def test_bash_completes(program: dict[str, str]) -> None:
    asked = "".join(
        f"COMP_LINE={line!r} COMP_POINT={len(line)}\n"
        '_swapstone_completion swapstone\nprintf "%s " "${COMPREPLY[@]}"; echo\n'
        for line in REPLIES
    )
    script = f'eval "$(swapstone completion bash)"\n{asked}'
    result = subprocess.run(["bash", "-c", script], env=program, capture_output=True, text=True, check=True)
    found = [line.split() for line in result.stdout.splitlines()]
    assert dict(zip(REPLIES, found, strict=True)) == REPLIES, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "expected"), [("zsh", "part\nlibc=\n"), ("fish", "part,libc=\t")])
def test_zsh_and_fish_receive_completions(program: dict[str, str], shell: str, expected: str) -> None:
    words = {"COMP_WORDS": "swapstone compare li", "COMP_CWORD": "2" if shell == "zsh" else "li"}
    environment = {**program, **words, VARIABLE: f"{shell}_complete"}
    result = subprocess.run(["swapstone"], env=environment, capture_output=True, text=True, check=False)
    assert expected in result.stdout, result.stderr
