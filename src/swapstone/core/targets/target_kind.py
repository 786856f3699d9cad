# SPDX-License-Identifier: MIT OR Apache-2.0
"""An entry of the target registry: name, options, capabilities, and how a target of this kind is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from swapstone.core.model import WALL_CLOCK, Experiment, FrozenStruct
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.targets.target import Target

__all__ = ["Notify", "RunSharer", "TargetKind", "TargetOptions", "TargetSpec"]


class TargetOptions(FrozenStruct, frozen=True, kw_only=True):
    """What a user may add to a target's name. Most kinds accept only some of it.

    Attributes:
        clock: `WALL_CLOCK` or `VIRTUAL_CLOCK`; empty for the kind's default.
        architecture: of a machine that is emulated, a name of the image catalog; empty for this machine's.
        cpu_model: of a machine that is emulated, a value of QEMU's option ``-cpu``; empty for the default.
        ns_per_instruction: guest time of an instruction on the virtual clock: one of `swapstone.core.model.CLOCK_SCALES`.
        processors: of a machine that is emulated.
        no_cache: run every trial anew; kinds without a cache of runs ignore it.
        guest_timeout_s: limit of a machine's run, in seconds of this machine's time; 0 for the default. Kinds without machines ignore it.
        snapshots: whether machines are restored from a snapshot, which is worth it where several trials have an equal machine.
    """

    clock: str = ""
    architecture: str = ""
    cpu_model: str = ""
    ns_per_instruction: int = 1
    processors: int = 1
    no_cache: bool = False
    guest_timeout_s: float = 0.0
    snapshots: bool = True


Notify = Callable[[str], None]
"""Receives a line for the user."""


class RunSharer(NamedTuple):
    """Lets targets that offer ``shares_runs`` get their runs from other machines.

    Attributes:
        share: connects an open target. Raises `UserError` where store or workers can't be opened.
        check: does so without a target, as far as that starts nothing.
    """

    share: Callable[[Target, RunSharing, Notify], None]
    check: Callable[[RunSharing], None]


class TargetSpec(Protocol):
    """All that is needed to open one target. Each kind has a type of its own, with the fields that only this kind needs."""

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:
        """Open the target.

        Args:
            experiment: whose trials it runs, for kinds that build or boot what these need; None for none.
            notify: called with a line for the user before each long step.

        Raises:
            UserError: the target can't be reached, or something that it needs is missing.
        """
        ...


class TargetKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of target.

    Attributes:
        name: what the user types before the colon.
        description: one line for ``--help`` and lists.
        opens: the class of its targets; its class attributes are the capabilities, readable before a target is open.
        parse: makes a specification from what follows the colon and from the options.

            Raises `UserError` where the text does not have the form that this kind needs.
        usage: what the user types, e.g. ``fake:SPEC.toml``.
        usages: pairs (what the user types, what it is for), where a kind has several; empty for `usage` and `description`.
        more_usages: returns further such pairs, which parts add.
        clocks: the clocks that it has, the default first.
        has_architectures: whether ``--arch`` applies.
        names_file: whether what follows the colon is the path of a file.
        file_option: the option after a comma whose value is the path of a file; empty for none.
        file_pattern: shell pattern of such files, for completion in shells; empty if there is none.
        programs: returns the programs of this machine that its trials need beside those of workloads, by their names in `packages`; for
            an experiment, or for any of this machine's architecture.
        does: what trials on it do besides running programs here, as a clause for the list of what an experiment would run; from what
            follows the colon. Empty for nothing.
        driver: the other machine on which load generators run, from what follows the colon; empty for none.
    """

    name: str
    description: str
    opens: type[Target]
    parse: Callable[[str, TargetOptions], TargetSpec]
    usage: str
    usages: tuple[tuple[str, str], ...] = ()
    more_usages: Callable[[], tuple[tuple[str, str], ...]] = tuple
    clocks: tuple[str, ...] = (WALL_CLOCK,)
    has_architectures: bool = False
    names_file: Callable[[str], bool] = lambda detail: False  # noqa: ARG005 - by default no text is a path
    file_option: str = ""
    file_pattern: str = ""
    programs: Callable[[Experiment | None], tuple[str, ...]] = lambda experiment: ()  # noqa: ARG005 - by default none
    does: Callable[[str], str] = lambda detail: ""  # noqa: ARG005 - by default nothing besides the programs of trials
    driver: Callable[[str], str] = lambda detail: ""  # noqa: ARG005 - by default they run beside the servers

    @property
    def all_usages(self) -> tuple[tuple[str, str], ...]:
        """Return each form in which the user names the target, with what it is for."""
        return (*(self.usages or ((self.usage, self.description),)), *self.more_usages())
