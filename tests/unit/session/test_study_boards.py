# SPDX-License-Identifier: MIT OR Apache-2.0
"""Studies on boards: what a part's board can't do is the reason for which it is unavailable."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.session import study
from swapstone.core.session.study_file import decode_study
from tests.fake_ssh import FakeSsh

STUDY = b"""
title = "Parts of a board"
question = "Which parts can it run?"
factor = [{ name = "libc", levels = ["glibc", "musl"] }]
suites = ["libc"]
only = ["b_malloc_tiny1"]
blocks = 2
[[part]]
name = "first"
title = "On every board"
[[part]]
name = "other"
title = "On another architecture"
architecture = "OTHER"
[[part]]
name = "planted"
title = "With a load that needs a machine of its own"
suites = ["latency"]
only = ["wakeup"]
loads = ["planted"]
[[part]]
name = "kernels"
title = "With a factor that needs one"
factor = [{ name = "kernel", levels = ["generic", "rt"] }]
"""


def run(tmp_path: Path, target: str, *parts: str, other: str = "armhf") -> dict[str, study.PartState]:
    """Run the study; return the states of its parts."""
    content = STUDY.replace(b"OTHER", other.encode())
    planned = study.plan_study("mine", decode_study(content, "mine.toml"), only_parts=parts, seed=1, target=target)
    return dict(study.start_study(planned, tmp_path / "s").states)


NEEDS = "The target ssh starts no machine of its own, and the {} needs one. Measure on --target vm"


def test_parts_that_the_board_can_t_run_are_unavailable_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = FakeSsh(tmp_path / "board")
    monkeypatch.setenv("PATH", ssh.path)
    parts = run(tmp_path, "ssh:board", "other", "planted", "kernels", other="riscv64")
    reasons = {name: part.reason for name, part in parts.items() if part.state == study.UNAVAILABLE}
    assert list(reasons) == ["other", "planted", "kernels"]
    assert "runs no programs of riscv64" in reasons["other"]
    assert reasons["planted"].startswith(NEEDS.format("load planted"))
    assert reasons["kernels"].startswith(NEEDS.format("factor kernel"))
    assert reasons["kernels"].endswith("a lab whose strategy boots kernels: --target labgrid:PLACE")


def test_parts_of_a_board_that_is_not_reached_are_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = FakeSsh(tmp_path / "board")
    (ssh.folder / "down").touch()
    monkeypatch.setenv("PATH", ssh.path)
    parts = run(tmp_path, "ssh:board")
    assert {part.state for part in parts.values()} == {study.UNAVAILABLE}
    assert all("Connection refused. This must work" in parts[name].reason for name in ("first", "other"))


def test_a_reason_is_sentences_in_one_line() -> None:
    assert study.in_one_line(UserError("It failed", "Do this: x")) == "It failed. Do this: x"
    assert study.in_one_line(UserError("It failed.", "Do this: x")) == "It failed. Do this: x"
    assert study.in_one_line(UserError("It failed")) == "It failed"
