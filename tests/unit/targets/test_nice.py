# SPDX-License-Identifier: MIT OR Apache-2.0
"""Nice values: trials on this machine have 0, and an ordinary user can't lower that of the session."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from swapstone.core.targets.host import HostTarget, check_nice
from swapstone.core.wire import ProcessOutcome, TrialRequest
from swapstone.core.wire.output_reading import trouble_of
from tests.programs import with_nice_0

_CHECK = "from swapstone.core.targets.host import HostSpec; HostSpec().open(None, print)"


def _opened(*words: str) -> subprocess.CompletedProcess[str]:
    """Open this machine as a target, in a process that some words start and that may not lower its nice value."""
    command = [sys.executable, "-c", _CHECK]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-sys_nice", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([*words, *command], capture_output=True, text=True, env=environment, check=False)


def test_a_session_that_may_not_lower_its_nice_value_is_refused_before_it_builds_anything() -> None:
    result = _opened("nice", "-n", "1")
    assert "UnavailableError: Trials on this machine run with the nice value 0" in result.stderr
    assert "may not lower it" in result.stderr


def test_a_session_without_a_nice_value_is_opened() -> None:
    assert _opened(*with_nice_0()).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="lowering a nice value needs root")
def test_the_check_changes_no_nice_value() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    check_nice()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_the_reason_names_the_step_of_a_start_that_failed() -> None:
    with HostTarget() as target:
        answer = target.run(TrialRequest(id="1", arguments=("/bin/true",), cwd="/nonexistent", timeout_ms=20_000))
    assert answer.outcome is ProcessOutcome.UNSTARTED
    reason = "No such file or directory (the agent could not enter its folder)"
    assert trouble_of(answer).startswith(f"it could not be started: {reason}")
