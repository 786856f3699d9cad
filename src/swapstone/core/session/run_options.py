# SPDX-License-Identifier: MIT OR Apache-2.0
"""How an experiment runs, beside what it measures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from swapstone.core.model.run_sharing import NO_SHARING, RunSharing
from swapstone.core.report.answer.outcome import FailIf
from swapstone.core.session.option_values import duration_seconds, parse_ratio
from swapstone.core.session.options import Settings
from swapstone.core.session.outcome import parse_fail_if


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How an experiment runs, beside what it measures.

    Attributes:
        rebuild: whether to build an own program again although an equal build is in the cache.
        no_cache: whether a virtual machine repeats runs that are in the cache.
        guest_timeout_s: limit of a virtual machine's run, in seconds of this machine's time; 0 for the default.
        fail_if: conditions for the exit status, checked before anything is measured.
        label: which part of a study this is, for displays, e.g. ``part 2 of 4``; else empty.
        trust: whether the commands of a record that is resumed may run though another user or machine made it, or it was edited.
        sharing: the store and the workers of the runs.
        against: name of the record whose runs are the baseline; empty for none.
    """

    rebuild: bool = False
    no_cache: bool = False
    guest_timeout_s: float = 0.0
    fail_if: tuple[FailIf, ...] = ()
    label: str = ""
    trust: bool = False
    sharing: RunSharing = NO_SHARING
    against: str = ""


DEFAULT_OPTIONS = RunOptions()

WITH_RESUME = "--budget, --no-cache, --guest-timeout, --fail-if, --trust, --store, --executor and --recheck"
"""What may be given with a record or a study that is resumed, beside what is printed."""


def run_options_of(settings: Settings, fail_if: Sequence[str] = (), *, trust: bool = False) -> RunOptions:
    """Return how an experiment with these settings runs.

    Args:
        settings: of the user.
        fail_if: texts of ``--fail-if``.
        trust: as `RunOptions`.

    Raises:
        UserError: a condition or the share of rechecked runs has another form.
    """
    machine, sharing = settings.machine, settings.sharing
    share = 0.0
    if sharing.recheck is not None:
        share = parse_ratio(sharing.recheck, "--recheck", 0.0, math.nextafter(1.0, 2.0))
    return RunOptions(
        rebuild=settings.program.rebuild,
        no_cache=machine.no_cache,
        guest_timeout_s=duration_seconds(machine.guest_timeout),
        fail_if=parse_fail_if(fail_if),
        trust=trust,
        sharing=RunSharing(store=sharing.store or "", executor=sharing.executor or "", recheck=share),
        against=settings.program.against,
    )
