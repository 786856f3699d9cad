# SPDX-License-Identifier: MIT OR Apache-2.0
"""From what a user requests, the experiment, of bundled workloads or of an own program."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from swapstone.core.model import Experiment, OwnProgram
from swapstone.core.session.experiment import check_experiment, complete_target, resolve
from swapstone.core.session.request import ExperimentRequest, parse_factors
from swapstone.core.session.settings import Settings
from swapstone.core.session.varied_program import varied_program


def resolve_request(factors: Sequence[str], settings: Settings) -> tuple[OwnProgram | None, Experiment]:
    """Return the own program, or None, and the experiment.

    Args:
        factors: texts ``FACTOR=BASELINE,CANDIDATE``.
        settings: of the user.

    Raises:
        UserError: an option is wrong.
    """
    varied = parse_factors(factors) if factors else ()
    own, varied = varied_program(settings.program, varied, settings.workloads.hold)
    request = ExperimentRequest(
        name="compare", factors=varied or parse_factors(()), settings=_placed(settings), own=own
    )
    return own, resolve(request)


def _placed(settings: Settings) -> Settings:
    """Return settings whose target names the machine of the load generator, or the environment of a lab."""
    target = complete_target(settings.place.target or "", settings) or None
    return attrs.evolve(settings, place=attrs.evolve(settings.place, target=target))


def check_request(factors: Sequence[str], settings: Settings) -> None:
    """Check that an experiment can run here, as far as that is known before anything is fetched; see `resolve_request`.

    Raises:
        UserError: it can't.
    """
    _, experiment = resolve_request(factors, settings)
    check_experiment(experiment)
