# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that pauses: its result, and a signal between two steps, which is raised inside of the work."""

from __future__ import annotations

import pytest

from swapstone.core.run.steps import Steps, finish, stop


def work(seen: list[str], *, concludes: bool = True, pauses_again: bool = False) -> Steps[str]:
    """Pause twice; return what ended the work."""
    try:
        seen.append("first")
        yield
        seen.append("second")
        yield
    except KeyboardInterrupt:
        if not concludes:
            raise
        if pauses_again:
            seen.append("pause")
            yield
        return "interrupted"
    return "complete"


def test_work_is_run_to_its_end() -> None:
    seen: list[str] = []
    assert finish(work(seen)) == "complete"
    assert seen == ["first", "second"]


@pytest.mark.parametrize(("pauses_again", "expected"), [(False, ["first"]), (True, ["first", "pause"])])
def test_a_signal_between_steps_is_raised_inside_and_the_result_is_that_of_the_work(
    pauses_again: bool, expected: list[str]
) -> None:
    seen: list[str] = []
    steps = work(seen, pauses_again=pauses_again)
    next(steps)
    assert stop(steps, KeyboardInterrupt()) == "interrupted"
    assert seen == expected


def test_a_signal_that_the_work_does_not_handle_is_raised() -> None:
    steps = work([], concludes=False)
    next(steps)
    with pytest.raises(KeyboardInterrupt):
        stop(steps, KeyboardInterrupt())


def test_a_signal_after_the_end_of_the_work_is_raised() -> None:
    steps = work([])
    finish(steps)
    with pytest.raises(KeyboardInterrupt):
        stop(steps, KeyboardInterrupt())


def test_a_signal_during_a_step_of_finish_is_raised_inside() -> None:
    def signalled() -> Steps[str]:
        yield
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finish(signalled())
