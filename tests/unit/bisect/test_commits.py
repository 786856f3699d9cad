# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commits of a range: which are searched, which can change a program, and reverts that change nothing here."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.bisect.commits import changing, ends_of, first_parents, merged_branch, subject_of, without
from swapstone.parts.gate.revisions import Repository
from tests.programs import require
from tests.unit.gate.repositories import SmallRepository

LINES = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture
def small(tmp_path: Path) -> SmallRepository:
    require("git")
    return SmallRepository(tmp_path / "small")


@pytest.fixture
def repository(small: SmallRepository) -> Repository:
    return Repository(small.folder)


def test_ends_of_a_range(small: SmallRepository, repository: Repository) -> None:
    second = small.commit(README="2")
    first = small.git("rev-parse", "main")
    assert ends_of(repository, "main..topic") == ends_of(repository, "main..") == (first, second)
    for text, message in (
        ("main", "is no range"),
        ("main...topic", "is no range"),
        ("--output=x..topic", "There is no commit '--output=x'"),
        ("main..no\x1b[1m", r"There is no commit 'no\\x1b"),
    ):
        with pytest.raises(UserError, match=message) as error:
            ends_of(repository, text)
        assert error.value.hint and "\x1b" not in error.value.message


def test_first_parents_leave_out_what_a_merge_brings(small: SmallRepository, repository: Repository) -> None:
    first = small.git("rev-parse", "main")
    second = small.commit(README="2")
    small.git("checkout", "-q", "-b", "side")
    inner = [small.commit(**{"work.c": f"int a{number};\n"}) for number in range(2)]
    small.git("checkout", "-q", "topic")
    third = small.commit(other="3")
    small.git("merge", "-q", "--no-ff", "side")
    merge = small.git("rev-parse", "HEAD")
    assert first_parents(repository, first, merge) == (first, second, third, merge)
    assert changing(repository, first, merge, ("*.c", "*.h")) == {merge}
    assert changing(repository, first, merge, ()) == {second, third, merge}
    assert merged_branch(repository, merge) == (second, inner[-1]) and merged_branch(repository, third) is None
    assert first_parents(repository, second, inner[-1]) == (second, *inner)


def test_ends_that_are_no_range_of_first_parents(small: SmallRepository, repository: Repository) -> None:
    first = small.git("rev-parse", "main")
    small.git("checkout", "-q", "-b", "side")
    inner = small.commit(**{"work.c": "int a;\n"})
    small.git("checkout", "-q", "topic")
    second = small.commit(README="2")
    small.git("merge", "-q", "--no-ff", "side")
    merge = small.git("rev-parse", "HEAD")
    for ends, message, hint in (
        ((inner, merge), "is not among the first parents", f"{first[:12]}..{merge[:12]}"),
        ((second, first), "is not among the first parents", f"{first[:12]}..{second[:12]}"),
        ((first, first), "Both ends are", "v1.2..HEAD"),
    ):
        with pytest.raises(UserError, match=message) as error:
            first_parents(repository, *ends)
        assert hint in error.value.hint


def test_a_commit_that_changes_the_mode_of_an_empty_message_is_one(
    small: SmallRepository, repository: Repository
) -> None:
    small.git("commit", "-q", "--allow-empty", "-m", "nothing")
    empty = small.git("rev-parse", "HEAD")
    small.git("update-index", "--chmod=+x", "work.c")
    small.git("commit", "-q", "-m", "executable")
    mode = small.git("rev-parse", "HEAD")
    first = small.git("rev-parse", "main")
    assert first_parents(repository, first, mode) == (first, empty, mode)
    assert changing(repository, first, mode, ()) == {mode}


def test_a_subject_is_one_safe_line(small: SmallRepository, repository: Repository) -> None:
    commit = small.commit("\x1b[31mred\u202e \r and " + "long " * 30 + "\n\nbody", README="2")
    text = subject_of(repository, commit)
    assert text.startswith(r"\x1b[31mred\u202e") and text.endswith("...") and text.isprintable()
    assert subject_of(repository, small.git("rev-parse", "main")) == "first"


def test_a_commit_is_reverted_on_the_last_one_without_a_change_here(
    small: SmallRepository, repository: Repository
) -> None:
    small.commit(text=LINES)
    one = small.edit("text", "line 3\n", "line three\n")
    two = small.edit("text", "line 20\n", "line twenty\n")
    three = small.edit("text", "line three\n", "line drei\n")
    last = small.commit(binary="\x00\x01")
    small.write(text="not committed\n")
    state = small.git("status", "--porcelain"), small.git("rev-parse", "HEAD")
    tree = without(repository, two, last)
    assert small.git("cat-file", "blob", f"{tree}:text").splitlines()[20] == "line 20"
    assert without(repository, last, last) == small.git("rev-parse", f"{three}^{{tree}}")
    assert not without(repository, one, last), "a later commit changed the same line"
    assert (small.git("status", "--porcelain"), small.git("rev-parse", "HEAD")) == state


def test_no_hook_and_no_monitor_of_the_repository_runs(
    small: SmallRepository, repository: Repository, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    hook = small.folder / ".git/hooks/post-index-change"
    for path in (hook, tmp_path / "monitor"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {path.name} >>{seen}\n")
        path.chmod(0o755)
    second = small.commit(README="2")
    assert "post-index-change" in seen.read_text(), "git itself runs it"
    small.git("config", "core.fsmonitor", str(tmp_path / "monitor"))
    seen.unlink()
    assert without(repository, second, second)
    repository.export(second, tmp_path / "export")
    repository.head()
    assert not seen.exists()
