# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bisections of a small repository whose runs are replaced by numbers of its files: what is found, verified, stored and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.errors import MissingProgramsError
from swapstone.core.session.outcome import Interrupted
from swapstone.exit_status import ExitStatus
from swapstone.parts.bisect.bisect import Range
from swapstone.parts.bisect.bisect_report import document_of, to_json
from swapstone.parts.bisect.history import History
from swapstone.parts.gate import measured_runs
from swapstone.parts.gate.gate_file import RunKeys
from swapstone.parts.gate.gate_result import Row, RunFinding, State
from swapstone.parts.gate.measured_runs import Counted, MeasuredRun, Place
from swapstone.parts.gate.points import Point, decode_point, rows_between
from tests.programs import require
from tests.unit.bisect.numbers import FILE, SAME, Notes, bisect, numbers_repository
from tests.unit.gate.repositories import SmallRepository


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallRepository:
    require("git")
    return numbers_repository(tmp_path, monkeypatch)


def history(small: SmallRepository) -> dict[str, str]:
    """Make 20 commits: +1 % at 4, +5 % at 9, of which 7 and 8 crash, and -0.5 % at 15; return the commits that change it."""
    made = {}
    for number in range(1, 21):
        files = {"b": f"{100000 if number >= 4 else 0}\n", "README": f"{number}\n", "bench/small": f"{number}\n"}
        files["c"] = "500000\n" if number >= 9 else "-1\n" if number >= 7 else "0\n"
        files["a"] = "9950000\n" if number >= 15 else "10000000\n"
        if number == 20:
            files["bench/small"] = "300000\n"
        made[str(number)] = small.commit(f"commit {number}", **files)
    return made


def test_every_step_is_named_with_its_size_and_verified(small: SmallRepository) -> None:
    made = history(small)
    notes = Notes()
    found = bisect(small, notes=notes)
    assert (found.status, found.commits, found.points) == (ExitStatus.SUCCESS, 20, 4)
    one, two, three = found.steps
    assert (one.commit, one.subject, one.commits, one.verified) == (made["4"], "commit 4", 1, True)
    assert [(row.metric, row.difference) for row in one.rows] == [("instructions", 1e5), ("own_code", 1e5)]
    assert one.undone is not None and one.undone.difference == -1e5
    assert (two.commit, two.since, two.commits, two.verified) == (made["9"], made["4"], 2, False)
    assert two.why == "1 commit in between gave nothing" and two.check == "a range is not reverted"
    assert three.rows[0].difference == -5e4 and three.verified
    assert found.answer.startswith(
        f"3 of 20 commits change small: one of the commits up to {made['9'][:12]} 'commit 9' one: instructions +4.505 % (+500 k) "
    )
    assert any("1 commit gave nothing: one: it crashes." in note for note in found.notes)
    assert notes.lines[:2] == [
        f"build 1 of at most 5: {made['15'][:12]}",
        f"build 2 of at most 5: {small.git('rev-parse', 'start')[:12]}",
    ]
    assert notes.lines[-1].startswith("reverting ")


def test_only_commits_that_change_its_files_are_built(small: SmallRepository) -> None:
    small.commit(README="1")
    found = bisect(small)
    assert (found.points, found.builds, found.steps) == (0, 1, ())
    assert found.answer == "Both ends of 1 commit of small are equal."


def test_a_revert_pair_is_found_by_all(small: SmallRepository) -> None:
    more = small.commit("more", b="100000\n")
    for number in range(1, 4):
        small.commit(a=f"{10000000 - number}\n")
    fewer = small.commit("fewer", b="0\n")
    hidden = bisect(small)
    assert (
        not hidden.steps
        and "--all measures each" in hidden.notes[0]
        and hidden.notes[0].startswith("Between equal commits, 4 commits were")
    )
    found = bisect(small, every=True)
    assert [each.commit for each in found.steps] == [more, fewer] and not found.notes
    assert found.steps[0].check == "not verified: a revert on the last commit does not change that row measurably"
    assert (found.steps[1].verified, found.steps[1].check) == (True, "it is the last commit")


def test_a_revert_that_conflicts_or_fails_is_no_verification(small: SmallRepository) -> None:
    small.commit("more", b="100000\n")
    small.commit("again", b="300000\n")
    small.commit("and", c="1000000\n")
    small.commit("last", c="1500000\n")
    found = bisect(small)
    assert [each.check.partition(": ")[2] for each in found.steps] == [
        "its revert on the last commit conflicts",
        "",
        "its revert on the last commit conflicts",
        "",
    ]
    assert "is not verified: its revert on the last commit conflicts" in str(document_of(found))


def test_a_revert_that_changes_the_row_in_the_same_direction_verifies_nothing(
    small: SmallRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program executes depends on the distance of two numbers."""

    def measure(_name: str, _run: RunKeys, place: Place, _folder: Path) -> Counted:
        a, b, c = map(int, (place.trees[0] / "prog").read_text().split())
        return Counted(({"instructions": a + abs(b - c), **SAME},) * 2, {"qemu": "7"})

    monkeypatch.setattr(measured_runs, "measure_alone", measure)
    small.commit("more", b="100000\n")
    small.commit("and more", c="300000\n")
    one, two = bisect(small).steps
    assert one.undone is not None and (one.rows[0].difference, one.undone.difference) == (1e5, 1e5)
    assert (one.verified, one.check) == (False, "not verified: a revert changes the same row in the same direction")
    assert two.verified


def test_it_goes_on_after_an_interruption(small: SmallRepository) -> None:
    history(small)
    whole = bisect(small)
    for path in (cache_dir() / "gate").rglob("points/*/*"):
        path.unlink()
    with pytest.raises(KeyboardInterrupt):
        bisect(small, notes=Notes(4))
    again = bisect(small)
    assert again.steps == whole.steps and again.builds < whole.builds
    stored = [decode_point(path.read_bytes()) for path in (cache_dir() / "gate").rglob("points/*/*")]
    assert stored and not any(each.error for each in stored), (
        "what fails may be due to this machine, and is tried again"
    )
    final = bisect(small)
    assert final.steps == whole.steps and final.builds == 2, "the last commit, and the one that fails"


def test_points_of_another_machine_are_measured_again(small: SmallRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    history(small)
    whole = bisect(small)
    measure = measured_runs.measure_alone
    monkeypatch.setattr(measured_runs, "measure_alone", lambda *given: measure(*given)._replace(tools={"qemu": "8"}))
    again = bisect(small)
    assert (again.builds, again.steps) == (whole.builds, whole.steps)


def test_an_end_that_gives_nothing(small: SmallRepository) -> None:
    small.commit(b="-1\n")
    found = bisect(small)
    assert found.status == ExitStatus.NO_RESULT and found.answer.endswith("gives nothing: one: it crashes.")
    small.commit(b="1\n")
    small.edit("swapstone.toml", "printf", "exit 1; printf")
    found = bisect(small)
    assert found.status == ExitStatus.NO_RESULT and "ends with status" in found.answer


def test_a_commit_whose_submodule_is_not_here_is_left_out(small: SmallRepository) -> None:
    small.edit("swapstone.toml", 'paths = ["a", "b", "c"]\n', "")
    small.commit("one", b="100000\n")
    small.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    small.git("commit", "-q", "-m", "a submodule")
    small.git("rm", "-q", "--cached", "module")
    small.git("commit", "-q", "-m", "no submodule")
    small.commit("two", c="100000\n")
    found = bisect(small, every=True)
    assert [each.subject for each in found.steps] == ["one", "two"]
    assert any("The submodule module is not here" in note for note in found.notes)


def test_what_this_machine_lacks_is_no_property_of_a_commit(
    small: SmallRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small.commit(b="100000\n")

    def lacks(*_: object) -> Counted:
        raise MissingProgramsError("QEMU is missing.", "Install it.")

    def stopped(*_: object) -> Counted:
        raise Interrupted(tmp_path, "swapstone compare --resume")

    monkeypatch.setattr(measured_runs, "measure_alone", lacks)
    with pytest.raises(MissingProgramsError):
        bisect(small)
    monkeypatch.setattr(measured_runs, "measure_alone", stopped)
    with pytest.raises(KeyboardInterrupt) as error:
        bisect(small)
    assert not isinstance(error.value, Interrupted)


def test_into_the_branch_of_a_merge(small: SmallRepository) -> None:
    small.git("checkout", "-q", "-b", "side")
    small.commit("nothing", README="1")
    inner = small.commit("inside", b="100000\n")
    small.git("checkout", "-q", "topic")
    small.commit(README="2")
    small.git("merge", "-q", "--no-ff", "-s", "ours", "-m", "the merge", "side")
    small.commit("merged", b="100000\n")
    small.git("reset", "-q", "--soft", "HEAD^")
    small.git("commit", "-q", "--amend", "--no-edit")
    merge = small.git("rev-parse", "HEAD")
    small.commit(README="3")
    (step,) = bisect(small).steps
    assert (step.commit, step.merge) == (merge, "")
    (step,) = bisect(small, into_merge=True).steps
    assert (step.commit, step.merge) == (inner, merge)


def test_the_file_of_the_last_commit_holds_for_all(small: SmallRepository) -> None:
    """An older one has none, and another build; if the last one has none, that of HEAD holds."""
    small.git("rm", "-q", "swapstone.toml")
    without_it = small.commit(b="100000\n")
    small.commit("with it", **{"swapstone.toml": FILE})
    assert len(bisect(small, f"start..{without_it}").steps) == len(bisect(small).steps) == 1
    small.git("rm", "-q", "swapstone.toml")
    small.commit()
    with pytest.raises(UserError, match=r"has no swapstone\.toml"):
        Range(small.folder, "start..HEAD")


ON_WALL = FILE.replace('syscalls = "0"', 'time = "5%"').replace("fail", 'clock = "wall"\nfail')


def compared(
    name: str, run: RunKeys, limits: object, place: Place, *, moved: bool = False, out: Path | None = None
) -> MeasuredRun:
    """Compare two sums as elapsed times: a difference of 1 % is proven, one below 0.1 % is none, and one between is not decided."""
    assert (name, limits, moved) == ("one", {}, False) and out is not None and not out.exists()
    assert run.command == "./prog {data}/small" and (place.data / "small").is_file()
    base, head = (sum(map(int, (tree / "prog").read_text().split())) for tree in place.trees)
    share = abs(head - base) / base
    if 0.001 <= share < 0.01:
        return MeasuredRun((), (RunFinding(run=name, status=ExitStatus.NO_RESULT, text="more pairs are needed"),))
    state: State = "same" if share < 0.001 else "more" if head > base else "fewer"
    row = Row(
        run=name,
        metric="time",
        unit="s",
        base=base,
        head=head,
        difference=head - base,
        floor=0.0,
        limit="",
        state=state,
    )
    return MeasuredRun((row,), ())


def test_on_the_wall_clock_two_commits_differ_or_do_not_or_it_is_unknown(
    small: SmallRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_runs, "measure_once", compared)
    small.commit("the file", **{"swapstone.toml": ON_WALL})
    small.git("tag", "-f", "start")
    made = [small.commit(f"commit {number}", b=f"{number * 100}\n") for number in range(1, 4)]
    slower = small.commit("slower", c="500000\n")
    made += [small.commit(f"commit {number}", b=f"{number * 100}\n") for number in range(4, 7)]
    notes = Notes()
    found = bisect(small, notes=notes)
    assert [(step.commit, step.verified, step.rows[0].metric) for step in found.steps] == [(slower, True, "time")]
    assert found.answer.startswith(f"1 of 7 commits changes small: {slower[:12]} 'slower' one: time +")
    assert any(line.startswith("comparing one of ") for line in notes.lines)
    assert [note for note in found.notes if "unknown" in note] == []
    assert not list((cache_dir() / "gate").glob("*/trees"))
    # A revert of which nothing is decided verifies nothing, and the commit is still named.
    small.commit("much", a="60000000\n")
    small.commit("note", a="60000001\n")
    open_revert = next(step for step in bisect(small).steps if step.commit == slower)
    assert (open_revert.verified, open_revert.check) == (
        False,
        "not verified: whether its revert changes anything is unknown: one: more pairs are needed",
    )
    small.git("reset", "-q", "--hard", made[-1])
    # Nothing of it is stored: elapsed time is of one day.
    assert bisect(small).builds == found.builds
    few = small.commit("few", c="550000\n")
    undecided = bisect(small, f"{made[-1]}..HEAD")
    assert undecided.steps == () and undecided.answer == "Whether any of 1 commit changes small is unknown."
    assert undecided.notes == (f"Whether {made[-1][:12]} and {few[:12]} differ is unknown: one: more pairs are needed",)
    with pytest.raises(UserError, match="exact counts"):
        History(small.folder, 0.001)


def test_json_and_document_have_no_control_character(small: SmallRepository) -> None:
    small.commit("\x1b]0;title\x07 of it", b="100000\n")
    found = bisect(small)
    printed = json.loads(to_json(found))
    assert (printed["format"], printed["schema"], len(printed["steps"])) == ("swapstone-bisect-result", 1, 1)
    assert "\x1b" not in str(document_of(found)) + to_json(found) and r"\x1b]0;title\x07" in found.answer


def _point(instructions: int = 10_000_000, size: int = 50_000, **more: int) -> Point:
    return Point(sizes={"prog": size}, runs={"one": ({"instructions": instructions, **SAME, **more},) * 2})


@pytest.mark.parametrize(
    ("after", "metrics"),
    [
        (_point(10_000_001), []),
        (_point(10_010_000), []),
        (_point(10_012_000), ["instructions", "own_code"]),
        (_point(size=50_050), []),
        (_point(size=50_051), ["size"]),
        (_point(page_faults=41), ["faults"]),
        (_point(**{"calls.read": 4}), ["syscalls"]),
        (_point(**{"calls.open": 1}), ["syscalls"]),
        (_point(kernel_instructions=900_000), ["instructions", "kernel"]),
    ],
)
def test_what_counts_as_a_difference(after: Point, metrics: list[str]) -> None:
    """More than 0.1 %, and more than the floors; of faults and each system call anything."""
    assert [row.metric for row in rows_between(_point(), after, 0.001)] == metrics


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"error": 1}', b'{"other": ""}', b'{"sizes": {"a": "b"}}', b"\xff", b"[" * 10**5]
)
def test_a_damaged_point_is_none(content: bytes) -> None:
    with pytest.raises(UserError, match="can't be read"):
        decode_point(content)
