# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the shell command of a build in an environment that does not depend on the user's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

_EPOCH = "315532800"  # 1980-01-01, for SOURCE_DATE_EPOCH: equal sources give equal programs


def build_environment() -> dict[str, str]:
    """Return the environment of a build. Other variables of the user must not influence it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C", "SOURCE_DATE_EPOCH": _EPOCH}


def run_build(
    command: str, folder: Path, timeout_s: float, environment: Mapping[str, str], *, options: tuple[str, ...] = ()
) -> tuple[int | None, bytes]:
    """Run a build. No process of it survives, also after an interruption.

    Args:
        command: for ``/bin/sh -c``.
        folder: working directory.
        timeout_s: time limit in seconds.
        environment: of the build.
        options: of the shell.

    Returns:
        Its exit status, None after a time-out; and its output.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", *options, "-c", command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also processes that a successful build left behind
            process.wait()
        output.seek(0)
        return status, output.read()
