# SPDX-License-Identifier: MIT OR Apache-2.0
"""Commands in forks of the fork server behave like commands in a new interpreter."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e import cli


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["list", "factors"], 0), (["compare", "--help"], 0), (["list", "factor"], 2), (["show", "last"], 2)],
)
def test_a_forked_command_has_the_output_and_status_of_a_started_one(
    tmp_path: Path, arguments: list[str], status: int
) -> None:
    environment = cli.environment(tmp_path)
    started, forked = (
        cli.run_started(tmp_path, arguments, environment),
        cli.run_forked(tmp_path, arguments, environment),
    )
    assert started.stdout or started.stderr
    assert (forked.returncode, forked.stdout, forked.stderr) == (status, started.stdout, started.stderr)
    assert started.returncode == status


def test_each_fork_uses_the_environment_and_folder_of_its_own_request(tmp_path: Path) -> None:
    (tmp_path / "here" / "there").mkdir(parents=True)
    for folder, variable in ((tmp_path, "one"), (tmp_path / "here", "two")):
        environment = {**cli.environment(tmp_path), "SWAPSTONE_RECORDS": variable}
        refused = cli.run_forked(
            folder, ["compare", "libc=glibc,musl", "--only", "b_string_strlen", "--target", "fake:no.toml"], environment
        )
        assert (refused.returncode, "no.toml" in refused.stderr) == (2, True)
        cli.fake(folder)
        target = ["--target", "fake:fake.toml", "--blocks", "1"]
        made = cli.run_forked(folder, ["compare", "libc=glibc,musl", "--only", "b_string_strlen", *target], environment)
        assert made.returncode == 0, made.stderr
        assert len(list((folder / variable).glob("*/seal.json"))) == 1


def test_commands_that_need_a_fresh_interpreter_are_not_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "server_channel", lambda other_seed: pytest.fail("the command was forked"))
    cli.swapstone(tmp_path, "list", "suites", PYTHONHASHSEED="1")


def test_commands_that_examine_a_record_have_another_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    original = cli.server_channel

    def noted(other_seed: bool) -> socket.socket:
        asked.append(other_seed)
        return original(other_seed)

    monkeypatch.setattr(cli, "server_channel", noted)
    target = ("--target", cli.fake(tmp_path), "--blocks", "1", "--out", "r")
    cli.swapstone(tmp_path, "compare", "libc=glibc,musl", "--only", "b_string_strlen", *target)
    cli.swapstone(tmp_path, "verify", "r")
    assert asked == [False, True]
