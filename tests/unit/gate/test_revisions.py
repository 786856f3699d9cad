# SPDX-License-Identifier: MIT OR Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.gate.revisions import FILE_TIME, Repository
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository

PULL = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git")
    return SmallRepository(tmp_path / "small")


def test_the_merge_base_of_a_branch(small: SmallRepository) -> None:
    first = small.git("rev-parse", "main")
    small.commit(README="other")
    small.git("checkout", "-q", "main")
    small.commit(**{"news": "1"})
    small.git("checkout", "-q", "topic")
    assert Repository(small.folder / "bench").base("", {}) == (first, "the merge base of HEAD and main")


def test_the_first_parent_of_the_forges_merge(small: SmallRepository) -> None:
    small.commit(README="other")
    small.git("checkout", "-q", "main")
    tip = small.commit(**{"news": "1"})
    small.git("checkout", "-q", "--detach")
    small.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    repository, made = Repository(small.folder), small.git("rev-parse", "HEAD")
    assert repository.base("", {**PULL, "GITHUB_SHA": made}).commit == tip
    assert repository.base("", {"CI_MERGE_REQUEST_EVENT_TYPE": "merged_result", "CI_COMMIT_SHA": made}).commit == tip
    assert repository.base("topic", PULL).commit == small.git("rev-parse", "topic")
    small.git("checkout", "-q", "topic")
    small.git("merge", "-q", "--no-ff", "-m", "a merge of one's own", "main")
    head = small.git("rev-parse", "HEAD")
    small.git("checkout", "-q", "--detach", "HEAD^1")
    first = small.git("rev-parse", "HEAD")
    for commit, sha in ((head, made), (first, first)):
        small.git("checkout", "-q", commit)
        with pytest.raises(UserError, match="not the merge commit that the forge made"):
            repository.base("", {**PULL, "GITHUB_SHA": sha})


def test_the_base_of_a_merge_queue(small: SmallRepository, tmp_path: Path) -> None:
    first, event = small.git("rev-parse", "main"), tmp_path / "event.json"
    small.commit(README="other")
    variables = {"GITHUB_EVENT_NAME": "merge_group", "GITHUB_EVENT_PATH": str(event)}
    event.write_text(json.dumps({"merge_group": {"base_sha": first, "more": 1}, "sender": {}}))
    assert Repository(small.folder).base("", variables).commit == first
    event.write_text(json.dumps({"merge_group": {"base_sha": "1" * 40}}))
    with pytest.raises(UserError, match="its commit is not here"):
        Repository(small.folder).base("", variables)
    for text in ("{", '{"merge_group": {"base_sha": "--all"}}', "{}"):
        event.write_text(text)
        with pytest.raises(UserError, match="can't be read"):
            Repository(small.folder).base("", variables)


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run"])
def test_events_with_a_token_that_writes_are_refused(small: SmallRepository, event: str) -> None:
    with pytest.raises(UserError, match="a token that can write"):
        Repository(small.folder).base("main", {"GITHUB_EVENT_NAME": event})


def test_a_shallow_clone_has_no_other_base(small: SmallRepository, tmp_path: Path) -> None:
    small.commit(README="other")
    small.git("clone", "-q", "--depth", "1", f"file://{small.folder}", str(tmp_path / "clone"))
    tip = small.git("rev-parse", "HEAD")
    for variables in ({}, {**PULL, "GITHUB_SHA": tip}):
        with pytest.raises(UserError) as caught:
            Repository(tmp_path / "clone").base("", variables)
        assert "fetch-depth: 2" in caught.value.hint
    small.git("checkout", "-q", "main")
    small.commit(**{"news": "1"})
    small.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
    small.git("clone", "-q", "--depth", "2", f"file://{small.folder}", str(tmp_path / "deep"))
    variables = {**PULL, "GITHUB_SHA": small.git("rev-parse", "main")}
    assert Repository(tmp_path / "deep").base("", variables).commit == small.git("rev-parse", "main^1")


def test_head_that_is_in_the_default_branch(small: SmallRepository) -> None:
    with pytest.raises(UserError, match="HEAD is in main already") as caught:
        Repository(small.folder).base("", {})
    assert "--base HEAD^" in caught.value.hint
    small.write(README="other")
    assert Repository(small.folder).base("", {}).commit == small.git("rev-parse", "main")
    small.git("branch", "-q", "-m", "main", "trunk")
    with pytest.raises(UserError, match="no default branch is known"):
        Repository(small.folder).base("", {})


def test_an_uncommitted_change_is_the_head(small: SmallRepository) -> None:
    repository = Repository(small.folder)
    assert repository.head() == (small.git("rev-parse", "HEAD"), 0)
    small.write(README="other", untracked="1")
    head, number = repository.head()
    assert (
        number == 1 and repository.content(head, "README") == b"other" and repository.content(head, "untracked") is None
    )
    assert repository.changed(small.git("rev-parse", "HEAD"), head) == ("README",)
    assert small.git("status", "--porcelain") == "M README\n?? untracked"


def test_an_export_has_no_history_and_one_time(small: SmallRepository, tmp_path: Path) -> None:
    commit = small.commit(
        **{".gitattributes": "README export-ignore\nwork.h export-subst\n", "work.h": "/* $Format:%H$ */\n"}
    )
    Repository(small.folder).export(commit, tmp_path / "tree")
    assert not (tmp_path / "tree" / ".git").exists() and (tmp_path / "tree" / "README").exists()
    assert "$Format" in (tmp_path / "tree" / "work.h").read_text()
    assert {path.lstat().st_mtime for path in (tmp_path / "tree").rglob("*")} == {FILE_TIME}
    assert small.git("status", "--porcelain") == ""


def test_submodules_are_in_an_export(small: SmallRepository, tmp_path: Path) -> None:
    other = SmallRepository(tmp_path / "other")
    small.git("submodule", "add", "-q", str(other.folder), "sub")
    commit = small.commit()
    repository = Repository(small.folder)
    repository.export(commit, tmp_path / "tree")
    assert (tmp_path / "tree/sub/bench/small").is_file()
    small.git("submodule", "deinit", "-q", "-f", "sub")
    with pytest.raises(UserError, match="submodule sub is not here") as caught:
        repository.export(commit, tmp_path / "again")
    assert "submodules: recursive" in caught.value.hint


def test_no_repository(tmp_path: Path) -> None:
    require("git")
    with pytest.raises(UserError, match="git rev-parse"):
        Repository(tmp_path)
