# SPDX-License-Identifier: MIT OR Apache-2.0
"""Topics: each builds the sections of one aspect of a report, for every format. docs/extending.md has a recipe for a new one."""

from __future__ import annotations

import functools

from swapstone.core.model.parts import provided
from swapstone.core.report.topics.comparisons import COMPARISONS
from swapstone.core.report.topics.factorial import FACTORIAL
from swapstone.core.report.topics.lists import ENVIRONMENT, FAILED_TRIALS, FAILURE_RATES, LINK_LAYOUTS, NULL_RESULTS
from swapstone.core.report.topics.output_parts import OUTPUT_PARTS
from swapstone.core.report.topics.topic import Topic
from swapstone.core.report.topics.trade_off import TRADE_OFF

__all__ = ["Topic", "all_topics"]

_OWN = (
    TRADE_OFF,
    FACTORIAL,
    COMPARISONS,
    NULL_RESULTS,
    LINK_LAYOUTS,
    FAILURE_RATES,
    OUTPUT_PARTS,
    FAILED_TRIALS,
    ENVIRONMENT,
)


@functools.cache
def all_topics() -> tuple[Topic, ...]:
    """Return every topic, in the order in which a report prints them."""
    return tuple(sorted((*_OWN, *provided("topic", Topic)), key=lambda topic: topic.order))
