# SPDX-License-Identifier: MIT OR Apache-2.0
"""Studies whose parts on the virtual clock are given to other machines: which parts take the options, and the note on the others."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import Experiment, UserError
from swapstone.core.model.run_sharing import NO_SHARING, RunSharing
from swapstone.core.session import study
from swapstone.core.session.progress import LineProgress
from swapstone.core.session.run_options import RunOptions
from swapstone.core.session.study_file import decode_study

STUDY = b"""
title = "Exact and measured"
question = "Which parts can others make?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
suites = ["libc"]
only = ["b_malloc_tiny1"]
blocks = 2
[[part]]
name = "exact"
title = "On the virtual clock"
target = "vm"
clock = "virtual"
[[part]]
name = "measured"
title = "On this machine's clock"
target = "host"
[[part]]
name = "gone"
title = "What is not there"
suites = ["nosuch"]
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, RunSharing]:
    """Put a function that records its options in the place of the one that runs an experiment."""
    monkeypatch.setenv("SWAPSTONE_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: dict[str, RunSharing] = {}

    def start(experiment: Experiment, out: Path, *, options: RunOptions, **_: object) -> Path:
        found[experiment.name.rpartition("/")[2]] = options.sharing
        return out

    monkeypatch.setattr(study, "start", start)
    monkeypatch.setattr(study, "check_budget", lambda experiment: (experiment, ""))
    return found


def run(tmp_path: Path, sharing: RunSharing, *, parts: tuple[str, ...] = (), target: str | None = None) -> list[str]:
    """Run the study and return its lines."""
    lines: list[str] = []
    planned = study.plan_study("mine", decode_study(STUDY, "mine.toml"), only_parts=parts, seed=1, target=target)
    study.start_study(planned, tmp_path / "s", options=RunOptions(sharing=sharing), progress=LineProgress(lines.append))
    return lines


def test_exact_parts_take_the_options_and_the_others_are_named(tmp_path: Path, started: dict[str, RunSharing]) -> None:
    sharing = RunSharing(store=str(tmp_path / "store"), executor="threads:2", recheck=0.5)
    lines = run(tmp_path, sharing)
    assert started == {"exact": sharing, "measured": NO_SHARING}
    (note,) = (line for line in lines if line.startswith("Note: "))
    assert note.startswith("Note: the part measured is not on the virtual clock")
    assert "without --store, --executor and --recheck" in note


def test_one_option_is_named_alone(tmp_path: Path, started: dict[str, RunSharing]) -> None:
    (note,) = (line for line in run(tmp_path, RunSharing(recheck=0.02)) if line.startswith("Note: "))
    assert "without --recheck" in note
    assert started["exact"].recheck == 0.02


def test_without_the_options_there_is_no_note(tmp_path: Path, started: dict[str, RunSharing]) -> None:
    assert not [line for line in run(tmp_path, NO_SHARING) if line.startswith("Note: ")]
    assert set(started) == {"exact", "measured"}


@pytest.mark.parametrize(("parts", "target"), [(("measured",), None), (("measured", "gone"), None), ((), "host")])
def test_a_study_without_an_exact_part_refuses_them(
    tmp_path: Path, started: dict[str, RunSharing], parts: tuple[str, ...], target: str | None
) -> None:
    with pytest.raises(UserError, match="No part of this study takes --executor: ") as caught:
        run(tmp_path, RunSharing(executor="threads:2"), parts=parts, target=target)
    assert "--target vm" in caught.value.hint
    assert not started and not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("sharing", "words"),
    [
        (RunSharing(executor="threads:x"), "is no executor"),
        (RunSharing(executor="nosuch"), "is no executor"),
        (RunSharing(executor="dask:tcp://nowhere"), "none is named"),
        (RunSharing(store="nosuch://x"), "can't be opened"),
    ],
)
def test_what_can_t_be_opened_is_an_error_before_anything_runs(
    tmp_path: Path, started: dict[str, RunSharing], sharing: RunSharing, words: str
) -> None:
    with pytest.raises(UserError, match=words):
        run(tmp_path, sharing)
    assert not started and not (tmp_path / "s").exists()


def test_a_function_of_the_user_s_is_not_called_before_its_part(tmp_path: Path, started: dict[str, RunSharing]) -> None:
    sharing = RunSharing(executor="nosuchmodule:factory")
    run(tmp_path, sharing)
    assert started["exact"] == sharing


def test_the_python_api_takes_them(
    tmp_path: Path, started: dict[str, RunSharing], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_bytes(STUDY)
    swapstone.study(
        tmp_path / "mine.toml",
        swapstone.Sharing(executor="threads:2", store=str(tmp_path / "store"), recheck=0.5),
        only_parts=["exact"],
    )
    assert started == {"exact": RunSharing(executor="threads:2", store=str(tmp_path / "store"), recheck=0.5)}
    seen: list[RunOptions] = []

    def resumed(folder: Path, budget_ns: int | None, *, options: RunOptions, progress: object) -> None:
        del folder, budget_ns, progress
        seen.append(options)
        raise UserError("enough")

    monkeypatch.setattr(study, "resume_study", resumed)
    (folder,) = (tmp_path / "records").iterdir()
    with pytest.raises(UserError, match="enough"):
        swapstone.study(None, swapstone.Sharing(executor="threads:3"), resume=folder)
    assert seen == [dataclasses.replace(RunOptions(), sharing=RunSharing(executor="threads:3"))]
