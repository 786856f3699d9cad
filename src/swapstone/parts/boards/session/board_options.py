# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the options of boards add to the text of a target: the machine of the load generators, and the environment of a lab."""

from __future__ import annotations

from swapstone.core.model import refuse
from swapstone.core.session.options import Settings
from swapstone.core.session.request import ExperimentRules
from swapstone.core.targets import default_target
from swapstone.parts.boards.model.ssh_address import DRIVER_EXAMPLE, parse_driver_target
from swapstone.parts.boards.options import Boards
from swapstone.parts.boards.targets.labgrid_target import with_environment


def complete_target(target: str, settings: Settings) -> str:
    """Return a target whose text names what options and the environment of this process name.

    Args:
        target: the value of ``--target``; empty without it.
        settings: of the user.

    Raises:
        UserError: an option is wrong, or does not fit the target.
    """
    boards = settings.of(Boards)
    return with_environment(_with_driver(target, boards), boards.lg_env or "")


def _with_driver(target: str, boards: Boards) -> str:
    """Return the target of an experiment whose load generators may run on another machine."""
    apart = boards.driver_target is not None
    refuse(
        (
            not apart and boards.server_address is not None,
            "--server-address is of servers whose load generator runs on another machine.",
            f"For example: {DRIVER_EXAMPLE}",
        ),
        (
            apart and target not in {"", default_target(boots=False)},
            "--driver-target is for servers of this machine: the load generator of a virtual machine runs in it.",
            "Leave --target out.",
        ),
    )
    if boards.driver_target is None:
        return target
    return parse_driver_target(boards.driver_target, boards.server_address or "").target


RULES = ExperimentRules(target=complete_target)
