# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a run under an instrument may take, and waits that print what they wait for."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator

MOST_TIMES = 20.0
"""A run under an instrument may take this many times as long as the longest run without it, or `SHORTEST_S` where that is longer."""

LONGEST_S = 120.0
"""What an instrument may add to a run, however long the run is without it."""

SHORTEST_S = 30.0
"""Shorter limits would measure the start of the instrument, and what else the machine does."""

QUIET_S = 5.0
"""A longer wait prints what it waits for."""


@dataclasses.dataclass(frozen=True)
class RunLimit:
    """Limit of a run's duration.

    Attributes:
        run_s: the limit.
        reference_s: the longest run without an instrument.
        notify: called with a line when a wait takes longer than `QUIET_S`.
    """

    run_s: float
    reference_s: float
    notify: Callable[[str], None]

    def reason(self, instrument: str) -> str:
        """Return why a run that reaches the limit is given up."""
        return (
            f"a run took longer than {self.run_s:.0f} s under {instrument}; without it the longest took "
            f"{self.reference_s:.3g} s"
        )


def limit_of(longest_s: float, notify: Callable[[str], None]) -> RunLimit:
    """Return the limit of a run under an instrument.

    Args:
        longest_s: duration of the longest run without it.
        notify: called with a line when a wait takes long.
    """
    return RunLimit(longest_s + min(LONGEST_S, max(SHORTEST_S, (MOST_TIMES - 1) * longest_s)), longest_s, notify)


@contextlib.contextmanager
def noted(
    what: str, within_s: float, notify: Callable[[str], None], late: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Report a wait that takes longer than `QUIET_S`.

    Args:
        what: is waited for, as a phrase: ``for the end of perf``.
        within_s: how long the wait may take.
        notify: called with a line, from another thread.
        late: called when it took as long as it may, from another thread.
    """
    line = f"waiting {what}, for at most {max(0.0, within_s - QUIET_S):.0f} s more"
    timers = [threading.Timer(QUIET_S, notify, (line,)), threading.Timer(within_s, late)]
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
