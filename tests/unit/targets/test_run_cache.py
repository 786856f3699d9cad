# SPDX-License-Identifier: MIT OR Apache-2.0
"""A run's name depends on all its inputs, and the cache stores runs atomically."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.core.targets.agent_build import sha256_of
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun
from swapstone.parts.vm.machine.run_cache import RunCache, digest_of

INPUTS = {"kernel": b"k" * 40, "initrd": b"i" * 40, "arguments": b"-m\x00256M", "order": b"swapstone-order 1\n"}
RUN = GuestRun(end=GuestEnd.FINISHED, output=bytes(range(256)), console="a\nb")


def test_every_input_byte_changes_the_digest() -> None:
    names = {digest_of(INPUTS)}
    changes = 0
    for name, value in INPUTS.items():
        for at in range(len(value)):
            names.add(digest_of({**INPUTS, name: value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]}))
        names |= {digest_of({**INPUTS, name: value + b" "}), digest_of({**INPUTS, name: value[:-1]})}
        changes += len(value) + 2
    assert len(names) == changes + 1


def test_moving_bytes_between_inputs_changes_the_digest() -> None:
    assert digest_of({"a": b"xy", "b": b"z"}) != digest_of({"a": b"x", "b": b"yz"})
    assert digest_of({"a": b"", "b": b"z"}) != digest_of({"b": b"z"})
    assert digest_of(dict(reversed(INPUTS.items()))) == digest_of(INPUTS)


def test_a_stored_run_is_returned(tmp_path: Path) -> None:
    cache = RunCache(tmp_path / "runs")
    assert cache.get("d") is None
    cache.put("d", RUN)
    assert cache.get("d") == RUN
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["d"]


def test_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    cache.put("d", RUN)
    whole = (tmp_path / "d").read_bytes()
    for at in range(0, len(whole), 7):
        (tmp_path / "d").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert cache.get("d") is None
    for size in (0, 10, len(whole) - 1):
        (tmp_path / "d").write_bytes(whole[:size])
        assert cache.get("d") is None
    (tmp_path / "d").write_bytes(whole)
    assert cache.get("d") == RUN


def test_a_file_of_another_version_and_a_copy_under_another_name_are_ignored(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    for body in (
        b'{"end":"finished","new":1}',
        b'{"end":"finished"}',
    ):  # a newer one, and one without what runs have now
        (tmp_path / "d").write_bytes(hashlib.sha256(b"d\n" + body).hexdigest().encode() + b"\n" + body)
        assert cache.get("d") is None
    cache.put("e", RUN)
    (tmp_path / "f").write_bytes((tmp_path / "e").read_bytes())
    assert cache.get("e") == RUN and cache.get("f") is None


def test_an_unwritable_cache_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written") as caught:
        RunCache(tmp_path / "file" / "runs").put("d", RUN)
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        sha256_of(tmp_path / "none")


def test_reading_a_run_updates_its_time_of_use(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    cache.put("d", RUN)
    os.utime(tmp_path / "d", (1, 1))
    assert cache.get("absent") is None and (tmp_path / "d").stat().st_mtime == 1
    assert cache.get("d") == RUN
    assert time.time() - (tmp_path / "d").stat().st_mtime < 60
