# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sampling the stacks of a program on its processors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from swapstone.instruments import oncpu
from swapstone.instruments.instrument_result import ReferenceRuns
from swapstone.instruments.tracee import Region, Tracee
from swapstone.model import UserError
from swapstone.wire import TrialRequest


@pytest.mark.parametrize(("user", "buffer"), [(0, ["-m", str(oncpu.BUFFER_PAGES)]), (1000, [])])
def test_only_root_gets_a_buffer_beyond_what_a_user_may_lock(
    user: int, buffer: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def recorded(tracee: Tracee, options: Sequence[str], *_: object, **__: object) -> None:
        given.extend(options)
        raise UserError("enough")

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(oncpu, "record", recorded)
    request = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1)
    reference = ReferenceRuns({"wall": 1e9, "cpu": 1e9}, (), (), tmp_path, 1.0)
    with pytest.raises(UserError, match="enough"):
        oncpu.measure(Tracee("v", request, Region.PROGRAM), reference)
    assert given[2:] == buffer
