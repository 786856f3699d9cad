# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests: an experiment before its names, patterns and defaults are resolved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from swapstone.factors import parse_choice
from swapstone.model import IDLE, RANDOM_ORDER, REPORT_CORRECTION, FactorLevels, OwnProgram, UserError
from swapstone.session.defaults import CONFIDENCE, MARGIN
from swapstone.workloads import find_load


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentRequest:
    """An unresolved experiment: patterns, defaults and names that `resolve` looks up.

    Attributes:
        name: of the record; a study's name, or ``compare``.
        factors: what is varied, the baseline's level first.
        suites: names of suites; empty for those that suit the factors.
        only: patterns of workloads; empty for all.
        budget_ns: time for measuring; None for one minute a variant.
        margin: ratio of no interest, e.g. 0.02.
        confidence: of the intervals, e.g. 0.95.
        seed: of every random order; None for a random one.
        blocks: an exact number of blocks; 0 to stop on precision or budget.
        null: whether the baseline takes part again.
        layouts: how many links of each variant take turns; 0 for one.
        target: ``host``, ``vm``, ``vm:KERNEL`` or ``fake:PATH``; None for the one that the experiment needs.
        loads: names of loads.
        architecture: of the virtual machine; empty for this machine's.
        modules: texts ``KERNEL=FOLDER``.
        clock: ``wall`` or ``virtual``; None for the target's.
        published: name of the published study beside the results, or empty.
        own: the user's own program, instead of the bundled workloads.
        correction: ``report`` or ``family``.
        prime: discarded runs before each measured one; None for those that the work needs.
        order: ``random`` or ``balanced``.
        hold: texts ``FACTOR=LEVEL``: levels that all variants share.
    """

    name: str
    factors: Sequence[FactorLevels]
    suites: Sequence[str] = ()
    only: Sequence[str] = ()
    budget_ns: int | None = None
    margin: float = MARGIN
    confidence: float = CONFIDENCE
    seed: int | None = None
    blocks: int = 0
    null: bool = False
    layouts: int = 0
    target: str | None = None
    loads: Sequence[str] = (IDLE.name,)
    architecture: str = ""
    modules: Sequence[str] = ()
    clock: str | None = None
    published: str = ""
    own: OwnProgram | None = None
    correction: str = REPORT_CORRECTION
    prime: int | None = None
    order: str = RANDOM_ORDER
    hold: Sequence[str] = ()


def parse_factors(texts: Iterable[str]) -> tuple[FactorLevels, ...]:
    """Parse texts such as ``libc=glibc,musl``.

    Raises:
        UserError: there are none, one is malformed, or a factor is named twice.
    """
    choices = tuple(parse_choice(text) for text in texts)
    if not choices:
        raise UserError(
            "There is nothing to compare: FACTOR=BASELINE,CANDIDATE is missing.",
            "For example: swapstone compare libc=glibc,musl",
        )
    names = [choice.factor for choice in choices]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"The factor {twice} is named twice.", f"List all its levels in one: {twice}=BASELINE,CANDIDATE"
        )
    return choices


def check_loads(names: Iterable[str]) -> tuple[str, ...]:
    """Look up names of loads.

    Raises:
        UserError: there is no such load, or one is named twice.
    """
    found = tuple(find_load(name.strip()).name for name in names)
    if twice := next((name for name in found if found.count(name) > 1), None):
        raise UserError(f"The load {twice} is named twice.", f"Write: --load {','.join(dict.fromkeys(found))}")
    return found
