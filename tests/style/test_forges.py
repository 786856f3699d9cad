# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files that forges and pre-commit read: they parse, and they run what the README names."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).parents[2]
WORKFLOWS = [".github/workflows/test.yml", ".forgejo/workflows/test.yml", ".gitea/workflows/test.yml"]


def _parsed(name: str) -> Any:
    return yaml.safe_load((TOP / name).read_text())


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_check_out_and_run_ci_run(name: str) -> None:
    steps = _parsed(name)["jobs"]["test"]["steps"]
    assert any("uses" in step and step["uses"].startswith("actions/checkout@") for step in steps)
    assert steps[-1]["run"].rstrip().endswith(".ci/run")


def test_the_other_forges_run_ci_run() -> None:
    assert _parsed(".gitlab-ci.yml")["test"]["script"] == [".ci/run"]
    assert _parsed(".woodpecker.yaml")["steps"][0]["commands"][-1] == ".ci/run"


def test_ci_run_can_be_executed() -> None:
    assert os.access(TOP / ".ci/run", os.X_OK)


@pytest.mark.parametrize("path", sorted((TOP / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name)
def test_issue_forms_are_whole(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert isinstance(form["blank_issues_enabled"], bool)
        return
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields) > 0
    assert all(field["attributes"]["label"] for field in fields)


def test_both_forges_have_the_same_templates() -> None:
    forms = {path.stem for path in (TOP / ".github/ISSUE_TEMPLATE").glob("*.yml")} - {"config"}
    assert {path.stem.lower() for path in (TOP / ".gitlab/issue_templates").glob("*.md")} == forms


def test_pre_commit_hooks_are_local_and_their_programs_known() -> None:
    repositories = _parsed(".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    development = (TOP / "requirements-dev.in").read_text().split() + (TOP / "packages").read_text().split()
    for hook in repositories[0]["hooks"]:
        assert hook["language"] == "system"
        program = re.sub(r"^\.venv/bin/(python -m )?", "", hook["entry"]).split()[0]
        assert (TOP / program).is_file() or program in development, f"{hook['id']}: {program}"
