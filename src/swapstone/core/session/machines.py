# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the target of an experiment."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.model import Experiment, UserError
from swapstone.core.model.parts import provided
from swapstone.core.model.run_sharing import NO_SHARING, RunSharing
from swapstone.core.session.experiment_rules import rules_of_parts
from swapstone.core.targets import Target, find_target_kind, spec_of
from swapstone.core.targets.hints import target_hint
from swapstone.core.targets.target_kind import RunSharer


def open_experiment_target(
    experiment: Experiment,
    notify: Callable[[str], None],
    *,
    no_cache: bool = False,
    guest_timeout_s: float = 0.0,
    snapshots: bool = True,
    sharing: RunSharing = NO_SHARING,
) -> Target:
    """Open the target of an experiment. What its trials need there is built first, such as the images that machines boot.

    Args:
        experiment: its field `target` names it.
        notify: called with a line for the user while an image is fetched and built.
        no_cache: whether a virtual machine repeats runs that are in the cache.
        guest_timeout_s: limit of a virtual machine's run, in seconds of this machine's time; 0 for the default.
        snapshots: whether machines are restored from a snapshot.
        sharing: the store and the workers of the runs.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    check_sharing(experiment, sharing)
    for rules in rules_of_parts():
        rules.prepare(experiment, notify)
    spec = spec_of(experiment, no_cache=no_cache, guest_timeout_s=guest_timeout_s, snapshots=snapshots)
    target = spec.open(experiment, notify)
    if sharing:
        try:
            run_sharer(sharing).share(target, sharing, notify)
        except BaseException:
            target.close()
            raise
    return target


def run_sharer(sharing: RunSharing) -> RunSharer:
    """Return what connects targets with other machines.

    Raises:
        UserError: no part does that.
    """
    sharers: tuple[RunSharer, ...] = provided("sharing", RunSharer)
    if not sharers:
        raise UserError(f"No part that is installed has {' or '.join(sharing.options())}.", "Leave it out.")
    return sharers[0]


def check_sharing(experiment: Experiment, sharing: RunSharing) -> None:
    """Check before anything is built that the runs of an experiment are functions of their inputs, if other machines make them.

    Raises:
        UserError: they are not.
    """
    if not sharing or has_exact_runs(experiment):
        return
    raise UserError(
        f"{sharing.options()[0]} is of the virtual clock, on which a run is the same on every machine; a measured time is not.",
        target_hint("shares_runs", "Add: {}"),
    )


def has_exact_runs(experiment: Experiment) -> bool:
    """Return whether the runs of an experiment are functions of their inputs, so that any machine can make them."""
    return experiment.virtual and "shares_runs" in find_target_kind(experiment.target).opens.offers
