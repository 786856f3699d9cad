# SPDX-License-Identifier: MIT OR Apache-2.0
"""What parts add to the resolution of an experiment, and to the opening of its target."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from swapstone.core.model import Experiment, FactorLevels
from swapstone.core.model.parts import provided
from swapstone.core.session.request import ExperimentRequest
from swapstone.core.session.settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentRules:
    """What a part adds. Each field may raise `UserError`, and by default does nothing.

    Attributes:
        check: checks a request with all its factors, also those that are held, before its workloads are found.
        target: returns a target's text with what options or the environment name elsewhere; an empty text is that of the default.
        complete: returns an experiment with the fields that the user's settings of this part determine.
        prepare: builds what the trials of an experiment need, before its target is opened. It is given a function for lines for the user.
    """

    check: Callable[[ExperimentRequest, Sequence[FactorLevels]], None] = lambda request, factors: None  # noqa: ARG005
    target: Callable[[str, Settings], str] = lambda target, settings: target  # noqa: ARG005
    complete: Callable[[Experiment, Settings], Experiment] = lambda experiment, settings: experiment  # noqa: ARG005
    prepare: Callable[[Experiment, Callable[[str], None]], None] = lambda experiment, notify: None  # noqa: ARG005


def rules_of_parts() -> tuple[ExperimentRules, ...]:
    """Return what each part adds that adds anything."""
    return provided("experiment", ExperimentRules)
