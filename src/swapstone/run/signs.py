"""Was a load in force? What the machine's counters say, before and after a measurement."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swapstone.factors import Evidence
from swapstone.model import Load, LoadIndicator

SHORTEST_S = 0.25
"""Of a shorter measurement the growth of counters says nothing: those of time have steps of 10 ms."""

_UPTIME = "/proc/uptime"


def load_missing(load: Load, evidence: Evidence) -> str:
    """Say by which sign a load was not in force.

    Args:
        load: with its signs.
        evidence: what the machine said around the trial, and the agent's facts.

    Returns:
        The first sign that was not as it must be, in words; empty where all were, and where no machine was started for the trial.
    """
    if not evidence.machine:
        return ""
    said = dict(evidence.machine)
    return next(filter(None, (_wrong(load.name, sign, said, dict(evidence.facts)) for sign in load.indicators)), "")


def _wrong(load: str, sign: LoadIndicator, said: Mapping[str, str], facts: Mapping[str, int]) -> str:
    before, after = _number(said, "before", sign), _number(said, "after", sign)
    elapsed_s = _elapsed_s(said)
    if before is None or after is None or elapsed_s is None:
        return f"the load {load} was asked for, but the machine does not say how many {sign.what} there were"
    if sign.level:
        wrong = next((value for value in (before, after) if not _fits(value, sign)), None)
        return "" if wrong is None else _words(load, sign, wrong, "")
    if elapsed_s < SHORTEST_S:
        return ""
    rates = [((after - before) * sign.scale - _sum(facts, sign.less)) / elapsed_s]
    if sign.idle:
        rates.append(_not_idle_s(said, sign, facts, elapsed_s) / elapsed_s)
    return "" if any(_fits(rate, sign) for rate in rates) else _words(load, sign, max(rates[0], 0.0), " in a second")


def _sum(facts: Mapping[str, int], names: tuple[str, ...]) -> float:
    return sum(facts.get(name, 0) * (1e-6 if name.endswith("_us") else 1) for name in names)


def _not_idle_s(said: Mapping[str, str], sign: LoadIndicator, facts: Mapping[str, int], elapsed_s: float) -> float:
    """Return how long the processor was neither idle nor at work for the trial; all of the time where the machine doesn't say it."""
    idle_s = 0.0
    for field in sign.idle:
        one = msgspec.structs.replace(sign, field=field)
        before, after = _number(said, "before", one), _number(said, "after", one)
        if before is not None and after is not None:
            idle_s += (after - before) * sign.scale
    return elapsed_s - idle_s - _sum(facts, ("user_us", "system_us"))


def _fits(value: float, sign: LoadIndicator) -> bool:
    return (sign.least is None or value >= sign.least) and (sign.most is None or value <= sign.most)


def _words(load: str, sign: LoadIndicator, value: float, per: str) -> str:
    bounds = [f"at least {sign.least:g}"] if sign.least is not None else []
    bounds += [f"at most {sign.most:g}"] if sign.most is not None else []
    wanted = " and ".join(bounds)
    return f"the load {load} was asked for, but there were {value:.3g} {sign.what}{per}, where it has {wanted}"


def _number(said: Mapping[str, str], when: str, sign: LoadIndicator) -> float | None:
    """Return the number that a sign is about; None where the machine did not say it."""
    for line in said.get(f"{when} {sign.file}", "").splitlines():
        words = line.replace(":", " ").split()
        if not sign.line or sign.line in words:
            rest = words[words.index(sign.line) + 1 :] if sign.line else words
            return float(rest[sign.field]) if len(rest) > sign.field and rest[sign.field].isdecimal() else None
    return None


def _elapsed_s(said: Mapping[str, str]) -> float | None:
    """Return how long the measurement took, in the machine's time."""
    try:
        before, after = (float(said[f"{when} {_UPTIME}"].split()[0]) for when in ("before", "after"))
    except (KeyError, IndexError, ValueError):
        return None
    return after - before
