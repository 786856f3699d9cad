# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sampling the stacks of a program on its processors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import oncpu
from swapstone.parts.explain.instruments.traced_run import ReferenceRuns, Region, Tracee

INITIAL, CONTAINER = "         0          0 4294967295\n", "         0     100000      65536\n"


@pytest.mark.parametrize(
    ("capabilities", "users", "expected"),
    [
        ("000001ffffffffff", INITIAL, True),
        ("0000000000004000", INITIAL, True),
        ("00000000a80425fb", INITIAL, False),  # of a container by default
        ("0000000000000000", INITIAL, False),
        ("000001ffffffffff", CONTAINER, False),  # they hold in its own user namespace
        ("none", INITIAL, False),
    ],
)
def test_memory_is_locked_with_a_capability(capabilities: str, users: str, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "status").write_text(
        f"Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t{capabilities}\nCapBnd:\tffffffffffffffff\n"
    )
    (tmp_path / "uid_map").write_text(users)
    assert oncpu.may_lock_memory(tmp_path) is expected


def test_an_unreadable_process_may_lock_nothing(tmp_path: Path) -> None:
    assert not oncpu.may_lock_memory(tmp_path)


@pytest.mark.parametrize(("may_lock", "buffer"), [(True, ["-m", str(oncpu.BUFFER_PAGES)]), (False, [])])
def test_the_buffer_is_not_larger_than_a_user_may_lock(
    may_lock: bool, buffer: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def recorded(tracee: Tracee, options: Sequence[str], *_: object, **__: object) -> None:
        given.extend(options)
        raise UserError("enough")

    monkeypatch.setattr(oncpu, "may_lock_memory", lambda: may_lock)
    monkeypatch.setattr(oncpu, "record", recorded)
    request = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1)
    reference = ReferenceRuns({"wall": 1e9, "cpu": 1e9}, (), tmp_path, 1.0)
    with pytest.raises(UserError, match="enough"):
        oncpu.measure(Tracee("v", request, Region.PROGRAM), reference)
    assert given[2:] == buffer
