# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the parts of a study need of a board or of a bare machine, checked before the first part is measured: a part may take hours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from swapstone.core.model import Experiment, UserError
from swapstone.core.run import check_levels
from swapstone.core.session.experiment import check_experiment, on_target
from swapstone.core.session.machines import open_experiment_target
from swapstone.core.targets import find_target_kind

Planned = Mapping[str, Experiment | str | None]
"""For each part its experiment, or the reason why it is unavailable, or None if it is left out."""


def check_boards(planned: Planned, parts: Collection[str], notify: Callable[[str], None]) -> Planned:
    """Check the parts that run on boards or without an operating system, and replace by the reason each one that its target can't run.

    A board that several parts share is opened once: whether it is reached and which architecture it has concerns all of them.

    Args:
        planned: all parts.
        parts: names of those that will run.
        notify: called with a line for each part that can't, if others can, and for what opening a board takes.
    """
    found: dict[str, Experiment | str | None] = dict(planned)
    shared: dict[str, dict[str, Experiment]] = {}
    for name, each in planned.items():
        if name not in parts or not isinstance(each, Experiment):
            continue
        kind = find_target_kind(each.target).opens
        if kind.offers.isdisjoint({"probes_architecture", "bare"}):
            continue
        try:
            check_experiment(each)
        except UserError as error:
            found[name] = in_one_line(error)
            continue
        for note in kind.left_out_levels(each):
            notify(f"The part {name}: {note}")
        if "probes_architecture" in kind.offers:
            shared.setdefault(each.target, {})[name] = each
    for experiments in shared.values():
        if len(experiments) > 1:
            found.update(_refused(experiments, notify))
    if any(name in parts and isinstance(each, Experiment) for name, each in found.items()):
        for name, reason in found.items():
            if isinstance(reason, str) and reason != planned[name]:
                notify(f"Note: the part {name} is unavailable: {reason}")
    return found


def _refused(experiments: Mapping[str, Experiment], notify: Callable[[str], None]) -> dict[str, str]:
    """Open the board of some parts, and return the reasons of those that it can't run."""
    found = {}
    first = msgspec.structs.replace(next(iter(experiments.values())), architecture="")
    try:
        with open_experiment_target(first, notify) as target:
            for name, each in experiments.items():
                try:
                    target.check_architecture(each.architecture)
                    check_levels(on_target(each, target), target)
                except UserError as error:
                    found[name] = in_one_line(error)
    except UserError as error:
        found = dict.fromkeys(experiments, in_one_line(error))
    return found


def in_one_line(error: UserError) -> str:
    """Return the message and the hint of an error as sentences in one line."""
    message, *hint = str(error).splitlines() or [""]
    return " ".join((message if not hint or message.endswith((".", "!", "?", ":")) else f"{message}.", *hint))
