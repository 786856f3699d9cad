# SPDX-License-Identifier: MIT OR Apache-2.0
"""Work that pauses: a generator yields where other work may take place, and returns its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Steps: TypeAlias = Generator[None, None, Result]


def finish(steps: Steps[Result]) -> Result:
    """Run work to its end, without a pause.

    A signal between two steps is raised inside of the work, as one during a step is, so that it can conclude.
    """
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
    except KeyboardInterrupt as interrupt:
        return stop(steps, interrupt)


def stop(steps: Steps[Result], interrupt: KeyboardInterrupt) -> Result:
    """Raise a signal inside of work, unless that has ended.

    Raises:
        KeyboardInterrupt: the work has ended, or ends with one.
    """
    try:
        steps.throw(interrupt)
    except StopIteration as end:
        result: Result = end.value
        return result
    return finish(steps)
