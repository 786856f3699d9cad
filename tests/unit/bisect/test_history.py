# SPDX-License-Identifier: MIT OR Apache-2.0
"""Histories of a small repository: steps between measured commits, gaps, toolchains, and what creeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.report.render import find_renderer
from swapstone.core.session.query import query
from swapstone.parts.bisect.bisect import BisectOptions
from swapstone.parts.bisect.history import History, HistoryResult, history_document, history_json
from swapstone.parts.gate import measured_runs
from tests.programs import require
from tests.unit.bisect.numbers import Notes, bisect, measured, numbers_repository
from tests.unit.gate.repositories import SmallRepository


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallRepository:
    require("git")
    return numbers_repository(tmp_path, monkeypatch)


def history(small: SmallRepository) -> HistoryResult:
    return History(small.folder, 0.001).result()


def test_a_history_needs_two_measured_commits(small: SmallRepository) -> None:
    with pytest.raises(UserError, match="0 commits are measured") as error:
        history(small)
    assert "swapstone bisect A..B" in error.value.hint


def test_steps_between_measured_commits_and_those_of_several(small: SmallRepository) -> None:
    one = small.commit("one", b="100000\n")
    bisect(small)
    small.commit("nothing", README="2")
    small.commit("two", c="200000\n")
    small.commit("three", a="10000001\n")
    small.commit("four", a="10000002\n")
    bisect(small, "HEAD^..HEAD")
    found = history(small)
    assert [(each.commit, each.commits) for each in found.steps] == [(one, 1), (small.git("rev-parse", "HEAD^"), 2)]
    assert found.answer.startswith("2 steps among 4 measured points of 5 commits of small; the largest is ")
    assert (found.commits, found.measured, found.creep) == (5, 4, ())
    History(small.folder, 0.001).fill(BisectOptions(trust=True), Notes())
    found = history(small)
    assert [(each.subject, each.commits, each.rows[0].difference) for each in found.steps] == [
        ("one", 1, 1e5),
        ("two", 1, 2e5),
    ]


def test_a_step_is_that_of_the_commit_that_changes_files(small: SmallRepository) -> None:
    """A gate measured a later commit, which builds the same."""
    one = small.commit("one", b="100000\n")
    small.commit("a note", README="2")
    bisect(small)
    (folder,) = {path.parent for path in (cache_dir() / "gate").rglob(f"points/*/{one}")}
    (folder / one).rename(folder / small.git("rev-parse", "HEAD"))
    (step,) = history(small).steps
    assert (step.commit, step.subject, step.commits) == (one, "one", 1)


def test_a_step_of_a_toolchain_is_named_and_not_filled(small: SmallRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    small.commit("one", a="10000001\n")
    bisect(small)
    other = {"qemu": "8", "kernel": "\x1b[1m"}
    monkeypatch.setattr(measured_runs, "measure_alone", lambda *given: measured(*given)._replace(tools=other))
    small.commit("two", c="200000\n")
    small.commit("three", a="10000002\n")
    small.commit("four", a="10000003\n")
    bisect(small, "HEAD^..HEAD")
    notes = Notes()
    History(small.folder, 0.001).fill(BisectOptions(trust=True), notes)
    (step,) = history(small).steps
    assert step.tools == ("other qemu, kernel",) and step.commits == 2 and not notes.lines
    document = history_document(history(small))
    assert "another toolchain" in str(document.notices) and "--fill" not in str(document)


def test_small_changes_that_add_up_are_stated(small: SmallRepository) -> None:
    for number in range(1, 31):
        small.commit(f"{number}", a=f"{10_000_000 + 4_000 * number}\n", b=f"{100_000 if number > 9 else 0}\n")
    bisect(small, every=True)
    found = history(small)
    assert [each.subject for each in found.steps] == ["10"]
    creep = {row.metric: row.difference for row in found.creep}
    assert creep == {"instructions": 29 * 4_000, "own_code": 29 * 4_000}
    assert "one: instructions +1.055 % (+116 k) in sum, without the steps" in str(history_document(found).notices)


def test_page_and_json_load_nothing_and_have_no_control_character(small: SmallRepository) -> None:
    small.commit("<script>\x1b[1m", b="100000\n")
    bisect(small)
    every = History(small.folder, 0.001)
    page = find_renderer("html").render(history_document(every.result(), every.drawings()))
    assert page.count("<svg") >= 2 and "<script>\\x1b" not in page and "\x1b" not in page and "src=" not in page
    assert "one: instructions" in page and "prog: size" in page
    found = json.loads(history_json(every.result()))
    assert (found["format"], found["steps"][0]["subject"]) == ("swapstone-history-result", "<script>\\x1b[1m")


def test_a_query_has_the_rows_of_each_measured_commit(small: SmallRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    small.commit(b="100000\n")
    bisect(small)
    monkeypatch.chdir(small.folder)
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(small.folder / "none"))
    found = query("SELECT number, call, value FROM history WHERE metric IN ('instructions', 'syscalls') ORDER BY ALL")
    assert found is not None
    whole = 11_000_000
    assert found.fetchall() == [(0, "", whole), (0, "read", 3), (1, "", whole + 100_000), (1, "read", 3)]
    with pytest.raises(UserError, match="no runs"):
        query("SELECT 'history' AS text")
    with pytest.raises(UserError, match="Permission Error"):
        query("SELECT * FROM history, read_csv('/etc/passwd')")
