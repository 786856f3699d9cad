# SPDX-License-Identifier: MIT OR Apache-2.0
"""Why an experiment ends, in words: for the seal of its record."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from swapstone.core.model import Run, Status
from swapstone.core.plan import Group
from swapstone.core.plan.stopping import StopReason

_FAILED = " failed"
"""How the reason of a workload ends on which all runs of a side failed."""


def why_complete(stop: str, lost: Mapping[Group, str], groups: int) -> str:
    """Return why an experiment is complete: with the workloads that can't be compared, if there are others.

    Args:
        stop: the reason of the stopping rule, or of `why_none`.
        lost: why groups could not be compared.
        groups: of the experiment.
    """
    if not lost or len(lost) == groups:
        return stop or "no workload is left"
    return f"{stop}; {len(lost)} of {groups} workloads can't be compared, the first: {_first(lost)}"


def why_none(lost: Mapping[Group, str], groups: int) -> str:
    """Return why no group is left to measure; arguments as `why_complete`."""
    if len(lost) < groups:
        return StopReason.LOST.value  # the others ended before
    failed = all(why.endswith(_FAILED) for why in lost.values())
    return f"{(StopReason.FAILED if failed else StopReason.INCOMPARABLE).value}, the first: {_first(lost)}"


def why_gone(runs: Iterable[Run], label: str, *, built: bool) -> str:
    """Return why a variant is not run on a workload.

    Args:
        runs: of this variant on the workload.
        label: of the variant.
        built: whether it could be built.
    """
    if not built:
        return f"{label} can't be built or run here"
    ended = collections.Counter(run.status for run in runs)
    if refused := ended[Status.REFUSED]:
        return f"{refused} of {ended.total()} runs of {label} were refused"
    if ended[Status.OK]:  # of an experiment before 0.2
        return f"{ended[Status.FAILED]} of {ended.total()} runs of {label} failed, and it was given up"
    return f"all {ended[Status.FAILED]} runs of {label}{_FAILED}"


def _first(lost: Mapping[Group, str]) -> str:
    (_, workload, _), why = next(iter(lost.items()))
    return f"{workload}: {why}"
