# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which levels were in force in the process that ran: the manipulation check."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping

import msgspec

from swapstone.core.factors import Evidence, Factor, ProgramFacts, find_factor, is_unobserved
from swapstone.core.model import IDLE, Load, LoadIndicator, Variant
from swapstone.core.model.number_text import digits, trimmed
from swapstone.core.run.variant_program import Program
from swapstone.core.targets.target import REBOOTED
from swapstone.core.wire import AgentAnswer


@functools.lru_cache(maxsize=256)  # all trials of a variant request the same
def _requested(variant: Variant) -> tuple[tuple[Factor, str], ...]:
    """Return each factor of a variant with the requested level."""
    return tuple((find_factor(name), level) for name, level in variant.applied)


def evidence_of(
    answer: AgentAnswer, program: Program, variant: Variant, inspect: Callable[[str], ProgramFacts | None]
) -> Evidence:
    """Return what was observed of a process from outside.

    Args:
        answer: what the agent reports.
        program: what was started.
        variant: its levels may be paths.
        inspect: reads the files of mapped objects.
    """
    known = {program.path, program.facts.path if program.facts else program.path}
    others = map(inspect, (path for path in answer.objects if path not in known))
    return Evidence(
        interp=answer.interp,
        objects=answer.objects,
        facts=answer.facts,
        program=program.facts,
        libraries=tuple(facts for facts in others if facts is not None),
        preload=program.recipe.preload,
        path_levels=tuple(
            (factor.name, level) for factor, level in _requested(variant) if "/" in level or level.startswith("-")
        ),
        machine=answer.machine,
        observed=answer.observed,
        absent=answer.absent,
    )


def observed_levels(evidence: Evidence, variant: Variant) -> tuple[tuple[str, str], ...]:
    """Return the level of each factor that was in force; ``unknown`` if the evidence does not show it."""
    return tuple((factor.name, factor.observe(evidence) or "unknown") for factor, _ in _requested(variant))


def wrong_level(observed: tuple[tuple[str, str], ...], variant: Variant) -> str:
    """Return a sentence on the first level that was requested and not in force; empty if all were."""
    for (factor, requested), (name, seen) in zip(_requested(variant), observed, strict=True):
        if seen == "unknown":
            # A factor may have a hint on why its level can't be observed.
            hint = getattr(factor, "unseen", "")
            reason = f"{name}={requested} was requested, but the level in force could not be observed"
            return f"{reason}. {hint}" if hint else reason
        if seen != requested and not is_unobserved(name, seen):
            return f"{name}={requested} was requested, but {seen} was in force in the process that ran"
    return ""


SHORTEST_S = 0.25
"""Counters are not checked over a shorter measurement: those of CPU time have steps of 10 ms."""

_MOST_DIGITS = 20
_UPTIME = "/proc/uptime"

_OF_THE_TRIAL = ("trial_cpu_us",)
"""Fact: processor time of all processes of the trial, with a server's load generator, and of the agent."""

_OF_THE_PROGRAM = ("user_us", "system_us")
"""Facts of agents that do not report the above."""

_OWN_CPU = "after own-cpu-us"
"""Counter of a machine: the same in us with what the agent and the first process do with the answer, which takes long if it is large."""


def missing_load(load: Load, evidence: Evidence) -> str:
    """Return why a load was not in force, or an empty text if it was.

    Args:
        load: its indicators are checked in order.
        evidence: the machine's counters around the trial, and the agent's facts.

    Returns:
        A sentence on the first indicator that is out of bounds. Empty if none is, and where no counters were read without a load: on
        targets that boot no machine.
    """
    if not evidence.machine or evidence.machine_text(REBOOTED):
        return ""
    counters = dict(evidence.machine)
    read = {
        f"{when} {file}" for when in ("before", "after") for file in (_UPTIME, *(one.file for one in load.indicators))
    }
    if load.name == IDLE.name and read.isdisjoint(counters):
        return ""
    reasons = (_failure(load.name, one, counters, dict(evidence.facts)) for one in load.indicators)
    return next(filter(None, reasons), "")


def _failure(load: str, indicator: LoadIndicator, counters: Mapping[str, str], facts: Mapping[str, int]) -> str:
    before, after = _number(counters, "before", indicator), _number(counters, "after", indicator)
    elapsed_s = _elapsed_s(counters)
    if before is None or after is None or elapsed_s is None:
        return f"the load {load} was requested, but the machine does not report the number of {indicator.what}"
    if indicator.level:
        readings = ((before, indicator), (after, _of_the_second_reading(indicator)))
        wrong = next((found for found in readings if not _within_bounds(*found)), None)
        return "" if wrong is None else _sentence(load, wrong[1], wrong[0], "")
    if elapsed_s < SHORTEST_S:
        return ""
    if indicator.per_processor and indicator.least is not None:
        indicator = msgspec.structs.replace(indicator, least=indicator.least * _processors(counters))
    rates = [((after - before) * indicator.scale - _sum(facts, indicator.less)) / elapsed_s]
    if indicator.idle:
        rates.append(_others_s(counters, indicator, facts, elapsed_s) / elapsed_s)
    if any(_within_bounds(rate, indicator) for rate in rates):
        return ""
    return _sentence(load, indicator, max(rates[0], 0.0), " per second")


def _of_the_second_reading(indicator: LoadIndicator) -> LoadIndicator:
    if indicator.least_after is None:
        return indicator
    return msgspec.structs.replace(indicator, least=indicator.least_after)


def _sum(facts: Mapping[str, int], names: tuple[str, ...]) -> float:
    return sum(facts.get(name, 0) * (1e-6 if name.endswith("_us") else 1) for name in names)


def _others_s(
    counters: Mapping[str, str], indicator: LoadIndicator, facts: Mapping[str, int], elapsed_s: float
) -> float:
    """Return how long the processor was neither idle nor at work for the trial; idle time that is not reported counts as none."""
    idle_s = 0.0
    for field in indicator.idle:
        one = msgspec.structs.replace(indicator, field=field)
        before, after = _number(counters, "before", one), _number(counters, "after", one)
        if before is not None and after is not None:
            idle_s += (after - before) * indicator.scale
    own = _OF_THE_TRIAL if facts.keys() >= set(_OF_THE_TRIAL) else _OF_THE_PROGRAM
    own_us = counters.get(_OWN_CPU, "")
    own_s = int(own_us) / 1e6 if own_us.isdecimal() and len(own_us) <= _MOST_DIGITS else _sum(facts, own)
    return elapsed_s * _processors(counters) - idle_s - own_s


def _processors(counters: Mapping[str, str]) -> int:
    """Return the number of processors whose times /proc/stat adds up."""
    return max(1, len(re.findall(r"^cpu[0-9]", counters.get("before /proc/stat", ""), re.MULTILINE)))


def _within_bounds(value: float, indicator: LoadIndicator) -> bool:
    return (indicator.least is None or value >= indicator.least) and (indicator.most is None or value <= indicator.most)


def _sentence(load: str, indicator: LoadIndicator, value: float, per: str) -> str:
    bounds = [f"at least {indicator.least:g}"] if indicator.least is not None else []
    bounds += [f"at most {indicator.most:g}"] if indicator.most is not None else []
    wanted = " and ".join(bounds)
    number = f"{value:.0f}" if indicator.level else trimmed(digits(value))
    return f"the load {load} was requested, but there were {number} {indicator.what}{per}; it has {wanted}"


def _number(counters: Mapping[str, str], when: str, indicator: LoadIndicator) -> float | None:
    """Return an indicator's number, or None if the machine did not report it."""
    for line in counters.get(f"{when} {indicator.file}", "").splitlines():
        words = line.replace(":", " ").split()
        if not indicator.line or indicator.line in words:
            rest = words[words.index(indicator.line) + 1 :] if indicator.line else words
            number = rest[indicator.field] if len(rest) > indicator.field else ""
            return float(number) if number.isdecimal() and len(number) <= _MOST_DIGITS else None
    return None


def _elapsed_s(counters: Mapping[str, str]) -> float | None:
    """Return how long the measurement took in the machine's time."""
    try:
        before, after = (float(counters[f"{when} {_UPTIME}"].split()[0]) for when in ("before", "after"))
    except (KeyError, IndexError, ValueError):
        return None
    return after - before if math.isfinite(after - before) else None
