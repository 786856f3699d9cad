# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests: an experiment before its names, patterns and defaults are resolved."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from swapstone.factors import FACTORS, find_factor, find_level, parse_choice
from swapstone.model import IDLE, RANDOM_ORDER, REPORT_CORRECTION, FactorLevels, OwnProgram, UserError
from swapstone.session.defaults import MARGIN
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
        confidence: of the intervals, e.g. 0.95; None for that of the correction.
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
    confidence: float | None = None
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


def parse_held(texts: Iterable[str], varied: Sequence[FactorLevels]) -> tuple[tuple[str, str], ...]:
    """Parse texts such as ``optimization=Os``: levels that all variants share.

    Args:
        texts: to parse.
        varied: the factors that are compared.

    Returns:
        Pairs (factor, level), the level under its canonical name.

    Raises:
        UserError: one has another form, its factor is compared, held twice, or none of Swapstone's.
    """
    held: dict[str, str] = {}
    for text in texts:
        name, equals, level = (part.strip() for part in text.partition("="))
        if not equals or not level:
            raise UserError(f"{text!r} is not FACTOR=LEVEL.", "For example: --hold optimization=Os")
        if name not in {factor.name for factor in FACTORS}:
            find_factor(name)  # raises for a name that is unknown
            raise UserError(
                f"{name} can't be held: its levels are yours.",
                "Write the value into the command, or set a variable of the environment with --env NAME=VALUE.",
            )
        if name in {choice.factor for choice in varied}:
            raise UserError(
                f"The factor {name} is compared and can't be held at {level} too.",
                f"Leave --hold {name}={level} out, or leave {name} out of what is compared.",
            )
        if name in held:
            raise UserError(f"The factor {name} is held twice.", f"Hold one level: --hold {name}={level}")
        if "," in level:
            raise UserError(
                f"{text!r} holds several levels; all variants share one.",
                f"To compare them: swapstone compare {name}={level}",
            )
        held[name] = find_level(find_factor(name), level).name
    return tuple(held.items())


def check_loads(names: Iterable[str]) -> tuple[str, ...]:
    """Look up names of loads.

    Raises:
        UserError: there is no such load, or one is named twice.
    """
    found = tuple(find_load(name.strip()).name for name in names)
    if twice := next((name for name in found if found.count(name) > 1), None):
        raise UserError(f"The load {twice} is named twice.", f"Write: --load {','.join(dict.fromkeys(found))}")
    return found
