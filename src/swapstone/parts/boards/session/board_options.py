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
    driver = boards.driver_target
    refuse(
        (
            driver is None and boards.server_address is not None,
            "--server-address is of servers whose load generator runs on another machine.",
            f"For example: {DRIVER_EXAMPLE}",
        ),
        (
            driver is not None and target not in {"", default_target(boots=False)},
            "--driver-target is for servers of this machine: the load generator of a virtual machine runs in it.",
            "Leave --target out.",
        ),
    )
    if driver is not None:
        target = parse_driver_target(driver, boards.server_address or "").target
    return with_environment(target, boards.lg_env or "")


RULES = ExperimentRules(target=complete_target)
