# SPDX-License-Identifier: MIT OR Apache-2.0
"""Studies that consist of parts: their records, their budgets, what is unavailable, resuming, and the index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Experiment, RecordError, UserError
from swapstone.core.record import RecordView, find_record, list_records, load, record_name
from swapstone.core.report.render import terminal
from swapstone.core.report.study_index import document_of
from swapstone.core.session import experiment, study
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.study_file import Study, decode_study
from swapstone.core.session.study_run import StudyRun, load_trusted_run

STUDY = b"""
title = "musl <b>against</b> glibc"
question = "What does it cost?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
[[part]]
name = "strings"
title = "Strings"
suites = ["libc"]
only = ["b_string_strlen", "b_string_strchr"]
budget = "1m"
[[part]]
name = "gone"
title = "What is not there"
suites = ["nosuch"]
budget = "1m"
[[part]]
name = "malloc"
title = "Allocation"
suites = ["libc"]
only = ["b_malloc_tiny*"]
budget = "3m"
margin = "5%"
blocks = 7
"""

FAKE = """
[[behaviour]]
wall_ns = 20_000_000
noise = 0.001
[[behaviour]]
variant = "libc=musl*"
wall_ns = 30_000_000
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StudyRun]:
    """Return a maker of runs on the fake target, with records in a folder of the test's own."""
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path / "records"))
    (tmp_path / "fake.toml").write_text(FAKE)

    def make(content: bytes = STUDY, **changes: object) -> StudyRun:
        found: Study = decode_study(content, "mine.toml")
        options: dict[str, object] = {"only_parts": (), "only": (), "budget_ns": None, "seed": 4, "blocks": 6}
        options |= {"target": f"fake:{tmp_path / 'fake.toml'}"} | changes
        return study.plan_study("mine", found, **options)  # type: ignore[arg-type] # the same names and types

    return make


Maker = Callable[..., StudyRun]


def _index(folder: Path) -> dict[str, dict[str, object]]:
    found = json.loads((folder / "index.json").read_text())
    assert found["format"] == "swapstone-study-index"
    return {part["name"]: part for part in found["index"]["parts"]}


@pytest.mark.slow
def test_each_part_is_a_record_of_its_own_and_the_others_go_on(
    run: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "records" / "s"
    lines: list[str] = []
    outcome = study.start_study(run(blocks=16), folder, progress=LineProgress(lines.append))
    assert outcome.ok
    assert [outcome.states[name].state for name in ("strings", "gone", "malloc")] == [
        "complete",
        "unavailable",
        "complete",
    ]
    names = [record_name(path) for path in list_records()]
    assert names == ["s/strings", "s/malloc"]
    assert find_record("s/strings") == folder / "strings"
    assert find_record("last") == folder / "malloc"
    found = _index(folder)
    assert [part["state"] for part in found.values()] == ["complete", "unavailable", "complete"]
    assert str(found["gone"]["reason"]).startswith("There is no suite named 'nosuch'.")
    assert "libc: musl on 2 workloads: 2 worse." in found["strings"]["headlines"]  # type: ignore[operator] # a list
    assert found["gone"]["page"] == found["gone"]["record"] == ""
    assert "part 2 of 3: gone: What is not there" in lines
    assert "part 3 of 3: calibrating 2 workloads on the baseline" in lines
    assert outcome.index is not None
    assert "3 parts: 2 complete, 1 unavailable." in terminal.render(document_of(outcome.index))
    assert capsys.readouterr().out == capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_index_links_to_the_parts_own_pages(run: Maker, tmp_path: Path) -> None:
    folder = tmp_path / "records" / "s"
    study.start_study(run(), folder)
    page, text = (folder / "index.html").read_text(), (folder / "index.md").read_text()
    assert '<a href="strings/report.html">' in page and "[The whole report of this part](strings/report.html)" in text
    assert (folder / "strings" / "report.html").read_text().startswith("<!doctype html>")
    assert "<b>against</b>" not in page and "&lt;b&gt;against" in page
    assert "<b>against</b>" not in text
    assert "study --resume" not in page


def test_what_all_parts_share_and_what_is_their_own(run: Maker, tmp_path: Path) -> None:
    study.start_study(run(blocks=None, only_parts=("malloc",)), tmp_path / "s")
    experiment = load(tmp_path / "s" / "malloc").experiment
    assert (experiment.blocks, experiment.margin, experiment.seed) == (7, 0.05, 4)
    assert (experiment.name, experiment.budget_ns) == ("mine/malloc", 180 * 10**9)


@pytest.mark.slow
def test_a_part_may_have_a_seed_of_its_own_and_an_option_replaces_all(run: Maker, tmp_path: Path) -> None:
    content = STUDY.replace(b'title = "Strings"', b'title = "Strings"\nseed = 9')
    for seed, expected in ((None, [9, 5]), (4, [4, 4])):
        found = decode_study(b"seed = 5\n" + content, "mine.toml")
        planned = study.plan_study("mine", found, seed=seed, blocks=6, target=run().target)
        folder = tmp_path / f"s{seed}"
        assert study.start_study(planned, folder).ok
        assert [load(folder / name).experiment.seed for name in ("strings", "malloc")] == expected


@pytest.mark.slow
def test_a_budget_for_the_whole_is_shared_in_proportion(run: Maker, tmp_path: Path) -> None:
    study.start_study(run(budget_ns=600 * 10**9), tmp_path / "s")
    budgets = {name: load(tmp_path / "s" / name).experiment.budget_ns for name in ("strings", "malloc")}
    assert budgets == {"strings": 120 * 10**9, "malloc": 360 * 10**9}  # of 1 + 1 + 3 minutes


def test_a_budget_for_the_whole_ends_parts_with_a_number_of_blocks(run: Maker) -> None:
    """The budget in the file is a part's share: 7 blocks are made on a slow machine, too."""
    own, shared = (
        study.plan_parts(run(blocks=None, budget_ns=budget_ns))["malloc"] for budget_ns in (None, 600 * 10**9)
    )
    assert isinstance(own, Experiment) and isinstance(shared, Experiment)
    assert [(each.blocks, each.timed) for each in (own, shared)] == [(7, False), (7, True)]


def test_what_a_budget_holds_is_noted_for_each_part_before_anything_is_built(run: Maker, tmp_path: Path) -> None:
    lines: list[str] = []
    study.start_study(run(budget_ns=20 * 10**9), tmp_path / "s", progress=LineProgress(lines.append))
    first, second, *others = lines
    assert first.startswith("Part strings has 4 s of the budget: it suffices if trials are as short as planned.")
    assert second.startswith("Part malloc has 12 s of the budget: ")
    assert others[0].startswith("part 1 of 3: ")
    lines.clear()
    study.start_study(run(), tmp_path / "t", progress=LineProgress(lines.append))
    assert not any(line.startswith("Part ") for line in lines)  # each part has its own budget


def test_a_budget_that_is_too_small_is_said_before_anything_runs(run: Maker, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Part strings: .* is too small for a pair of runs"):
        study.start_study(run(budget_ns=10**9, blocks=None), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_only_leaves_out_parts_without_a_match(run: Maker, tmp_path: Path) -> None:
    assert study.start_study(run(only=("*strlen",)), tmp_path / "s").ok
    assert [part["state"] for part in _index(tmp_path / "s").values()] == ["complete", "unavailable", "left out"]
    assert load(tmp_path / "s" / "strings").experiment.workloads == (("libc", "b_string_strlen"),)
    with pytest.raises(UserError, match="There is no workload named 'b_nothing'"):
        study.start_study(run(only=("b_nothing",)), tmp_path / "t")


def test_an_unknown_part_is_named(run: Maker) -> None:
    with pytest.raises(UserError, match="There is no part of the study named 'string'") as caught:
        run(only_parts=("string",))
    assert "'strings'" in caught.value.hint


def test_when_no_part_can_be_made_the_status_says_so(run: Maker, tmp_path: Path) -> None:
    assert not study.start_study(run(only_parts=("gone",)), tmp_path / "s").ok


def test_a_machine_that_is_not_there_is_unavailable_and_no_record_is_left(run: Maker, tmp_path: Path) -> None:
    content = STUDY.replace(b'only = ["b_malloc_tiny*"]', b'only = ["b_malloc_tiny*"]\narchitecture = "vax"')
    assert study.start_study(run(content), tmp_path / "s").ok
    found = _index(tmp_path / "s")["malloc"]
    assert found["state"] == "unavailable" and "--arch is the architecture of a virtual machine" in str(found["reason"])
    assert not (tmp_path / "s" / "malloc").exists()


@pytest.mark.slow
def test_resuming_makes_what_is_missing_and_leaves_what_is_complete(run: Maker, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    study.start_study(run(), folder)
    kept = (folder / "strings" / "runs.jsonl").read_bytes()
    whole = load(folder / "malloc").runs
    shutil.rmtree(folder / "malloc")
    assert study.resume_study(folder).ok
    assert (folder / "strings" / "runs.jsonl").read_bytes() == kept
    again = load(folder / "malloc").runs
    assert [run.trial.key for run in again] == [run.trial.key for run in whole]
    assert [run.samples for run in again] == [run.samples for run in whole]


@pytest.mark.slow
def test_with_every_part_complete_resuming_writes_the_index_again(run: Maker, tmp_path: Path) -> None:
    study.start_study(run(only_parts=("strings",)), tmp_path / "s")
    (tmp_path / "s" / "index.json").unlink()
    made = study.resume_study(tmp_path / "s")
    assert made.ok and list(_index(tmp_path / "s")) == ["strings"]


class _Stopping:
    """Stands in for `experiment.start`: Ctrl-C before the second part has a record."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *arguments: object, **options: object) -> Path:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return experiment.start(*arguments, **options)  # type: ignore[arg-type] # passed on as they came


@pytest.mark.slow
def test_control_c_between_records_writes_the_index_and_the_command_that_resumes(
    run: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    with monkeypatch.context() as patched:
        patched.setattr(study, "start", _Stopping())
        with pytest.raises(Interrupted) as caught:
            study.start_study(run(), folder)
    assert (caught.value.path, caught.value.resume) == (folder, f"swapstone study --resume {folder}")
    assert [part["state"] for part in _index(folder).values()] == ["complete", "unavailable", "not begun"]
    assert f"swapstone study --resume {folder}" in (folder / "index.html").read_text()
    assert study.resume_study(folder).ok
    assert [part["state"] for part in _index(folder).values()] == ["complete", "unavailable", "complete"]


@pytest.mark.slow
def test_a_second_control_c_leaves_the_command_that_resumes(
    run: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(study, "start", stopped)
        patched.setattr(study, "_write_index", stopped)
        with pytest.raises(Interrupted) as caught:
            study.start_study(run(), folder)
    assert caught.value.resume == f"swapstone study --resume {folder}"
    assert study.resume_study(folder).ok


@pytest.mark.parametrize(
    ("place", "problem", "hint"),
    [
        ("nowhere", "There is no folder", "`swapstone study` prints the folder"),
        ("fake.toml", "is a file, not a study's folder", "`swapstone study` prints the folder"),
        ("r s", "is a record, not a study", "Resume it: swapstone compare --resume '{0}/r s'"),
        ("all/s/strings", "is a part of a study", "Resume the whole study: swapstone study --resume {0}/all/s"),
        ("all", "is no study's folder; 1 in it is", "Name one: swapstone study --resume {0}/all/s"),
        ("empty", "it has no study.json", "`swapstone study` prints the folder"),
    ],
)
def test_resuming_what_is_no_study_names_what_was_meant(
    run: Maker, tmp_path: Path, place: str, problem: str, hint: str
) -> None:
    run()
    for made, name in (
        ("r s", "record.json"),
        ("all/s", "study.json"),
        ("all/s/strings", "record.json"),
        ("empty", ""),
    ):
        (tmp_path / made).mkdir(parents=True)
        if name:
            (tmp_path / made / name).write_text("{}")
    with pytest.raises(RecordError) as caught:
        study.resume_study(tmp_path / place)
    assert problem in caught.value.message
    assert hint.format(tmp_path) in caught.value.hint


def test_a_study_folder_of_another_schema_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"format": "swapstone-study", "schema": 1}')
    with pytest.raises(RecordError, match="can't be read"):
        load_trusted_run(tmp_path, trust=True)


@pytest.mark.slow
def test_a_folder_without_a_run_is_created_again(run: Maker, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    study.start_study(run(only_parts=("strings",)), folder)
    (folder / "strings" / "record.json").unlink()
    for name in ("manifest.json", "runs.jsonl", "seal.json", "report.html"):
        (folder / "strings" / name).unlink()
    shutil.rmtree(folder / "strings" / "raw")
    assert study.resume_study(folder).ok
    assert load(folder / "strings").seal is not None


def test_what_fails_is_no_record_to_be_overwritten(run: Maker, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "mine.txt").write_text("")
    with pytest.raises(RecordError, match="is not empty"):
        study.start_study(run(), tmp_path / "s")


def test_a_study_that_was_altered_is_explained(run: Maker, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"it has no study\.json"):
        load_trusted_run(tmp_path, trust=True)
    content = msgspec.json.encode(run())
    for size in (0, 10, len(content) - 1):
        (tmp_path / "study.json").write_bytes(content[:size])
        with pytest.raises(RecordError, match="can't be read"):
            load_trusted_run(tmp_path, trust=True)


@pytest.mark.slow
def test_a_studys_folder_is_no_single_record(run: Maker, tmp_path: Path) -> None:
    folder = tmp_path / "records" / "s"
    study.start_study(run(), folder)
    with pytest.raises(RecordError, match="it contains malloc, strings"):
        find_record("s")


@pytest.mark.slow
def test_parts_on_several_clocks_have_a_table_in_the_index(
    run: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = b'only = ["b_string_strlen"]\nsuites = ["libc"]\nblocks = 8\n'
    head, _, _ = STUDY.partition(b"[[part]]")
    parts = b"".join(b'[[part]]\nname = "%s"\ntitle = "T"\n' % name + part for name in (b"one", b"four", b"other"))
    planned = run(head + parts)
    scales = {"one": 1, "four": 4, "other": 1}
    changed = tuple(msgspec.structs.replace(each, ns_per_instruction=scales[each.name]) for each in planned.study.part)
    read = load

    def on_a_virtual_clock(path: Path) -> RecordView:
        view = read(path)
        experiment = msgspec.structs.replace(
            view.experiment, clock="virtual", target="vm", ns_per_instruction=scales[path.name]
        )
        return msgspec.structs.replace(view, experiment=experiment)

    made = study.start_study(planned, tmp_path / "s")
    assert made.index is not None and made.index.clocks == ()  # one clock
    monkeypatch.setattr(study, "load", on_a_virtual_clock)
    whole = msgspec.structs.replace(planned, study=msgspec.structs.replace(planned.study, part=changed))
    index = study._write_index(whole, tmp_path / "s", made.states, {})
    (table,) = index.clocks  # of one and four; a third part at 1 ns is no other clock
    assert table.names == ("1 ns", "4 ns")
    assert {row.workload for row in table.rows} == {"b_string_strlen"}
    text = terminal.render(document_of(index), terminal.Terminal(width=100, every=True))
    assert "agree at 1 and 4 ns for each instruction" in " ".join(text.split())
    assert "Which rows depend on the clock?" in text
    found = json.loads((tmp_path / "s" / "index.json").read_text())["index"]["clocks"]
    assert [each["table"]["names"] for each in found] == [["1 ns", "4 ns"]]
