# SPDX-License-Identifier: MIT OR Apache-2.0
"""A record's lock that is held, and one that the file system does not have, are different errors."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from swapstone.core.model import RecordError
from swapstone.core.record import RecordWriter
from tests.unit import builders


@pytest.mark.parametrize(
    ("number", "message", "hint"),
    [
        (errno.EWOULDBLOCK, "Another process is writing", "Wait for it to end"),
        (errno.ENOLCK, "can't be locked against a second writer: No locks available", "file system that has locks"),
        (errno.EOPNOTSUPP, "can't be locked against a second writer: Operation not supported", "--out FOLDER"),
    ],
)
def test_only_a_lock_that_is_held_means_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str, hint: str
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(RecordError) as caught:
        RecordWriter.create(tmp_path / "record", builders.experiment())
    assert message in caught.value.message and hint in caught.value.hint
