# SPDX-License-Identifier: MIT OR Apache-2.0
"""Acts that take long are announced to who displays progress."""

from __future__ import annotations

import time

import pytest

from swapstone.core.model.announcement import announced
from swapstone.core.session.progress import as_progress


@pytest.mark.parametrize(("took_s", "lines"), [(1.5, 1), (130.0, 2)])
def test_an_act_has_a_line_and_a_long_one_another_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, took_s: float, lines: int
) -> None:
    clock, received = [5.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    as_progress(received.append)
    with announced("unpacking docker:alpine:3.20"):
        assert received == ["unpacking docker:alpine:3.20"]
        clock[0] += took_s
    assert received[1:] == ["unpacking docker:alpine:3.20: done in 130 s"][: lines - 1]


def test_an_act_that_fails_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, received = [5.0], list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    as_progress(received.append)
    with pytest.raises(OSError, match="no space"), announced("pulling"):
        clock[0] += 100
        raise OSError("no space")
    assert received == ["pulling"]
