# SPDX-License-Identifier: MIT OR Apache-2.0
"""What images, roots and kernel modules add to the resolution of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.factors import is_root_factor
from swapstone.core.model import Experiment, FactorLevels, UnavailableError, UserError
from swapstone.core.model.architectures import machine_of
from swapstone.core.session.options import Settings
from swapstone.core.session.request import ExperimentRequest, ExperimentRules
from swapstone.core.targets import find_target_kind, target_kinds
from swapstone.parts.vm.factors.container_image import is_image
from swapstone.parts.vm.factors.rootfs import ROOTFS, no_root


def check_root_levels(request: ExperimentRequest, factors: Sequence[FactorLevels]) -> None:
    """Check that something is measured in the roots that a request names.

    Args:
        request: names the target, and a program of the user if it measures one.
        factors: of the request, also those whose level is held.

    Raises:
        UserError: a level is the name of an image, and the target boots none. Or there is no program that could run in the roots.
        UnavailableError: the target is a board that boots no roots.
    """
    rooted = next((choice for choice in factors if is_root_factor(choice.factor)), None)
    if rooted is None:
        return
    if rooted.factor == ROOTFS.name:
        opens = find_target_kind(request.settings.place.target or "host").opens
        if "reboots" in opens.offers:
            ROOTFS.acts_on(opens.name, opens.offers, rooted.levels)
            return
        if opens.offers.isdisjoint({"shares_files", "boots"}):
            places = " or ".join(kind.usage for kind in target_kinds() if "reboots" in kind.opens.offers)
            raise UnavailableError(
                f"The target {opens.name} boots no root file systems.",
                f"Measure on a board of a lab, whose strategy deploys them: --target {places}" if places else "",
            )
        if name := next((level for level in rooted.levels if "/" not in level), ""):
            raise no_root(str(Path(name).absolute()))
    if not request.own:
        raise UserError(
            f"The factor {rooted.factor} is for a program of yours: Swapstone's workloads are built for this machine.",
            f"Name it after --: swapstone compare {rooted.factor}={','.join(rooted.levels)} -- /bin/sh bench.sh",
        )


def pinned(experiment: Experiment) -> Experiment:
    """Return an experiment whose container images are pinned by their digests, so that the record names their content.

    Raises:
        UserError: an image can't be had.
    """

    def of(factor: str, level: str) -> str:
        if factor != ROOTFS.name or not is_image(level):
            return level
        from swapstone.parts.vm.artifacts.container_images import pinned_image  # noqa: PLC0415 - as below

        return pinned_image(level, machine_of(experiment.architecture))

    factors = tuple(
        msgspec.structs.replace(each, levels=tuple(of(each.factor, level) for level in each.levels))
        for each in experiment.factors
    )
    held = tuple((factor, of(factor, level)) for factor, level in experiment.held)
    return msgspec.structs.replace(experiment, factors=factors, held=held)


def _complete(experiment: Experiment, settings: Settings) -> Experiment:
    machine, experiment = settings.machine, pinned(experiment)
    if not (machine.modules or machine.module_files):
        return experiment
    from swapstone.parts.vm.session.vm_images import (  # noqa: PLC0415 - imports what builds images, and few experiments name modules
        parse_module_files,
        parse_modules,
    )

    return msgspec.structs.replace(
        experiment,
        modules=parse_modules(machine.modules, experiment.applied_factors, settings.place.target),
        module_files=parse_module_files(machine.module_files, experiment.target),
    )


def _prepare(experiment: Experiment, notify: Callable[[str], None]) -> None:
    if not any(is_root_factor(choice.factor) for choice in experiment.applied_factors):
        return
    from swapstone.parts.vm.subjects.own_program_root import root_levels, root_of  # noqa: PLC0415 - as above

    for level in root_levels(experiment):
        if level.is_image:
            root_of(level, machine_of(experiment.architecture), notify)


RULES = ExperimentRules(check=check_root_levels, complete=_complete, prepare=_prepare)
