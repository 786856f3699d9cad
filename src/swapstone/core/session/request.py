# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests: an experiment before its names, patterns and defaults are resolved."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Sequence

import attrs
import msgspec

from swapstone.core.factors import all_factors, find_factor, find_level, free_levels, is_root_factor, parse_choice
from swapstone.core.model import (
    BALANCED_ORDER,
    RANDOM_ORDER,
    VIRTUAL_CLOCK,
    Experiment,
    FactorLevels,
    OwnProgram,
    UserError,
    Workload,
    check_distinct,
    refuse,
    unknown,
)
from swapstone.core.model.experiment import FEWEST_WAKEUPS, MOST_WAKEUPS, WAKEUP_INTERVAL_US
from swapstone.core.model.parts import provided
from swapstone.core.session.options import Program, Settings
from swapstone.core.session.own_program_request import own_program, program_factor
from swapstone.core.session.parameters import check_placeholders, parse_free_factors
from swapstone.core.workloads import find_load, with_wakeups


def varied_program(
    request: Program, factors: Sequence[FactorLevels], held: Sequence[str] = (), directory: str = ""
) -> tuple[OwnProgram | None, tuple[FactorLevels, ...]]:
    """Resolve the options of an own program, and add the factors that they define.

    Args:
        request: the options.
        factors: those that Swapstone has.
        held: texts ``FACTOR=LEVEL`` of those whose level all variants share.
        directory: where relative paths start; empty for the current folder.

    Returns:
        The program, or None; and all factors: the command lines or programs first, then the free ones, then `factors`.

    Raises:
        UserError: as `own_program`; or there is nothing to compare.
    """
    free = parse_free_factors(request.vary)
    single = request.commands if len(request.commands) == 1 else ()
    names = {*(choice.factor for choice in factors), *(text.partition("=")[0].strip() for text in held)}
    own = own_program(request, directory, rooted=any(map(is_root_factor, names)))
    named = program_factor(own) if own else ()
    every = (*named, *free, *factors)
    if own is not None and not every and own.parameters:
        (name, values), *rest = own.parameters
        own = msgspec.structs.replace(own, parameters=tuple(rest))
        every = (free_levels(f"{{{name}}}", values),)
    if single and not every:
        text = single[0]
        raise UserError(
            f"There is only one command, {text!r}, and nothing varies: there is nothing to compare.",
            f"Add the other command: swapstone compare {shlex.quote(text)} './other'\n"
            f"or a factor: swapstone compare allocator=default,mimalloc {shlex.quote(text)}\n"
            f"or values of an argument: swapstone compare {shlex.quote(f'{text} {{N}}')} --parameter N=1,10,100",
        )
    check_placeholders(own, every)
    return own, every


@attrs.frozen(kw_only=True)
class ExperimentRequest:
    """An unresolved experiment: patterns, defaults and names that `resolve` looks up.

    Attributes:
        name: of the record; a study's name, or ``compare``.
        factors: what is varied, the baseline's level first.
        settings: of the user; those of an own program are resolved already, in `own`.
        own: the user's own program, instead of the bundled workloads.
        budget_extends: whether the budget is extended to the pairs that an interval needs, as without a budget: a study's own.
    """

    name: str
    factors: Sequence[FactorLevels]
    settings: Settings = attrs.field(factory=Settings)
    own: OwnProgram | None = None
    budget_extends: bool = False


def request_of(factors: Sequence[str], settings: Settings) -> ExperimentRequest:
    """Return the request of a comparison, of bundled workloads or of an own program.

    Args:
        factors: texts ``FACTOR=BASELINE,CANDIDATE``.
        settings: of the user.

    Raises:
        UserError: an option is wrong, or there is nothing to compare.
    """
    varied = parse_factors(factors) if factors else ()
    own, varied = varied_program(settings.program, varied, settings.workloads.hold)
    return ExperimentRequest(name="compare", factors=varied or parse_factors(()), settings=settings, own=own)


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
    hint = "List all its levels in one: {}=BASELINE,CANDIDATE"
    check_distinct((choice.factor for choice in choices), "The factor {} is named twice.", hint)
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
        if name not in {factor.name for factor in all_factors()}:
            find_factor(name)  # raises for a name that is unknown
            raise UserError(
                f"{name} can't be held: its levels are yours.",
                "Write the value into the command, or set a variable of the environment with --env NAME=VALUE.",
            )
        refuse(
            (
                name in {choice.factor for choice in varied},
                f"The factor {name} is compared and can't be held at {level} too.",
                f"Leave --hold {name}={level} out, or leave {name} out of what is compared.",
            ),
            (name in held, f"The factor {name} is held twice.", f"Hold one level: --hold {name}={level}"),
            (
                "," in level,
                f"{text!r} holds several levels; all variants share one.",
                f"To compare them: swapstone compare {name}={level}",
            ),
        )
        held[name] = find_level(find_factor(name), level).name
    return tuple(held.items())


def wakeups_of(duration_ns: int | None, workloads: Iterable[Workload]) -> int:
    """Return how often a thread of the suite latency wakes in a trial; 0 for the suite's number.

    Args:
        duration_ns: how long a trial measures; None for the suite's duration.
        workloads: of Swapstone, that the experiment runs.

    Raises:
        UserError: it is out of range, or none of the workloads measures latencies.
    """
    if duration_ns is None:
        return 0
    cycles = duration_ns // (WAKEUP_INTERVAL_US * 1000)
    most_s = MOST_WAKEUPS * WAKEUP_INTERVAL_US // 1_000_000
    refuse(
        (
            not any(with_wakeups(work, 1) is not work for work in workloads),
            "--duration is for the suite latency, and none of its workloads runs here.",
            "Add --suite latency, or leave --duration out.",
        ),
        (
            not FEWEST_WAKEUPS <= cycles <= MOST_WAKEUPS,
            f"--duration is not between {FEWEST_WAKEUPS * WAKEUP_INTERVAL_US // 1000} ms and {most_s} s.",
            f"For example: --duration 10s, or {most_s}s",
        ),
    )
    return cycles


def discarded_runs(
    request: ExperimentRequest, clock: str, workloads: Iterable[Workload], *, boots: bool
) -> tuple[int, bool]:
    """Return how many runs are discarded before each measured one, and whether more are where runs depend on what ran before them.

    By default it is one for an own program, whose runs may leave caches and files in another state. Workloads of Swapstone start with none.
    A server has its load generator's requests before its measurement, and on the virtual clock each run starts from the same state.

    Args:
        request: with a number, or None.
        clock: of the experiment.
        workloads: of Swapstone; none for an own program.
        boots: whether each run has a machine of its own, so that only the host could carry anything over.

    Raises:
        UserError: the clock is the virtual one.
    """
    prime = request.settings.measuring.prime
    if prime is not None:
        if prime and clock == VIRTUAL_CLOCK:
            raise UserError(
                "--prime has no effect on the virtual clock: each run starts from the same state.", "Leave --prime out."
            )
        return prime, False
    serves = any(work.load_generator is not None for work in workloads)
    if clock == VIRTUAL_CLOCK or serves or (request.own is not None and request.own.load_generators):
        return 0, False
    return int(request.own is not None and not boots), True


def check_order(order: str, layouts: int, clock: str) -> str:
    """Return a kind of order.

    Raises:
        UserError: there is no such kind, or balanced orders can't be combined with the layouts or the clock.
    """
    if order not in (RANDOM_ORDER, BALANCED_ORDER):
        raise unknown("order", order, (RANDOM_ORDER, BALANCED_ORDER))
    if order == BALANCED_ORDER and (layouts or clock == VIRTUAL_CLOCK):
        what = "--layouts" if layouts else "--clock virtual"
        raise UserError(
            f"--order balanced can't be combined with {what}: a cycle of orders would have several layouts or no noise.",
            "Leave --order out.",
        )
    return order


def check_loads(names: Iterable[str]) -> tuple[str, ...]:
    """Look up names of loads.

    Raises:
        UserError: there is no such load, or one is named twice.
    """
    found = tuple(find_load(name.strip()).name for name in names)
    check_distinct(found, "The load {} is named twice.", f"Write: --load {','.join(dict.fromkeys(found))}")
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentRules:
    """What a part adds. Each field may raise `UserError`, and by default does nothing.

    Attributes:
        check: checks a request with all its factors, also those that are held, before its workloads are found.
        target: returns a target's text with what options or the environment name elsewhere; an empty text is that of the default.
        complete: returns an experiment with the fields that the user's settings of this part determine.
        prepare: builds what the trials of an experiment need, before its target is opened. It is given a function for lines for the user.
    """

    check: Callable[[ExperimentRequest, Sequence[FactorLevels]], None] = lambda request, factors: None  # noqa: ARG005
    target: Callable[[str, Settings], str] = lambda target, settings: target  # noqa: ARG005
    complete: Callable[[Experiment, Settings], Experiment] = lambda experiment, settings: experiment  # noqa: ARG005
    prepare: Callable[[Experiment, Callable[[str], None]], None] = lambda experiment, notify: None  # noqa: ARG005


def rules_of_parts() -> tuple[ExperimentRules, ...]:
    """Return what each part adds that adds anything."""
    return provided("experiment", ExperimentRules)
