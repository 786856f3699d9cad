# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which parts of a study other machines may make: those on the virtual clock. The others are measured here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from swapstone.core.model import Experiment, UserError
from swapstone.core.model.run_sharing import NO_SHARING
from swapstone.core.session.machines import has_exact_runs, run_sharer
from swapstone.core.session.run_options import RunOptions
from swapstone.core.targets.hints import target_hint


def check_study_sharing(planned: Iterable[Experiment | str | None], options: RunOptions) -> None:
    """Check that at least one part of a study takes the options of many machines, and that store and workers can be opened.

    Args:
        planned: the experiment of each part, or why it has none.
        options: how the parts run.

    Raises:
        UserError: none does, or one can't be opened.
    """
    if not options.sharing:
        return
    if not any(isinstance(each, Experiment) and has_exact_runs(each) for each in planned):
        names = options.sharing.options()
        raise UserError(
            f"No part of this study takes {_listed(names)}: a run is the same on every machine on the virtual clock only, "
            "and a measured time is not.",
            f"Leave {'them' if len(names) > 1 else 'it'} out, or name other parts"
            + target_hint("shares_runs", " or another target: {}"),
        )
    run_sharer(options.sharing).check(options.sharing)


def options_of_part(name: str, planned: Experiment | str | None, options: RunOptions) -> tuple[RunOptions, str]:
    """Return the options of a part, and a sentence about those that it does not take; empty for none.

    Args:
        name: of the part.
        planned: its experiment, or why it has none.
        options: of all parts.
    """
    if not options.sharing or not isinstance(planned, Experiment) or has_exact_runs(planned):
        return options, ""
    names = options.sharing.options()
    verb = "does" if len(names) == 1 else "do"
    other = target_hint("shares_runs", " of {}")
    note = (
        f"Note: {_listed(names)} {verb} not apply to the part {name}: it is not on the virtual clock{other}, so its runs are made by its "
        "own target alone."
    )
    return dataclasses.replace(options, sharing=NO_SHARING), note


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
