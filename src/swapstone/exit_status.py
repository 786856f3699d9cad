# SPDX-License-Identifier: MIT OR Apache-2.0
"""The exit statuses of all commands, and which one each finding about a candidate has. docs/exit-statuses.md is tested against it."""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """How a command ends."""

    SUCCESS = 0
    BUG = 1
    REFUSED = 2
    WORSE = 3
    NO_RESULT = 4
    INTERRUPTED = 130


class Finding(enum.Enum):
    """What runs show about a candidate, for ``--fail-if``. Of several findings the first in this order is the command's.

    Attributes:
        status: of a command with ``--fail-if``. Without it a finding ends a command with `ExitStatus.NO_RESULT` where a candidate has no
            number at all, else with 0.
        text: the finding as a sentence without a full stop.
    """

    WORSE = ExitStatus.WORSE, "the candidate is worse by more than the margin"
    FAILS = ExitStatus.WORSE, "the candidate crashes, times out or fails otherwise, and the baseline works"
    NOT_BUILT = ExitStatus.WORSE, "the candidate does not build, and the baseline does"
    OTHER_WORK = ExitStatus.WORSE, "the candidate prints another answer than the baseline, or does other work"
    BASELINE = ExitStatus.NO_RESULT, "the baseline gave nothing: it does not build, fails or is refused"
    NOT_COMPARED = (
        ExitStatus.NO_RESULT,
        "nothing was compared: too few runs, disturbed, unavailable, or not as requested",
    )
    NONE = ExitStatus.SUCCESS, "no candidate is found to be worse"

    def __init__(self, status: ExitStatus, text: str) -> None:
        self.status = status
        self.text = text
