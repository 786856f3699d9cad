# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests, and how one becomes an experiment: names are looked up, patterns and defaults resolved."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import attrs
import msgspec

from swapstone.core.factors import (
    PRIORITY,
    Stage,
    all_factors,
    find_factor,
    find_level,
    free_levels,
    is_root_factor,
    parse_choice,
)
from swapstone.core.factors.factor import reboots
from swapstone.core.model import (
    BALANCED_ORDER,
    BOOT_ORDER,
    CURRENT_RULES,
    IDLE,
    NOW,
    OWN_SUITE,
    RANDOM_ORDER,
    SESSION,
    VIRTUAL_CLOCK,
    WALL_CLOCK,
    Experiment,
    FactorLevels,
    OwnProgram,
    Suite,
    UserError,
    Workload,
    check_distinct,
    find_named,
    refuse,
    unknown,
)
from swapstone.core.model.architectures import find_architecture
from swapstone.core.model.experiment import FEWEST_WAKEUPS, MOST_WAKEUPS, WAKEUP_INTERVAL_US
from swapstone.core.model.parts import provided
from swapstone.core.record import require_readable
from swapstone.core.session.caller_environment import inherited_environment
from swapstone.core.session.option_table import flag_of, given_of
from swapstone.core.session.option_values import duration_ns
from swapstone.core.session.options import CONFIDENCES, EXACT_MARGIN, MARGIN, Measuring, Program, Settings, Workloads
from swapstone.core.session.own_program_request import own_program, program_factor
from swapstone.core.session.parameters import check_placeholders, parse_free_factors
from swapstone.core.targets import TargetOptions, clock_of, default_target, find_target_kind, parse_target
from swapstone.core.workloads import REFERENCE, all_suites, find_load, find_suite, own_names, with_wakeups

BUDGET_PER_VARIANT_NS = 60_000_000_000
"""Time for measuring, for each variant."""


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
        UserError: as `own_program`.
    """
    free = parse_free_factors(request.vary)
    names = {*(choice.factor for choice in factors), *(text.partition("=")[0].strip() for text in held)}
    own = own_program(request, directory, rooted=any(map(is_root_factor, names)))
    named = program_factor(own) if own else ()
    every = (*named, *free, *factors)
    if own is not None and not every and own.parameters:
        (name, values), *rest = own.parameters
        own = msgspec.structs.replace(own, parameters=tuple(rest))
        every = (free_levels(f"{{{name}}}", values),)
    if own is not None and not every:
        every = (FactorLevels(factor=SESSION, levels=(NOW,)),)
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
    prime: int | None, own: OwnProgram | None, clock: str, workloads: Iterable[Workload], *, boots: bool
) -> tuple[int, bool]:
    """Return how many runs are discarded before each measured one, and whether more are where runs depend on what ran before them.

    By default it is one for an own program, whose runs may leave caches and files in another state. Workloads of Swapstone start with none.
    A server has its load generator's requests before its measurement, and on the virtual clock each run starts from the same state.

    Args:
        prime: the number that the user gave, or None.
        own: the program of the experiment, if it is the user's.
        clock: of the experiment.
        workloads: of Swapstone; none for an own program.
        boots: whether each run has a machine of its own, so that only the host could carry anything over.

    Raises:
        UserError: the clock is the virtual one.
    """
    if prime is not None:
        if prime and clock == VIRTUAL_CLOCK:
            raise UserError(
                "--prime has no effect on the virtual clock: each run starts from the same state.", "Leave --prime out."
            )
        return prime, False
    serves = any(work.load_generator is not None for work in workloads)
    if clock == VIRTUAL_CLOCK or serves or (own is not None and own.load_generators):
        return 0, False
    return int(own is not None and not boots), True


def check_loads(names: Iterable[str]) -> tuple[str, ...]:
    """Look up names of loads.

    Raises:
        UserError: there is no such load, or one is named twice.
    """
    found = tuple(find_load(name.strip()).name for name in names)
    check_distinct(found, "The load {} is named twice.", f"Write: --load {','.join(dict.fromkeys(found))}")
    return found


class ExperimentRules(msgspec.Struct, frozen=True, kw_only=True):
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


def complete_target(target: str, settings: Settings) -> str:
    """Return a target whose text names what a user names elsewhere, such as the environment of a lab.

    Args:
        target: as typed; empty for the default one.
        settings: of the user.

    Raises:
        UserError: an option is wrong, or does not fit the target.
    """
    for rules in rules_of_parts():
        target = rules.target(target, settings)
    return target


def resolve(request: ExperimentRequest) -> Experiment:
    """Resolve every name, pattern and default of a request.

    Raises:
        UserError: a name is unknown, or a value is out of range.
    """
    named = complete_target(request.settings.place.target or "", request.settings) or None
    wanted, measuring = request.settings.workloads, request.settings.measuring
    place, machine = request.settings.place, request.settings.machine
    held = parse_held(wanted.hold, request.factors)
    factors = (*request.factors, *(FactorLevels(factor=name, levels=(level,)) for name, level in held))
    for rules in rules_of_parts():
        rules.check(request, factors)
    if request.own:
        refuse(
            *(
                (
                    getattr(wanted, name),
                    f"{option} chooses among Swapstone's workloads; your own program is measured instead of them.",
                    f"Leave {option} out, or the program.",
                )
                for name, option in ((each, flag_of(Workloads, each)) for each in ("suites", "only"))
            )
        )
    found = () if request.own else wanted_workloads(wanted, factors, named)
    loads = check_loads(place.loads)
    confidence = find_named("correction", measuring.correction, CONFIDENCES)
    architecture = machine.architecture or default_architecture(factors)
    target = named or default_target_of(factors, loads, [work for _, work in found], architecture)
    if not machine.architecture and not find_target_kind(target).has_architectures:
        architecture = ""
    boots = "boots" in find_target_kind(target).opens.offers
    kept = [each for each in found if wanted.only or not _is_left_out(each[1], factors, boots=boots)]
    works = [work for _, work in kept]
    clock = clock_of(target, place.clock or "")
    copies = _copies(request.own, clock, works) if measuring.null else 0
    options = TargetOptions(
        clock=clock,
        architecture=architecture,
        cpu_model=machine.cpu_model,
        ns_per_instruction=machine.ns_per_instruction,
        processors=machine.processors,
    )
    parse_target(target, options)
    combinations = math.prod(len(choice.levels) for choice in request.factors)
    prime, prime_more = discarded_runs(measuring.prime, request.own, clock, works, boots=boots)
    own = request.own
    if own is not None:
        own = msgspec.structs.replace(own, inherited=inherited_environment(target, clock))
    alone, given = request.factors[0].factor == SESSION, [flag_of(Measuring, name) for name in given_of(measuring)]
    refuse(
        (
            request.settings.program.against and given,
            f"--against repeats the plan of its record, with its margin and its number of blocks: it takes no {''.join(given[:1])}.",
            "Leave it out, or measure both anew.",
        ),
        (
            alone and measuring.null,
            "--null compares the baseline with a copy of itself, and one program has no baseline.",
            "Leave --null out. To compare the program with itself: measure it twice, the second time with --against RECORD.",
        ),
    )
    beside = (
        (REFERENCE,)
        if alone and clock == WALL_CLOCK and "shares_files" in find_target_kind(target).opens.offers
        else ()
    )
    experiment = Experiment(
        name=request.name,
        factors=tuple(request.factors),
        workloads=(
            (*((OWN_SUITE, name) for name in own_names(request.own)), *beside)
            if request.own
            else tuple((suite, work.name) for suite, work in kept)
        ),
        loads=loads,
        target=target,
        architecture=find_architecture(architecture).name if architecture else "",
        cpu_model=machine.cpu_model,
        ns_per_instruction=machine.ns_per_instruction,
        processors=machine.processors,
        clock=clock,
        budget_ns=duration_ns(measuring.budget) or BUDGET_PER_VARIANT_NS * (combinations + copies),
        margin=MARGIN if measuring.margin is None else measuring.margin,
        confidence=measuring.confidence or confidence,
        seed=measuring.seed if measuring.seed is not None else secrets.randbelow(2**31),
        null=measuring.null,
        blocks=measuring.blocks or 0,
        layouts=measuring.layouts or 0,
        published=wanted.published,
        own=own,
        rules=CURRENT_RULES,
        correction=measuring.correction,
        prime=prime,
        prime_more=prime_more,
        order=_order(measuring, target, factors, clock),
        held=held,
        budget_extends=measuring.budget is None or request.budget_extends,
        failures_count=True,
        wakeups=wakeups_of(duration_ns(measuring.duration), works),
    )
    # Published figures are of hardware, and no more precise than other measurements.
    if measuring.margin is None and experiment.exact() and not experiment.published:
        experiment = msgspec.structs.replace(experiment, margin=EXACT_MARGIN)
    for rules in rules_of_parts():
        experiment = rules.complete(experiment, request.settings)
    require_readable(experiment)
    return experiment


def find_workloads(suites: Iterable[str], only: Iterable[str] = ()) -> tuple[tuple[str, Workload], ...]:
    """Return the workloads that a user selected, in the order of the registry.

    Args:
        suites: names of suites; duplicates are ignored.
        only: shell patterns for names of workloads (``*``, ``?``, ``[...]``; round brackets and ``#`` are literal). A
            workload is selected if one of them matches. Without patterns all are selected.

    Returns:
        Pairs of a suite's name and one of its workloads.

    Raises:
        UserError: a suite does not exist, or a pattern matches nothing in these suites.
    """
    asked = [find_suite(name) for name in suites]
    every = [(suite.name, workload) for suite in all_suites() if suite in asked for workload in suite.workloads]
    patterns = tuple(only)
    for pattern in patterns:
        if not any(fnmatchcase(workload.name, pattern) for _, workload in every):
            raise _matches_nothing(pattern, asked)
    return tuple(
        (suite, workload)
        for suite, workload in every
        if not patterns or any(fnmatchcase(workload.name, pattern) for pattern in patterns)
    )


def _matches_nothing(pattern: str, asked: list[Suite]) -> UserError:
    for suite in all_suites():
        if suite not in asked and any(fnmatchcase(workload.name, pattern) for workload in suite.workloads):
            return UserError(
                f"No workload named {pattern!r} is in suite {', '.join(one.name for one in asked)}.",
                f"Suite {suite.name} has it: add `--suite {suite.name}`.",
            )
    return unknown("workload", pattern, (workload.name for suite in asked for workload in suite.workloads))


def wanted_workloads(
    wanted: Workloads, factors: Iterable[FactorLevels], target: str | None
) -> tuple[tuple[str, Workload], ...]:
    """Return the workloads of a request, as `find_workloads`: if it names no suites, those of its target or of its factors.

    Args:
        wanted: of the user.
        factors: of the request.
        target: that it names; without one, trials can have a machine that is booted for them.

    Raises:
        UserError: as `find_workloads`, or there is no such target.
    """
    kind = find_target_kind(target).opens if target else None
    boots, of_target = kind is None or "boots" in kind.offers, kind.suites if kind else ()
    suites = wanted.suites or default_suites(factors, wanted.only, boots=boots, of_target=of_target)
    return find_workloads(suites, wanted.only)


def _order(measuring: Measuring, target: str, factors: Sequence[FactorLevels], clock: str) -> str:
    """Return the order of a block: by boot, where a board boots another kernel or root for each variant.

    Raises:
        UserError: there is no such order, or it can't be combined with the layouts, the clock or the board.
    """
    order = find_named("order", measuring.order, {each: each for each in (RANDOM_ORDER, BALANCED_ORDER)})
    if order == BALANCED_ORDER and (measuring.layouts or clock == VIRTUAL_CLOCK):
        what = "--layouts" if measuring.layouts else "--clock virtual"
        raise UserError(
            f"--order balanced can't be combined with {what}: a cycle of orders would have several layouts or no noise.",
            "Leave --order out.",
        )
    boots_variants = any(reboots(find_factor(choice.factor)) for choice in factors)
    if "reboots" not in find_target_kind(target).opens.offers or not boots_variants:
        return order
    if order != RANDOM_ORDER:
        raise UserError(
            f"--order {order} can't be had on a board that boots for each variant: a block has one boot of each, in random order.",
            "Leave --order out.",
        )
    return BOOT_ORDER


def _is_left_out(work: Workload, factors: Sequence[FactorLevels], *, boots: bool) -> bool:
    """Return whether a workload is not measured unless the user names it.

    An unchanged program is the same for each level of a factor that acts before its start; then another workload of its suite is compared.
    """
    if boots:
        return work.elsewhere
    return work.unchanged and any(
        factor.stage is not Stage.BOOT and factor is not PRIORITY and not reboots(factor)
        for factor in (find_factor(choice.factor) for choice in factors)
    )


def _copies(own: OwnProgram | None, clock: str, works: Sequence[Workload]) -> int:
    """Return how many copies of the baseline a null comparison adds.

    Raises:
        UserError: no copy could differ from the baseline.
    """
    if clock != VIRTUAL_CLOCK:
        return 1 if own else 2
    nothing = "--null has nothing to compare: on the virtual clock a program gives the same bytes when it runs again,"
    tools = any(work.unchanged for work in works)
    refuse(
        (own, f"{nothing} and Swapstone does not link yours.", "Leave --null out."),
        (tools, f"{nothing} and a tool of the image can't be relinked.", "Leave --null out."),
    )
    return 1


def default_suites(
    factors: Iterable[FactorLevels], only: Sequence[str], *, boots: bool = True, of_target: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the suites of a request that names none: those in which its factors make a difference, else ``libc``.

    If every pattern of `only` matches a workload of ``libc``, the suite is ``libc``.

    Args:
        factors: of the request.
        only: patterns of workloads.
        boots: whether the target starts a machine for each trial.
        of_target: `Target.suites`.
    """
    if of_target:
        return of_target
    of_factor = {factor: suite for suite in all_suites() for factor in suite.factors}
    if not boots:
        of_factor |= {factor: suite for suite in all_suites() for factor in suite.factors_unbooted}
    suites = [of_factor[choice.factor] for choice in factors if choice.factor in of_factor]
    replaced = {name for suite in suites for name in suite.replaces}
    found = tuple(dict.fromkeys(suite.name for suite in suites if suite.name not in replaced))
    default = next((suite for suite in all_suites() if suite.is_default), None)
    if default is None:
        return found
    names = [workload.name for workload in default.workloads]
    all_in_default = only and all(any(fnmatchcase(name, pattern) for name in names) for pattern in only)
    return (default.name,) if all_in_default or not found else found


def default_target_of(
    factors: Sequence[FactorLevels], loads: Sequence[str], workloads: Sequence[Workload], architecture: str = ""
) -> str:
    """Return the target of an experiment whose user names none: a kind that boots machines where only a booted machine will do.

    Args:
        factors: its factors.
        loads: names of its loads.
        workloads: what it runs.
        architecture: of a virtual machine; empty for none.
    """
    boots = bool(architecture) or any(find_factor(choice.factor).stage is Stage.BOOT for choice in factors)
    if any(choice.factor == PRIORITY.name for choice in factors) and not boots:
        return "host"
    if any(work.bare for work in workloads):
        return default_target(boots=False, bare=True)
    loaded = any(load != IDLE.name for load in loads)
    return default_target(boots=boots or loaded or any(work.machine for work in workloads))


def default_architecture(factors: Iterable[FactorLevels]) -> str:
    """Return the architecture of the virtual machine that the factors of an experiment need; empty if this machine's will do."""
    needed = (getattr(find_factor(choice.factor), "default_architecture", "") for choice in factors)
    return next(filter(None, needed), "")


def default_budget_ns(factors: Iterable[FactorLevels]) -> int:
    """Return the budget of an experiment that names none, without copies of the baseline."""
    return BUDGET_PER_VARIANT_NS * math.prod(len(choice.levels) for choice in factors)
