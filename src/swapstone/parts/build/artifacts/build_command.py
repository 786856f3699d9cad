# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run tools, and the shell command of a build in an environment that does not depend on the user's."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from swapstone.core.model import UnavailableError, UserError

COMPILER_TIMEOUT_S = 120
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


def run_tool(
    command: Sequence[str],
    what: str,
    *,
    hint: str = "",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 300,
) -> str:
    """Run a program to its end, and return what it printed.

    Args:
        command: the program and its arguments.
        what: what it does, for messages: a noun phrase that starts with a capital letter.
        hint: of the error if it fails.
        folder: working directory; None for this one.
        environment: None for this process's.
        timeout_s: time limit in seconds.

    Raises:
        UnavailableError: it can't be run.
        UserError: it fails, or does not end in time; the message has the last of what it printed.
    """
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{what} did not finish within {timeout_s} s.") from error
    except OSError as error:
        raise UnavailableError(f"{what} needs {command[0]}, which can't be run: {error.strerror}.", hint) from error
    if result.returncode != 0:
        raise UserError(
            f"{what} failed: {(result.stderr or result.stdout).strip()[-2000:] or 'it printed nothing'}", hint
        )
    return result.stdout


def link_kernel_headers(folder: Path) -> None:
    """Link the kernel's headers of this machine in a folder, without glibc's headers.

    Args:
        folder: an existing folder, for ``-idirafter``.
    """
    asked = subprocess.run(
        ["cc", "-E", "-"], input=b"#include <linux/futex.h>\n", capture_output=True, timeout=60, check=False
    )
    for name in ("linux", "asm", "asm-generic"):
        found = re.search(rf'^# \d+ "((?:/[^/"]+)+?/{name})/', asked.stdout.decode(errors="replace"), re.MULTILINE)
        if found:
            (folder / name).symlink_to(found[1])


def run_compiler(command: list[str]) -> None:
    """Run a compiler or linker.

    Raises:
        UnavailableError: it can't be run.
        UserError: it failed; the message ends with its output.
    """
    what, hint = f"Building with `{' '.join(command)}`", "`swapstone doctor` reports missing tools."
    run_tool(command, what, hint=hint, timeout_s=COMPILER_TIMEOUT_S)
