# SPDX-License-Identifier: MIT OR Apache-2.0
"""Decodes and checks what a machine wrote."""

from __future__ import annotations

from collections.abc import Sequence

from swapstone.core.model import WireError
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


def check_run(config: MachineConfig, report: guest.GuestReport, answers: Sequence[AgentAnswer], console: str) -> None:
    """Check that a machine ran one trial, with the commands of its configuration.

    Raises:
        MachineConfigError: one of these commands failed, or ended too early.
        TargetError: it wrote another number of answers.
    """
    for kind, commands, words in (
        ("prepare", config.prepare, "The machine can't be prepared"),
        ("beside", config.beside, "The load ended too early"),
    ):
        if ended := next((ended for ended in report.ended if ended.kind == kind), None):
            raise MachineConfigError(f"{words}: {commands[ended.number]!r} {ended.description()}.")
    if len(answers) != 1 or answers[0].id != TRIAL:
        raise TargetError(f"The guest wrote {len(answers)} answers to one trial.", console, console)
