# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a target without an operating system can't measure, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from swapstone.factors import NETSTACK, needs_system
from swapstone.model import IDLE, Experiment, UnavailableError
from swapstone.subjects import Subject
from swapstone.targets import Capabilities
from swapstone.workloads import BARE_SUITE

_HOST = "Measure on --target host."
_DEFAULT = ("kernel",)


def check_bare(experiment: Experiment, subjects: Iterable[Subject], target: Capabilities) -> None:
    """Refuse what needs an operating system, on a target that is `bare`; accept everything on others.

    Args:
        experiment: what is measured.
        subjects: its workloads.
        target: where it will run; the class of a target before it is opened.

    Raises:
        UnavailableError: a workload, factor or load needs an operating system; or the baseline does, or every other level.
    """
    if "bare" not in target.offers:
        return
    for choice in experiment.applied_factors:
        if choice.factor != NETSTACK.name:
            raise UnavailableError(
                f"The target {target.name} has no factor {choice.factor}: without an operating system, only the network stack varies.",
                _HOST,
            )
    if other := next((load for load in experiment.loads if load != IDLE.name), ""):
        raise UnavailableError(f"The target {target.name} runs no load {other} beside a trial.", _HOST)
    for subject in subjects:
        if not subject.runs_bare:
            raise UnavailableError(
                f"The target {target.name} has no operating system, which {subject.workload.name} needs.",
                f"Select the workloads that it runs: --suite {BARE_SUITE}. Or measure on --target host.",
            )
    levels = experiment.levels_of(NETSTACK.name) or _DEFAULT
    refused = {level: reason for level in levels if (reason := needs_system(level))}
    if levels[0] in refused or (len(levels) > 1 and all(level in refused for level in levels[1:])):
        level = levels[0] if levels[0] in refused else levels[1]
        raise UnavailableError(
            f"{NETSTACK.name}={level} is {refused[level]}.",
            f"Compare the stacks of the machine: {NETSTACK.name}=lwip,smoltcp. Or measure on --target host.",
        )


def left_out_levels(experiment: Experiment, target: Capabilities) -> Iterator[str]:
    """Yield a sentence for each level that a target without an operating system leaves out of an experiment that it accepts."""
    for level in (experiment.levels_of(NETSTACK.name) or _DEFAULT) if "bare" in target.offers else ():
        if reason := needs_system(level):
            yield f"Note: {NETSTACK.name}={level} is {reason}. The other levels are measured."
