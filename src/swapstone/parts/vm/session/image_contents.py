# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the images of an experiment contain: one of two sets of parts, so that experiments share images, snapshots and runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from swapstone.core.factors import find_factor
from swapstone.core.model import IDLE, Experiment, MachineNeeds
from swapstone.core.workloads import find_load, workloads_of
from swapstone.core.workloads.loads import LOADS
from swapstone.parts.vm.artifacts.image_catalog import KERNELS, PARTS

LIBRARIES = ("glibc", "libgcc", "musl")
"""The parts of an image that programs of our suites need."""

SHELL = "busybox"
"""The part that executes the commands of a machine's order."""

_SMALL = frozenset((*LIBRARIES, SHELL))


def image_contents(experiment: Experiment, kernels: Sequence[str]) -> MachineNeeds:
    """Return the parts and modules of an experiment's images. All variants have the same, so that only the factor differs.

    An image with tools has every part of the catalog, and loads the modules of every load: which loads and suites of tools an experiment
    has does not decide what its machines are. A kernel of the user may lack modules, so with one of those only the needed ones are
    loaded. Experiments without loads and tools have a small image: C libraries, and a shell if commands run.

    Args:
        experiment: names workloads, loads and factors.
        kernels: names of packaged kernels, or paths of kernels.
    """
    found = list(_needs(experiment))
    parts = {part for needs in found for part in needs.parts}
    modules = [module for needs in found for module in needs.modules]
    tools = not parts <= _SMALL or any(name != IDLE.name for name in experiment.loads)
    if tools and all(kernel in KERNELS for kernel in kernels):
        modules = [*(module for load in LOADS for module in load.machine.modules), *modules]
    return MachineNeeds(
        parts=tuple(part.name for part in PARTS) if tools else (*LIBRARIES, *((SHELL,) if found else ())),
        modules=tuple(dict.fromkeys(modules)),
        own_modules=tuple(dict.fromkeys(module for needs in found for module in needs.own_modules)),
    )


def _needs(experiment: Experiment) -> Iterable[MachineNeeds]:
    for work in workloads_of(experiment).values():
        if work.machine:
            yield work.machine
        if work.parts:
            yield MachineNeeds(parts=work.parts)
    for name in experiment.loads:
        yield find_load(name).machine
    for choice in experiment.applied_factors:
        if (needs := getattr(find_factor(choice.factor), "machine", None)) is not None:
            yield needs
