# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decodes and checks what a machine wrote."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from swapstone.core.model import WireError
from swapstone.core.model.safe_text import safe
from swapstone.core.targets.target import MachineConfig, MachineConfigError, TargetError
from swapstone.core.wire import AgentAnswer
from swapstone.parts.vm.machine import guest
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun

TRIAL = "t"
"""The identifier of every trial in its plan, so that equal trials are equal runs."""


def decode_run(run: GuestRun) -> tuple[guest.GuestReport, tuple[AgentAnswer, ...]]:
    """Decode the output of a machine.

    Raises:
        TargetError: the machine did not finish, or its output is invalid.
    """
    if run.end is not GuestEnd.FINISHED:
        lines = f"The last lines of its console:\n{run.console}" if run.console else "Its console is empty."
        raise TargetError(f"The virtual machine failed: {run.reason}.", lines, run.console or "(empty)")
    try:
        return guest.decode_channel(run.output)
    except WireError as error:
        raise TargetError(
            f"The output of the virtual machine is invalid: {error.message}", run.console, run.console
        ) from error


_FAULT = re.compile(
    r"^WARNING: |^([\w-]+: |kernel )?BUG\b|\[#[0-9]+\]|^Unable to handle kernel |detected stall|^INFO: task .* blocked for more than "
)
"""Messages of a kernel that did not work as it should: warnings, oopses, lockups, stalls of RCU, hung tasks."""
_NUMBER = re.compile("[0-9]{1,9}")
_TAINTS = "PFSRMBUDAWCIOELKXTN"
"""The kernel's flags by bit (Documentation/admin-guide/tainted-kernels.rst)."""


_LINES = 12


def kernel_fault(report: guest.GuestReport) -> tuple[str, str]:
    """Return what was wrong with a machine's kernel in the trial, and the lines of its log from there on; empty texts if nothing.

    That is its first such message, and how it is tainted since.
    """
    log = report.file("after /dev/kmsg").splitlines()
    messages = [line.partition(";")[2] for line in log if not line.startswith(" ")]
    lines = list(itertools.dropwhile(lambda message: not _FAULT.search(message), messages))[:_LINES]
    before, after = (report.file(f"{when} /proc/sys/kernel/tainted").strip() for when in ("before", "after"))
    added = int(after) & ~int(before) if _NUMBER.fullmatch(before) and _NUMBER.fullmatch(after) else 0
    flags = "".join(flag for bit, flag in enumerate(_TAINTS) if added >> bit & 1)
    taints = f"the trial tainted it ({flags}, tainted-kernels.rst)" if flags else ""
    return "; ".join(filter(None, ("".join(lines[:1])[:200], taints))), "\n".join(lines)


def check_run(config: MachineConfig, report: guest.GuestReport, answers: Sequence[AgentAnswer], console: str) -> None:
    """Check that a machine ran one trial, with the commands of its configuration.

    Raises:
        MachineConfigError: one of these commands failed, or ended too early.
        TargetError: its kernel did not work as it should, or it wrote another number of answers.
    """
    fault, lines = kernel_fault(report)
    if fault:
        raise TargetError(
            f"The virtual machine failed: its kernel reports: {safe(fault)}.",
            lines or console,
            lines or console or "(empty)",
        )
    for kind, commands, words in (
        ("prepare", config.prepare, "The machine can't be prepared"),
        ("beside", config.beside, "The load ended too early"),
    ):
        if ended := next((ended for ended in report.ended if ended.kind == kind), None):
            raise MachineConfigError(f"{words}: {commands[ended.number]!r} {ended.description()}.")
    if len(answers) != 1 or answers[0].id != TRIAL:
        raise TargetError(f"The guest wrote {len(answers)} answers to one trial.", console, console)
