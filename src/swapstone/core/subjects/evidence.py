# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which levels were in force in the process that ran: the manipulation check."""

from __future__ import annotations

from collections.abc import Callable

from swapstone.core.factors import Evidence, ProgramFacts, find_factor, is_unobserved
from swapstone.core.model import Variant
from swapstone.core.subjects.variant_program import Program
from swapstone.core.wire import AgentAnswer


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
        paths=tuple(level for _, level in variant.applied if "/" in level),
        path_levels=tuple((factor, level) for factor, level in variant.applied if "/" in level),
        machine=answer.machine,
        observed=answer.observed,
        absent=answer.absent,
    )


def observed_levels(evidence: Evidence, variant: Variant) -> tuple[tuple[str, str], ...]:
    """Return the level of each factor that was in force; ``unknown`` if the evidence does not show it."""
    return tuple((name, find_factor(name).observe(evidence) or "unknown") for name, _ in variant.applied)


def wrong_level(observed: tuple[tuple[str, str], ...], variant: Variant) -> str:
    """Return a sentence on the first level that was requested and not in force; empty if all were."""
    for name, seen in observed:
        requested = variant.level(name)
        if is_unobserved(name, seen):
            continue
        if seen == "unknown":
            # A factor may have a hint on why its level can't be observed.
            hint = getattr(find_factor(name), "unseen", "")
            reason = f"{name}={requested} was requested, but the level in force could not be observed"
            return f"{reason}. {hint}" if hint else reason
        if seen != requested:
            return f"{name}={requested} was requested, but {seen} was in force in the process that ran"
    return ""
