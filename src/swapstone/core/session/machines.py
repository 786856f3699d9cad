# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the target of an experiment."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.model import Experiment, UserError
from swapstone.core.model.parts import provided
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.session.request import rules_of_parts
from swapstone.core.session.run_options import DEFAULT_OPTIONS, RunOptions
from swapstone.core.targets import Target, find_target_kind, spec_of
from swapstone.core.targets.hints import target_hint
from swapstone.core.targets.target_kind import RunSharer


def open_experiment_target(
    experiment: Experiment,
    notify: Callable[[str], None],
    options: RunOptions = DEFAULT_OPTIONS,
    *,
    snapshots: bool = True,
) -> Target:
    """Open the target of an experiment. What its trials need there is built first, such as the images that machines boot.

    Args:
        experiment: its field `target` names it.
        notify: called with a line for the user while an image is fetched and built.
        options: how it runs; those of the target are used.
        snapshots: whether machines are restored from a snapshot.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    check_sharing(experiment, options.sharing)
    for rules in rules_of_parts():
        rules.prepare(experiment, notify)
    spec = spec_of(experiment, no_cache=options.no_cache, guest_timeout_s=options.guest_timeout_s, snapshots=snapshots)
    target = spec.open(experiment, notify)
    if options.sharing:
        try:
            run_sharer(options.sharing).share(target, options.sharing, notify)
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
        f"Leave {sharing.options()[0]} out" + target_hint("shares_runs", ", or compare with {}") + ".",
    )


def has_exact_runs(experiment: Experiment) -> bool:
    """Return whether the runs of an experiment are functions of their inputs, so that any machine can make them."""
    return experiment.virtual and "shares_runs" in find_target_kind(experiment.target).opens.offers
