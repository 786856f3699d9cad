# SPDX-License-Identifier: MIT OR Apache-2.0
"""What several benchmarks use: arguments, tables, shares, processor time, and processes that are started and ended."""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shlex
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from swapstone.core.stats import wilson

TOP = Path(__file__).resolve().parent.parent


def parser_of(name: str, purpose: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments of a benchmark.

    Args:
        name: of the program.
        purpose: the module's docstring.
    """
    return argparse.ArgumentParser(
        prog=f"benchmarks/{name}", description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown, its columns aligned: the first to the left, the rest to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = ["-" * width if not place else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    shown = (
        [f"{cell:{'>' if place else '<'}{width}}" for place, (cell, width) in enumerate(zip(line, widths, strict=True))]
        for line in (lines[0], rule, *lines[1:])
    )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in shown)


def number(value: float) -> str:
    """Return three digits of a number, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def share(hits: int, trials: int, digits: int = 1) -> str:
    """Return a share with Wilson's 95 % interval, e.g. ``2.0 % (0.4-10.5)``."""
    low, high = (f"{100 * each:.{digits}f}" for each in wilson(hits, trials))
    return f"{100 * hits / trials:.{digits}f} % ({low}-{high})"


def children_s() -> float:
    """Return the processor time of all processes that this one started and that ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_alone(
    command: Sequence[str], folder: Path | None = None, environment: dict[str, str] | None = None
) -> tuple[int, resource.struct_rusage]:
    """Run a program whose output is discarded; return its exit status, and what it and its children used."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def swapstone(
    arguments: Sequence[str],
    folder: Path,
    limit_s: float,
    environment: dict[str, str] | None = None,
    tree: Path = TOP,
) -> subprocess.CompletedProcess[str]:
    """Run Swapstone in a folder; return its exit status and what it printed. It ends with this program.

    Args:
        arguments: of the command line.
        folder: current folder of the command.
        limit_s: after which it is ended; its status is -1 then.
        environment: of the command; None for that of this program.
        tree: the checkout whose command line it is.
    """
    command = [str(tree / "swapstone"), *arguments]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        why = f"{shlex.join(command)} did not end within {limit_s:g} s"
        return subprocess.CompletedProcess(command, -1, "", why)
    finally:
        _end_group(process)
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and its children: first by an interrupt, so that it ends what it has started."""
    for sent in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
