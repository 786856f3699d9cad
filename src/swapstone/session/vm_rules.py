# SPDX-License-Identifier: MIT OR Apache-2.0
"""What images, roots and kernel modules add to the resolution of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from swapstone.model import Experiment, FactorLevels
from swapstone.model.architectures import machine_of
from swapstone.session.experiment_rules import ExperimentRules
from swapstone.session.request import ExperimentRequest
from swapstone.session.root_levels import check_root_levels
from swapstone.session.settings import Settings
from swapstone.session.vm_images import parse_module_files, parse_modules
from swapstone.subjects.image_root import root_levels, root_of


def _check(request: ExperimentRequest, factors: Sequence[FactorLevels]) -> None:
    check_root_levels(factors, request.settings.place.target, own=bool(request.own))


def _complete(experiment: Experiment, settings: Settings) -> Experiment:
    machine = settings.machine
    return msgspec.structs.replace(
        experiment,
        modules=parse_modules(machine.modules, experiment.applied_factors, settings.place.target),
        module_files=parse_module_files(machine.module_files, experiment.target),
    )


def _prepare(experiment: Experiment, notify: Callable[[str], None]) -> None:
    for level in root_levels(experiment):
        if level.is_image:
            root_of(level, machine_of(experiment.architecture), notify)


RULES = ExperimentRules(check=_check, complete=_complete, prepare=_prepare)
