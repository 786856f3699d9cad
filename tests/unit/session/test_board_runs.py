# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several boards: one after another, what an error of one or a signal leaves of the others, and how that is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from swapstone.core.model import Experiment, UserError
from swapstone.core.plan.stopping import StopDecision
from swapstone.core.record import load
from swapstone.core.session.compare_options import resume_named, run_options
from swapstone.core.session.outcome import Interrupted
from swapstone.core.session.progress import NO_PROGRESS, LineProgress, Progress
from tests.e2e.cli import FAKE, runs_of

BLOCKS = 4


class Stopping(Progress):
    """Raises a signal when a board has ended this block, and notes which board ended which block."""

    def __init__(self, board: str = "", block: int = -1) -> None:
        self.blocks: list[tuple[str, int]] = []
        self.notes: list[str] = []
        self._at = board, block
        self._label = ""

    def note(self, text: str) -> None:
        """Store it."""
        self.notes.append(text)

    def experiment_started(self, experiment: object, label: str) -> None:
        """Store whose events follow."""
        self._label = label

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store it."""
        self.blocks.append((self._label, block))
        if (self._label, block) == self._at:
            raise KeyboardInterrupt


def options(folder: Path, out: str) -> Mapping[str, object]:
    """Return the options of a comparison on three simulated boards."""
    for number in (1, 2, 3):
        (folder / f"{number}.toml").write_text(FAKE.replace("seed = 3", f"seed = {number}"))
    return {
        "factors": ("libc=glibc,musl",),
        "only": ("b_malloc_tiny1",),
        "seed": 1,
        "blocks": BLOCKS,
        "target": ",".join(f"fake:{folder}/{number}.toml" for number in (1, 2, 3)),
        "out": str(folder / out),
    }


@pytest.mark.slow
def test_boards_follow_one_another_and_a_resumed_experiment_is_that_of_one_session(tmp_path: Path) -> None:
    whole = Stopping()
    (run,) = run_options(options(tmp_path, "whole"), None, whole)
    assert [record.path.name for record in run.records] == ["board-1", "board-2", "board-3"]
    labels = [f"board {number} of 3" for number in (1, 2, 3)]
    assert whole.blocks == [(label, block) for label in labels for block in range(BLOCKS + 1)]

    with pytest.raises(Interrupted) as caught:
        list(run_options(options(tmp_path, "cut"), None, stopping := Stopping(labels[1], 2)))
    assert stopping.notes[-1] == f"Not measured: fake:{tmp_path}/3.toml"
    path = tmp_path / "cut" / "board-2"
    assert caught.value.resume == f"swapstone compare --resume {path}"
    view = load(path)
    assert view.seal is not None and view.seal.state == "interrupted"
    assert max(run.trial.block for run in view.runs) == 2 and not (tmp_path / "cut" / "board-3").exists()

    resumed = resume_named(str(tmp_path / "cut"), {}, trust=False, progress=NO_PROGRESS)
    assert [each.path.name for each in resumed] == ["board-1", "board-2"]
    for each in resumed:
        assert each.state == "complete" and each.verify().ok
        assert runs_of(each.path) == runs_of(tmp_path / "whole" / each.path.name)
    with pytest.raises(UserError, match="there is nothing to resume"):
        resume_named(str(tmp_path / "cut"), {}, trust=False, progress=NO_PROGRESS)


def test_a_board_that_fails_ends_alone_and_its_error_is_raised_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, made = list[str](), list[str]()

    def start(experiment: Experiment, out: Path, **_: object) -> Path:
        if experiment.target.endswith("2.toml"):
            raise UserError("it broke", "a hint")
        made.append(experiment.target)
        return out

    monkeypatch.setattr("swapstone.core.session.compare_options.start", start)
    with pytest.raises(UserError, match="it broke") as caught:
        list(run_options(options(tmp_path, "r"), None, LineProgress(lines.append)))
    assert [target[-6:] for target in made] == ["1.toml", "3.toml"]
    assert f"board 2 of 3, fake:{tmp_path}/2.toml, ended early: it broke" in lines
    ended = f"{tmp_path}/r/board-1, {tmp_path}/r/board-3"
    assert caught.value.hint == f"a hint\nThe other boards were measured to their end: {ended}."


def test_several_boards_have_no_virtual_clock(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="measured on the wall clock, and vm has the virtual one"):
        next(run_options({**options(tmp_path, "r"), "target": "vm,ssh:a"}, None, NO_PROGRESS))
