# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether a process runs: not as a zombie, nor if it ends while its file is read."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.processes import ends, is_running


def test_a_process_runs_until_it_is_killed_although_nothing_has_reaped_it() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    assert is_running(pid) and is_running(str(pid))
    assert not ends(pid, within_s=0)
    os.kill(pid, signal.SIGKILL)
    assert ends(pid), "it is a zombie"
    os.waitpid(pid, 0)
    assert not is_running(pid)


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_before_its_file_is_read_does_not_run(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path) -> str:
        raise error

    assert is_running(os.getpid())
    monkeypatch.setattr(Path, "read_text", gone)
    assert not is_running(os.getpid())
