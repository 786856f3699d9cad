# SPDX-License-Identifier: MIT OR Apache-2.0
"""Several boards: a block on each in turn, what an error of one or a signal leaves of the others, and how that is resumed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

import swapstone
from swapstone.core.model import UserError
from swapstone.core.model.run_sharing import NO_SHARING
from swapstone.core.plan.stop_decision import StopDecision
from swapstone.core.record import load
from swapstone.core.run import Steps
from swapstone.core.session.agreement_output import records_of
from swapstone.core.session.board_runs import resume_records, run_boards
from swapstone.core.session.compare_options import run_options
from swapstone.core.session.experiment import resolve, start_by_block
from swapstone.core.session.interrupted import Interrupted
from swapstone.core.session.progress import NO_PROGRESS, LineProgress, NullProgress, Progress
from swapstone.core.session.request import parse_factors
from tests.e2e.cli import FAKE, runs_of
from tests.small_records import request_of

BLOCKS = 4


class Log:
    """Boards that note their steps: ``a1`` is the first step of the board a. Each ends as a session does."""

    def __init__(self, tmp_path: Path) -> None:
        self.events: list[str] = []
        self._folder = tmp_path

    def board(self, name: str, steps: int, error: BaseException | None = None) -> Callable[[Progress], Steps[Path]]:
        """Return a board of `steps` steps; in the last one `error` is raised, if there is one."""

        def run(progress: Progress) -> Generator[None, None, Path]:
            del progress
            path = self._folder / name
            try:
                for step in range(1, steps + 1):
                    self.events.append(f"{name}{step}")
                    if step < steps:
                        yield
                if error is not None:
                    raise error
            except KeyboardInterrupt:
                self.events.append(f"{name} sealed")
                raise Interrupted(path, f"resume {name}") from None
            return path

        return run


def test_a_step_of_each_board_follows_that_of_the_board_before(tmp_path: Path) -> None:
    log = Log(tmp_path)
    boards = {"a": log.board("a", 4), "b": log.board("b", 2), "c": log.board("c", 3)}
    assert run_boards(boards, NO_PROGRESS) == [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    assert log.events == ["a1", "b1", "c1", "a2", "b2", "c2", "a3", "c3", "a4"]


@pytest.mark.parametrize("steps", [1, 2])
def test_an_error_before_the_first_block_ends_every_board(tmp_path: Path, steps: int) -> None:
    log = Log(tmp_path)
    boards = {
        "a": log.board("a", 9),
        "b": log.board("b", steps, UserError("no route", "a hint")),
        "c": log.board("c", 9),
    }
    with pytest.raises(UserError, match="no route"):
        run_boards(boards, NO_PROGRESS)
    assert "a sealed" in log.events and not any(event in log.events for event in ("a3", "c3"))
    assert ("c sealed" in log.events) == (steps == 2)


def test_a_board_that_fails_later_ends_alone_and_its_error_is_raised_at_the_end(tmp_path: Path) -> None:
    log, lines = Log(tmp_path), list[str]()
    boards = {"a": log.board("a", 6), "b": log.board("b", 4, UserError("it broke", "a hint")), "c": log.board("c", 5)}
    with pytest.raises(UserError, match="it broke") as caught:
        run_boards(boards, LineProgress(lines.append), tmp_path)
    assert log.events[-3:] == ["a5", "c5", "a6"] and not any("sealed" in event for event in log.events)
    assert "board 2 of 3, b, ended early: it broke" in lines
    assert caught.value.hint == (
        f"a hint\nThe other boards were measured to their end: {tmp_path}/a, {tmp_path}/c. "
        f"Resume the experiment: swapstone compare --resume {tmp_path}"
    )


@pytest.mark.parametrize("out", [True, False])
def test_a_signal_seals_every_record_and_the_message_resumes_all(tmp_path: Path, out: bool) -> None:
    log = Log(tmp_path)
    boards = {"a": log.board("a", 9), "b": log.board("b", 4, KeyboardInterrupt()), "c": log.board("c", 9)}
    with pytest.raises(Interrupted) as caught:
        run_boards(boards, NO_PROGRESS, tmp_path if out else None)
    assert [event for event in log.events if "sealed" in event] == ["b sealed", "a sealed", "c sealed"]
    assert caught.value.resume == (f"swapstone compare --resume {tmp_path}" if out else "resume a; resume b; resume c")


class Stopping(NullProgress):
    """Raises a signal when a board has ended this block, and notes which board ended which block."""

    def __init__(self, board: str = "", block: int = -1) -> None:
        self.blocks: list[tuple[str, int]] = []
        self._at = board, block
        self._label = ""

    def experiment_started(self, experiment: object, label: str) -> None:
        """Store whose events follow."""
        self._label = label

    def block_done(self, decision: StopDecision, block: int, used_ns: int) -> None:
        """Store it; a board that has the display again reports its last block again."""
        if (self._label, block) not in self.blocks:
            self.blocks.append((self._label, block))
            if (self._label, block) == self._at:
                raise KeyboardInterrupt


def options(folder: Path, out: str) -> Mapping[str, object]:
    """Return the options of a comparison on three simulated boards."""
    for number in (1, 2, 3):
        (folder / f"{number}.toml").write_text(FAKE.replace("seed = 3", f"seed = {number}"))
    return {
        **dict.fromkeys(("budget", "confidence", "lg_env", "clock", "cpu_model", "ns_per_instruction", "layouts")),
        **dict.fromkeys(("prime", "duration", "guest_timeout", "store", "executor", "recheck", "architecture")),
        "factors": ("libc=glibc,musl",),
        "suites": (),
        "only": ("b_malloc_tiny1",),
        "margin": "2%",
        "correction": "report",
        "seed": 1,
        "blocks": BLOCKS,
        "null": False,
        "target": ",".join(f"fake:{folder}/{number}.toml" for number in (1, 2, 3)),
        "loads": "idle",
        "processors": 1,
        "modules": (),
        "module_files": (),
        "hold": (),
        "order": "random",
        "no_cache": False,
        "out": str(folder / out),
        "fail_if": (),
        "parameters": (),
        "parameter_list": (),
        "parameter_scan": (),
    }


@pytest.mark.slow
def test_blocks_are_interleaved_and_a_resumed_experiment_is_that_of_one_session(tmp_path: Path) -> None:
    whole = Stopping()
    assert [run.last for run in run_options(options(tmp_path, "whole"), None, whole)] == [False, False, True]
    labels = [f"board {number} of 3" for number in (1, 2, 3)]
    assert whole.blocks == [(label, block) for block in range(BLOCKS + 1) for label in labels]

    stopping = Stopping(labels[1], 2)
    with pytest.raises(Interrupted) as caught:
        list(run_options(options(tmp_path, "cut"), None, stopping))
    assert caught.value.resume == f"swapstone compare --resume {tmp_path / 'cut'}"
    paths = [tmp_path / "cut" / f"board-{number}" for number in (1, 2, 3)]
    for path, blocks in zip(paths, (2, 2, 1), strict=True):
        view = load(path)
        assert view.seal is not None and view.seal.state == "interrupted"
        assert max(run.trial.block for run in view.runs) == blocks

    rest = Stopping()
    more = {"out": tmp_path / "cut", "guest_timeout": None, "fail_if": (), "trust": False, "sharing": NO_SHARING}
    resume_records(records_of(str(tmp_path / "cut")), None, progress=rest, **more)  # type: ignore[arg-type]
    assert rest.blocks[-3:] == [(label, BLOCKS) for label in labels]
    for number, path in enumerate(paths, start=1):
        assert swapstone.load(path).state == "complete" and swapstone.load(path).verify().ok
        assert runs_of(path) == runs_of(tmp_path / "whole" / f"board-{number}")
    with pytest.raises(UserError, match="there is nothing to resume"):
        resume_records(records_of(str(tmp_path / "cut")), None, progress=rest, **more)  # type: ignore[arg-type]


def test_several_boards_have_no_virtual_clock(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="measured on the wall clock, and vm has the virtual one"):
        next(run_options({**options(tmp_path, "r"), "target": "vm,ssh:a"}, None, NO_PROGRESS))


def test_boards_are_all_open_before_a_record_exists(tmp_path: Path) -> None:
    (tmp_path / "1.toml").write_text(FAKE)
    request = request_of(
        name="compare",
        factors=parse_factors(["libc=glibc,musl"]),
        only=("b_malloc_tiny1",),
        blocks=2,
        target=f"fake:{tmp_path}/1.toml",
    )
    steps = start_by_block(resolve(request), tmp_path / "r")
    next(steps)
    assert not (tmp_path / "r").exists()
    next(steps)
    assert load(tmp_path / "r").manifest is not None and not load(tmp_path / "r").runs
    steps.close()
