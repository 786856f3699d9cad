# SPDX-License-Identifier: MIT OR Apache-2.0
"""From what a user requests, the experiment, of bundled workloads or of an own program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from swapstone.model import Experiment, OwnProgram
from swapstone.session.experiment import check_experiment, resolve
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.request import ExperimentRequest, parse_factors
from swapstone.session.varied_program import varied_program


def resolve_request(
    request: ExperimentRequest, factors: Sequence[str], own_request: OwnProgramRequest
) -> tuple[OwnProgram | None, Experiment]:
    """Return the own program, or None, and the experiment.

    Args:
        request: without factors and without own program.
        factors: texts ``FACTOR=BASELINE,CANDIDATE``.
        own_request: the options of an own program.

    Raises:
        UserError: an option is wrong.
    """
    own, varied = varied_program(own_request, parse_factors(factors) if factors else (), request.hold)
    return own, resolve(dataclasses.replace(request, factors=varied or parse_factors(()), own=own))


def check_request(request: ExperimentRequest, factors: Sequence[str], own_request: OwnProgramRequest) -> None:
    """Check that an experiment can run here, as far as that is known before anything is fetched; see `resolve_request`.

    Raises:
        UserError: it can't.
    """
    _, experiment = resolve_request(request, factors, own_request)
    check_experiment(experiment)
