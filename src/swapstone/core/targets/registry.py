# SPDX-License-Identifier: MIT OR Apache-2.0
"""The target registry: one entry for each kind of target."""

from __future__ import annotations

import functools
from pathlib import Path

from swapstone.core.model import VIRTUAL_CLOCK, Experiment, UnavailableError, UserError, refuse, unknown
from swapstone.core.model.parts import provided
from swapstone.core.targets.fake import FAKE
from swapstone.core.targets.host import HOST
from swapstone.core.targets.target import Target
from swapstone.core.targets.target_kind import TargetKind, TargetOptions, TargetSpec


@functools.cache
def target_kinds() -> tuple[TargetKind, ...]:
    """Return all kinds of targets. Where the user names none, the first kind that has the capabilities is taken.

    Raises:
        UserError: a part can't be loaded.
    """
    return (HOST, FAKE, *provided("target", TargetKind))


def find_target_kind(text: str) -> TargetKind:
    """Return the kind of a target.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``, as the user typed it.

    Raises:
        UserError: there is no such kind; the hint has what the user types for each target, and what it is for.
    """
    name = text.partition(":")[0]
    for kind in target_kinds():
        if kind.name == name:
            return kind
    usages = {usage: what for kind in target_kinds() for usage, what in kind.all_usages}
    raise unknown("target", name, (kind.name for kind in target_kinds()), usages)


def default_target(*, boots: bool, bare: bool = False) -> str:
    """Return the target of an experiment whose user names none.

    Args:
        boots: whether trials need a machine that is booted for each of them.
        bare: whether their servers run without an operating system.

    Raises:
        UnavailableError: no part has such a target.
    """
    for kind in target_kinds():
        if ("boots" in kind.opens.offers, "bare" in kind.opens.offers) == (boots, bare):
            return kind.name
    raise UnavailableError(
        "No part that is installed has a target that boots a machine for each trial, which this experiment needs.",
        "Name one: --target NAME",
    )


def clock_of(text: str, clock: str = "") -> str:
    """Return the clock of a target: `WALL_CLOCK` or `VIRTUAL_CLOCK`.

    Args:
        text: the target, as the user typed it.
        clock: what the user asked for; empty for the target's default.

    Raises:
        UserError: there is no such target, or it does not have this clock.
    """
    kind = find_target_kind(text)
    if not clock:
        return kind.clocks[0]
    if clock not in kind.clocks:
        others = [other.name for other in target_kinds() if clock in other.clocks]
        hint = f"The {clock} clock is that of --target {' or '.join(others)}." if others else ""
        raise UserError(f"The target {text} has a {' or '.join(kind.clocks)} clock.", hint)
    return clock


def driver_of(text: str) -> str:
    """Return the other machine on which the load generators of a target run; empty if they run beside the servers.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``.

    Raises:
        UserError: there is no such kind of target, or the detail does not have the form that the kind needs.
    """
    return find_target_kind(text).driver(text.partition(":")[2])


_DEFAULTS = TargetOptions()


def parse_target(text: str, options: TargetOptions = _DEFAULTS) -> TargetSpec:
    """Parse a target.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``, as the user typed it.
        options: what the user added.

    Returns:
        The specification, of the kind's own type.

    Raises:
        UserError: there is no such kind, the detail does not have the form that the kind needs, or an option does not apply to it.
    """
    name, _, detail = text.partition(":")
    kind = find_target_kind(name)
    names = " or ".join(other.name for other in target_kinds() if other.has_architectures)
    virtual = " or ".join(other.name for other in target_kinds() if VIRTUAL_CLOCK in other.clocks)
    hint = f"Add: --target {virtual}" if virtual else ""
    measures = clock_of(text, options.clock) != VIRTUAL_CLOCK
    refuse(
        (
            options.architecture and not kind.has_architectures,
            "--arch is the architecture of a virtual machine or a board.",
            f"Add: --target {names}" if names else "",
        ),
        (
            options.cpu_model and measures,
            "--cpu-model is of an emulated machine on the virtual clock.",
            hint,
        ),
        (
            options.ns_per_instruction != 1 and measures,
            "--ns-per-instruction is of the virtual clock, which counts instructions.",
            hint,
        ),
        (
            options.processors != 1 and measures,
            "--smp is of an emulated machine on the virtual clock; other targets have the processors that they have.",
            hint,
        ),
    )
    return kind.parse(detail, options)


def spec_of(
    experiment: Experiment, *, no_cache: bool = False, guest_timeout_s: float = 0.0, snapshots: bool = True
) -> TargetSpec:
    """Return the specification of an experiment's target.

    Args:
        experiment: its fields `target`, `clock` and those of its machine name it.
        no_cache: run every trial anew.
        guest_timeout_s: limit of a machine's run, in seconds; 0 for the default.
        snapshots: whether machines are restored from a snapshot.

    Raises:
        UserError: as `parse_target`.
    """
    options = TargetOptions(
        clock=experiment.clock,
        architecture=experiment.architecture,
        cpu_model=experiment.cpu_model,
        ns_per_instruction=experiment.ns_per_instruction,
        processors=experiment.processors,
        no_cache=no_cache,
        guest_timeout_s=guest_timeout_s,
        snapshots=snapshots,
    )
    return parse_target(experiment.target, options)


def target_below(text: str, directory: str) -> str:
    """Resolve the path in a target, as in ``fake:PATH`` or ``NAME:DETAIL,OPTION=PATH``, relative to a folder.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``.
        directory: the folder; empty for no change.

    Raises:
        UserError: there is no such kind of target.
    """
    name, _, detail = text.partition(":")
    if not directory or not detail:
        return text
    kind = find_target_kind(name)
    if kind.names_file(detail):
        return f"{name}:{Path(directory) / Path(detail).expanduser()}"
    words = detail.split(",") if kind.file_option else [detail]
    option = f"{kind.file_option}="
    for number, word in enumerate(words[1:], start=1):
        if word.startswith(option) and word != option:
            words[number] = f"{option}{Path(directory) / Path(word.removeprefix(option)).expanduser()}"
    return f"{name}:{','.join(words)}"


def open_target(text: str) -> Target:
    """Open a target that boots no machine, with the defaults of its kind.

    Args:
        text: ``NAME`` or ``NAME:DETAIL``.

    Returns:
        The target, to be used as a context manager.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    return parse_target(text).open(None, lambda line: None)  # noqa: ARG005 - no step is long
